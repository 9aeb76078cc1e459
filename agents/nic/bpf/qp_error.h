/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A QP that cannot go on. */
#ifndef MRC_QP_ERROR_H
#define MRC_QP_ERROR_H

#include "nic_maps.h"

/* Under the lock: takes the QP to ERROR; returns the state it was in, or MRC_QP_ERROR itself. */
static __always_inline __u32 qp_to_error(struct mrc_qp *qp)
{
	__u32 from = qp->state;

	if (from == MRC_QP_RTR || from == MRC_QP_RTS)
		qp->state = MRC_QP_ERROR;
	else
		from = MRC_QP_ERROR;
	return from;
}

/* A QP that cannot go on: what it had to do is reported as failed by the agent. */
static __always_inline void qp_fail(__u32 qp_index, __u32 from, __u32 status)
{
	nic_count(MRC_NC_QP_ERRORS, 1);
	nic_event(MRC_EVENT_QP_STATE, qp_index, from, MRC_QP_ERROR, (__u64)status << 32);
}

#endif

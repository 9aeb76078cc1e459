/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * WRITEs with immediate: whether somebody waits for one, and telling the application in order
 * (docs/protocol.md, "Responder").
 */
#ifndef MRC_IMMEDIATE_H
#define MRC_IMMEDIATE_H

#include "nic_maps.h"

/* Tells the agent of the next WRITE with immediate, in order; returns whether there was one. */
__noinline int deliver_receive(__u32 qp_index)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_immediate entry = {};
	__u32 number = 0;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	if (qp->delivered_wimm != qp->completed_wimm) {
		number = ++qp->delivered_wimm;
		entry = qp->immediates[number & (MRC_WIMM_MAX - 1)];
	}
	bpf_spin_unlock(&qp->lock);
	if (!number)
		return 0;
	nic_event(MRC_EVENT_RECEIVE, qp_index, number, entry.immediate, entry.length);
	return 1;
}

/*
 * The number of a WRITE with immediate whose last packet this is, from its METH.rqmsn; 0 when the
 * requestor had no right to send it, or a negative number when nobody waits for it yet.
 */
static __always_inline __s64 wimm_number(const struct mrc_qp *qp, __u32 qp_index, __u32 rqmsn)
{
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	__s32 ahead = (__s16)(rqmsn - qp->completed_wimm);
	__u32 number = qp->completed_wimm + ahead;

	if (ahead <= 0 || number - qp->delivered_wimm > qp->max_wimm_dest)
		return 0;
	return ring && (__s32)(ring->receive_tail - number) >= 0 ? (__s64)number : -1;
}

#endif

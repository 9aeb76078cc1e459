/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Changes of the agent to a reliable connection that is alive, under its lock. */
#ifndef MRC_RC_CTRL_H
#define MRC_RC_CTRL_H

#include "../qp.h"
#include "maps.h"

/* To RTS, with its first PSN; returns whether the QP was in RTR. */
static __always_inline int rc_start(struct mrc_rc_qp *qp, __u32 first_psn)
{
	__u32 is_changed;

	bpf_spin_lock(&qp->lock);
	is_changed = qp->state == MRC_QP_RTR;
	if (is_changed) {
		qp->req.next_psn = first_psn;
		qp->req.max_psn = first_psn;
		qp->req.una_psn = first_psn;
		qp->req.acked_psn = first_psn;
		qp->state = MRC_QP_RTS;
	}
	bpf_spin_unlock(&qp->lock);
	return is_changed;
}

static __always_inline int rc_ctrl_run(struct mrc_kick *request)
{
	struct mrc_rc_qp *qp = rc_find(request->qp_index);

	request->result = 0;
	if (!qp)
		return XDP_DROP;
	switch (request->command) {
	case MRC_COMMAND_RC_RTS:
		request->result = rc_start(qp, request->argument[0]);
		break;
	case MRC_COMMAND_ERROR:
		request->result = qp_end(&qp->lock, &qp->state, request->qp_index);
		break;
	case MRC_COMMAND_LIMITS:
		request->result = qp_set_limits(&qp->lock, &qp->head, request);
		break;
	}
	return XDP_DROP;
}

#endif

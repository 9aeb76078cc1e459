/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Changes of the agent to a reliable connection that is alive, under its lock. */
#ifndef MRC_RC_CTRL_H
#define MRC_RC_CTRL_H

#include "../qp.h"
#include "maps.h"

/* Sets the QP's time-out, its retry limits, and whether its peer may write. */
__noinline int rc_set_limits(__u32 qp_index, __u32 give_up_us, __u32 rnr_timer_us, __u32 rnr_limit,
			     __u32 is_writable)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	qp->head.give_up_ns = give_up_ns_of(give_up_us);
	qp->head.rnr_timer_ns = rnr_timer_us * 1000ULL;
	qp->head.rnr_limit = rnr_limit;
	qp->head.is_writable = is_writable;
	bpf_spin_unlock(&qp->lock);
	return 1;
}

/* To RTS, with its first PSN, or to ERROR; returns whether the QP is there now, and was not. */
__noinline int rc_set_state(__u32 qp_index, __u32 to, __u32 first_psn)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);
	__u32 from, is_changed = 0;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	from = qp->state;
	if (to == MRC_QP_ERROR) {
		is_changed = from != MRC_QP_RESET && from != MRC_QP_ERROR;
	} else if (from == MRC_QP_RTR) {
		qp->req.next_psn = first_psn;
		qp->req.max_psn = first_psn;
		qp->req.una_psn = first_psn;
		qp->req.acked_psn = first_psn;
		is_changed = 1;
	}
	if (is_changed)
		qp->state = to;
	bpf_spin_unlock(&qp->lock);
	if (is_changed && to == MRC_QP_ERROR)
		qp_fail(qp_index, from, MRC_STATUS_FLUSHED);
	return is_changed;
}

static __always_inline int rc_ctrl_run(struct mrc_kick *request)
{
	__u32 qp_index = request->qp_index, argument = request->argument[0];

	switch (request->command) {
	case MRC_COMMAND_RC_RTS:
		request->result = rc_set_state(qp_index, MRC_QP_RTS, argument);
		break;
	case MRC_COMMAND_ERROR:
		request->result = rc_set_state(qp_index, MRC_QP_ERROR, 0);
		break;
	case MRC_COMMAND_LIMITS:
		request->result = rc_set_limits(qp_index, argument, request->argument[1],
						request->argument[2], request->argument[3]);
		break;
	default:
		request->result = 0;
	}
	return XDP_DROP;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the agent has done to a QP that is alive: user space could not store into one without
 * undoing what packets do in the meantime, so the kernel does it, under the lock.
 */
#ifndef MRC_COMMAND_H
#define MRC_COMMAND_H

#include "acknowledge.h"
#include "ev_set.h"
#include "nic_maps.h"

/* An EV is taken out of use for good, or given back (docs/protocol.md, "EV states"). */
__noinline int change_ev(__u32 qp_index, __u32 index, __u32 is_denied)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 from, to = is_denied ? MRC_EV_DENIED : MRC_EV_GOOD, is_changed;
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_ev *ev;

	if (!qp || index >= MRC_EV_MAX)
		return 0;
	ev = &qp->evs[EV_INDEX(index)];
	bpf_spin_lock(&qp->lock);
	from = ev->state;
	if (!is_denied) {
		is_changed = ev_return(qp, index, MRC_EV_DENIED, to, MRC_REASON_ADMIN, now_ns);
	} else if (from == MRC_EV_ASSUMED_BAD) {
		ev_set_state(ev, to, MRC_REASON_ADMIN, now_ns);
		is_changed = 1;
	} else {
		/* The last active EV stays: a QP without any could never send again. */
		is_changed = ev_remove(qp, index, 1, to, MRC_REASON_ADMIN, now_ns) != 0;
	}
	bpf_spin_unlock(&qp->lock);
	if (is_changed)
		ev_changed(qp_index, index, from, to, MRC_REASON_ADMIN);
	return is_changed || from == to;
}

__noinline int change_state(__u32 qp_index, __u32 to, __u32 mpr_psns, __u32 max_wimm)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 from, is_changed = 0;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	from = qp->state;
	if (to == MRC_QP_ERROR) {
		is_changed = from != MRC_QP_RESET && from != MRC_QP_ERROR;
	} else if (from == MRC_QP_RTR && mpr_psns && mpr_psns <= MRC_PSN_RING) {
		qp->mpr_psns = mpr_psns;
		qp->max_wimm = max_wimm;
		is_changed = 1;
	}
	if (is_changed)
		qp->state = to;
	bpf_spin_unlock(&qp->lock);
	if (is_changed && to == MRC_QP_ERROR)
		qp_fail(qp_index, from, MRC_STATUS_FLUSHED);
	return is_changed;
}

static __always_inline int run_command(struct mrc_kick *request)
{
	__u32 qp_index = request->qp_index, argument = request->argument[0];

	switch (request->command) {
	case MRC_COMMAND_RTS:
		request->result =
		    change_state(qp_index, MRC_QP_RTS, argument, request->argument[1]);
		break;
	case MRC_COMMAND_ERROR:
		request->result = change_state(qp_index, MRC_QP_ERROR, 0, 0);
		break;
	case MRC_COMMAND_DENY:
	case MRC_COMMAND_ALLOW:
		request->result =
		    change_ev(qp_index, argument, request->command == MRC_COMMAND_DENY);
		break;
	default:
		request->result = 0;
	}
	return XDP_DROP;
}

#endif

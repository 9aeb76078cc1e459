/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Changes of the agent to a QP that is alive: user space could not store into one without
 * undoing what packets do in the meantime, so the kernel does it, under the lock.
 */
#ifndef MRC_CTRL_H
#define MRC_CTRL_H

#include <mrc/cc_events.h>
#include "ev.h"
#include "nic_maps.h"
#include "qp.h"
#include "resp_state.h"

/* Under the lock: an EV changes its state because somebody says so; returns whether it did. */
static __always_inline int set_ev_state_locked(struct mrc_qp *qp, __u32 index, __u32 command,
					       __u64 now_ns)
{
	struct mrc_ev *ev = EV(qp, index);
	__u32 to = command == MRC_COMMAND_DENY ? MRC_EV_DENIED : MRC_EV_ASSUMED_BAD;
	__u32 from = ev->state;

	if (command == MRC_COMMAND_ALLOW || command == MRC_COMMAND_GOOD) {
		if (from != MRC_EV_DENIED && command == MRC_COMMAND_ALLOW)
			return 0;
		return from > MRC_EV_SKIP &&
		       ev_restore(qp, index, from, MRC_EV_GOOD, MRC_REASON_ADMIN, now_ns);
	}
	if (from == to || from == MRC_EV_UNUSED)
		return 0;
	if (from == MRC_EV_ASSUMED_BAD || from == MRC_EV_DENIED) {
		if (to == MRC_EV_DENIED)
			PATH(qp, ev->path)->is_dead = 0; /* no probe will bring it back */
		ev_set_state(ev, to, MRC_REASON_ADMIN, now_ns);
		return 1;
	}
	/* The last active EV stays: a QP without any could never send again. */
	return ev_remove(qp, index, 1, to, MRC_REASON_ADMIN, now_ns) != 0;
}

/*
 * An EV is taken out of use, or given back (docs/reference/protocol.md, "EV states"). Returns
 * whether it is as the command wants it.
 */
__noinline int ctrl_set_ev_state(__u32 qp_index, __u32 index, __u32 command)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 from, to, is_changed;
	struct mrc_ev *ev;

	if (!qp || index >= MRC_EV_MAX)
		return 0;
	ev = EV(qp, index);
	bpf_spin_lock(&qp->lock);
	from = ev->state;
	is_changed = set_ev_state_locked(qp, index, command, now_ns);
	to = ev->state;
	bpf_spin_unlock(&qp->lock);
	if (is_changed && to == MRC_EV_GOOD)
		path_trust(qp, ev->entropy);
	if (is_changed)
		ev_report_transition(qp_index, index, from, to, MRC_REASON_ADMIN);
	if (command == MRC_COMMAND_DENY)
		return to == MRC_EV_DENIED;
	return command == MRC_COMMAND_ASSUMED_BAD ? to == MRC_EV_ASSUMED_BAD : to <= MRC_EV_SKIP;
}

/*
 * Another EV takes a place, as good as new. What is said of the old one from now on names an EV
 * that is not known; packets in flight on it are accounted for by their PSN.
 */
__noinline int ctrl_replace_ev(__u32 qp_index, __u32 index, __u32 entropy, __u32 path)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_ev *ev;
	__u32 from;

	if (!qp || index >= MRC_EV_MAX)
		return 0;
	ev = EV(qp, index);
	bpf_spin_lock(&qp->lock);
	from = ev->state;
	if (from != MRC_EV_UNUSED) {
		ev->entropy = entropy;
		ev->path = path & (MRC_EV_MAX - 1);
		ev->bad_count = 0;
		ev->tx_packets = 0;
		ev->lost_packets = 0;
		ev->marks = 0;
		ev->rtt_ns = 0;
		ev->is_probe_pending = 0;
		if (from == MRC_EV_ASSUMED_BAD || from == MRC_EV_DENIED)
			ev_restore(qp, index, from, MRC_EV_GOOD, MRC_REASON_ADMIN, now_ns);
		else
			ev_set_state(ev, MRC_EV_GOOD, MRC_REASON_ADMIN, now_ns);
	}
	bpf_spin_unlock(&qp->lock);
	if (from == MRC_EV_ASSUMED_BAD || from == MRC_EV_DENIED)
		ev_report_transition(qp_index, index, from, MRC_EV_GOOD, MRC_REASON_ADMIN);
	return from != MRC_EV_UNUSED;
}

/* Fewer or more PSNs are tracked from now on; fewer only once all that may be in flight came. */
__noinline int ctrl_set_psn_range(__u32 qp_index, __u32 psns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 is_changed = 0;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	if (psns && psns <= qp->resp.mpr_dest_psns) {
		qp->resp.tracked_from_psn = qp->resp.cack_next + tracked_range(qp);
		qp->resp.tracked_psns = psns;
		is_changed = 1;
	}
	bpf_spin_unlock(&qp->lock);
	return is_changed;
}

/* SACKs request a receiver penalty from now on, or say for a while that it has ended. */
__noinline int ctrl_set_penalty(__u32 qp_index, __u32 penalty)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	if (!qp || penalty > MRC_PENALTY_MAX)
		return 0;
	bpf_spin_lock(&qp->lock);
	if (qp->resp.penalty && !penalty)
		qp->resp.restores_left = MRC_RESTORE_SACKS;
	qp->resp.penalty = penalty;
	bpf_spin_unlock(&qp->lock);
	return 1;
}

/* Sets the QP's time-out, its retry limits, and whether its peer may write. */
__noinline int ctrl_set_limits(__u32 qp_index, __u32 give_up_us, __u32 rnr_timer_us,
			       __u32 rnr_limit, __u32 is_writable)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

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

__noinline int ctrl_set_qp_state(__u32 qp_index, __u32 to, __u32 mpr_psns, __u32 max_wimm,
				 __u32 first_psn)
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
		qp->req.mpr_psns = mpr_psns;
		qp->req.max_wimm = max_wimm;
		qp->req.next_psn = first_psn;
		qp->comp.una_psn = first_psn;
		qp->comp.peer_cack_next = first_psn;
		cc_start(&qp->cc, &qp->cc_parameters);
		is_changed = 1;
	}
	if (is_changed)
		qp->state = to;
	bpf_spin_unlock(&qp->lock);
	if (is_changed && to == MRC_QP_ERROR)
		qp_fail(qp_index, from, MRC_STATUS_FLUSHED);
	return is_changed;
}

static __always_inline int ctrl_run(struct mrc_kick *request)
{
	__u32 qp_index = request->qp_index, argument = request->argument[0];

	switch (request->command) {
	case MRC_COMMAND_RTS:
		request->result = ctrl_set_qp_state(qp_index, MRC_QP_RTS, argument,
						    request->argument[1], request->argument[2]);
		break;
	case MRC_COMMAND_ERROR:
		request->result = ctrl_set_qp_state(qp_index, MRC_QP_ERROR, 0, 0, 0);
		break;
	case MRC_COMMAND_DENY:
	case MRC_COMMAND_ALLOW:
	case MRC_COMMAND_GOOD:
	case MRC_COMMAND_ASSUMED_BAD:
		request->result = ctrl_set_ev_state(qp_index, argument, request->command);
		break;
	case MRC_COMMAND_TRACK:
		request->result = ctrl_set_psn_range(qp_index, argument);
		break;
	case MRC_COMMAND_PENALTY:
		request->result = ctrl_set_penalty(qp_index, argument);
		break;
	case MRC_COMMAND_LIMITS:
		request->result = ctrl_set_limits(qp_index, argument, request->argument[1],
						  request->argument[2], request->argument[3]);
		break;
	case MRC_COMMAND_REPLACE:
		request->result =
		    ctrl_replace_ev(qp_index, argument, request->argument[1], request->argument[2]);
		break;
	default:
		request->result = 0;
	}
	return XDP_DROP;
}

#endif

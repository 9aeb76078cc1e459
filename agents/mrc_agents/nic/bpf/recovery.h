/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Loss detection: RACK and TLP (RFC 8985), RTO (docs/reference/protocol.md, "Loss"). Functions bear
 * the RFC's names. Without a NACK or an RTO, four rules declare a packet lost, each the oldest in
 * flight on its path:
 *
 *    RACK deadline      is_lost_by_rack(), in rack_detect_loss(): a packet of the QP that was sent
 *                       later, on any path, is acknowledged, and reo_wnd has passed since the
 *                       acknowledgement of this one was due
 *    overtaken          is_overtaken_on_path(), in detect_overtaken(): it is missing from the SACK
 *                       of a packet that was sent later on the same path; in an unshaped lab more
 *                       than reorder_packets of those
 *    tail loss probe    is_lost_by_tlp(), in detect_overtaken(): it is missing from the SACK of a
 *                       tail loss probe that was sent more than a PTO after it
 *    idle path          path_is_idle(), in rack_detect_loss(): many acknowledgements came since it
 *                       was sent, and none of them on its path
 *
 * When the RTO expires, rack_detect_loss() goes by age alone. A NACK is on_nack()'s.
 */
#ifndef MRC_RECOVERY_H
#define MRC_RECOVERY_H

#include <mrc/psn.h>
#include "cc.h"
#include "ev.h"
#include "nic_maps.h"
#include "path.h"
#include "rtt.h"

/*
 * Under the lock: whether the oldest packet on a path is lost by RACK. Delays of paths differ by
 * what queues on them; rttvar measures how much.
 */
static __always_inline int is_lost_by_rack(const struct mrc_qp *qp, __u32 index, __u64 now_ns)
{
	const struct mrc_tx_slot *slot = TX_SLOT(qp, PATH(qp, index)->head);

	return qp->comp.reo_wnd_min_ns && rack_sent_after(qp, slot) &&
	       (__s64)(now_ns - rack_deadline_ns(qp, slot)) > 0;
}

/* Under the lock: whether rack_detect_loss() would find a packet. */
static __always_inline int is_loss_due(const struct mrc_qp *qp, __u64 now_ns)
{
	return qp->paths.busy && (path_is_idle(qp, qp->paths.oldest) ||
				  is_lost_by_rack(qp, qp->paths.oldest, now_ns));
}

/* Under the lock: whether a SACK covers a PSN and says nothing of it. */
static __always_inline int is_hole(const struct sack_ctx *sack, __u32 psn)
{
	__u32 bit = psn - sack->base;

	return bit < 64 && !(sack->bitmap >> bit & 1);
}

/*
 * Under the lock: whether the oldest packet on a path is missing from a SACK though the packet that
 * caused the SACK left after it: by the number of both, and by model time, which is what a shaped
 * port goes by. A frame of a TX kick is ahead of one that a late drainer delivers.
 */
static __always_inline int is_overtaken_on_path(const struct mrc_qp *qp,
						const struct sack_ctx *sack, __u32 index)
{
	const struct mrc_path *path = PATH(qp, index);
	const struct mrc_tx_slot *slot = TX_SLOT(qp, path->head);

	return path->outstanding && (__s16)(sack->trigger_order - slot->order) > 0 &&
	       (__s64)(sack->trigger_sent_ns - slot->sent_ns) >= 0 &&
	       is_hole(sack, slot_psn(qp, path->head));
}

/*
 * Under the lock: whether the oldest packet on a path is missing from the ACK of a tail loss probe
 * that left so long after it that the delays of their paths do not matter.
 */
static __always_inline int is_lost_by_tlp(const struct mrc_qp *qp, const struct sack_ctx *sack,
					  __u32 index)
{
	const struct mrc_path *path = PATH(qp, index);
	const struct mrc_tx_slot *slot = TX_SLOT(qp, path->head);

	return path->outstanding &&
	       (__s64)(sack->trigger_sent_ns - slot_departed_ns(slot)) >
		   (__s64)tlp_calc_pto_ns(qp, slot) &&
	       is_hole(sack, slot_psn(qp, path->head));
}

/* Under the lock: records which rule declares the oldest packet on a path lost. */
#define TRACE_HEAD_LOST(qp, index, rule)                                                           \
	TRACE_QP(MRC_TRACE_DECLARED, qp, .psn = slot_psn(qp, PATH(qp, index)->head),               \
		 .time_ns = now_ns, .start_ns = TX_SLOT(qp, PATH(qp, index)->head)->sent_ns,       \
		 .entropy = EV(qp, TX_SLOT(qp, PATH(qp, index)->head)->ev_index)->entropy,         \
		 .what = rule)

/* The work of declare_head_lost() that waits until the lock is released. */
struct loss_deferred {
	__u32 ev;
	__u32 left; /* state that the EV left; 0: it stays */
	__u32 cwnd_change;
	__u32 is_path_alive; /* what left on it later has arrived */
};

/*
 * Under the lock: declares the oldest packet on a path lost. Its EV becomes ASSUMED_BAD, except for
 * a tail loss probe, which proves nothing; an idle path is dead then.
 */
static __always_inline void declare_head_lost(struct mrc_qp *qp, __u32 index, __u32 loss,
					      __u32 reason, int is_idle_path, __u64 now_ns,
					      struct loss_deferred *deferred)
{
	struct mrc_path *path = PATH(qp, index);
	__u32 psn = slot_psn(qp, path->head);
	struct mrc_tx_slot *slot = TX_SLOT(qp, psn);

	path_unlink(qp, index, psn);
	if (path->outstanding) {
		/* Others have their turn before its next packet is looked at. */
		path_dequeue(qp, index);
		path_enqueue(qp, index);
	}
	slot->loss = loss;
	ring_set(qp->req.lost_bits, psn);
	qp->req.lost_count++;
	qp->req.inflight--;
	deferred->cwnd_change =
	    cc_on_inferred_loss(&qp->cc, &qp->cc_parameters, slot_nominal_bytes(slot));
	deferred->ev = slot->ev_index;
	ev_packet_done(qp, EV(qp, deferred->ev));
	if (loss == MRC_LOSS_TLP)
		return;
	slot->lost_at = ++EV(qp, deferred->ev)->lost_packets;
	deferred->left = ev_mark_bad(qp, deferred->ev, reason, now_ns);
	slot->lost_ev = deferred->ev;
	slot->has_lost_ev = deferred->left && !slot->retransmissions;
	/* Only with an EV that will be probed: its return is what ends that. */
	path->is_dead |= is_idle_path && deferred->left;
}

static __always_inline void run_loss_deferred(const struct mrc_qp *qp, __u32 qp_index,
					      const struct loss_deferred *deferred, __u32 reason)
{
	cwnd_count_change(deferred->cwnd_change);
	if (!deferred->left)
		return;
	/* Within a T0 a plane has one path: as long as that is alive none is better. */
	if (qp->head.distance || !deferred->is_path_alive)
		path_suspect(qp, EV(qp, deferred->ev)->entropy);
	ev_report_transition(qp_index, deferred->ev, deferred->left, MRC_EV_ASSUMED_BAD, reason);
}

/*
 * RACK_detect_loss(), for at most one packet: by an idle path or the RACK deadline, or, with
 * MRC_REASON_TIMEOUT, by its age. Looks at the LOSS_PATHS paths without acknowledgement for
 * longest. Returns 1 when there may be more.
 */
__noinline int rack_detect_loss(__u32 qp_index, __u32 reason, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 index, is_lost = 0, is_idle_path = 0, loss = MRC_LOSS_SACK;
	struct loss_deferred deferred = {};

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	index = qp->paths.oldest;
	if (reason == MRC_REASON_LOSS && qp->paths.busy && path_is_idle(qp, index)) {
		is_lost = is_idle_path = 1;
	} else {
		if (reason == MRC_REASON_TIMEOUT)
			loss = MRC_LOSS_TIMEOUT;
		for (__u32 i = 0; i < LOSS_PATHS && i < qp->paths.busy; i++) {
			__u64 departed_ns = slot_departed_ns(TX_SLOT(qp, PATH(qp, index)->head));

			is_lost = reason == MRC_REASON_LOSS
				      ? is_lost_by_rack(qp, index, now_ns)
				      : (__s64)(now_ns - departed_ns) > (__s64)rtt_rto_ns(qp);
			if (is_lost)
				break;
			index = PATH(qp, index)->newer;
		}
		is_idle_path = reason == MRC_REASON_TIMEOUT;
	}
	if (is_lost) {
		TRACE_HEAD_LOST(qp, index,
				reason == MRC_REASON_TIMEOUT ? MRC_RULE_RTO
				: is_idle_path		     ? MRC_RULE_IDLE_PATH
							     : MRC_RULE_RACK);
		declare_head_lost(qp, index, loss, reason, is_idle_path, now_ns, &deferred);
		qp->req.rto_retx_left += loss == MRC_LOSS_TIMEOUT;
		if (!is_idle_path)
			rack_update_reo_wnd(qp, 0);
	}
	bpf_spin_unlock(&qp->lock);
	run_loss_deferred(qp, qp_index, &deferred, reason);
	return is_lost;
}

/*
 * TLP_process_ack(): a tail loss probe is acknowledged. The packet that it repeats was lost, or its
 * ACK was: the EV that the packet had been sent on before becomes ASSUMED_BAD, and is probed.
 */
__noinline int tlp_process_ack(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct loss_deferred deferred = {};

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	deferred.ev = qp->comp.tlp_ev;
	qp->comp.tlp_ev = TLP_EV_NONE;
	if (deferred.ev != TLP_EV_NONE)
		deferred.left = ev_mark_bad(qp, deferred.ev, MRC_REASON_LOSS, now_ns);
	bpf_spin_unlock(&qp->lock);
	run_loss_deferred(qp, qp_index, &deferred, MRC_REASON_LOSS);
	return 0;
}

/*
 * Declares at most one packet lost that the packet of the SACK has overtaken: on its path or, if
 * that is a tail loss probe, on any. Returns 1 when there may be more.
 */
__noinline int detect_overtaken(__u32 qp_index, __u32 step, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct sack_ctx *sack = lookup0(&sack_ctxs);
	__u32 index, is_lost, is_more;
	struct loss_deferred deferred = {};

	if (!qp || !sack)
		return 0;
	bpf_spin_lock(&qp->lock);
	index = sack->is_tlp_ack ? qp->paths.oldest : sack->overtaken_path;
	is_lost = qp->paths.busy && (sack->is_tlp_ack ? is_lost_by_tlp(qp, sack, index)
						      : is_overtaken_on_path(qp, sack, index));
	is_more = is_lost || (sack->is_tlp_ack && step < qp->paths.busy);
	if (is_lost) {
		TRACE_HEAD_LOST(qp, index, sack->is_tlp_ack ? MRC_RULE_TLP : MRC_RULE_OVERTAKEN);
		declare_head_lost(qp, index, MRC_LOSS_SACK, MRC_REASON_LOSS, 0, now_ns, &deferred);
		deferred.is_path_alive = !sack->is_tlp_ack;
	} else if (is_more) {
		path_dequeue(qp, index);
		path_enqueue(qp, index);
	}
	bpf_spin_unlock(&qp->lock);
	run_loss_deferred(qp, qp_index, &deferred, MRC_REASON_LOSS);
	return is_more;
}

/*
 * TLP_send_probe(): is_tlp_due says that the timer found the PTO expired, and that nothing has been
 * acknowledged since. The oldest packet of the path without acknowledgement for longest is sent
 * once more, on another path. Its SACK shows what arrived of all that was sent long before it.
 */
__noinline int tlp_send_probe(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 left_ev = 0, left = 0;
	struct loss_deferred deferred = {};

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	if (qp->comp.is_tlp_due && qp->paths.busy) {
		/* Neither the last probe nor the packet that it repeats was acknowledged. */
		if (qp->comp.tlp_count && qp->comp.tlp_ev != TLP_EV_NONE)
			left = ev_mark_bad(qp, qp->comp.tlp_ev, MRC_REASON_LOSS, now_ns);
		left_ev = qp->comp.tlp_ev;
		qp->comp.is_tlp_due = 0;
		qp->comp.tlp_count++;
		qp->comp.tlp_ev = TX_SLOT(qp, PATH(qp, qp->paths.oldest)->head)->ev_index;
		qp->req.rto_retx_left = 1;
		TRACE_HEAD_LOST(qp, qp->paths.oldest, MRC_RULE_PROBE);
		declare_head_lost(qp, qp->paths.oldest, MRC_LOSS_TLP, MRC_REASON_NONE, 0, now_ns,
				  &deferred);
		deferred.ev = left_ev;
		deferred.left = left;
	}
	bpf_spin_unlock(&qp->lock);
	run_loss_deferred(qp, qp_index, &deferred, MRC_REASON_LOSS);
	return 0;
}

#endif

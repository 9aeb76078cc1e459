/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Packets given up for lost, and their EVs with them (docs/protocol.md, "Loss"). */
#ifndef MRC_LOSS_H
#define MRC_LOSS_H

#include <mrc/psn.h>
#include "congestion.h"
#include "ev_report.h"
#include "ev_set.h"
#include "nic_maps.h"
#include "path.h"
#include "rtt.h"

/*
 * Under the lock: whether the oldest packet on a path is lost by RACK: one that was sent after it
 * has arrived, and it has not, a reordering window after it should have. Delays of paths differ by
 * what queues on them; rttvar tells how much.
 */
static __always_inline int path_is_racked(const struct mrc_qp *qp, __u32 index, __u64 now_ns)
{
	const struct mrc_tx_slot *slot = TX_SLOT(qp, PATH(qp, index)->head);

	return qp->reo_wnd_min_ns && rack_is_passed(qp, slot) &&
	       (__s64)(now_ns - rack_deadline_ns(qp, slot)) > 0;
}

/* Under the lock: whether declare_loss() would find a packet. */
static __always_inline int is_loss_due(const struct mrc_qp *qp, __u64 now_ns)
{
	return qp->busy_paths &&
	       (path_is_silent(qp, qp->path_oldest) || path_is_racked(qp, qp->path_oldest, now_ns));
}

/* Under the lock: whether a SACK covers a PSN and says nothing of it. */
static __always_inline int is_hole(const struct heard_sack *heard, __u32 psn)
{
	__u32 bit = psn - heard->base;

	return bit < 64 && !(heard->bitmap >> bit & 1);
}

/*
 * Under the lock: whether the oldest packet on a path is missing from a SACK though the packet that
 * caused the SACK left after it: by the number of both, and by model time, which is what a shaped
 * port goes by. A frame that the agent lends is ahead of one that a late drainer delivers.
 */
static __always_inline int path_is_passed(const struct mrc_qp *qp, const struct heard_sack *heard,
					  __u32 index)
{
	const struct mrc_path *path = PATH(qp, index);
	const struct mrc_tx_slot *slot = TX_SLOT(qp, path->head);

	return path->outstanding && (__s16)(heard->passing_order - slot->order) > 0 &&
	       (__s64)(heard->passing_ns - slot->sent_ns) >= 0 &&
	       is_hole(heard, slot_psn(qp, path->head));
}

/*
 * Under the lock: whether the oldest packet on a path is missing from the answer to a tail probe
 * that left so long after it that the delays of their paths do not matter.
 */
static __always_inline int path_is_tail(const struct mrc_qp *qp, const struct heard_sack *heard,
					__u32 index)
{
	const struct mrc_path *path = PATH(qp, index);
	const struct mrc_tx_slot *slot = TX_SLOT(qp, path->head);

	return path->outstanding &&
	       (__s64)(heard->passing_ns - slot->sent_ns) > (__s64)rtt_pto_ns(qp, slot) &&
	       is_hole(heard, slot_psn(qp, path->head));
}

/* What lose_head() leaves to be told once the lock is released. */
struct loss_news {
	__u32 ev;
	__u32 left; /* state that the EV left; 0: it stays */
	__u32 cwnd_change;
};

/*
 * Under the lock: gives up the oldest packet on a path; its EV leaves, unless nothing is proven,
 * and a silent path is dead.
 */
static __always_inline void lose_head(struct mrc_qp *qp, __u32 index, __u32 loss, __u32 reason,
				      int is_silent, __u64 now_ns, struct loss_news *news)
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
	ring_set(qp->lost_bits, psn);
	qp->lost_count++;
	qp->inflight--;
	news->cwnd_change = nscc_on_inferred_loss(&qp->nscc, &qp->cc, slot_nominal_bytes(slot));
	news->ev = slot->ev_index;
	ev_off(qp, &qp->evs[EV_INDEX(news->ev)]);
	if (loss == MRC_LOSS_TAIL)
		return;
	qp->evs[EV_INDEX(news->ev)].lost_packets++;
	news->left = ev_leave(qp, news->ev, reason, now_ns);
	/* Only with an EV that will be probed: its return is what ends that. */
	path->is_dead |= is_silent && news->left;
}

static __always_inline void loss_report(const struct mrc_qp *qp, __u32 qp_index,
					const struct loss_news *news, __u32 reason)
{
	cwnd_changed(news->cwnd_change);
	if (!news->left)
		return;
	path_suspect(qp, qp->evs[EV_INDEX(news->ev)].entropy);
	ev_changed(qp_index, news->ev, news->left, MRC_EV_ASSUMED_BAD, reason);
}

/*
 * Declares at most one packet lost: of the path that has been silent for longest, or at a time-out
 * of any path. Returns 1 when there may be more.
 */
__noinline int declare_loss(__u32 qp_index, __u32 reason, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 index, is_lost = 0, is_silent = 0, loss = MRC_LOSS_SACK;
	struct loss_news news = {};

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	index = qp->path_oldest;
	if (reason == MRC_REASON_LOSS && qp->busy_paths && path_is_silent(qp, index)) {
		is_lost = is_silent = 1;
	} else {
		if (reason == MRC_REASON_TIMEOUT)
			loss = MRC_LOSS_TIMEOUT;
		for (__u32 i = 0; i < LOSS_PATHS && i < qp->busy_paths; i++) {
			__u64 sent_ns = TX_SLOT(qp, PATH(qp, index)->head)->sent_ns;

			is_lost = reason == MRC_REASON_LOSS
				      ? path_is_racked(qp, index, now_ns)
				      : (__s64)(now_ns - sent_ns) > (__s64)rtt_rto_ns(qp);
			if (is_lost)
				break;
			index = PATH(qp, index)->newer;
		}
		is_silent = reason == MRC_REASON_TIMEOUT;
	}
	if (is_lost) {
		lose_head(qp, index, loss, reason, is_silent, now_ns, &news);
		qp->overdue += loss == MRC_LOSS_TIMEOUT;
		if (!is_silent)
			rack_on_loss(qp);
	}
	bpf_spin_unlock(&qp->lock);
	loss_report(qp, qp_index, &news, reason);
	return is_lost;
}

/*
 * A tail probe has been answered: the packet that it repeats was lost, or its answer was. The EV
 * that the packet had been sent on before leaves, and is probed.
 */
__noinline int tail_answered(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct loss_news news = {};

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	news.ev = qp->tail_ev;
	qp->tail_ev = TAIL_EV_NONE;
	if (news.ev != TAIL_EV_NONE)
		news.left = ev_leave(qp, news.ev, MRC_REASON_LOSS, now_ns);
	bpf_spin_unlock(&qp->lock);
	loss_report(qp, qp_index, &news, MRC_REASON_LOSS);
	return 0;
}

/*
 * Declares at most one packet lost that the SACK being heard has passed by; a tail probe has passed
 * what was sent before it on every path. Returns 1 when there may be more.
 */
__noinline int declare_passed(__u32 qp_index, __u32 step, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct heard_sack *heard = lookup0(&heard_sacks);
	__u32 index, is_lost, is_more;
	struct loss_news news = {};

	if (!qp || !heard)
		return 0;
	bpf_spin_lock(&qp->lock);
	index = heard->is_tail_answer ? qp->path_oldest : heard->passed_path;
	is_lost = qp->busy_paths && (heard->is_tail_answer ? path_is_tail(qp, heard, index)
							   : path_is_passed(qp, heard, index));
	is_more = is_lost || (heard->is_tail_answer && step < qp->busy_paths);
	if (is_lost) {
		lose_head(qp, index, MRC_LOSS_SACK, MRC_REASON_LOSS, 0, now_ns, &news);
	} else if (is_more) {
		path_dequeue(qp, index);
		path_enqueue(qp, index);
	}
	bpf_spin_unlock(&qp->lock);
	loss_report(qp, qp_index, &news, MRC_REASON_LOSS);
	return is_more;
}

/*
 * Nothing was acknowledged for a PTO though packets are under way, and nothing has been since the
 * clock found that out: the oldest of the path that has been silent for longest is sent
 * once more, on another path. Its answer tells what arrived of all that was sent long before it.
 */
__noinline int declare_tail(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 left_ev = 0, left = 0;
	struct loss_news news = {};

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	if (qp->is_tail_due && qp->busy_paths) {
		/* The probe before this one was not answered: nor was the packet that it repeats.
		 */
		if (qp->tail_probes && qp->tail_ev != TAIL_EV_NONE)
			left = ev_leave(qp, qp->tail_ev, MRC_REASON_LOSS, now_ns);
		left_ev = qp->tail_ev;
		qp->is_tail_due = 0;
		qp->tail_probes++;
		qp->tail_ev = TX_SLOT(qp, PATH(qp, qp->path_oldest)->head)->ev_index;
		qp->overdue = 1;
		lose_head(qp, qp->path_oldest, MRC_LOSS_TAIL, MRC_REASON_NONE, 0, now_ns, &news);
		news.ev = left_ev;
		news.left = left;
	}
	bpf_spin_unlock(&qp->lock);
	loss_report(qp, qp_index, &news, MRC_REASON_LOSS);
	return 0;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The requestor: turns work requests into packets and feedback into the next packet
 * (docs/protocol.md, "Requestor").
 *
 * Everything about a packet that is under way is in tx[psn % MRC_PSN_RING]; two rings of bits say
 * whether it has been acknowledged or declared lost.
 */
#ifndef MRC_REQUESTOR_H
#define MRC_REQUESTOR_H

#include <mrc/psn.h>
#include "clock.h"
#include "congestion.h"
#include "ev_report.h"
#include "ev_set.h"
#include "frame.h"
#include "nic_maps.h"
#include "qp.h"
#include "req_state.h"
#include "work.h"
#include "xmit.h"

enum {
	COMPLETIONS_PER_SACK = 64, /* message ends one SACK can uncover */
	LOSSES_PER_SACK = 16,
	IDLE_CREDIT_SHARE = 8,	   /* part of the window that may lie idle until the next tick */
	IDLE_CREDIT_NS = 100000,   /* more than that too for so long, while nothing is lost ... */
	IDLE_CREDIT_RTT_SHARE = 2, /* ... and, unshaped, for that part of a round trip */
	BITMAP_NEWS_PER_SACK = 16, /* the rest is in the next SACK's bitmap as well */
};

/* Fills the slot of a new packet, and moves on in the work request. */
static __always_inline void packet_take(struct mrc_qp *qp, const struct mrc_work *work,
					struct mrc_tx_slot *slot, __u64 now_ns)
{
	struct work_piece piece = work_next_piece(&qp->work, work, qp->pmtu_bytes);

	if (piece.is_first && work->has_immediate) {
		qp->next_rqmsn++;
		qp->outstanding_wimm++;
		qp->wimm_messages |= 1ULL << (piece.msn & 63);
	}
	slot->local_offset = piece.local_offset;
	slot->remote_offset = piece.remote_offset;
	slot->length = piece.length;
	slot->msn = piece.msn;
	slot->rqmsn = qp->next_rqmsn;
	slot->work_index = piece.work_index;
	slot->retransmissions = 0;
	slot->loss = MRC_LOSS_NONE;
	if (piece.is_last)
		slot->opcode =
		    (piece.is_first ? WIRE_WRITE_ONLY : WIRE_WRITE_LAST) + !!work->has_immediate;
	else
		slot->opcode = piece.is_first ? WIRE_WRITE_FIRST : WIRE_WRITE_MIDDLE;
	work_advance(&qp->work, work, &piece, now_ns);
}

/* PSN of the oldest packet that waits for retransmission; only with lost_count > 0. */
static __always_inline __u32 oldest_lost(struct mrc_qp *qp)
{
	__u32 una = qp->una_psn;

	for (__u32 i = 0; i < MRC_PSN_WORDS; i++) {
		__u64 bits = ring_window(qp->lost_bits, una + i * 64);

		if (bits)
			return una + i * 64 + trailing_zeros(bits);
	}
	return una;
}

/* Full packets that the window lets go, about. */
static __always_inline __u16 window_packets(const struct mrc_qp *qp)
{
	__u32 packets = qp->nscc.cwnd_bytes >> (qp->pmtu_shift & 31);

	return packets < MRC_PSN_RING ? packets : MRC_PSN_RING;
}

/*
 * Under the lock, after a frame that could be used was: whether there is credit beyond it that no
 * frame will come for. A little is that of a SACK overtaken by a later one, and much of it, for a
 * moment, that of a burst of them on another plane: their own frames come at once, and every one
 * that the agent lends costs a system call and a pool of pages. It is the credit that has to lie
 * idle for a while, whether there was anything to send or not: as a PSN window opens again, little
 * is under way that could bring frames. What does stay unspent the clock will notice.
 *
 * An unshaped lab is as fast as its CPUs, so a round trip is what they make it, and what they spend
 * on lending is taken from the traffic. In a shaped one they have time, and a small window that
 * grows must not wait: its rivals would not.
 */
static __always_inline int is_credit_idle(struct mrc_qp *qp, struct mrc_work_ring *ring,
					  __u64 now_ns)
{
	__s64 idle_bytes = nscc_credit_bytes(&qp->nscc);
	__u64 wait_ns = IDLE_CREDIT_NS;

	if (idle_bytes < qp->idle_least_bytes)
		qp->idle_least_bytes = idle_bytes;
	if (idle_bytes <= (__s64)(qp->nscc.cwnd_bytes / IDLE_CREDIT_SHARE)) {
		qp->idle_since_ns = 0;
		return 0;
	}
	if (!qp->idle_since_ns)
		qp->idle_since_ns = now_ns;
	if (!fabric_config.is_shaped && qp->rtt_ns / IDLE_CREDIT_RTT_SHARE > wait_ns)
		wait_ns = qp->rtt_ns / IDLE_CREDIT_RTT_SHARE;
	return qp->lost_count || (packet_ready(qp, ring) && now_ns - qp->idle_since_ns > wait_ns);
}

/*
 * Under the lock: decides the next packet of a QP, a retransmission first, and writes it into
 * `plan`, whose times the caller has set. Returns whether there is one. Also finds out whether more
 * packets could leave than this one, and whether the QP's clock must be started.
 */
static __always_inline int plan_locked(struct mrc_qp *qp, struct mrc_work_ring *ring,
				       const struct mrc_nic_control *control,
				       struct mrc_nic_paths *paths, struct tx_plan *plan)
{
	int is_planned = 0, is_ready, is_asking, ev;

	__builtin_memset(&plan->news, 0, sizeof(plan->news));
	plan->news.restored_ev = -1;
	if (qp->state != MRC_QP_RTS)
		return 0;
	if (!qp->inflight)
		plan->news.is_drifted = congestion_drained(qp);
	work_settle(&qp->work, ring); /* a request that was stopped makes way for the next */
	is_ready = qp->lost_count || packet_ready(qp, ring);
	is_asking = !is_ready && !qp->is_ack_asked && is_ack_missing(qp);
	if (is_asking || (is_ready && window_is_open(qp))) {
		__u32 psn = qp->lost_count ? oldest_lost(qp) : qp->next_psn - is_asking;
		struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
		struct mrc_work *work;

		/* One packet each of many QPs is not to leave on one plane. */
		if (!qp->inflight)
			qp->next_plane = paths->next_plane;
		ev = ev_select(qp, paths, usable_planes(control, qp),
			       qp->lost_count ? slot->path : -1, plan->now_ns,
			       &plan->news.restored_ev);
		if (ev < 0) {
			plan->news.is_blocked = 1;
			goto unsent;
		}
		if (!qp->inflight)
			paths->next_plane = qp->next_plane;
		if (is_asking) {
			slot->loss = MRC_LOSS_ACK;
			qp->is_ack_asked = 1;
		} else if (qp->lost_count) {
			ring_clear(qp->lost_bits, psn);
			qp->lost_count--;
			qp->overdue -= !!qp->overdue;
			if (slot->retransmissions < 255)
				slot->retransmissions++;
		} else {
			packet_take(qp, work_current(&qp->work, ring), slot, plan->now_ns);
			qp->next_psn++;
			qp->is_ack_asked = 0;
		}
		if (!qp->inflight)
			qp->progress_ns = plan->now_ns;
		if (!is_asking) {
			qp->inflight++;
			nscc_on_send(&qp->nscc, slot_nominal_bytes(slot));
			slot->sent_ns = plan->model_ns;
			qp->last_sent_ns = plan->now_ns;
			slot->acked_at_send = qp->acked_total;
			slot->window_packets = window_packets(qp);
			slot->order = qp->sent_order++;
			slot->ev_index = ev;
			ev_on(qp, &qp->evs[EV_INDEX(ev)]);
			slot->path = qp->evs[EV_INDEX(ev)].path;
			path_sent(qp, slot->path, psn);
		}

		work = &ring->entries[slot->work_index & (MRC_WORK_RING - 1)];
		plan->psn = psn;
		plan->entropy = qp->evs[EV_INDEX(ev)].entropy;
		plan->plane = qp->evs[EV_INDEX(ev)].plane;
		plan->local_offset = slot->local_offset;
		plan->remote_offset = slot->remote_offset;
		plan->length = slot->length;
		plan->msn = slot->msn;
		plan->rqmsn = slot->rqmsn;
		plan->opcode = slot->opcode;
		plan->loss = slot->loss;
		plan->immediate = work->immediate;
		plan->asks_sack = qp->asks_sack && (nscc_asks_sack(&qp->nscc, &qp->cc) ||
						    slot->opcode >= WIRE_WRITE_LAST);
		plan->r_key = work->r_key;
		plan->dmalen = work->length;
		plan->template_hi = qp->template_hi;
		plan->template_lo = qp->template_lo;
		plan->is_local = qp->is_local;
		plan->peer_host = qp->peer_host;
		plan->peer_qpn = qp->peer_qpn;
		is_planned = 1;
	}
unsent:
	work_settle(&qp->work, ring);
	work_finish(&qp->work, &plan->news.finished);
	if (is_credit_idle(qp, ring, plan->now_ns) && !plan->news.is_blocked && !qp->kick_asked) {
		qp->kick_asked = 1;
		plan->news.frames_wanted = frames_allowed(qp);
	}
	if (!qp->timer_armed && (qp->inflight || qp->is_ack_asked || plan->news.is_blocked)) {
		qp->timer_armed = 1;
		plan->news.is_clock_due = 1;
	}
	return is_planned;
}

static __always_inline void plan_report(__u32 qp_index, const struct plan_news *news)
{
	if (news->is_blocked)
		nic_count(MRC_NC_DROP_NO_EV, 1);
	if (news->is_drifted)
		nic_count(MRC_NC_CC_DRIFT, 1);
	if (news->is_clock_due)
		clock_start(qp_index);
	if (news->restored_ev >= 0)
		ev_counted(qp_index, news->restored_ev, MRC_EV_SKIP, MRC_EV_GOOD, MRC_REASON_TURN);
	if (news->frames_wanted)
		nic_event(MRC_EVENT_KICK, qp_index, news->frames_wanted, 0, 0);
	if (news->finished.is_finished)
		report_completion(qp_index, news->finished.index, news->finished.iterations);
}

/* plan_locked() for a caller that does not hold the lock. */
__noinline int plan_next(__u32 qp_index)
{
	struct mrc_qp *qp = qp_find(qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct mrc_nic_paths *paths = lookup0(&nic_paths);
	struct tx_plan *plan = lookup0(&tx_plans);
	int is_planned;

	if (!qp || !ring || !control || !paths || !plan)
		return 0;
	bpf_spin_lock(&qp->lock);
	is_planned = plan_locked(qp, ring, control, paths, plan);
	bpf_spin_unlock(&qp->lock);
	plan_report(qp_index, &plan->news);
	return is_planned;
}

/*
 * Makes the frame, whatever it held, the packet that was decided. Called by the program itself and
 * not by the handlers, whose stack it would share.
 */
__noinline int xmit_data(struct xdp_md *ctx)
{
	struct tx_plan *plan = lookup0(&tx_plans);
	struct tx_format format = {.stack_bytes = sizeof(struct wire_write)};
	struct wire_write *head;

	if (!plan)
		return XDP_DROP;
	format.head_bytes = write_header_bytes(plan->opcode);
	format.dscp = plan->loss ? MRC_DSCP_TRIMMABLE_RETX : MRC_DSCP_TRIMMABLE;
	format.flags_psn = (__u32)WIRE_BTH_TIMESTAMP << 24 | (plan->psn & WIRE_PSN_MASK);
	if (plan->loss)
		format.flags_psn |= (__u32)WIRE_BTH_RETRANSMISSION << 24;
	if (plan->asks_sack)
		format.flags_psn |= (__u32)WIRE_BTH_ACK_REQUEST << 24;
	head = tx_data_begin(ctx, plan, plan->plane, &format);
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	head->rqmsn = bpf_htons(plan->rqmsn);
	head->msn = bpf_htons(plan->msn);
	head->tx_timestamp = bpf_htons(plan->now_ns >> 7);
	head->timestamp_type = bpf_htons(WIRE_TIMESTAMP_128NS);
	head->va = bpf_cpu_to_be64(plan->remote_offset);
	head->r_key = bpf_htonl(plan->r_key);
	head->dmalen = bpf_htonl(plan->dmalen);
	return tx_data_end(ctx, plan, plan->plane, format.head_bytes,
			   format.head_bytes > sizeof(*head));
}

#endif

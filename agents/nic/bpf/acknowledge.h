/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the requestor learns: acknowledgements, losses, time-outs, refusals
 * (docs/protocol.md, "SACK processing" and "Loss").
 */
#ifndef MRC_ACKNOWLEDGE_H
#define MRC_ACKNOWLEDGE_H

#include <mrc/psn.h>
#include "ev_set.h"
#include "frame.h"
#include "nic_maps.h"

enum {
	SLIDE_STEPS = 4,
};

enum advance_result {
	ADVANCE_MORE = 1,     /* the edge may move further */
	ADVANCE_LOSS_DUE = 2, /* what was acknowledged may prove packets lost */
};

/* Under the lock: PSN `psn`, sent and not yet acknowledged, has arrived. */
static __always_inline void account_ack(struct mrc_qp *qp, __u32 psn, __u64 now_ns)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
	struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

	ring_set(qp->acked_bits, psn);
	qp->acked_total++;
	qp->acked_bytes += slot->length;
	if (ring_test(qp->lost_bits, psn)) {
		ring_clear(qp->lost_bits, psn);
		qp->lost_count--;
	} else {
		qp->inflight--;
		ev->outstanding--;
		ev->heard_acks = qp->acked_total;
	}
	qp->progress_ns = now_ns;
	qp->retries = 0;
}

static __always_inline int is_overdue(struct mrc_qp *qp, struct mrc_tx_slot *slot, __u64 now_ns,
				      __u32 reason)
{
	if (reason == MRC_REASON_TIMEOUT)
		return (__s64)(now_ns - slot->sent_ns) > (__s64)qp->rto_ns;
	return (__s32)(qp->acked_total - slot->acked_at_send) > (__s32)qp->loss_threshold_acks;
}

/* The PSN an entry of retx_fifo is about, in the window's terms. */
static __always_inline __u32 retx_psn(struct mrc_qp *qp, __u32 entry)
{
	return qp->una_psn + ((entry - qp->una_psn) & (MRC_PSN_RING - 1));
}

/* Whether an entry of retx_fifo still tells of a packet that is under way. */
static __always_inline int is_retx_current(struct mrc_qp *qp, __u32 entry, __u32 psn)
{
	return psn_distance(qp->next_psn, psn) > 0 &&
	       TX_SLOT(qp, psn)->retransmissions == entry >> 16 &&
	       !ring_test(qp->acked_bits, psn) && !ring_test(qp->lost_bits, psn);
}

/*
 * Under the lock: whether declare_loss() has something to look at: an overdue packet, or one that
 * both queues must be moved over, lest retx_fifo fill up.
 */
static __always_inline int is_loss_due(struct mrc_qp *qp)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, qp->scan_psn);
	__u32 entry, psn;

	if (qp->scan_psn != qp->next_psn &&
	    (ring_test(qp->acked_bits, qp->scan_psn) || slot->retransmissions ||
	     is_overdue(qp, slot, 0, MRC_REASON_LOSS)))
		return 1;
	if (qp->retx_head == qp->retx_tail)
		return 0;
	entry = qp->retx_fifo[qp->retx_head & (MRC_PSN_RING - 1)];
	psn = retx_psn(qp, entry);
	return !is_retx_current(qp, entry, psn) ||
	       is_overdue(qp, TX_SLOT(qp, psn), 0, MRC_REASON_LOSS);
}

/*
 * Declares at most one packet lost, if one is overdue, and takes its EV out of use. Returns 1 when
 * there may be more.
 */
__noinline int declare_loss(__u32 qp_index, __u32 reason, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 psn = 0, ev = 0, has_left = 0, is_lost = 0, is_more = 0;
	struct mrc_tx_slot *slot;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	for (int i = 0; i < 16; i++) {
		psn = qp->scan_psn;
		slot = TX_SLOT(qp, psn);
		if (psn == qp->next_psn)
			break;
		if (!ring_test(qp->acked_bits, psn) && !ring_test(qp->lost_bits, psn) &&
		    !slot->retransmissions) {
			is_lost = is_overdue(qp, slot, now_ns, reason);
			qp->scan_psn += is_lost;
			break;
		}
		qp->scan_psn = psn + 1;
		is_more = i == 15;
	}
	for (int i = 0; i < 16 && !is_lost; i++) {
		__u32 entry = qp->retx_fifo[qp->retx_head & (MRC_PSN_RING - 1)];

		if (qp->retx_head == qp->retx_tail)
			break;
		psn = retx_psn(qp, entry);
		if (is_retx_current(qp, entry, psn)) {
			is_lost = is_overdue(qp, TX_SLOT(qp, psn), now_ns, reason);
			qp->retx_head += is_lost;
			break;
		}
		qp->retx_head++;
		is_more = i == 15;
	}
	if (is_lost) {
		slot = TX_SLOT(qp, psn);
		ev = slot->ev_index;
		slot->is_timeout = reason == MRC_REASON_TIMEOUT;
		ring_set(qp->lost_bits, psn);
		qp->lost_count++;
		qp->inflight--;
		qp->evs[EV_INDEX(ev)].outstanding--;
		qp->evs[EV_INDEX(ev)].lost_packets++;
		has_left = ev_leave(qp, ev, reason, now_ns);
	}
	bpf_spin_unlock(&qp->lock);
	if (has_left)
		ev_changed(qp_index, ev, MRC_EV_GOOD, MRC_EV_ASSUMED_BAD, reason);
	return is_lost || is_more;
}

/*
 * Moves the left edge over what has arrived, up to the end of one message, which it completes.
 * Returns advance_result bits.
 */
__noinline int advance(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	__u32 is_complete = 0, finished = 0, finished_index = 0, iterations = 0, packets;
	__u32 result = ADVANCE_MORE;
	struct mrc_histogram *histogram;
	__u64 start_ns = 0, bytes;

	if (!qp || !ring)
		return 0;
	bpf_spin_lock(&qp->lock);
	packets = qp->acked_total;
	bytes = qp->acked_bytes;
	for (int i = 0; i < 64; i++) {
		__u32 una = qp->una_psn;
		struct mrc_tx_slot *slot = TX_SLOT(qp, una);

		if (una == qp->next_psn) {
			result = 0;
			break;
		}
		if (!ring_test(qp->acked_bits, una)) {
			if (psn_distance(qp->peer_cack_next, una) <= 0) {
				result = 0;
				break;
			}
			account_ack(qp, una, now_ns);
		}
		ring_clear(qp->acked_bits, una);
		qp->una_psn = una + 1;
		if (psn_distance(qp->scan_psn, una) <= 0)
			qp->scan_psn = una + 1;
		if (slot->opcode == WIRE_WRITE_LAST || slot->opcode == WIRE_WRITE_ONLY) {
			start_ns = qp->message_start_ns[slot->msn & (MRC_WORK_RING - 1)];
			qp->outstanding_messages--;
			qp->completed_iterations++;
			is_complete = 1;
			break;
		}
	}
	finished = work_finish(qp, &finished_index, &iterations);
	packets = qp->acked_total - packets;
	bytes = qp->acked_bytes - bytes;
	if (is_loss_due(qp))
		result |= ADVANCE_LOSS_DUE;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_ACKED_PACKETS, packets);
	nic_count(MRC_NC_ACKED_BYTES, bytes);
	if (is_complete) {
		nic_count(MRC_NC_MESSAGES, 1);
		histogram = lookup0(&message_histogram);
		if (histogram)
			histogram_add(histogram, now_ns - start_ns);
	}
	if (finished)
		report_completion(qp_index, ring, finished_index, iterations, MRC_STATUS_SUCCESS);
	return result;
}

/*
 * Under the lock: the common part of advance(): moves the left edge within a message, but not over
 * its end.
 */
static __always_inline void slide_within_message(struct mrc_qp *qp)
{
	for (int i = 0; i < SLIDE_STEPS; i++) {
		__u32 una = qp->una_psn;
		__u8 opcode = TX_SLOT(qp, una)->opcode;

		if (una == qp->next_psn || !ring_test(qp->acked_bits, una) ||
		    opcode == WIRE_WRITE_LAST || opcode == WIRE_WRITE_ONLY)
			break;
		ring_clear(qp->acked_bits, una);
		qp->una_psn = una + 1;
		if (psn_distance(qp->scan_psn, una) <= 0)
			qp->scan_psn = una + 1;
	}
}

/* A QP that cannot go on: what it had to do is reported as failed by the agent. */
static __always_inline void qp_fail(__u32 qp_index, __u32 from, __u32 status)
{
	nic_count(MRC_NC_QP_ERRORS, 1);
	nic_event(MRC_EVENT_QP_STATE, qp_index, from, MRC_QP_ERROR, (__u64)status << 32);
}

/*
 * A SACK: account for what arrived, then let this very frame carry the next packet. Returns a
 * verdict, or SEND_PLANNED.
 */
__noinline int on_sack(struct xdp_md *ctx)
{
	struct wire_sack *head = frame_exactly(ctx, sizeof(*head));
	struct tx_plan *plan = lookup0(&tx_plans);
	__u32 qp_index, cack, ack, base, plane = 0, is_due = 0, is_new_left = 0, is_stale = 0;
	__u32 packets = 0, is_retransmission, is_marked, is_settled = 0, is_planned = 0;
	struct mrc_nic_config *config = lookup0(&nic_config);
	__u32 random = bpf_get_prandom_u32();
	struct mrc_nic_counters *counters;
	struct mrc_histogram *histogram;
	struct mrc_work_ring *ring;
	struct plan_news news = {};
	__u64 bitmap, bytes = 0, now_ns, rtt_ns = 0;
	__s32 behind;
	struct mrc_qp *qp;

	if (!head || !plan || !config)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	if (!qp || !ring || !stack_is_from(&head->stack, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	cack = bpf_ntohl(head->cack_psn) & WIRE_PSN_MASK;
	ack = (__s16)bpf_ntohs(head->ack_psn_offset);
	base = (__s16)bpf_ntohs(head->sack_offset);
	bitmap = bpf_be64_to_cpu(head->bitmap);
	is_marked = bpf_ntohs(head->advice) & WIRE_SETH_SKIP_ONCE;
	is_retransmission = bpf_ntohl(head->stack.bth.flags_psn) & WIRE_BTH_RETRANSMISSION << 24;
	now_ns = bpf_ktime_get_ns();
	plan->now_ns = now_ns;
	plan->model_ns = frame_model_ns(ctx) ?: now_ns;

	bpf_spin_lock(&qp->lock);
	cack = psn_expand(qp->una_psn, cack);
	if (qp->state != MRC_QP_RTS || psn_distance(cack, qp->next_psn) >= 0) {
		is_stale = 1;
		goto unlock;
	}
	packets = qp->acked_total;
	bytes = qp->acked_bytes;
	if (psn_distance(cack + 1, qp->peer_cack_next) > 0)
		qp->peer_cack_next = cack + 1;
	ack += cack;
	base += cack;
	if (psn_distance(ack, qp->una_psn) >= 0 && psn_distance(ack, qp->next_psn) < 0 &&
	    !ring_test(qp->acked_bits, ack)) {
		struct mrc_tx_slot *slot = TX_SLOT(qp, ack);
		struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

		if (!slot->retransmissions && !is_retransmission) {
			rtt_ns = now_ns - slot->sent_ns;
			ev->rtt_ns = rtt_ns;
			plane = ev->plane;
		}
		if (is_marked)
			ev->marks++;
		account_ack(qp, ack, now_ns);
	}
	/* Arrivals whose own SACK was lost. */
	bitmap &= ~ring_window(qp->acked_bits, base);
	behind = psn_distance(qp->una_psn, base);
	if (behind > 0)
		bitmap = behind < 64 ? bitmap & ~0ULL << behind : 0;
	for (int i = 0; i < BITMAP_NEWS_PER_SACK && bitmap; i++) {
		__u32 psn = base + trailing_zeros(bitmap);

		if (psn_distance(psn, qp->next_psn) >= 0)
			break;
		bitmap &= bitmap - 1;
		account_ack(qp, psn, now_ns);
	}
	slide_within_message(qp);
	is_new_left = ring_test(qp->acked_bits, qp->una_psn) ||
		      psn_distance(qp->peer_cack_next, qp->una_psn) > 0;
	is_due = is_loss_due(qp);
	packets = qp->acked_total - packets;
	bytes = qp->acked_bytes - bytes;
	if (!is_new_left && !is_due) {
		is_settled = 1;
		is_planned = plan_locked(qp, ring, config, plan, random, &news);
	}
unlock:
	bpf_spin_unlock(&qp->lock);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_SACK);
	counters = lookup0(&nic_counters);
	if (counters) {
		counters->value[MRC_NC_RX_SACK] += 1;
		counters->value[MRC_NC_ACKED_PACKETS] += packets;
		counters->value[MRC_NC_ACKED_BYTES] += bytes;
	}
	if (rtt_ns) {
		histogram = bpf_map_lookup_elem(&rtt_histogram, &plane);
		if (histogram)
			histogram_add(histogram, rtt_ns);
	}
	if (is_settled) {
		plan_report(qp_index, ring, &news);
		return is_planned ? SEND_PLANNED : XDP_DROP;
	}
	for (int i = 0; is_new_left && i < COMPLETIONS_PER_SACK; i++) {
		int result = advance(qp_index, now_ns);

		is_new_left = result & ADVANCE_MORE;
		is_due = result & ADVANCE_LOSS_DUE;
	}
	for (int i = 0; is_due && i < LOSSES_PER_SACK; i++)
		is_due = declare_loss(qp_index, MRC_REASON_LOSS, now_ns);
	return plan_next(qp_index) ? SEND_PLANNED : XDP_DROP;
}

/* A transport NAK: the QP's work fails (docs/protocol.md, "AETH"). */
__noinline int on_acknowledge(struct xdp_md *ctx)
{
	struct wire_acknowledge *head = frame_exactly(ctx, sizeof(*head));
	__u32 qp_index, from, syndrome;
	struct mrc_qp *qp;

	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	syndrome = bpf_ntohl(head->syndrome_msn) >> 24;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_from(&head->stack, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	if (syndrome != WIRE_AETH_NAK_REMOTE_ACCESS)
		return nic_drop(MRC_NC_DROP_OPCODE);
	bpf_spin_lock(&qp->lock);
	from = qp->state;
	if (from == MRC_QP_RTS)
		qp->state = MRC_QP_ERROR;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_NAK, 1);
	if (from == MRC_QP_RTS)
		qp_fail(qp_index, from, MRC_STATUS_REMOTE_ACCESS);
	return XDP_DROP;
}

#endif

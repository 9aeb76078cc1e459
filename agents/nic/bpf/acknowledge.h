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
	PROBE_ID_MASK = 0xffff,
	SLIDE_STEPS = 4,
	ADVANCE_STEPS = 16,
	LOSS_STEPS = 8,
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
	__u32 psn = 0, ev = 0, left = 0, is_lost = 0, is_more = 0;
	struct mrc_tx_slot *slot;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	for (int i = 0; i < LOSS_STEPS; i++) {
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
		is_more = i == LOSS_STEPS - 1;
	}
	for (int i = 0; i < LOSS_STEPS && !is_lost; i++) {
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
		is_more = i == LOSS_STEPS - 1;
	}
	if (is_lost) {
		slot = TX_SLOT(qp, psn);
		ev = slot->ev_index;
		slot->loss = reason == MRC_REASON_TIMEOUT ? MRC_LOSS_TIMEOUT : MRC_LOSS_SACK;
		ring_set(qp->lost_bits, psn);
		qp->lost_count++;
		qp->inflight--;
		qp->evs[EV_INDEX(ev)].outstanding--;
		qp->evs[EV_INDEX(ev)].lost_packets++;
		left = ev_leave(qp, ev, reason, now_ns);
	}
	bpf_spin_unlock(&qp->lock);
	if (left)
		ev_changed(qp_index, ev, left, MRC_EV_ASSUMED_BAD, reason);
	return is_lost || is_more;
}

/* Messages that a transport ACK tells of and that have not been completed yet. */
static __always_inline __u32 messages_to_complete(const struct mrc_qp *qp)
{
	return (__u16)(qp->acked_msn - qp->done_msn);
}

/*
 * Moves the left edge over what has arrived, and completes one message that has been acknowledged.
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
	for (int i = 0; i < ADVANCE_STEPS; i++) {
		__u32 una = qp->una_psn;

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
	}
	if (messages_to_complete(qp)) {
		__u32 msn = qp->done_msn++;

		start_ns = qp->message_start_ns[msn & (MRC_WORK_RING - 1)];
		qp->outstanding_messages--;
		qp->completed_iterations++;
		qp->retries = 0;
		qp->is_ack_asked = 0;
		qp->progress_ns = now_ns;
		qp->outstanding_wimm -= qp->wimm_messages >> (msn & 63) & 1;
		qp->wimm_messages &= ~(1ULL << (msn & 63));
		is_complete = 1;
		if (messages_to_complete(qp))
			result |= ADVANCE_MORE;
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

/* Under the lock: the common part of advance(): moves the left edge over what is known to be there.
 */
static __always_inline void slide(struct mrc_qp *qp)
{
	for (int i = 0; i < SLIDE_STEPS; i++) {
		__u32 una = qp->una_psn;

		if (una == qp->next_psn || !ring_test(qp->acked_bits, una))
			break;
		ring_clear(qp->acked_bits, una);
		qp->una_psn = una + 1;
		if (psn_distance(qp->scan_psn, una) <= 0)
			qp->scan_psn = una + 1;
	}
}

/* What a handler that returned SETTLE_FIRST leaves to be done; then whether a packet is planned. */
static __always_inline int settle(const struct tx_plan *plan)
{
	__u32 qp_index = plan->qp_index, result = ADVANCE_MORE, is_due = plan->is_loss_due;
	__u64 now_ns = plan->now_ns;

	for (int i = 0; result & ADVANCE_MORE && i < COMPLETIONS_PER_SACK; i++) {
		result = advance(qp_index, now_ns);
		is_due = result & ADVANCE_LOSS_DUE;
	}
	for (int i = 0; is_due && i < LOSSES_PER_SACK; i++)
		is_due = declare_loss(qp_index, MRC_REASON_LOSS, now_ns);
	return plan_next(qp_index);
}

/*
 * An answer to a probe. An EV probe is one success of several that an EV needs to return; a
 * reliability probe, which went the way of data, brings it back at once, to SKIP if it was marked.
 * Returns 0 when there is no such probe; `entropy` is that of a SACK alone.
 */
__noinline int probe_answered(__u32 id, __u32 kind, __u32 qp_index, __u32 entropy, __u32 is_marked)
{
	__u32 slot = id & (MRC_PROBE_RING - 1), ev_index, to, has_returned = 0, mask;
	struct mrc_probe *probe = bpf_map_lookup_elem(&probes, &slot);
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_qp *qp;
	struct mrc_ev *ev;

	if (!probe || probe->probe_id != id)
		return 0;
	if (kind == MRC_PROBE_RELIABILITY
		? probe->kind != MRC_PROBE_RELIABILITY || probe->qp_index != qp_index
		: probe->kind == MRC_PROBE_RELIABILITY)
		return 0;
	qp_index = probe->qp_index;
	ev_index = EV_INDEX(probe->ev_index);
	kind = probe->kind;
	mask = probe->port_status_mask;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || (kind == MRC_PROBE_RELIABILITY && qp->evs[ev_index].entropy != entropy) ||
	    !__sync_lock_test_and_set(&probe->is_pending, 0))
		return 0;
	ev = &qp->evs[ev_index];
	to = kind == MRC_PROBE_RELIABILITY && is_marked ? MRC_EV_SKIP : MRC_EV_GOOD;
	bpf_spin_lock(&qp->lock);
	ev->is_probe_pending = 0;
	ev->rtt_ns = now_ns - probe->sent_ns;
	if (ev->state == MRC_EV_ASSUMED_BAD) {
		if (ev->probe_successes < 255)
			ev->probe_successes++;
		if (kind == MRC_PROBE_RELIABILITY ||
		    ev->probe_successes >= qp->probe_success_target)
			has_returned = ev_return(qp, ev_index, MRC_EV_ASSUMED_BAD, to,
						 MRC_REASON_PROBE, now_ns);
	}
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_PROBE_ANSWER, 1);
	if (has_returned)
		ev_changed(qp_index, ev_index, MRC_EV_ASSUMED_BAD, to, MRC_REASON_PROBE);
	if (kind == MRC_PROBE_PORT_STATUS)
		nic_event(MRC_EVENT_PORT_STATUS, qp_index, mask, 0, 0);
	return 1;
}

/* The peer advises against an EV for good. */
static __noinline int shun(__u32 qp_index, __u32 ev, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 from;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	from = ev_leave(qp, ev, MRC_REASON_ADVICE, now_ns);
	bpf_spin_unlock(&qp->lock);
	if (from)
		ev_changed(qp_index, ev, from, MRC_EV_ASSUMED_BAD, MRC_REASON_ADVICE);
	return 0;
}

/* A QP that cannot go on: what it had to do is reported as failed by the agent. */
static __always_inline void qp_fail(__u32 qp_index, __u32 from, __u32 status)
{
	nic_count(MRC_NC_QP_ERRORS, 1);
	nic_event(MRC_EVENT_QP_STATE, qp_index, from, MRC_QP_ERROR, (__u64)status << 32);
}

/*
 * A SACK: account for what arrived, then let this very frame carry the next packet. Returns a
 * verdict, SEND_PLANNED or SETTLE_FIRST.
 */
__noinline int on_sack(struct xdp_md *ctx)
{
	struct wire_sack *head = frame_exactly(ctx, sizeof(*head));
	struct tx_plan *plan = lookup0(&tx_plans);
	__u32 qp_index, cack, ack, base, plane = 0, is_due = 0, is_new_left = 0, is_stale = 0;
	__u32 packets = 0, is_retransmission, advice, entropy, is_settled = 0, is_planned = 0;
	__u32 is_probe, probe_id;
	__u32 marked_ev = 0, is_marked = 0;
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
	is_probe = bpf_ntohs(head->advice) & WIRE_SETH_ANSWERS_PROBE;
	probe_id = ack & PROBE_ID_MASK;
	advice = bpf_ntohs(head->advice) & WIRE_SETH_ADVICE_MASK;
	entropy = bpf_ntohl(head->entropy);
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
	/* In a probe's answer the field is the probe's id, and no PSN caused it. */
	ack = is_probe ? qp->una_psn - 1 : ack + cack;
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
		account_ack(qp, ack, now_ns);
	}
	/* The slot is still there even if another SACK told of the packet first. */
	if (advice && !is_probe && advice != WIRE_SETH_ADVICE_MASK &&
	    qp->next_psn - ack - 1 < MRC_PSN_RING) {
		struct mrc_ev *ev;

		marked_ev = TX_SLOT(qp, ack)->ev_index;
		ev = &qp->evs[EV_INDEX(marked_ev)];
		if (ev->entropy == entropy) {
			ev->marks++;
			is_marked =
			    advice == WIRE_SETH_ALWAYS_SKIP || ev_skip(ev, MRC_REASON_ECN, now_ns);
		}
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
	slide(qp);
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
	if (is_marked && advice == WIRE_SETH_ALWAYS_SKIP)
		shun(qp_index, marked_ev, now_ns);
	else if (is_marked)
		ev_counted(qp_index, marked_ev, MRC_EV_GOOD, MRC_EV_SKIP, MRC_REASON_ECN);
	if (is_probe)
		probe_answered(probe_id, MRC_PROBE_RELIABILITY, qp_index, entropy,
			       advice == WIRE_SETH_SKIP_ONCE);
	if (is_settled) {
		plan_report(qp_index, ring, &news);
		return is_planned ? SEND_PLANNED : XDP_DROP;
	}
	plan->qp_index = qp_index;
	plan->is_loss_due = is_due;
	return SETTLE_FIRST;
}

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

/* The responder refuses a message: the QP's work fails (docs/protocol.md, "AETH"). */
static __noinline int on_nak(__u32 qp_index, __u32 syndrome)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 from, status = MRC_STATUS_REMOTE_OPERATION;

	if (!qp)
		return XDP_DROP;
	bpf_spin_lock(&qp->lock);
	from = qp_to_error(qp);
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_NAK, 1);
	if (syndrome == WIRE_AETH_NAK_INVALID_REQUEST)
		status = MRC_STATUS_REMOTE_INVALID_REQUEST;
	else if (syndrome == WIRE_AETH_NAK_REMOTE_ACCESS)
		status = MRC_STATUS_REMOTE_ACCESS;
	if (from != MRC_QP_ERROR)
		qp_fail(qp_index, from, status);
	return XDP_DROP;
}

/*
 * A transport ACK: completes messages. It stands for the SACK of the packet that completed the last
 * of them, so it acknowledges everything up to that message's end, and its own EV is the one that
 * packet came by (docs/protocol.md, "Transport acknowledgement"). Returns a verdict or
 * SETTLE_FIRST.
 */
__noinline int on_acknowledge(struct xdp_md *ctx)
{
	struct wire_acknowledge *head = frame_exactly(ctx, sizeof(*head));
	__u32 qp_index, syndrome, psn, msn, entropy, plane = 0, is_stale, is_due = 0;
	struct tx_plan *plan = lookup0(&tx_plans);
	__u64 now_ns, rtt_ns = 0;
	struct mrc_histogram *histogram;
	struct mrc_qp *qp;

	if (!head || !plan)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_from(&head->stack, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	msn = bpf_ntohl(head->syndrome_msn);
	syndrome = msn >> 24;
	if (syndrome >= WIRE_AETH_NAK_INVALID_REQUEST && syndrome <= WIRE_AETH_NAK_REMOTE_OPERATION)
		return on_nak(qp_index, syndrome);
	if (syndrome & WIRE_AETH_KIND_MASK)
		return nic_drop(MRC_NC_DROP_OPCODE);
	psn = bpf_ntohl(head->stack.bth.flags_psn) & WIRE_PSN_MASK;
	entropy = stack_entropy(&head->stack);
	now_ns = bpf_ktime_get_ns();
	plan->now_ns = now_ns;
	plan->model_ns = frame_model_ns(ctx) ?: now_ns;

	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->una_psn, psn);
	is_stale = qp->state != MRC_QP_RTS || psn_distance(psn, qp->next_psn) >= 0 ||
		   qp->next_psn - psn > MRC_PSN_RING ||
		   (__u16)(TX_SLOT(qp, psn)->msn + 1) != (__u16)msn;
	if (!is_stale) {
		if (psn_distance(psn, qp->una_psn) >= 0 && !ring_test(qp->acked_bits, psn)) {
			struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
			struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

			if (!slot->retransmissions && ev->entropy == entropy) {
				rtt_ns = now_ns - slot->sent_ns;
				ev->rtt_ns = rtt_ns;
				plane = ev->plane;
			}
		}
		if (psn_distance(psn + 1, qp->peer_cack_next) > 0)
			qp->peer_cack_next = psn + 1;
		if ((__s16)(msn - qp->acked_msn) > 0)
			qp->acked_msn = msn & 0xffff;
		is_due = is_loss_due(qp);
	}
	bpf_spin_unlock(&qp->lock);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_ACK);
	nic_count(MRC_NC_RX_ACK, 1);
	if (rtt_ns) {
		histogram = bpf_map_lookup_elem(&rtt_histogram, &plane);
		if (histogram)
			histogram_add(histogram, rtt_ns);
	}
	plan->qp_index = qp_index;
	plan->is_loss_due = is_due;
	return SETTLE_FIRST;
}

/*
 * The responder refuses one packet: it is sent again at once, on another EV (docs/protocol.md,
 * "NETH"). Returns a verdict or SETTLE_FIRST.
 */
__noinline int on_nack(struct xdp_md *ctx)
{
	struct wire_nack *head = frame_exactly(ctx, sizeof(*head));
	__u32 qp_index, psn, entropy, reason, ev_index = 0, status = MRC_STATUS_RETRY_EXCEEDED;
	__u32 is_stale = 1, is_skipped = 0, from = MRC_QP_ERROR, is_trim;
	struct tx_plan *plan = lookup0(&tx_plans);
	struct mrc_qp *qp;
	__u64 now_ns;

	if (!head || !plan)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_from(&head->stack, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	psn = bpf_ntohl(head->psn) & WIRE_PSN_MASK;
	entropy = bpf_ntohl(head->entropy);
	reason = head->reason;
	is_trim = reason == WIRE_NACK_TRIMMED || reason == WIRE_NACK_TRIMMED_LASTHOP;
	now_ns = bpf_ktime_get_ns();
	plan->now_ns = now_ns;
	plan->model_ns = frame_model_ns(ctx) ?: now_ns;
	plan->qp_index = qp_index;

	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->una_psn, psn);
	if (qp->state == MRC_QP_RTS && psn_distance(psn, qp->una_psn) >= 0 &&
	    psn_distance(psn, qp->next_psn) < 0 && !ring_test(qp->acked_bits, psn) &&
	    !ring_test(qp->lost_bits, psn)) {
		struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
		struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

		/* Unless it is about an earlier transmission of the packet. */
		is_stale = ev->entropy != entropy;
		if (!is_stale) {
			ev_index = slot->ev_index;
			slot->loss = MRC_LOSS_NACK;
			ring_set(qp->lost_bits, psn);
			qp->lost_count++;
			qp->inflight--;
			ev->outstanding--;
			ev->heard_acks = qp->acked_total;
			if (reason == WIRE_NACK_TRIMMED)
				is_skipped = ev_skip(ev, MRC_REASON_TRIM, now_ns);
		}
		if (reason == WIRE_NACK_NO_BITMAP || reason == WIRE_NACK_NO_PKT_BUFFER ||
		    reason == WIRE_NACK_NO_RESOURCE) {
			qp->retries += !is_stale;
			if (qp->retries > qp->retry_limit)
				from = qp_to_error(qp);
		} else if (!is_trim && reason != WIRE_NACK_PSN_OOR_WINDOW) {
			status = MRC_STATUS_REMOTE_OPERATION;
			from = qp_to_error(qp);
		}
	}
	plan->is_loss_due = is_loss_due(qp);
	bpf_spin_unlock(&qp->lock);
	if (from != MRC_QP_ERROR)
		qp_fail(qp_index, from, status);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_NACK);
	nic_count(MRC_NC_RX_NACK, 1);
	if (is_skipped)
		ev_counted(qp_index, ev_index, MRC_EV_GOOD, MRC_EV_SKIP, MRC_REASON_TRIM);
	return SETTLE_FIRST;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The completer: what acknowledgements do to a QP, whichever packet brings them: the left edge,
 * messages completed, and the next packet (docs/reference/protocol.md, "SACK processing").
 */
#ifndef MRC_COMP_H
#define MRC_COMP_H

#include <mrc/psn.h>
#include "cc.h"
#include "ev.h"
#include "nic_maps.h"
#include "packet.h"
#include "qp.h"
#include "recovery.h"
#include "req.h"
#include "work.h"

enum {
	UNA_STEPS = 4,
	COMPLETE_STEPS = 16,
};

/* Under the lock: whether PSN `psn` has been sent, and not yet been acknowledged. */
static __always_inline int is_outstanding(const struct mrc_qp *qp, __u32 psn)
{
	return psn_distance(psn, qp->comp.una_psn) >= 0 &&
	       psn_distance(psn, qp->req.next_psn) < 0 && !ring_test(qp->comp.acked_bits, psn);
}

/* Under the lock: PSN `psn`, which is in flight, has arrived. */
static __always_inline void on_packet_acked(struct mrc_qp *qp, __u32 psn, __u64 now_ns)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
	struct mrc_ev *ev = EV(qp, slot->ev_index);
	__u32 is_lost = ring_test(qp->req.lost_bits, psn),
	      is_held = ring_test(qp->req.held_bits, psn);

	TRACE_QP(MRC_TRACE_ACKED, qp, .psn = psn, .time_ns = now_ns, .start_ns = slot->sent_ns,
		 .entropy = ev->entropy);
	ring_set(qp->comp.acked_bits, psn);
	rack_update(qp, slot);
	qp->comp.acked_total++;
	qp->comp.acked_bytes += slot->length;
	qp->comp.acked_nominal_bytes += slot_nominal_bytes(slot);
	if (is_lost | is_held) {
		ring_clear(qp->req.lost_bits, psn);
		ring_clear(qp->req.held_bits, psn);
		qp->req.lost_count -= is_lost;
		qp->req.held_count -= is_held;
		cc_on_false_loss(&qp->cc, slot_nominal_bytes(slot));
	} else {
		qp->req.inflight--;
		ev_packet_done(qp, ev);
		path_unlink(qp, slot->path, psn);
	}
	path_acked(qp, slot->path);
	qp->comp.is_tlp_due = 0;
	qp->comp.tlp_count = 0;
	qp->req.rto_retx_left = 0;
	qp->head.progress_ns = now_ns;
	qp->head.retries = 0;
}

/* Messages that a transport ACK covers and that are not complete yet. */
static __always_inline __u32 messages_to_complete(const struct mrc_qp *qp)
{
	return (__u16)(qp->comp.acked_msn - qp->req.work.done_msn);
}

/*
 * Moves the left edge over what has arrived, completes one message that has been acknowledged, and
 * says in tx_descs whether losses are due. Returns whether there is more of it to do.
 */
__noinline int complete_acked(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct tx_desc *desc = lookup0(&tx_descs);
	__u32 is_complete = 0, packets, is_more = 1;
	struct reaped_work reaped;
	__u64 start_ns = 0, bytes;

	if (!qp || !ring || !desc)
		return 0;
	bpf_spin_lock(&qp->lock);
	packets = qp->comp.acked_total;
	bytes = qp->comp.acked_bytes;
	for (int i = 0; i < COMPLETE_STEPS; i++) {
		__u32 una = qp->comp.una_psn;

		if (una == qp->req.next_psn) {
			is_more = 0;
			break;
		}
		if (!ring_test(qp->comp.acked_bits, una)) {
			if (psn_distance(qp->comp.peer_cack_next, una) <= 0) {
				is_more = 0;
				break;
			}
			on_packet_acked(qp, una, now_ns);
		}
		ring_clear(qp->comp.acked_bits, una);
		qp->comp.una_psn = una + 1;
	}
	if (messages_to_complete(qp)) {
		__u32 msn = qp->req.work.done_msn, has_immediate;

		start_ns = work_complete(&qp->req.work);
		TRACE_QP(MRC_TRACE_COMPLETED, qp, .psn = msn, .time_ns = now_ns,
			 .start_ns = start_ns, .entropy = qp->head.peer_qpn);
		qp->head.retries = 0;
		qp->req.is_ack_requested = 0;
		qp->head.progress_ns = now_ns;
		has_immediate = qp->req.wimm_messages >> (msn & 63) & 1;
		qp->req.outstanding_wimm -= has_immediate;
		qp->head.rnr_retries &= has_immediate - 1; /* 0: there was a receive for it */
		qp->req.wimm_messages &= ~(1ULL << (msn & 63));
		is_complete = 1;
		if (messages_to_complete(qp))
			is_more = 1;
	}
	work_reap(&qp->req.work, &reaped);
	packets = qp->comp.acked_total - packets;
	bytes = qp->comp.acked_bytes - bytes;
	desc->is_loss_due = is_loss_due(qp, now_ns);
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_ACKED_PACKETS, packets);
	nic_count(MRC_NC_ACKED_BYTES, bytes);
	if (is_complete) {
		nic_count(MRC_NC_MESSAGES, 1);
		nic_record(&message_histogram, 0, now_ns - start_ns);
	}
	if (reaped.is_finished)
		report_completion(qp_index, reaped.index, reaped.iterations);
	return is_more;
}

/* Under the lock: the common part of complete_acked(): moves the left edge over what is known to be
 * there.
 */
static __always_inline void advance_una(struct mrc_qp *qp)
{
	for (int i = 0; i < UNA_STEPS; i++) {
		__u32 una = qp->comp.una_psn;

		if (una == qp->req.next_psn || !ring_test(qp->comp.acked_bits, una))
			break;
		ring_clear(qp->comp.acked_bits, una);
		qp->comp.una_psn = una + 1;
	}
}

/* Accounts for arrivals in a SACK's bitmap whose own SACK has not come. */
__noinline int process_sack_bitmap(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct sack_ctx *sack = lookup0(&sack_ctxs);
	__u64 bytes;
	__u32 packets;

	if (!qp || !sack)
		return 0;
	bpf_spin_lock(&qp->lock);
	packets = qp->comp.acked_total;
	bytes = qp->comp.acked_bytes;
	for (int i = 0; i < NEW_BITS_PER_SACK && sack->new_bits; i++) {
		__u32 psn = sack->base + trailing_zeros(sack->new_bits);

		sack->new_bits &= sack->new_bits - 1;
		/* Another CPU may have processed it in the meantime. */
		if (is_outstanding(qp, psn))
			on_packet_acked(qp, psn, now_ns);
	}
	packets = qp->comp.acked_total - packets;
	bytes = qp->comp.acked_bytes - bytes;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_ACKED_PACKETS, packets);
	nic_count(MRC_NC_ACKED_BYTES, bytes);
	return 0;
}

/* MRC_STAGE_COMPLETE: each step in a lock section of its own. */
static __always_inline int stage_complete(const struct tx_desc *desc)
{
	__u32 qp_index = desc->qp_index;
	struct sack_ctx *sack = lookup0(&sack_ctxs);
	__u64 now_ns = desc->now_ns;

	if (!sack)
		return XDP_DROP;
	if (desc->is_packet_decided) {
		run_deferred(qp_index, &desc->deferred);
		return desc->has_packet ? MRC_STAGE_SEND_DATA : XDP_DROP;
	}
	if (desc->cause == ACK_KIND_SACK && sack->new_bits)
		process_sack_bitmap(qp_index, now_ns);
	for (int i = 0; i < COMPLETIONS_PER_SACK; i++) {
		if (!complete_acked(qp_index, now_ns))
			break;
	}
	if (desc->cause == ACK_KIND_ACK)
		cc_on_transport_ack(qp_index, desc->model_ns, desc->ack_rtt_ns);
	if (desc->cause != ACK_KIND_NACK && sack->is_tlp_ack)
		tlp_process_ack(qp_index, now_ns);
	return MRC_STAGE_DETECT_LOSS;
}

/* MRC_STAGE_DETECT_LOSS, likewise. */
static __always_inline int stage_detect_loss(const struct tx_desc *desc)
{
	__u32 qp_index = desc->qp_index, is_due, is_overtaken;
	struct sack_ctx *sack = lookup0(&sack_ctxs);
	__u64 now_ns = desc->now_ns;

	if (!sack)
		return XDP_DROP;
	is_overtaken = desc->cause == ACK_KIND_SACK && sack->is_overtaken;
	is_due = desc->is_loss_due | is_overtaken; /* a loss changes which path has its turn */
	for (__u32 i = 0; is_overtaken && i < LOSSES_PER_SACK; i++)
		is_overtaken = detect_overtaken(qp_index, i, now_ns);
	for (int i = 0; is_due && i < LOSSES_PER_SACK; i++)
		is_due = rack_detect_loss(qp_index, MRC_REASON_LOSS, now_ns);
	return MRC_STAGE_NEXT_PACKET;
}

/*
 * The responder refuses a message: the QP's work fails (docs/reference/protocol.md, "AETH"). Only
 * the packet that is refused can say so: one of that PSN and message is in flight.
 */
static __noinline int on_nak(__u32 qp_index, __u32 psn, __u32 syndrome, __u32 msn)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 from = MRC_QP_ERROR, status = MRC_STATUS_REMOTE_OPERATION, is_stale;

	if (!qp)
		return XDP_DROP;
	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->comp.una_psn, psn);
	is_stale = qp->state != MRC_QP_RTS || !is_outstanding(qp, psn) ||
		   TX_SLOT(qp, psn)->msn != (__u16)msn;
	if (!is_stale)
		from = qp_to_error(qp);
	bpf_spin_unlock(&qp->lock);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_ACK);
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
 * packet came by (docs/reference/protocol.md, "Transport acknowledgement"). Returns a stage.
 */
__noinline int on_ack(struct xdp_md *ctx)
{
	struct wire_acknowledge *head = frame_exactly(ctx, sizeof(*head));
	__u32 qp_index, syndrome, psn, msn, is_retransmission, plane = 0, is_stale;
	struct sack_ctx *sack = lookup0(&sack_ctxs);
	struct tx_desc *desc = lookup0(&tx_descs);
	__u64 now_ns, rtt_ns = 0;
	struct mrc_qp *qp;

	if (!head || !desc || !sack)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_for(&head->stack, &qp->head))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	psn = bpf_ntohl(head->stack.bth.flags_psn) & WIRE_PSN_MASK;
	msn = bpf_ntohl(head->syndrome_msn);
	syndrome = msn >> 24;
	if (syndrome >= WIRE_AETH_NAK_INVALID_REQUEST && syndrome <= WIRE_AETH_NAK_REMOTE_OPERATION)
		return on_nak(qp_index, psn, syndrome, msn);
	if (syndrome & WIRE_AETH_KIND_MASK)
		return nic_drop(MRC_NC_DROP_OPCODE);
	is_retransmission = bpf_ntohl(head->stack.bth.flags_psn) & (__u32)WIRE_BTH_RETRANSMISSION
								       << 24;
	now_ns = bpf_ktime_get_ns();
	desc->now_ns = now_ns;
	desc->model_ns = frame_model_ns(ctx) ?: now_ns;
	desc->ack_rtt_ns = 0;
	sack->is_tlp_ack = 0;

	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->comp.una_psn, psn);
	is_stale = qp->state != MRC_QP_RTS || psn_distance(psn, qp->req.next_psn) >= 0 ||
		   qp->req.next_psn - psn > MRC_PSN_RING ||
		   TX_SLOT(qp, psn)->opcode < WIRE_WRITE_LAST ||
		   (__u16)(TX_SLOT(qp, psn)->msn + 1) != (__u16)msn;
	if (!is_stale) {
		if (psn_distance(psn, qp->comp.una_psn) >= 0 &&
		    !ring_test(qp->comp.acked_bits, psn)) {
			struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
			struct mrc_ev *ev = EV(qp, slot->ev_index);

			if (!slot->retransmissions && !is_retransmission) {
				rtt_ns = now_ns - slot->sent_ns;
				desc->ack_rtt_ns =
				    full_packet_rtt_ns(qp, slot, sizeof(struct wire_acknowledge),
						       desc->model_ns - slot->sent_ns);
				rtt_update(qp, slot, now_ns);
				plane = ev->plane;
			}
			if (slot->retransmissions && !is_retransmission)
				rack_update_reo_wnd(qp, 1);
			sack->is_tlp_ack = is_retransmission && slot->loss == MRC_LOSS_TLP;
		}
		if (psn_distance(psn + 1, qp->comp.peer_cack_next) > 0)
			qp->comp.peer_cack_next = psn + 1;
		if ((__s16)(msn - qp->comp.acked_msn) > 0)
			qp->comp.acked_msn = msn & 0xffff;
		desc->is_loss_due = is_loss_due(qp, now_ns);
	}
	bpf_spin_unlock(&qp->lock);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_ACK);
	nic_count(MRC_NC_RX_ACK, 1);
	if (rtt_ns)
		nic_record(&rtt_histogram, plane, rtt_ns);
	desc->qp_index = qp_index;
	desc->cause = ACK_KIND_ACK;
	desc->is_packet_decided = 0;
	return MRC_STAGE_COMPLETE;
}

/*
 * Under the lock: a packet that found no receive waits for the RNR timer, and others go on. All
 * that come back while one waits are one retry. Returns whether that was one too many.
 */
static __always_inline int hold_for_receive(struct mrc_qp *qp, __u32 psn, __u64 now_ns)
{
	if (!qp->req.held_count) {
		qp->head.rnr_until_ns = now_ns + qp->head.rnr_timer_ns;
		qp->head.rnr_retries++;
	}
	ring_set(qp->req.held_bits, psn);
	qp->req.held_count++;
	return qp->head.rnr_limit < MRC_RNR_FOREVER && qp->head.rnr_retries > qp->head.rnr_limit;
}

/*
 * Under the lock: what a NACK says of the QP, whose packet it is about unless it is stale. Returns
 * the state that the QP leaves for ERROR, with *status, or MRC_QP_ERROR.
 */
static __always_inline __u32 nack_judge_qp(struct mrc_qp *qp, __u32 reason, int is_stale,
					   int is_rnr_over, __u64 now_ns, __u32 *status)
{
	int is_over = reason != WIRE_NACK_TRIMMED && reason != WIRE_NACK_TRIMMED_LASTHOP &&
		      reason != WIRE_NACK_PSN_OOR_WINDOW;

	*status = MRC_STATUS_REMOTE_OPERATION;
	if (reason == WIRE_NACK_NO_BITMAP || reason == WIRE_NACK_NO_PKT_BUFFER) {
		*status = MRC_STATUS_RETRY_EXCEEDED;
		if (!is_stale)
			qp_count_retry(&qp->head);
		is_over = qp_is_given_up(&qp->head, now_ns);
	} else if (reason == WIRE_NACK_NO_RESOURCE) {
		*status = MRC_STATUS_RNR_RETRY_EXCEEDED;
		qp->head.retries = 0; /* the peer lives; packets in flight may time out */
		is_over = is_rnr_over;
	}
	return is_over ? qp_to_error(qp) : MRC_QP_ERROR;
}

/*
 * The responder refuses one packet: it is sent again at once, on another EV, or when there may be a
 * receive for it (docs/reference/protocol.md, "NETH"). Returns a stage.
 */
__noinline int on_nack(struct xdp_md *ctx)
{
	struct wire_nack *head = frame_exactly(ctx, sizeof(*head));
	__u32 qp_index, psn, entropy, reason, ev_index = 0, status = 0;
	__u32 is_stale = 1, is_skipped = 0, is_rnr_over = 0, from = MRC_QP_ERROR, is_trim;
	__u32 cwnd_change = MRC_CC_NONE;
	struct tx_desc *desc = lookup0(&tx_descs);
	struct mrc_qp *qp;
	__u64 now_ns;

	if (!head || !desc)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_for(&head->stack, &qp->head))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	psn = bpf_ntohl(head->psn) & WIRE_PSN_MASK;
	entropy = bpf_ntohl(head->entropy);
	reason = head->reason;
	is_trim = reason == WIRE_NACK_TRIMMED || reason == WIRE_NACK_TRIMMED_LASTHOP;
	now_ns = bpf_ktime_get_ns();
	desc->now_ns = now_ns;
	desc->model_ns = frame_model_ns(ctx) ?: now_ns;
	desc->qp_index = qp_index;
	desc->cause = ACK_KIND_NACK;
	desc->is_packet_decided = 0;

	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->comp.una_psn, psn);
	if (qp->state == MRC_QP_RTS && is_outstanding(qp, psn) &&
	    !ring_test(qp->req.lost_bits, psn) && !ring_test(qp->req.held_bits, psn)) {
		struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
		struct mrc_ev *ev = EV(qp, slot->ev_index);

		/* Unless it is about an earlier transmission of the packet. */
		is_stale = ev->entropy != entropy;
		if (!is_stale) {
			ev_index = slot->ev_index;
			if (slot->loss == MRC_LOSS_TLP)
				qp->comp.tlp_count = 0; /* the probe is acknowledged */
			TRACE_QP(MRC_TRACE_DECLARED, qp, .psn = psn, .time_ns = now_ns,
				 .start_ns = slot->sent_ns, .entropy = entropy,
				 .what = MRC_RULE_NACK);
			slot->loss = MRC_LOSS_NACK;
			if (reason == WIRE_NACK_NO_RESOURCE) {
				is_rnr_over = hold_for_receive(qp, psn, now_ns);
			} else {
				ring_set(qp->req.lost_bits, psn);
				qp->req.lost_count++;
			}
			qp->req.inflight--;
			cwnd_change = cc_on_nack(&qp->cc, &qp->cc_parameters, desc->model_ns,
						 slot_nominal_bytes(slot), is_trim);
			ev_packet_done(qp, ev);
			path_unlink(qp, slot->path, psn);
			path_acked(qp, slot->path);
			if (reason == WIRE_NACK_TRIMMED)
				is_skipped = ev_skip(qp, ev_index, MRC_REASON_TRIM, now_ns);
		}
		from = nack_judge_qp(qp, reason, is_stale, is_rnr_over, now_ns, &status);
	}
	desc->is_loss_due = is_loss_due(qp, now_ns);
	bpf_spin_unlock(&qp->lock);
	if (from != MRC_QP_ERROR)
		qp_fail(qp_index, from, status);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_NACK);
	nic_count(MRC_NC_RX_NACK, 1);
	cwnd_count_change(cwnd_change);
	if (is_skipped)
		ev_count_transition(qp_index, ev_index, MRC_EV_GOOD, MRC_EV_SKIP, MRC_REASON_TRIM);
	return MRC_STAGE_COMPLETE;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The requestor of a reliable connection: packets in order on the QP's path or, when it has several
 * EVs, on each in turn; after a loss, everything from the lost packet on again (go-back-N).
 */
#ifndef MRC_RC_REQUESTOR_H
#define MRC_RC_REQUESTOR_H

#include <mrc/dcqcn.h>
#include <mrc/psn.h>
#include "departure.h"
#include "frame.h"
#include "memory.h"
#include "rc_clock.h"
#include "rc_maps.h"
#include "rc_wire.h"
#include "work.h"

#define RC_SLOT(qp, psn) (&(qp)->tx[(psn) & (MRC_PSN_RING - 1)])

enum {
	RC_IDLE_CREDIT_SHARE = 8, /* part of the window that may lie idle until the clock ticks */
	RC_PSNS_PER_ADVANCE = 64,
	RC_ADVANCES_PER_ACK = 96, /* more than messages and packets outstanding can ask for */
};

/* What handlers return besides XDP verdicts and departures. */
enum {
	RC_SEND_PLANNED = -1,
	RC_SEND_ANSWER = -2,
};

/* Fills the slot of a new packet, and moves on in the work request. */
static __always_inline void rc_take(struct mrc_rc_qp *qp, const struct mrc_work *work,
				    struct mrc_rc_slot *slot, __u64 now_ns)
{
	struct work_piece piece = work_next_piece(&qp->work, work, qp->pmtu_bytes);

	slot->local_offset = piece.local_offset;
	slot->remote_offset = piece.remote_offset;
	slot->message_bytes = work->length;
	slot->length = piece.length;
	slot->work_index = piece.work_index;
	slot->is_resent = 0;
	if (piece.is_last)
		slot->opcode =
		    (piece.is_first ? RC_WRITE_ONLY : RC_WRITE_LAST) + !!work->has_immediate;
	else
		slot->opcode = piece.is_first ? RC_WRITE_FIRST : RC_WRITE_MIDDLE;
	work_advance(&qp->work, work, &piece, now_ns);
}

/* The EV of the next packet: the only one, or the next in turn whose port works. */
static __always_inline __u32 rc_next_ev(struct mrc_rc_qp *qp, __u32 port_up_mask)
{
	__u32 entropy = qp->evs[0];

	if (qp->ev_count <= 1)
		return entropy;
	for (int i = 0; i < MRC_PLANE_MAX; i++) {
		if (++qp->next_ev >= qp->ev_count)
			qp->next_ev = 0;
		entropy = qp->evs[qp->next_ev & (MRC_EV_MAX - 1)];
		if (port_up_mask >> (entropy >> MRC_EV_PLANE_SHIFT) & 1)
			break;
	}
	return entropy;
}

struct rc_news {
	__u32 frames_wanted;
	__u32 is_clock_due;
	struct finished_work finished;
};

/* Under the lock: decides the next packet and writes it into `plan`; whether there is one. */
static __always_inline int rc_plan_locked(struct mrc_rc_qp *qp, struct mrc_work_ring *ring,
					  __u32 port_up_mask, struct rc_plan *plan,
					  struct rc_news *news)
{
	__u32 room, window, is_again, is_planned = 0;

	if (qp->state != MRC_QP_RTS)
		return 0;
	work_settle(&qp->work, ring);
	is_again = qp->next_psn != qp->max_psn;
	room = rc_room(qp);
	if (room && (is_again || work_ready(&qp->work, ring))) {
		struct mrc_rc_slot *slot = RC_SLOT(qp, qp->next_psn);
		struct mrc_work *work = work_current(&qp->work, ring);

		plan->loss = is_again ? qp->loss : MRC_LOSS_NONE;
		if (is_again)
			slot->is_resent = 1;
		else
			rc_take(qp, work, slot, plan->now_ns);
		if (qp->acked_psn == qp->max_psn)
			qp->progress_ns = plan->now_ns;
		plan->psn = qp->next_psn++;
		if (!is_again)
			qp->max_psn = qp->next_psn;
		plan->entropy = rc_next_ev(qp, port_up_mask);
		slot->sent_ns = plan->model_ns;
		slot->plane = plan->entropy >> MRC_EV_PLANE_SHIFT;
		work = &ring->entries[slot->work_index & (MRC_WORK_RING - 1)];
		plan->local_offset = slot->local_offset;
		plan->remote_offset = slot->remote_offset;
		plan->message_bytes = slot->message_bytes;
		plan->length = slot->length;
		plan->opcode = qp->is_any_order ? rc_alone(slot->opcode) : slot->opcode;
		plan->r_key = work->r_key;
		plan->immediate = work->immediate;
		plan->template_hi = qp->template_hi;
		plan->template_lo = qp->template_lo;
		plan->is_local = qp->is_local;
		plan->peer_host = qp->peer_host;
		plan->peer_qpn = qp->peer_qpn;
		is_planned = 1;
		room--;
	}
	work_settle(&qp->work, ring);
	work_finish(&qp->work, &news->finished);
	/* A little credit is only an acknowledgement overtaken by a later one. */
	window = qp->next_psn - qp->acked_psn + room;
	if (room > window / RC_IDLE_CREDIT_SHARE && !qp->kick_asked &&
	    (qp->next_psn != qp->max_psn || work_ready(&qp->work, ring))) {
		qp->kick_asked = 1;
		news->frames_wanted = room;
	}
	if (!qp->timer_armed && qp->acked_psn != qp->max_psn) {
		qp->timer_armed = 1;
		news->is_clock_due = 1;
	}
	return is_planned;
}

__noinline int rc_plan_next(__u32 qp_index)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct rc_plan *plan = lookup0(&rc_plans);
	struct rc_news news = {};
	int is_planned;

	if (!qp || !ring || !control || !plan)
		return 0;
	bpf_spin_lock(&qp->lock);
	is_planned = rc_plan_locked(qp, ring, control->port_up_mask, plan, &news);
	bpf_spin_unlock(&qp->lock);
	if (news.is_clock_due)
		rc_clock_start(qp_index);
	if (news.frames_wanted)
		nic_event(MRC_EVENT_KICK, qp_index, news.frames_wanted, 0, 0);
	if (news.finished.is_finished)
		report_completion(qp_index, news.finished.index, news.finished.iterations);
	return is_planned;
}

/* Makes the frame, whatever it held, the packet that was decided. */
__noinline int rc_send(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct rc_plan *plan = lookup0(&rc_plans);
	struct rc_reth reth;
	struct frame_target to;
	struct wire_stack *stack;
	struct mrc_port *port;
	__u32 pad, port_id, head_bytes, flags_psn, offset = sizeof(*stack);
	__be32 immediate;

	if (!config || !plan)
		return XDP_DROP;
	to.plane = plan->entropy >> MRC_EV_PLANE_SHIFT;
	port_id = nic_port_id(config, to.plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port)
		return XDP_DROP;
	pad = -plan->length & 3;
	head_bytes = rc_header_bytes(plan->opcode);
	if (frame_resize(ctx, head_bytes + plan->length + pad + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	stack = frame_head(ctx, sizeof(*stack));
	if (!stack)
		return nic_drop(MRC_NC_DROP_LENGTH);
	to.to = carrier_fill(plan->template_hi, plan->template_lo, plan->is_local, to.plane,
			     entropy_uplink(plan->entropy), config->uplinks_per_pair);
	to.peer_host = plan->peer_host;
	to.peer_qpn = plan->peer_qpn;
	to.entropy = plan->entropy;
	flags_psn = (__u32)WIRE_BTH_ACK_REQUEST << 24 | (plan->psn & WIRE_PSN_MASK);
	write_stack(stack, config, port, &to, MRC_DSCP_RC << 2 | WIRE_ECT0, plan->opcode, pad,
		    flags_psn, head_bytes - sizeof(*stack) + plan->length + pad + WIRE_ICRC_BYTES);
	if (rc_has_reth(plan->opcode)) {
		reth.va = bpf_cpu_to_be64(plan->remote_offset);
		reth.r_key = bpf_htonl(plan->r_key);
		reth.dmalen = bpf_htonl(plan->message_bytes);
		if (bpf_xdp_store_bytes(ctx, offset, &reth, sizeof(reth)))
			return nic_drop(MRC_NC_DROP_BOUNDS);
		offset += sizeof(reth);
	}
	immediate = bpf_htonl(plan->immediate);
	if (rc_has_immediate(plan->opcode) &&
	    bpf_xdp_store_bytes(ctx, offset, &immediate, sizeof(immediate)))
		return nic_drop(MRC_NC_DROP_BOUNDS);
	if (memory_transfer(ctx, head_bytes, plan->local_offset, plan->length, MEMORY_TO_FRAME))
		return nic_drop(MRC_NC_DROP_BOUNDS);
	nic_count(MRC_NC_TX_DATA, 1);
	if (plan->loss)
		nic_count(MRC_NC_TX_RETRANSMIT_SACK + plan->loss - MRC_LOSS_SACK, 1);
	return depart(to.plane, MRC_CLASS_DATA);
}

/*
 * Accounts for packets below acked_psn, up to the end of one message. Returns whether there is more
 * of it to do.
 */
__noinline int rc_advance(__u32 qp_index, __u64 now_ns, __u64 model_ns, __u32 rtt_ns)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);
	struct mrc_histogram *histogram = lookup0(&message_histogram);
	__u32 packets = 0, bytes = 0, is_end = 0, is_more;
	struct finished_work finished = {};
	__u64 start_ns = 0;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	for (int i = 0; i < RC_PSNS_PER_ADVANCE; i++) {
		struct mrc_rc_slot *slot = RC_SLOT(qp, qp->una_psn);

		if (is_end || qp->una_psn == qp->acked_psn)
			break;
		packets++;
		bytes += slot->length;
		is_end = rc_ends_message(slot->opcode);
		qp->una_psn++;
	}
	qp->acked_bytes += bytes;
	dcqcn_on_ack(&qp->dcqcn, &qp->cc, model_ns, bytes, rtt_ns);
	if (is_end) {
		start_ns = work_complete(&qp->work);
		work_finish(&qp->work, &finished);
	}
	is_more = qp->una_psn != qp->acked_psn;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_ACKED_PACKETS, packets);
	nic_count(MRC_NC_ACKED_BYTES, bytes);
	if (is_end) {
		nic_count(MRC_NC_MESSAGES, 1);
		if (histogram)
			histogram_add(histogram, now_ns - start_ns);
	}
	if (finished.is_finished)
		report_completion(qp_index, finished.index, finished.iterations);
	return is_more;
}

/* What a syndrome of an AETH means for the QP that gets it. */
static __always_inline __u32 rc_status(__u32 syndrome)
{
	if (syndrome == RC_NAK_INVALID_REQUEST)
		return MRC_STATUS_REMOTE_INVALID_REQUEST;
	return syndrome == RC_NAK_REMOTE_ACCESS ? MRC_STATUS_REMOTE_ACCESS
						: MRC_STATUS_REMOTE_OPERATION;
}

/*
 * ACK, NAK or CNP. Returns RC_SEND_PLANNED when the frame is to carry the next packet, else a
 * verdict.
 */
__noinline int rc_on_acknowledge(struct xdp_md *ctx, __u32 is_cnp)
{
	struct rc_cnp *head = frame_head(ctx, sizeof(struct wire_acknowledge));
	__u32 expected = is_cnp ? sizeof(struct rc_cnp) : sizeof(struct wire_acknowledge);
	struct rc_plan *plan = lookup0(&rc_plans);
	__u32 qp_index, psn, syndrome, kind, is_stale, from = MRC_QP_ERROR, plane = 0;
	__u64 now_ns, model_ns, rtt_ns = 0, model_rtt_ns = 0;
	struct mrc_histogram *histogram;
	struct mrc_rc_qp *qp;

	if (!head || !plan || frame_bytes(ctx) != expected + WIRE_ICRC_BYTES)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = rc_find(qp_index);
	if (!qp || !stack_is_for(&head->stack, qp->qpn, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	psn = bpf_ntohl(head->stack.bth.flags_psn) & WIRE_PSN_MASK;
	syndrome = bpf_ntohl(head->syndrome_msn) >> 24;
	kind = syndrome >> 5 & 3;
	if (kind != RC_AETH_ACK && kind != RC_AETH_NAK && kind != RC_AETH_RNR_NAK)
		return nic_drop(MRC_NC_DROP_OPCODE);
	now_ns = bpf_ktime_get_ns();
	model_ns = frame_model_ns(ctx) ?: now_ns;
	plan->now_ns = now_ns;
	plan->model_ns = model_ns;

	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->acked_psn, psn);
	/* A NAK names the packet it waits for or refuses, an ACK the last one it has: one that was
	 * sent. */
	is_stale = qp->state != MRC_QP_RTS || psn_distance(psn, qp->max_psn) >= 0;
	if (kind == RC_AETH_ACK)
		psn++;
	is_stale |= psn_distance(psn, qp->acked_psn) < 0;
	if (!is_stale) {
		struct mrc_rc_slot *slot = RC_SLOT(qp, psn - 1);

		if (psn != qp->acked_psn) {
			qp->progress_ns = now_ns;
			qp->retries = 0;
			if (kind == RC_AETH_ACK && !slot->is_resent) {
				rtt_ns = now_ns - slot->sent_ns;
				model_rtt_ns = model_ns - slot->sent_ns;
				plane = slot->plane;
			}
			qp->acked_psn = psn;
			if (psn_distance(qp->next_psn, psn) < 0)
				qp->next_psn = psn;
		}
		if (is_cnp)
			dcqcn_on_cnp(&qp->dcqcn, &qp->cc, model_ns);
		if (kind == RC_AETH_RNR_NAK) {
			rc_go_back(qp, MRC_LOSS_NACK);
			qp->is_held = 1;
		} else if (kind == RC_AETH_NAK && syndrome == RC_NAK_SEQUENCE) {
			rc_go_back(qp, MRC_LOSS_NACK);
		} else if (kind != RC_AETH_ACK) {
			from = qp->state;
			qp->state = MRC_QP_ERROR;
		}
	}
	bpf_spin_unlock(&qp->lock);
	if (is_stale)
		return nic_drop(kind == RC_AETH_ACK ? MRC_NC_DROP_STALE_ACK
						    : MRC_NC_DROP_STALE_NACK);
	if (from != MRC_QP_ERROR)
		rc_fail(qp_index, from, rc_status(syndrome));
	nic_count(is_cnp ? MRC_NC_RX_CNP : kind == RC_AETH_ACK ? MRC_NC_RX_ACK : MRC_NC_RX_NAK, 1);
	histogram = bpf_map_lookup_elem(&rtt_histogram, &plane);
	if (rtt_ns && histogram)
		histogram_add(histogram, rtt_ns);
	for (int i = 0; i < RC_ADVANCES_PER_ACK; i++) {
		if (!rc_advance(qp_index, now_ns, model_ns, i ? 0 : model_rtt_ns))
			break;
	}
	return rc_plan_next(qp_index) ? RC_SEND_PLANNED : XDP_DROP;
}

#endif

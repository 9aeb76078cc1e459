/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The responder of a reliable connection. It takes packets in order only: the first one out of
 * order gets a NAK for the one that is missing, those that follow are dropped in silence.
 *
 * With is_any_order switches send the packets by different ways: each says where it goes, is placed
 * as it comes, and is acknowledged when all before it are there. A gap is no loss; what is lost the
 * requester's clock finds.
 */
#ifndef MRC_RC_RESP_H
#define MRC_RC_RESP_H

#include <mrc/psn.h>
#include "../mr.h"
#include "../packet.h"
#include "../qp.h"
#include "../stage.h"
#include "../work.h"
#include "maps.h"
#include "wire.h"

/* Decides the response. */
static __always_inline int rc_respond(const struct mrc_rc_qp *qp, struct rc_response *response,
				      __u32 syndrome, __u32 psn)
{
	response->syndrome = syndrome;
	response->psn = psn;
	response->msn = qp->resp.completed_messages;
	return MRC_STAGE_SEND_RESPONSE;
}

/* A packet that was taken before. */
static __always_inline int rc_on_duplicate(const struct mrc_rc_qp *qp, struct rc_response *response)
{
	nic_count(MRC_NC_RX_DATA, 1);
	nic_count(MRC_NC_RX_DUPLICATE, 1);
	return rc_respond(qp, response, WIRE_AETH_ACK, qp->resp.expected_psn - 1);
}

static __always_inline int rc_load_reth(struct xdp_md *ctx, struct rc_packet *packet)
{
	struct rc_reth reth;

	if (bpf_xdp_load_bytes(ctx, sizeof(struct wire_stack), &reth, sizeof(reth)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet->va = bpf_be64_to_cpu(reth.va);
	packet->r_key = bpf_ntohl(reth.r_key);
	packet->message_bytes = bpf_ntohl(reth.dmalen);
	return 0;
}

/* A packet beyond the next: the first one in a row is refused, in the name of what is missing. */
static __always_inline int rc_on_gap(struct mrc_rc_qp *qp, struct rc_response *response)
{
	__u32 is_new;

	bpf_spin_lock(&qp->lock);
	is_new =
	    !qp->resp.is_nak_sent && psn_distance(response->packet.psn, qp->resp.expected_psn) > 0;
	if (is_new) {
		qp->resp.is_nak_sent = 1;
		rc_respond(qp, response, RC_NAK_SEQUENCE, qp->resp.expected_psn);
	}
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_DROP_OUT_OF_ORDER, 1);
	return is_new ? MRC_STAGE_SEND_RESPONSE : XDP_DROP;
}

/* With is_any_order: finds where a packet goes. Returns 0, or the stage of one that is not taken. */
static __always_inline int rc_locate_any_order(struct xdp_md *ctx, const struct mrc_rc_qp *qp,
					       struct rc_response *response)
{
	struct rc_packet *packet = &response->packet;

	if (!rc_has_reth(packet->opcode) || !rc_ends_message(packet->opcode))
		return rc_respond(qp, response, RC_NAK_INVALID_REQUEST, packet->psn);
	if (psn_distance(packet->psn, qp->resp.delivered_psn) >= MRC_PSN_RING)
		return nic_drop(MRC_NC_DROP_OUT_OF_ORDER);
	if (psn_distance(packet->psn, qp->resp.expected_psn) < 0 ||
	    ring_test(qp->resp.received_bits, packet->psn))
		return rc_on_duplicate(qp, response);
	if (rc_load_reth(ctx, packet))
		return XDP_DROP;
	if (packet->length > packet->message_bytes || (!packet->length && packet->message_bytes))
		return rc_respond(qp, response, RC_NAK_INVALID_REQUEST, packet->psn);
	return 0;
}

/*
 * The same where only the next packet is taken. A message is begun once, ends exactly, and is not
 * begun before the last one has ended.
 */
static __always_inline int rc_locate(struct xdp_md *ctx, struct mrc_rc_qp *qp,
				     struct rc_response *response)
{
	struct rc_packet *packet = &response->packet;
	int distance = psn_distance(packet->psn, qp->resp.expected_psn);
	__u32 is_first = rc_has_reth(packet->opcode), is_new, left_bytes;

	if (distance)
		return distance > 0 ? rc_on_gap(qp, response) : rc_on_duplicate(qp, response);
	bpf_spin_lock(&qp->lock);
	is_new =
	    packet->psn == qp->resp.expected_psn; /* unless another CPU has just taken a copy */
	packet->va = qp->resp.write_va;
	packet->r_key = qp->resp.write_r_key;
	packet->message_bytes = left_bytes = qp->resp.write_left_bytes;
	bpf_spin_unlock(&qp->lock);
	if (!is_new)
		return drop_concurrent_copy();
	if (is_first && rc_load_reth(ctx, packet))
		return XDP_DROP;
	if (is_first == !!left_bytes ||
	    (rc_ends_message(packet->opcode) ? packet->length != packet->message_bytes
					     : packet->length >= packet->message_bytes))
		return rc_respond(qp, response, RC_NAK_INVALID_REQUEST, packet->psn);
	return 0;
}

/* Reads the immediate, if there is one. Returns 0, or the stage of one that nobody waits for. */
static __always_inline int rc_load_immediate(struct xdp_md *ctx, const struct mrc_rc_qp *qp,
					     struct rc_response *response)
{
	__u32 qp_index = response->qp_index, opcode = response->packet.opcode;
	struct mrc_work_ring *ring;
	__be32 immediate;

	if (!rc_has_immediate(opcode))
		return 0;
	ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	if (!ring ||
	    (__s32)(ring->receive_tail - qp->resp.delivered - qp->resp.waiting_immediates) <= 0) {
		nic_count(MRC_NC_DROP_NO_RECEIVE, 1);
		return rc_respond(qp, response, RC_RNR_TIMER,
				  qp->is_any_order ? qp->resp.expected_psn : response->packet.psn);
	}
	if (bpf_xdp_load_bytes(ctx, rc_header_bytes(opcode) - sizeof(immediate), &immediate,
			       sizeof(immediate)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	response->packet.immediate = bpf_ntohl(immediate);
	return 0;
}

/* Places the payload. Returns 0, or the stage of a packet that is not placed. */
static __always_inline int rc_place(struct xdp_md *ctx, struct mrc_rc_qp *qp,
				    struct rc_response *response)
{
	const struct rc_packet *packet = &response->packet;
	__s64 place =
	    mr_of_qp(response->qp_index, &qp->head, packet->r_key, packet->va, packet->length);

	if (place < 0)
		return rc_respond(qp, response, RC_NAK_REMOTE_ACCESS, packet->psn);
	if (place_payload(ctx, qp->resp.placings, packet->psn - qp->resp.first_expected,
			  rc_header_bytes(packet->opcode), place, packet->length))
		return XDP_DROP;
	nic_count(MRC_NC_RX_DATA, 1);
	nic_count(MRC_NC_RX_PLACED_BYTES, packet->length);
	return 0;
}

/* Under the lock: the next packet has been placed. */
static __always_inline void rc_receive(struct mrc_rc_qp *qp, struct rc_packet *packet)
{
	if (rc_has_reth(packet->opcode)) {
		qp->resp.write_va = packet->va;
		qp->resp.write_r_key = packet->r_key;
		qp->resp.write_left_bytes = packet->message_bytes;
		qp->resp.write_bytes = packet->message_bytes;
	}
	packet->message_bytes = qp->resp.write_bytes;
	if (!qp->resp.waiting_immediates) /* or another CPU is about to report them */
		qp->resp.delivered_psn = packet->psn;
	qp->resp.expected_psn++;
	qp->resp.is_nak_sent = 0;
	qp->resp.write_va += packet->length;
	qp->resp.write_left_bytes -= packet->length;
	qp->resp.completed_messages += rc_ends_message(packet->opcode);
}

/* The same with is_any_order: a packet that had not been taken before. */
static __always_inline void rc_receive_any_order(struct mrc_rc_qp *qp, __u32 psn)
{
	ring_set(qp->resp.received_bits, psn);
	for (int i = 0; i <= MRC_PSN_WORDS; i++) {
		__u32 run =
		    trailing_zeros(~ring_window(qp->resp.received_bits, qp->resp.expected_psn));
		__u32 in_word = 64 - (qp->resp.expected_psn & 63);
		__u64 mask;

		if (run > in_word)
			run = in_word;
		if (!run)
			break;
		mask = (~0ULL >> (64 - run)) << (qp->resp.expected_psn & 63);
		qp->resp.received_bits[ring_word(qp->resp.expected_psn)] &= ~mask;
		qp->resp.completed_messages += run; /* on the wire every packet is one */
		qp->resp.expected_psn += run;
	}
}

/* Under the lock: the immediate waits until nothing below its packet is missing. */
static __always_inline void rc_keep_immediate(struct mrc_rc_qp *qp, const struct rc_packet *packet)
{
	struct mrc_immediate *entry = &qp->resp.immediates[packet->psn & (MRC_PSN_RING - 1)];

	entry->immediate = packet->immediate;
	entry->r_key = packet->r_key;
	entry->length = mr_message_bytes(packet->r_key, packet->va, packet->message_bytes);
	ring_set(qp->resp.immediate_bits, packet->psn);
	qp->resp.waiting_immediates++;
}

/* Reports the next immediate below which nothing is missing; whether there was one. */
__noinline int rc_deliver_immediate(__u32 qp_index)
{
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_rc_qp *qp = rc_find(qp_index);
	__u32 number = 0;

	if (!qp || !ring)
		return 0;
	bpf_spin_lock(&qp->lock);
	for (int i = 0; i <= MRC_PSN_WORDS && !number; i++) {
		__s32 left = psn_distance(qp->resp.expected_psn, qp->resp.delivered_psn);
		__u32 step =
		    trailing_zeros(ring_window(qp->resp.immediate_bits, qp->resp.delivered_psn));
		struct mrc_immediate *entry;

		if (left <= 0)
			break;
		if (step >= 64 || (__s32)step >= left) {
			qp->resp.delivered_psn += left < 64 ? left : 64;
			continue;
		}
		qp->resp.delivered_psn += step;
		ring_clear(qp->resp.immediate_bits, qp->resp.delivered_psn);
		entry = &qp->resp.immediates[qp->resp.delivered_psn & (MRC_PSN_RING - 1)];
		qp->resp.delivered_psn++;
		qp->resp.waiting_immediates--;
		number = ++qp->resp.delivered;
		work_arrive(ring, number, entry->immediate, entry->length, entry->r_key);
	}
	bpf_spin_unlock(&qp->lock);
	if (number)
		report_arrival(qp_index, number);
	return number != 0;
}

/* Takes a packet that is in place; the response is a CNP if it is marked and one is due. */
static __always_inline int rc_take(struct mrc_rc_qp *qp, struct rc_response *response)
{
	struct rc_packet *packet = &response->packet;
	__u32 has_immediate = rc_has_immediate(packet->opcode), is_due = has_immediate;
	__u64 now_ns = bpf_ktime_get_ns();

	bpf_spin_lock(&qp->lock);
	if (qp->is_any_order) {
		is_due = packet->psn == qp->resp.expected_psn;
		rc_receive_any_order(qp, packet->psn);
	} else {
		rc_receive(qp, packet);
	}
	if (has_immediate)
		rc_keep_immediate(qp, packet);
	response->is_cnp = response->is_marked &&
			   (__s64)(now_ns - qp->resp.cnp_ns) >= (__s64)qp->resp.cnp_interval_ns;
	if (response->is_cnp)
		qp->resp.cnp_ns = now_ns;
	rc_respond(qp, response, WIRE_AETH_ACK, qp->resp.expected_psn - 1);
	bpf_spin_unlock(&qp->lock);
	for (int i = 0; is_due && i < MRC_WORK_RING; i++) {
		if (!rc_deliver_immediate(response->qp_index))
			break;
	}
	return MRC_STAGE_SEND_RESPONSE;
}

/* A data packet, whose stack has been checked. Returns a stage. */
__noinline int rc_on_write(struct xdp_md *ctx, __u32 plane)
{
	struct wire_stack *stack = frame_head(ctx, sizeof(*stack));
	struct rc_response *response = lookup0(&rc_responses);
	struct rc_packet *packet;
	struct mrc_rc_qp *qp;
	int next;

	if (!stack || !response)
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet = &response->packet;
	packet->opcode = stack->bth.opcode;
	packet->length = stack_payload_bytes(stack, rc_header_bytes(packet->opcode));
	if (packet->length > MRC_PMTU_MAX)
		return nic_drop(MRC_NC_DROP_LENGTH);
	response->qp_index = stack_qp_index(stack);
	response->plane = plane;
	response->entropy = stack_entropy(stack);
	response->is_cnp = 0;
	response->is_marked = stack_is_marked(stack);
	qp = rc_find(response->qp_index);
	if (!qp || !stack_is_for(stack, &qp->head))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	if (qp->state != MRC_QP_RTR && qp->state != MRC_QP_RTS)
		return nic_drop(MRC_NC_DROP_QP_STATE);
	packet->psn =
	    psn_expand(qp->resp.expected_psn, bpf_ntohl(stack->bth.flags_psn) & WIRE_PSN_MASK);
	if (qp_end_orphan(&qp->lock, &qp->state, response->qp_index, packet->psn))
		return nic_drop(MRC_NC_DROP_QP_STATE);
	next = qp->is_any_order ? rc_locate_any_order(ctx, qp, response)
				: rc_locate(ctx, qp, response);
	return next ?: rc_load_immediate(ctx, qp, response) ?: rc_place(ctx, qp, response)
		    ?: rc_take(qp, response);
}

/* Makes the frame the response that was decided: it goes back on the path of its packet. */
__noinline int rc_xmit_response(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct rc_response *response = lookup0(&rc_responses);
	__u32 bytes, opcode = RC_ACKNOWLEDGE, dscp_ecn = MRC_DSCP_RC << 2 | WIRE_ECT0;
	__u32 traffic_class = MRC_CLASS_DATA;
	struct packet_av to;
	struct mrc_rc_qp *qp;
	struct rc_cnp *head;

	if (!config || !response)
		return XDP_DROP;
	qp = rc_find(response->qp_index);
	if (!qp)
		return XDP_DROP;
	bytes = sizeof(struct wire_acknowledge);
	if (response->is_cnp) {
		bytes = sizeof(*head);
		opcode = RC_CNP;
		dscp_ecn = MRC_DSCP_CONTROL << 2;
		traffic_class = MRC_CLASS_CONTROL;
	}
	to = qp_av(&qp->head, config, response->plane, response->entropy);
	head = packet_make(ctx, config, &to, bytes, sizeof(struct wire_acknowledge), dscp_ecn,
			   opcode, 0, response->psn & WIRE_PSN_MASK);
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	head->syndrome_msn = bpf_htonl(response->syndrome << 24 | (response->msn & WIRE_PSN_MASK));
	if (response->is_cnp) {
		head = frame_head(ctx, sizeof(*head));
		if (!head)
			return nic_drop(MRC_NC_DROP_LENGTH);
		head->stack.bth.destination_qp |= bpf_htonl((__u32)RC_BECN << 24);
		__builtin_memset(head->reserved, 0, sizeof(head->reserved));
	}
	nic_count(response->is_cnp			? MRC_NC_TX_CNP
		  : response->syndrome == WIRE_AETH_ACK ? MRC_NC_TX_ACK
							: MRC_NC_TX_NAK,
		  1);
	return stage_transmit(response->plane, traffic_class);
}

#endif

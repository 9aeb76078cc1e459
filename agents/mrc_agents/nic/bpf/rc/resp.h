/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The responder of a reliable connection: takes packets in order only. The first one out of order
 * gets a NAK for the one that is missing, those that follow are dropped in silence. Where
 * packets may overtake one another it is any_order.h instead.
 */
#ifndef MRC_RC_RESP_H
#define MRC_RC_RESP_H

#include "../qp.h"
#include "any_order.h"

/* Under the lock: the next packet has been placed. Returns the number of a WRITE with immediate. */
static __always_inline __u32 rc_receive(struct mrc_rc_qp *qp, const struct rc_packet *packet)
{
	if (rc_has_reth(packet->opcode)) {
		qp->write_va = packet->va;
		qp->write_r_key = packet->r_key;
		qp->write_left_bytes = packet->message_bytes;
		qp->write_bytes = packet->message_bytes;
	}
	qp->expected_psn++;
	qp->is_nak_sent = 0;
	qp->write_va += packet->length;
	qp->write_left_bytes -= packet->length;
	if (!rc_ends_message(packet->opcode))
		return 0;
	qp->completed_messages++;
	return rc_has_immediate(packet->opcode) ? ++qp->delivered : 0;
}

/* Takes a QP whose agent is gone to ERROR; returns whether that is so. */
static __always_inline int rc_fail_orphan(struct mrc_rc_qp *qp, __u32 qp_index)
{
	struct mrc_nic_control *control = lookup0(&nic_control);
	__u32 from;

	if (!control || !is_agent_dead(control, bpf_ktime_get_ns()))
		return 0;
	bpf_spin_lock(&qp->lock);
	from = qp->state;
	qp->state = MRC_QP_ERROR;
	bpf_spin_unlock(&qp->lock);
	if (from != MRC_QP_ERROR)
		qp_fail(qp_index, from, MRC_STATUS_FLUSHED);
	return 1;
}

/* A packet beyond the next: the first one in a row is refused, in the name of that which is missing. */
static __always_inline int rc_on_gap(struct mrc_rc_qp *qp, struct rc_response *response)
{
	__u32 is_new;

	bpf_spin_lock(&qp->lock);
	is_new = !qp->is_nak_sent && psn_distance(response->packet.psn, qp->expected_psn) > 0;
	if (is_new) {
		qp->is_nak_sent = 1;
		rc_respond(response, RC_NAK_SEQUENCE, qp->expected_psn, qp->completed_messages);
	}
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_DROP_OUT_OF_ORDER, 1);
	return is_new ? MRC_STAGE_SEND_RESPONSE : XDP_DROP;
}

/*
 * Finds where the next packet goes. A message is begun once, ends exactly, and is not begun before
 * the last one has ended. Returns 0 or, if the packet is not taken, the stage that follows.
 */
static __always_inline int rc_locate(struct xdp_md *ctx, struct mrc_rc_qp *qp,
				     struct rc_response *response)
{
	struct rc_packet *packet = &response->packet;
	__u32 is_first = rc_has_reth(packet->opcode), is_new, left_bytes;

	bpf_spin_lock(&qp->lock);
	is_new = packet->psn == qp->expected_psn; /* unless another CPU has just taken a copy */
	packet->va = qp->write_va;
	packet->r_key = qp->write_r_key;
	packet->message_bytes = left_bytes = qp->write_left_bytes;
	bpf_spin_unlock(&qp->lock);
	if (!is_new)
		return drop_concurrent_copy();
	if (is_first && rc_load_reth(ctx, packet))
		return XDP_DROP;
	if (is_first == !!left_bytes ||
	    (rc_ends_message(packet->opcode) ? packet->length != packet->message_bytes
					     : packet->length >= packet->message_bytes))
		return rc_respond(response, RC_NAK_INVALID_REQUEST, packet->psn,
				  qp->completed_messages);
	return 0;
}

/* The next packet. Returns a stage. */
static __always_inline int rc_on_next(struct xdp_md *ctx, struct mrc_rc_qp *qp,
				      struct rc_response *response)
{
	struct rc_packet *packet = &response->packet;
	__u32 qp_index = response->qp_index, number, message_bytes;
	struct mrc_work_ring *ring;
	__u64 now_ns;
	int next;

	next = rc_locate(ctx, qp, response) ?: rc_load_immediate(ctx, qp, response, packet->psn)
					    ?: rc_place(ctx, qp, response);
	if (next)
		return next;
	now_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&qp->lock);
	number = rc_receive(qp, packet);
	rc_acknowledge(qp, response, now_ns);
	message_bytes = qp->write_bytes;
	bpf_spin_unlock(&qp->lock);
	ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	if (number && ring) {
		work_arrive(ring, number, packet->immediate,
			    mr_message_bytes(packet->r_key, packet->va, message_bytes),
			    packet->r_key);
		report_arrival(qp_index, number);
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
	int distance;

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
	if (!qp || !stack_is_for(stack, qp->qpn, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	if (qp->state != MRC_QP_RTR && qp->state != MRC_QP_RTS)
		return nic_drop(MRC_NC_DROP_QP_STATE);
	packet->psn = psn_expand(qp->expected_psn, bpf_ntohl(stack->bth.flags_psn) & WIRE_PSN_MASK);
	if (!(packet->psn & HEARTBEAT_PSN_MASK) && rc_fail_orphan(qp, response->qp_index))
		return nic_drop(MRC_NC_DROP_QP_STATE);
	if (qp->is_any_order)
		return rc_on_write_any_order(ctx);
	distance = psn_distance(packet->psn, qp->expected_psn);
	if (distance > 0)
		return rc_on_gap(qp, response);
	return distance ? rc_on_duplicate(qp, response) : rc_on_next(ctx, qp, response);
}

/* Makes the frame the response that was decided: it goes back on the path of its packet. */
__noinline int rc_xmit_response(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct rc_response *response = lookup0(&rc_responses);
	__u32 port_id, bytes, opcode = RC_ACKNOWLEDGE, dscp = MRC_DSCP_RC;
	__u32 traffic_class = MRC_CLASS_DATA;
	struct packet_av to;
	struct mrc_port *port;
	struct mrc_rc_qp *qp;
	struct rc_cnp *head;

	if (!config || !response)
		return XDP_DROP;
	qp = rc_find(response->qp_index);
	port_id = nic_port_id(config, response->plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!qp || !port)
		return XDP_DROP;
	bytes = sizeof(struct wire_acknowledge);
	if (response->is_cnp) {
		bytes = sizeof(*head);
		opcode = RC_CNP;
		dscp = MRC_DSCP_CONTROL;
		traffic_class = MRC_CLASS_CONTROL;
	}
	if (frame_resize(ctx, bytes + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head = frame_head(ctx, sizeof(struct wire_acknowledge));
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	to.to = carrier_fill(qp->template_hi, qp->template_lo, qp->is_local, response->plane,
			     entropy_uplink(response->entropy), config->uplinks_per_pair);
	to.peer_host = qp->peer_host;
	to.peer_qpn = qp->peer_qpn;
	to.plane = response->plane;
	to.entropy = response->entropy;
	write_stack(&head->stack, config, port, &to, dscp << 2 | (response->is_cnp ? 0 : WIRE_ECT0),
		    opcode, 0, response->psn & WIRE_PSN_MASK,
		    bytes - sizeof(head->stack) + WIRE_ICRC_BYTES);
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

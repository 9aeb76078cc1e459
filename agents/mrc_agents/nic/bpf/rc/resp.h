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
static __always_inline __u32 rc_receive(struct mrc_rc_qp *qp, __u32 opcode, __u32 length, __u64 va,
					__u32 r_key, __u32 message_bytes)
{
	if (rc_has_reth(opcode)) {
		qp->write_va = va;
		qp->write_r_key = r_key;
		qp->write_left_bytes = message_bytes;
		qp->write_bytes = message_bytes;
	}
	qp->expected_psn++;
	qp->is_nak_sent = 0;
	qp->write_va += length;
	qp->write_left_bytes -= length;
	if (!rc_ends_message(opcode))
		return 0;
	qp->completed_messages++;
	return rc_has_immediate(opcode) ? ++qp->delivered : 0;
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

/* A data packet, whose stack has been checked. Returns a stage. */
__noinline int rc_on_write(struct xdp_md *ctx, __u32 plane)
{
	struct wire_stack *stack = frame_head(ctx, sizeof(*stack));
	struct rc_response *response = lookup0(&rc_responses);
	__u32 opcode, head_bytes, pad, length, udp_bytes, psn, r_key, message_bytes, number = 0;
	__u32 is_new = 0, is_first, immediate_bytes, left_bytes;
	struct mrc_work_ring *ring = (void *)0;
	struct rc_reth reth = {};
	__be32 immediate = 0;
	struct mrc_rc_qp *qp;
	__s64 offset = 0;
	__u64 va, now_ns;
	int distance;

	if (!stack || !response)
		return nic_drop(MRC_NC_DROP_LENGTH);
	opcode = stack->bth.opcode;
	head_bytes = rc_header_bytes(opcode);
	udp_bytes = bpf_ntohs(stack->udp.length);
	pad = stack->bth.pad_version >> 4 & 3;
	length = offsetof(struct wire_stack, udp) + udp_bytes - head_bytes - WIRE_ICRC_BYTES - pad;
	if (length > MRC_PMTU_MAX || pad != (-length & 3))
		return nic_drop(MRC_NC_DROP_LENGTH);
	response->qp_index = stack_qp_index(stack);
	response->plane = plane;
	response->entropy = stack_entropy(stack);
	response->is_cnp = 0;
	response->is_marked =
	    (bpf_ntohl(stack->outer.version_class_flow) >> 20 & WIRE_CE) == WIRE_CE;
	psn = bpf_ntohl(stack->bth.flags_psn) & WIRE_PSN_MASK;
	qp = rc_find(response->qp_index);
	if (!qp || !stack_is_for(stack, qp->qpn, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	if (qp->state != MRC_QP_RTR && qp->state != MRC_QP_RTS)
		return nic_drop(MRC_NC_DROP_QP_STATE);
	psn = psn_expand(qp->expected_psn, psn);
	if (!(psn & HEARTBEAT_PSN_MASK) && rc_fail_orphan(qp, response->qp_index))
		return nic_drop(MRC_NC_DROP_QP_STATE);
	if (qp->is_any_order)
		return rc_on_write_any_order(ctx, psn, length);
	distance = psn_distance(psn, qp->expected_psn);
	if (distance > 0) {
		bpf_spin_lock(&qp->lock);
		is_new = !qp->is_nak_sent && psn_distance(psn, qp->expected_psn) > 0;
		if (is_new) {
			qp->is_nak_sent = 1;
			rc_respond(response, RC_NAK_SEQUENCE, qp->expected_psn,
				   qp->completed_messages);
		}
		bpf_spin_unlock(&qp->lock);
		nic_count(MRC_NC_DROP_OUT_OF_ORDER, 1);
		return is_new ? MRC_STAGE_SEND_RESPONSE : XDP_DROP;
	}
	if (distance < 0) {
		nic_count(MRC_NC_RX_DATA, 1);
		nic_count(MRC_NC_RX_DUPLICATE, 1);
		return rc_respond(response, WIRE_AETH_ACK, qp->expected_psn - 1,
				  qp->completed_messages);
	}

	is_first = rc_has_reth(opcode);
	bpf_spin_lock(&qp->lock);
	is_new = psn == qp->expected_psn; /* unless another CPU has just taken a copy of it */
	va = qp->write_va;
	r_key = qp->write_r_key;
	left_bytes = qp->write_left_bytes;
	bpf_spin_unlock(&qp->lock);
	if (!is_new)
		return drop_concurrent_copy();
	message_bytes = left_bytes;
	if (is_first) {
		if (bpf_xdp_load_bytes(ctx, sizeof(*stack), &reth, sizeof(reth)))
			return nic_drop(MRC_NC_DROP_LENGTH);
		va = bpf_be64_to_cpu(reth.va);
		r_key = bpf_ntohl(reth.r_key);
		message_bytes = bpf_ntohl(reth.dmalen);
	}
	/* A message is begun once, ends exactly, and is not begun before the last one has ended. */
	if (is_first ? left_bytes != 0 : left_bytes == 0)
		return rc_respond(response, RC_NAK_INVALID_REQUEST, psn, qp->completed_messages);
	if (rc_ends_message(opcode) ? length != message_bytes : length >= message_bytes)
		return rc_respond(response, RC_NAK_INVALID_REQUEST, psn, qp->completed_messages);
	if (rc_has_immediate(opcode)) {
		__u32 qp_index = response->qp_index;

		ring = bpf_map_lookup_elem(&work_ring, &qp_index);
		immediate_bytes = sizeof(immediate);
		if (!ring || (__s32)(ring->receive_tail - qp->delivered) <= 0) {
			nic_count(MRC_NC_DROP_NO_RECEIVE, 1);
			return rc_respond(response, RC_RNR_TIMER, psn, qp->completed_messages);
		}
		if (bpf_xdp_load_bytes(ctx, head_bytes - immediate_bytes, &immediate,
				       sizeof(immediate)))
			return nic_drop(MRC_NC_DROP_LENGTH);
	}
	offset = mr_of_qp(response->qp_index, qp->is_writable, qp->pd, r_key, va, length);
	if (offset < 0)
		return rc_respond(response, RC_NAK_REMOTE_ACCESS, psn, qp->completed_messages);
	if (!place_begin(qp->placings, psn - qp->first_expected))
		return drop_concurrent_copy();
	if (mr_copy(ctx, head_bytes, offset, length, MR_FROM_FRAME)) {
		place_undo(qp->placings, psn - qp->first_expected);
		return nic_drop(MRC_NC_DROP_BOUNDS);
	}
	now_ns = bpf_ktime_get_ns();

	bpf_spin_lock(&qp->lock);
	number = rc_receive(qp, opcode, length, va, r_key, message_bytes);
	response->is_cnp =
	    response->is_marked && (__s64)(now_ns - qp->cnp_ns) >= (__s64)qp->cnp_interval_ns;
	if (response->is_cnp)
		qp->cnp_ns = now_ns;
	rc_respond(response, WIRE_AETH_ACK, qp->expected_psn - 1, qp->completed_messages);
	message_bytes = qp->write_bytes;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_DATA, 1);
	nic_count(MRC_NC_RX_PLACED_BYTES, length);
	if (number && ring) {
		work_arrive(ring, number, bpf_ntohl(immediate),
			    mr_message_bytes(r_key, va, message_bytes), r_key);
		report_arrival(response->qp_index, number);
	}
	return MRC_STAGE_SEND_RESPONSE;
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

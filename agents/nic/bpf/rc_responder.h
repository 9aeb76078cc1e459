/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The responder of a reliable connection: takes packets in order only. The first one out of order
 * is answered by a NAK for the one that is missing, those that follow are dropped in silence. Where
 * packets may overtake one another it is rc_any_order.h instead.
 */
#ifndef MRC_RC_RESPONDER_H
#define MRC_RC_RESPONDER_H

#include <mrc/psn.h>
#include "frame.h"
#include "memory.h"
#include "rc_answer.h"
#include "rc_any_order.h"

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

/* A data packet, whose stack has been checked. Returns a verdict or RC_SEND_ANSWER. */
__noinline int rc_on_write(struct xdp_md *ctx, __u32 plane)
{
	struct wire_stack *stack = frame_head(ctx, sizeof(*stack));
	struct rc_answer *answer = lookup0(&rc_answers);
	__u32 opcode, head_bytes, pad, length, udp_bytes, psn, r_key, message_bytes, number = 0;
	__u32 is_new = 0, is_first, immediate_bytes, left_bytes;
	struct rc_reth reth = {};
	__be32 immediate = 0;
	struct mrc_rc_qp *qp;
	__s64 offset = 0;
	__u64 va, now_ns;
	int distance;

	if (!stack || !answer)
		return nic_drop(MRC_NC_DROP_LENGTH);
	opcode = stack->bth.opcode;
	head_bytes = rc_header_bytes(opcode);
	udp_bytes = bpf_ntohs(stack->udp.length);
	pad = stack->bth.pad_version >> 4 & 3;
	length = offsetof(struct wire_stack, udp) + udp_bytes - head_bytes - WIRE_ICRC_BYTES - pad;
	if (length > MRC_PMTU_MAX || pad != (-length & 3))
		return nic_drop(MRC_NC_DROP_LENGTH);
	answer->qp_index = stack_qp_index(stack);
	answer->plane = plane;
	answer->entropy = stack_entropy(stack);
	answer->is_cnp = 0;
	answer->is_marked = (bpf_ntohl(stack->outer.version_class_flow) >> 20 & WIRE_CE) == WIRE_CE;
	psn = bpf_ntohl(stack->bth.flags_psn) & WIRE_PSN_MASK;
	qp = rc_find(answer->qp_index);
	if (!qp || !stack_is_for(stack, qp->qpn, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	if (qp->state != MRC_QP_RTR && qp->state != MRC_QP_RTS)
		return nic_drop(MRC_NC_DROP_QP_STATE);
	psn = psn_expand(qp->expected_psn, psn);
	if (qp->is_any_order)
		return rc_on_write_any_order(ctx, psn, length);
	distance = psn_distance(psn, qp->expected_psn);
	if (distance > 0) {
		bpf_spin_lock(&qp->lock);
		is_new = !qp->is_nak_sent && psn_distance(psn, qp->expected_psn) > 0;
		if (is_new) {
			qp->is_nak_sent = 1;
			rc_answer_with(answer, RC_NAK_SEQUENCE, qp->expected_psn,
				       qp->completed_messages);
		}
		bpf_spin_unlock(&qp->lock);
		nic_count(MRC_NC_DROP_OUT_OF_ORDER, 1);
		return is_new ? RC_SEND_ANSWER : XDP_DROP;
	}
	if (distance < 0) {
		nic_count(MRC_NC_RX_DATA, 1);
		nic_count(MRC_NC_RX_DUPLICATE, 1);
		return rc_answer_with(answer, WIRE_AETH_ACK, qp->expected_psn - 1,
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
		return drop_second_copy();
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
		return rc_answer_with(answer, RC_NAK_INVALID_REQUEST, psn, qp->completed_messages);
	if (rc_ends_message(opcode) ? length != message_bytes : length >= message_bytes)
		return rc_answer_with(answer, RC_NAK_INVALID_REQUEST, psn, qp->completed_messages);
	if (rc_has_immediate(opcode)) {
		__u32 qp_index = answer->qp_index;
		struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);

		immediate_bytes = sizeof(immediate);
		if (!ring || (__s32)(ring->receive_tail - qp->delivered) <= 0) {
			nic_count(MRC_NC_DROP_NO_RECEIVE, 1);
			return rc_answer_with(answer, RC_RNR_TIMER, psn, qp->completed_messages);
		}
		if (bpf_xdp_load_bytes(ctx, head_bytes - immediate_bytes, &immediate,
				       sizeof(immediate)))
			return nic_drop(MRC_NC_DROP_LENGTH);
	}
	offset = length ? region_resolve(r_key, va, length) : 0;
	if (offset < 0)
		return rc_answer_with(answer, RC_NAK_REMOTE_ACCESS, psn, qp->completed_messages);
	if (!placing_begins(qp->placings, psn - qp->first_expected))
		return drop_second_copy();
	if (memory_transfer(ctx, head_bytes, offset, length, FRAME_TO_MEMORY)) {
		placing_failed(qp->placings, psn - qp->first_expected);
		return nic_drop(MRC_NC_DROP_BOUNDS);
	}
	now_ns = bpf_ktime_get_ns();

	bpf_spin_lock(&qp->lock);
	number = rc_receive(qp, opcode, length, va, r_key, message_bytes);
	answer->is_cnp =
	    answer->is_marked && (__s64)(now_ns - qp->cnp_ns) >= (__s64)qp->cnp_interval_ns;
	if (answer->is_cnp)
		qp->cnp_ns = now_ns;
	rc_answer_with(answer, WIRE_AETH_ACK, qp->expected_psn - 1, qp->completed_messages);
	message_bytes = qp->write_bytes;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_DATA, 1);
	nic_count(MRC_NC_RX_PLACED_BYTES, length);
	if (number)
		nic_event(MRC_EVENT_RECEIVE, answer->qp_index, number, bpf_ntohl(immediate),
			  message_bytes);
	return RC_SEND_ANSWER;
}

#endif

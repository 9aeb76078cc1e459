/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The responder of a reliable connection whose packets switches send by different ways: each says
 * where it goes, is placed as it comes, and is acknowledged when all before it are there. A gap is
 * no loss; what is lost the requester's clock finds.
 */
#ifndef MRC_RC_ANY_ORDER_H
#define MRC_RC_ANY_ORDER_H

#include <mrc/psn.h>
#include "../mr.h"
#include "../work.h"
#include "../xmit.h"
#include "maps.h"
#include "wire.h"

/* Decides the response. */
static __always_inline int rc_respond(struct rc_response *response, __u32 syndrome, __u32 psn,
				      __u32 msn)
{
	response->syndrome = syndrome;
	response->psn = psn;
	response->msn = msn;
	return MRC_STAGE_SEND_RESPONSE;
}

/* Under the lock: a packet that had not been taken before has been placed. */
static __always_inline void rc_receive_any_order(struct mrc_rc_qp *qp, __u32 psn)
{
	ring_set(qp->received_bits, psn);
	for (int i = 0; i <= MRC_PSN_WORDS; i++) {
		__u32 run = trailing_zeros(~ring_window(qp->received_bits, qp->expected_psn));
		__u32 in_word = 64 - (qp->expected_psn & 63);
		__u64 mask;

		if (run > in_word)
			run = in_word;
		if (!run)
			break;
		mask = (~0ULL >> (64 - run)) << (qp->expected_psn & 63);
		qp->received_bits[ring_word(qp->expected_psn)] &= ~mask;
		qp->completed_messages += run; /* on the wire every packet is one */
		qp->expected_psn += run;
	}
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
		__s32 left = psn_distance(qp->expected_psn, qp->delivered_psn);
		__u32 step = trailing_zeros(ring_window(qp->immediate_bits, qp->delivered_psn));
		struct mrc_immediate *entry;

		if (left <= 0)
			break;
		if (step >= 64 || (__s32)step >= left) {
			qp->delivered_psn += left < 64 ? left : 64;
			continue;
		}
		qp->delivered_psn += step;
		ring_clear(qp->immediate_bits, qp->delivered_psn);
		entry = &qp->immediates[qp->delivered_psn & (MRC_PSN_RING - 1)];
		qp->delivered_psn++;
		qp->waiting_immediates--;
		number = ++qp->delivered;
		work_arrive(ring, number, entry->immediate, entry->length, entry->r_key);
	}
	bpf_spin_unlock(&qp->lock);
	if (number)
		report_arrival(qp_index, number);
	return number != 0;
}

/*
 * A data packet for the QP that the response names, its PSN expanded and its length checked.
 * Returns a stage.
 */
__noinline int rc_on_write_any_order(struct xdp_md *ctx, __u32 psn, __u32 length)
{
	struct wire_stack *stack = frame_head(ctx, sizeof(*stack));
	struct rc_response *response = lookup0(&rc_responses);
	__u32 qp_index, has_immediate, head_bytes, dmalen, is_moving;
	struct mrc_work_ring *ring;
	struct rc_reth reth;
	__be32 immediate = 0;
	struct mrc_rc_qp *qp;
	__s64 offset;
	__u64 now_ns;

	if (!stack || !response)
		return XDP_DROP;
	qp_index = response->qp_index;
	qp = rc_find(qp_index);
	ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	if (!qp || !ring)
		return XDP_DROP;
	head_bytes = rc_header_bytes(stack->bth.opcode);
	has_immediate = rc_has_immediate(stack->bth.opcode);
	if (!rc_has_reth(stack->bth.opcode) || !rc_ends_message(stack->bth.opcode))
		return rc_respond(response, RC_NAK_INVALID_REQUEST, psn, qp->completed_messages);
	if (psn_distance(psn, qp->delivered_psn) >= MRC_PSN_RING)
		return nic_drop(MRC_NC_DROP_OUT_OF_ORDER);
	if (psn_distance(psn, qp->expected_psn) < 0 || ring_test(qp->received_bits, psn)) {
		nic_count(MRC_NC_RX_DATA, 1);
		nic_count(MRC_NC_RX_DUPLICATE, 1);
		return rc_respond(response, WIRE_AETH_ACK, qp->expected_psn - 1,
				  qp->completed_messages);
	}
	if (bpf_xdp_load_bytes(ctx, sizeof(*stack), &reth, sizeof(reth)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	dmalen = bpf_ntohl(reth.dmalen);
	if (length > dmalen || (!length && dmalen))
		return rc_respond(response, RC_NAK_INVALID_REQUEST, psn, qp->completed_messages);
	if (has_immediate) {
		if ((__s32)(ring->receive_tail - qp->delivered - qp->waiting_immediates) <= 0) {
			nic_count(MRC_NC_DROP_NO_RECEIVE, 1);
			return rc_respond(response, RC_RNR_TIMER, qp->expected_psn,
					  qp->completed_messages);
		}
		if (bpf_xdp_load_bytes(ctx, sizeof(*stack) + sizeof(reth), &immediate,
				       sizeof(immediate)))
			return nic_drop(MRC_NC_DROP_LENGTH);
	}
	offset = mr_of_qp(qp_index, qp->is_writable, qp->pd, bpf_ntohl(reth.r_key),
			  bpf_be64_to_cpu(reth.va), length);
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
	if (has_immediate) {
		struct mrc_immediate *entry = &qp->immediates[psn & (MRC_PSN_RING - 1)];

		entry->immediate = bpf_ntohl(immediate);
		entry->r_key = bpf_ntohl(reth.r_key);
		entry->length = mr_message_bytes(entry->r_key, bpf_be64_to_cpu(reth.va),
						 bpf_ntohl(reth.dmalen));
		ring_set(qp->immediate_bits, psn);
		qp->waiting_immediates++;
	}
	is_moving = psn == qp->expected_psn;
	rc_receive_any_order(qp, psn);
	response->is_cnp =
	    response->is_marked && (__s64)(now_ns - qp->cnp_ns) >= (__s64)qp->cnp_interval_ns;
	if (response->is_cnp)
		qp->cnp_ns = now_ns;
	rc_respond(response, WIRE_AETH_ACK, qp->expected_psn - 1, qp->completed_messages);
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_DATA, 1);
	nic_count(MRC_NC_RX_PLACED_BYTES, length);
	for (int i = 0; is_moving && i < MRC_WORK_RING; i++) {
		if (!rc_deliver_immediate(qp_index))
			break;
	}
	return MRC_STAGE_SEND_RESPONSE;
}

#endif

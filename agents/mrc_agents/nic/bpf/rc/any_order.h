/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The responder of a reliable connection whose packets switches send by different ways: each says
 * where it goes, is placed as it comes, and is acknowledged when all before it are there. A gap is
 * no loss; what is lost the requester's clock finds.
 */
#ifndef MRC_RC_ANY_ORDER_H
#define MRC_RC_ANY_ORDER_H

#include "write.h"

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

/* Under the lock: the immediate waits until nothing below its packet is missing. */
static __always_inline void rc_keep_immediate(struct mrc_rc_qp *qp, const struct rc_packet *packet)
{
	struct mrc_immediate *entry = &qp->immediates[packet->psn & (MRC_PSN_RING - 1)];

	entry->immediate = packet->immediate;
	entry->r_key = packet->r_key;
	entry->length = mr_message_bytes(packet->r_key, packet->va, packet->message_bytes);
	ring_set(qp->immediate_bits, packet->psn);
	qp->waiting_immediates++;
}

/* The data packet in rc_responses, for the QP named there. Returns a stage. */
__noinline int rc_on_write_any_order(struct xdp_md *ctx)
{
	struct rc_response *response = lookup0(&rc_responses);
	struct rc_packet *packet;
	struct mrc_rc_qp *qp;
	__u32 is_moving;
	__u64 now_ns;
	int next;

	if (!response)
		return XDP_DROP;
	packet = &response->packet;
	qp = rc_find(response->qp_index);
	if (!qp)
		return XDP_DROP;
	if (!rc_has_reth(packet->opcode) || !rc_ends_message(packet->opcode))
		return rc_respond(response, RC_NAK_INVALID_REQUEST, packet->psn,
				  qp->completed_messages);
	if (psn_distance(packet->psn, qp->delivered_psn) >= MRC_PSN_RING)
		return nic_drop(MRC_NC_DROP_OUT_OF_ORDER);
	if (psn_distance(packet->psn, qp->expected_psn) < 0 ||
	    ring_test(qp->received_bits, packet->psn))
		return rc_on_duplicate(qp, response);
	next = rc_load_reth(ctx, packet);
	if (next)
		return next;
	if (packet->length > packet->message_bytes || (!packet->length && packet->message_bytes))
		return rc_respond(response, RC_NAK_INVALID_REQUEST, packet->psn,
				  qp->completed_messages);
	next =
	    rc_load_immediate(ctx, qp, response, qp->expected_psn) ?: rc_place(ctx, qp, response);
	if (next)
		return next;
	now_ns = bpf_ktime_get_ns();

	bpf_spin_lock(&qp->lock);
	if (rc_has_immediate(packet->opcode))
		rc_keep_immediate(qp, packet);
	is_moving = packet->psn == qp->expected_psn;
	rc_receive_any_order(qp, packet->psn);
	rc_acknowledge(qp, response, now_ns);
	bpf_spin_unlock(&qp->lock);
	for (int i = 0; is_moving && i < MRC_WORK_RING; i++) {
		if (!rc_deliver_immediate(response->qp_index))
			break;
	}
	return MRC_STAGE_SEND_RESPONSE;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What of a QP's packets has been received, which messages that completes, and what is said of it
 * (docs/protocol.md, "Responder" and "SACK bitmap"). All functions run under the QP's lock.
 */
#ifndef MRC_RECEIVE_WINDOW_H
#define MRC_RECEIVE_WINDOW_H

#include <mrc/psn.h>
#include "answer.h"
#include "nic_maps.h"
#include "reverse_ev.h"

enum {
	ACK_OFFSET_MIN = -32768,
	PENALTY_ENDS = 1 << 7, /* r_c, above rcv_cwnd_pen */
};

/* Messages that end within the PSNs of `mask`, now all received, are complete. */
static __always_inline void complete_messages(struct mrc_qp *qp, __u32 word, __u64 mask)
{
	__u64 ends = qp->end_bits[word] & mask;

	if (!ends)
		return;
	qp->completed_messages += count_bits(ends);
	qp->completed_psn = (qp->cack_next & ~63U) + highest_bit(ends);
	qp->completed_wimm += count_bits(qp->wimm_bits[word] & ends);
	qp->end_bits[word] &= ~ends;
	qp->wimm_bits[word] &= ~ends;
	qp->is_ack_owed = 1;
}

/* A packet that had not been received before. */
static __always_inline void receive_new(struct mrc_qp *qp, const struct received *packet,
					__u32 nominal_bytes)
{
	__u32 psn = packet->psn;

	ring_set(qp->received_bits, psn);
	if (packet->is_end)
		ring_set(qp->end_bits, psn);
	if (packet->wimm) {
		struct mrc_immediate *entry = &qp->immediates[packet->wimm & (MRC_WIMM_MAX - 1)];

		ring_set(qp->wimm_bits, psn);
		entry->immediate = packet->immediate;
		entry->length = packet->message_bytes;
	}
	qp->received_bytes += nominal_bytes;
	qp->received_above++;
	if (psn_distance(psn, qp->max_received) > 0)
		qp->max_received = psn;
	for (int i = 0; i <= MRC_PSN_WORDS; i++) {
		__u32 run = trailing_zeros(~ring_window(qp->received_bits, qp->cack_next));
		__u32 word = ring_word(qp->cack_next);
		__u32 in_word = 64 - (qp->cack_next & 63);
		__u64 mask;

		if (run > in_word)
			run = in_word;
		if (!run)
			break;
		mask = (~0ULL >> (64 - run)) << (qp->cack_next & 63);
		qp->received_bits[word] &= ~mask;
		complete_messages(qp, word, mask);
		qp->cack_next += run;
		qp->received_above -= run;
	}
}

/* What the QP's state makes a SACK say. */
static __always_inline void sack_compose(struct mrc_qp *qp, struct rx_answer *answer)
{
	__u32 cack = qp->cack_next - 1;

	qp->sack_count++;
	answer->psn = cack;
	/* What is further back than 16 bits reach must not look like a PSN of today. */
	answer->ack_offset = answer->packet.psn - cack;
	if (psn_distance(answer->packet.psn, cack) < ACK_OFFSET_MIN)
		answer->ack_offset = ACK_OFFSET_MIN;
	/* Starts above cack; where arrivals reach beyond it, every second one ends there. */
	answer->base_offset = 1;
	if (psn_distance(qp->max_received, cack) > 64 && (qp->sack_count & 1))
		answer->base_offset = psn_distance(qp->max_received, cack) - 63;
	answer->bitmap = ring_window(qp->received_bits, cack + answer->base_offset);
	answer->above = qp->received_above;
	answer->bytes = qp->received_bytes;
	answer->mpr = qp->is_mpr_dynamic ? qp->tracked_psns / MRC_MPR_UNIT : 0;
	answer->penalty = qp->penalty;
	if (!qp->penalty && qp->restores_left) {
		qp->restores_left--;
		answer->penalty = PENALTY_ENDS;
	}
}

/*
 * PSNs from the first one not received on that are tracked. A range that was made smaller retracts
 * nothing: what lies below its old end may be under way.
 */
static __always_inline __s32 tracked_range(const struct mrc_qp *qp)
{
	__s32 left = psn_distance(qp->tracked_from_psn, qp->cack_next);
	__s32 range = qp->tracked_psns;

	return left > range && left <= (__s32)qp->mpr_dest_psns ? left : range;
}

/*
 * Which answer a packet gets. A completed message is acknowledged by the packet that completed it;
 * a marked packet gets its SACK first, and the ACK is left to the next one. A duplicate of a
 * completed message asks for an ACK that was lost. An ACK that stands for another packet than the
 * first transmission of the one it names says so by rtx: it tells no round-trip time. `now_ns`: see
 * reverse_is_due().
 */
static __always_inline void receive_answer(struct mrc_qp *qp, struct rx_answer *answer, int is_new,
					   __u64 now_ns)
{
	struct received *packet = &answer->packet;
	int is_urgent;

	if (!is_new || packet->is_retransmission)
		reverse_doubt(qp, packet->plane);
	answer->receives = qp->completed_wimm - qp->delivered_wimm;
	if ((qp->is_ack_owed && !packet->is_marked) ||
	    (!is_new && qp->completed_messages &&
	     psn_distance(packet->psn, qp->completed_psn) <= 0)) {
		qp->is_ack_owed = 0;
		answer->kind = ANSWER_AETH;
		answer->code = WIRE_AETH_ACK;
		answer->psn = qp->completed_psn;
		answer->msn = qp->completed_messages;
		packet->is_retransmission |= !is_new || packet->psn != qp->completed_psn;
		return;
	}
	is_urgent = !is_new || packet->is_marked || packet->asks_sack || packet->is_retransmission;
	qp->unsacked++;
	if (!is_urgent && reverse_is_due(qp, now_ns)) {
		answer->kind = ANSWER_REVERSE_PROBE;
		return;
	}
	answer->kind = ANSWER_NONE;
	if (!is_urgent && qp->unsacked < qp->sack_every)
		return;
	qp->unsacked = 0;
	answer->kind = ANSWER_SACK;
	sack_compose(qp, answer);
}

#endif

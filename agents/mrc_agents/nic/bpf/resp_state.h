/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * State of the responder: which packets of a QP have been received, which messages that completes,
 * and which response is due (docs/reference/protocol.md, "Responder" and "SACK bitmap"). All
 * functions run under the QP's lock but deliver_immediate().
 */
#ifndef MRC_RESP_STATE_H
#define MRC_RESP_STATE_H

#include <mrc/psn.h>
#include "ack_path.h"
#include "cc.h"
#include "nic_maps.h"
#include "stage.h"
#include "work.h"

enum {
	ACK_OFFSET_MIN = -32768,
};

/* The content of a packet. */
struct rx_packet {
	__u32 qp_index;
	__u32 plane;
	__u32 entropy;
	__u32 psn;
	__be16 tx_timestamp;
	__u16 msn;
	__u8 is_retransmission;
	__u8 is_marked;
	__u8 requests_sack;
	__u8 is_probe; /* a reliability probe; all below: a data packet */
	__u16 rqmsn;
	__u16 opcode;
	__u32 wimm; /* number of the message among those with immediate; 0: it has none */
	__u32 immediate;
	__u32 message_bytes;
	__u32 r_key;
	__u32 length;
	__u64 va;
};

enum response_kind {
	RESPONSE_SACK,
	RESPONSE_AETH, /* ACK or NAK */
	RESPONSE_NACK,
};

/* A response, and to which packet; too large for the stack that functions share. */
struct rx_response {
	struct rx_packet packet;
	__u32 kind;	  /* enum response_kind */
	__u32 code;	  /* AETH: syndrome; NACK: reason */
	__u32 psn;	  /* BTH.psn */
	__u32 msn;	  /* AETH */
	__u32 receives;	  /* WRITEs with immediate that can be reported */
	__u32 ack_offset; /* this and all below: SACK */
	__u32 base_offset;
	__u32 mpr; /* in units; 0: as it was */
	__u64 bitmap;
	__u64 cc_state; /* without its timestamp */
};

INDEX_MAP(PERCPU_ARRAY, rx_responses, struct rx_response, 1);

/* A NAK or NACK: it carries the packet's own PSN and MSN. */
static __always_inline int respond_nak(struct rx_response *response, __u32 kind, __u32 code)
{
	response->kind = kind;
	response->code = code;
	response->psn = response->packet.psn;
	response->msn = response->packet.msn;
	return MRC_STAGE_SEND_RESPONSE;
}

/* Messages that end within the PSNs of `mask`, now all received, are complete. */
static __always_inline void complete_messages(struct mrc_qp *qp, __u32 word, __u64 mask)
{
	__u64 ends = qp->resp.end_bits[word] & mask;

	if (!ends)
		return;
	qp->resp.completed_messages += count_bits(ends);
	qp->resp.completed_psn = (qp->resp.cack_next & ~63U) + highest_bit(ends);
	qp->resp.completed_wimm += count_bits(qp->resp.wimm_bits[word] & ends);
	qp->resp.end_bits[word] &= ~ends;
	qp->resp.wimm_bits[word] &= ~ends;
	qp->resp.is_ack_owed = 1;
}

/* A packet that had not been received before. */
static __always_inline void resp_receive(struct mrc_qp *qp, const struct rx_packet *packet)
{
	__u32 psn = packet->psn;

	ring_set(qp->resp.received_bits, psn);
	if (packet->opcode >= WIRE_WRITE_LAST)
		ring_set(qp->resp.end_bits, psn);
	if (packet->wimm) {
		struct mrc_immediate *entry =
		    &qp->resp.immediates[packet->wimm & (MRC_WIMM_MAX - 1)];

		ring_set(qp->resp.wimm_bits, psn);
		entry->immediate = packet->immediate;
		entry->length = packet->message_bytes;
		entry->r_key = packet->r_key;
	}
	qp->resp.received_bytes += nominal_bytes(packet->length, packet->opcode);
	qp->resp.received_above++;
	if (psn_distance(psn, qp->resp.max_received) > 0)
		qp->resp.max_received = psn;
	for (int i = 0; i <= MRC_PSN_WORDS; i++) {
		__u32 run =
		    trailing_zeros(~ring_window(qp->resp.received_bits, qp->resp.cack_next));
		__u32 word = ring_word(qp->resp.cack_next);
		__u32 in_word = 64 - (qp->resp.cack_next & 63);
		__u64 mask;

		if (run > in_word)
			run = in_word;
		if (!run)
			break;
		mask = (~0ULL >> (64 - run)) << (qp->resp.cack_next & 63);
		qp->resp.received_bits[word] &= ~mask;
		complete_messages(qp, word, mask);
		qp->resp.cack_next += run;
		qp->resp.received_above -= run;
	}
}

/* Fills in the fields of a SACK that depend on the QP's state. */
static __always_inline void sack_compose(struct mrc_qp *qp, struct rx_response *response)
{
	struct cc_received received = {
	    .bytes = qp->resp.received_bytes,
	    .above = qp->resp.received_above,
	    .penalty = qp->resp.penalty,
	    .is_marked = response->packet.is_marked,
	};
	__u32 cack = qp->resp.cack_next - 1;

	qp->resp.sack_count++;
	response->psn = cack;
	/* What is further back than 16 bits reach must not look like a PSN of today. */
	response->ack_offset = response->packet.psn - cack;
	if (psn_distance(response->packet.psn, cack) < ACK_OFFSET_MIN)
		response->ack_offset = ACK_OFFSET_MIN;
	/* Starts above cack; where arrivals reach beyond it, every second one ends there. */
	response->base_offset = 1;
	if (psn_distance(qp->resp.max_received, cack) > 64 && (qp->resp.sack_count & 1))
		response->base_offset = psn_distance(qp->resp.max_received, cack) - 63;
	response->bitmap = ring_window(qp->resp.received_bits, cack + response->base_offset);
	response->mpr = qp->resp.is_mpr_dynamic ? qp->resp.tracked_psns / MRC_MPR_UNIT : 0;
	if (!qp->resp.penalty && qp->resp.restores_left) {
		qp->resp.restores_left--;
		received.is_penalty_over = 1;
	}
	response->cc_state = cc_state_make(&qp->resp.cc_responder, &received);
}

/*
 * PSNs from the first one not received on that are tracked. A range that was made smaller retracts
 * nothing: what lies below its old end may be in flight.
 */
static __always_inline __s32 tracked_range(const struct mrc_qp *qp)
{
	__s32 left = psn_distance(qp->resp.tracked_from_psn, qp->resp.cack_next);
	__s32 range = qp->resp.tracked_psns;

	return left > range && left <= (__s32)qp->resp.mpr_dest_psns ? left : range;
}

/*
 * Which response a packet gets, as the stage that follows. A completed message is acknowledged by the packet that completed
 * it; a marked packet gets its SACK first, and the ACK is left to the next one. A duplicate of a
 * completed message means that its ACK was lost. An ACK that stands for another packet than the
 * first transmission of the one it names says so by rtx: it gives no RTT sample. `now_ns`: see
 * is_ack_path_probe_due().
 */
static __always_inline int resp_choose(struct mrc_qp *qp, struct rx_response *response, int is_new,
				       __u64 now_ns)
{
	struct rx_packet *packet = &response->packet;
	int is_urgent;

	if (!is_new || packet->is_retransmission)
		ack_path_invalidate(qp, packet->plane);
	response->receives = qp->resp.completed_wimm - qp->resp.delivered_wimm;
	if ((qp->resp.is_ack_owed && !packet->is_marked) ||
	    (!is_new && qp->resp.completed_messages &&
	     psn_distance(packet->psn, qp->resp.completed_psn) <= 0)) {
		qp->resp.is_ack_owed = 0;
		response->kind = RESPONSE_AETH;
		response->code = WIRE_AETH_ACK;
		response->psn = qp->resp.completed_psn;
		response->msn = qp->resp.completed_messages;
		packet->is_retransmission |= !is_new || packet->psn != qp->resp.completed_psn;
		return MRC_STAGE_SEND_RESPONSE;
	}
	is_urgent =
	    !is_new || packet->is_marked || packet->requests_sack || packet->is_retransmission;
	qp->resp.unsacked++;
	if (!is_urgent && is_ack_path_probe_due(qp, now_ns))
		return MRC_STAGE_SEND_ACK_PATH_PROBE;
	if (!is_urgent && qp->resp.unsacked < qp->resp.sack_every)
		return XDP_DROP; /* SACKs are coalesced, and nothing makes this one due */
	qp->resp.unsacked = 0;
	response->kind = RESPONSE_SACK;
	sack_compose(qp, response);
	return MRC_STAGE_SEND_RESPONSE;
}

/* Reports the next WRITE with immediate, in order; returns whether there was one. */
__noinline int deliver_immediate(__u32 qp_index)
{
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 number = 0;

	if (!qp || !ring)
		return 0;
	bpf_spin_lock(&qp->lock);
	if (qp->resp.delivered_wimm != qp->resp.completed_wimm) {
		struct mrc_immediate *entry;

		number = ++qp->resp.delivered_wimm;
		entry = &qp->resp.immediates[number & (MRC_WIMM_MAX - 1)];
		work_arrive(ring, number, entry->immediate, entry->length, entry->r_key);
	}
	bpf_spin_unlock(&qp->lock);
	if (!number)
		return 0;
	report_arrival(qp_index, number);
	return 1;
}

/*
 * The number of a WRITE with immediate whose last packet this is, from its METH.rqmsn; 0 when the
 * requester had no right to send it, or a negative number when nobody waits for it yet.
 */
static __always_inline __s64 wimm_number(const struct mrc_qp *qp, __u32 qp_index, __u32 rqmsn)
{
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	__s32 ahead = (__s16)(rqmsn - qp->resp.completed_wimm);
	__u32 number = qp->resp.completed_wimm + ahead;

	if (ahead <= 0 || number - qp->resp.delivered_wimm > qp->resp.max_wimm_dest)
		return 0;
	return ring && (__s32)(ring->receive_tail - number) >= 0 ? (__s64)number : -1;
}

#endif

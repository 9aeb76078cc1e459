/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The responder: checks a data packet, places its payload where RETH says, in whatever order it
 * comes, and turns the frame into the SACK (docs/protocol.md, "Responder").
 */
#ifndef MRC_RESPONDER_H
#define MRC_RESPONDER_H

#include <stddef.h>
#include <mrc/psn.h>
#include "frame.h"
#include "memory.h"
#include "nic_maps.h"

enum {
	UDP_TO_PAYLOAD_BYTES = sizeof(struct wire_write) - offsetof(struct wire_stack, udp) +
			       WIRE_ICRC_BYTES, /* without immediate, with iCRC */
	ACK_OFFSET_MIN = -32768,
	NOMINAL_HEADER_BYTES = 40,    /* nominal size of a packet = UDP length + 40 */
	REFUSAL_INTERVAL_NS = 100000, /* between NACKs for PSNs beyond the window */
};

/* What the answer needs to know of the packet that is answered. */
struct received {
	__u32 qp_index;
	__u32 plane;
	__u32 entropy;
	__u32 psn;
	__be16 tx_timestamp;
	__u16 msn;
	__u8 is_retransmission;
	__u8 is_marked;
	__u8 asks_sack;
	__u8 is_end;   /* the last packet of its message */
	__u8 is_probe; /* a reliability probe */
	__u32 wimm;    /* number of the message among those with immediate; 0: it has none */
	__u32 immediate;
	__u32 message_bytes;
	__u32 pad0;
};

enum answer_kind {
	ANSWER_NONE = 0, /* SACKs are coalesced, and nothing makes this one due */
	ANSWER_SACK,
	ANSWER_AETH, /* ACK or NAK */
	ANSWER_NACK,
};

/* What is answered, and to which packet; too large for the stack that functions share. */
struct rx_answer {
	struct received packet;
	__u32 kind;	  /* enum answer_kind */
	__u32 code;	  /* AETH: syndrome; NACK: reason */
	__u32 psn;	  /* BTH.psn */
	__u32 msn;	  /* AETH */
	__u32 receives;	  /* WRITEs with immediate that can be told to the agent */
	__u32 ack_offset; /* this and all below: SACK */
	__u32 base_offset;
	__u32 above;
	__u64 bitmap;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rx_answer);
} rx_answers SEC(".maps");

/*
 * The answer takes the path of the packet that it answers, backwards: that one is known to work,
 * unless links fail one way only.
 */
static __always_inline void reverse_target(const struct mrc_nic_config *config, struct mrc_qp *qp,
					   const struct received *packet, struct frame_target *to)
{
	to->to = carrier_fill(qp->template_hi, qp->template_lo, qp->is_local, packet->plane,
			      entropy_uplink(packet->entropy), config->uplinks_per_pair);
	to->peer_host = qp->peer_host;
	to->peer_qpn = qp->peer_qpn;
	to->plane = packet->plane;
	to->entropy = packet->entropy;
}

static __always_inline void fill_sack(struct wire_sack *head, const struct mrc_qp *qp,
				      const struct rx_answer *answer)
{
	head->advice = bpf_htons((answer->packet.is_marked ? WIRE_SETH_SKIP_ONCE : 0) |
				 (answer->packet.is_probe ? WIRE_SETH_ANSWERS_PROBE : 0));
	head->ack_psn_offset = bpf_htons(answer->ack_offset);
	head->entropy = bpf_htonl(answer->packet.entropy);
	head->spdcid = bpf_htons(qp->qpn);
	head->dpdcid = bpf_htons(qp->peer_qpn);
	head->cack_psn = bpf_htonl(answer->psn & WIRE_PSN_MASK);
	head->cc_type = 0;
	head->mpr = 0;
	head->sack_offset = bpf_htons(answer->base_offset);
	head->bitmap = bpf_cpu_to_be64(answer->bitmap);
	head->tx_timestamp = answer->packet.tx_timestamp;
	head->ooo_count = bpf_htons(answer->above & 0x7fff);
	head->penalty_received = bpf_htonl(((answer->bytes + 255) >> 8) & WIRE_PSN_MASK);
}

static __always_inline void fill_nack(struct wire_nack *head, const struct mrc_qp *qp,
				      const struct rx_answer *answer)
{
	head->reserved = 0;
	head->reason = answer->code;
	head->vendor = 0;
	head->entropy = bpf_htonl(answer->packet.entropy);
	head->spdcid = bpf_htons(qp->qpn);
	head->dpdcid = bpf_htons(qp->peer_qpn);
	head->psn = bpf_htonl(answer->psn & WIRE_PSN_MASK);
	head->cc_type = WIRE_NETH_CC_TYPE;
	head->reserved_tail = 0;
	head->tx_timestamp = answer->packet.tx_timestamp;
}

/*
 * Turns the frame, whatever it held, into the answer that was decided, and sends it. Called by the
 * program itself, as send_planned() is.
 */
__noinline int send_answer(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct rx_answer *answer = lookup0(&rx_answers);
	__u32 opcode = WIRE_ACKNOWLEDGE, bytes = sizeof(struct wire_acknowledge);
	__u32 port_id, flags_psn, qp_index;
	struct frame_target to;
	struct mrc_port *port;
	struct mrc_qp *qp;
	union {
		struct wire_stack *stack;
		struct wire_sack *sack;
		struct wire_nack *nack;
		struct wire_acknowledge *acknowledge;
	} head;

	if (!config || !answer)
		return XDP_DROP;
	qp_index = answer->packet.qp_index;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	port_id = nic_port_id(config, answer->packet.plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!qp || !port)
		return XDP_DROP;
	flags_psn = answer->psn & WIRE_PSN_MASK;
	if (answer->kind == ANSWER_SACK) {
		opcode = WIRE_SACK;
		bytes = sizeof(*head.sack);
		if (answer->packet.is_retransmission)
			flags_psn |= (__u32)WIRE_BTH_RETRANSMISSION << 24;
	} else if (answer->kind == ANSWER_NACK) {
		opcode = WIRE_NACK;
		bytes = sizeof(*head.nack);
	}
	if (frame_resize(ctx, bytes + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head.stack = frame_head(ctx, sizeof(*head.acknowledge) + WIRE_ICRC_BYTES);
	if (!head.stack)
		return nic_drop(MRC_NC_DROP_LENGTH);
	reverse_target(config, qp, &answer->packet, &to);
	write_stack(head.stack, config, port, &to, MRC_DSCP_CONTROL << 2, opcode, 0, flags_psn,
		    bytes - sizeof(*head.stack) + WIRE_ICRC_BYTES);
	if (answer->kind == ANSWER_SACK) {
		head.sack = frame_head(ctx, sizeof(*head.sack) + WIRE_ICRC_BYTES);
		if (!head.sack)
			return nic_drop(MRC_NC_DROP_LENGTH);
		fill_sack(head.sack, qp, answer);
	} else if (answer->kind == ANSWER_NACK) {
		head.nack = frame_head(ctx, sizeof(*head.nack) + WIRE_ICRC_BYTES);
		if (!head.nack)
			return nic_drop(MRC_NC_DROP_LENGTH);
		fill_nack(head.nack, qp, answer);
	} else {
		head.acknowledge->syndrome_msn =
		    bpf_htonl(answer->code << 24 | (answer->msn & WIRE_PSN_MASK));
	}
	if (write_icrc_off(ctx, bytes))
		return nic_drop(MRC_NC_DROP_LENGTH);
	if (answer->kind == ANSWER_NACK)
		nic_count(MRC_NC_TX_NACK, 1);
	else if (answer->kind == ANSWER_SACK)
		nic_count(MRC_NC_TX_SACK, 1);
	else
		nic_count(answer->code == WIRE_AETH_ACK ? MRC_NC_TX_ACK : MRC_NC_TX_NAK, 1);
	return port_emit(ctx, port_id, port, MRC_CLASS_CONTROL);
}

/* Where the payload goes in the NIC's memory, or -1 when key or bounds forbid it. */
static __always_inline __s64 region_resolve(__u32 r_key, __u64 va, __u32 length)
{
	__u32 index = r_key & 63;
	struct mrc_region *region = bpf_map_lookup_elem(&regions, &index);

	if (!region || !r_key || region->r_key != r_key || !region->is_remote_writable) {
		nic_count(MRC_NC_DROP_R_KEY, 1);
		return -1;
	}
	if (va > region->length || length > region->length - va) {
		nic_count(MRC_NC_DROP_BOUNDS, 1);
		return -1;
	}
	return region->offset + va;
}

/* Under the lock: messages that end within the PSNs of `mask`, now all received, are complete. */
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

/* Under the lock: a packet that had not been received before. */
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

/* Under the lock: what the QP's state makes a SACK say. */
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
}

/*
 * Under the lock: which answer a packet gets. A completed message is acknowledged by the packet
 * that completed it; a marked packet gets its SACK first, and the ACK is left to the next one. A
 * duplicate of a completed message asks for an ACK that was lost.
 */
static __always_inline void receive_answer(struct mrc_qp *qp, struct rx_answer *answer, int is_new)
{
	const struct received *packet = &answer->packet;

	answer->receives = qp->completed_wimm - qp->delivered_wimm;
	if ((qp->is_ack_owed && !packet->is_marked) ||
	    (!is_new && qp->completed_messages &&
	     psn_distance(packet->psn, qp->completed_psn) <= 0)) {
		qp->is_ack_owed = 0;
		answer->kind = ANSWER_AETH;
		answer->code = WIRE_AETH_ACK;
		answer->psn = qp->completed_psn;
		answer->msn = qp->completed_messages;
		return;
	}
	answer->kind = ANSWER_NONE;
	if (++qp->unsacked < qp->sack_every && is_new && !packet->is_marked && !packet->asks_sack &&
	    !packet->is_retransmission)
		return;
	qp->unsacked = 0;
	answer->kind = ANSWER_SACK;
	sack_compose(qp, answer);
}

/* Tells the agent of the next WRITE with immediate, in order; returns whether there was one. */
__noinline int deliver_receive(__u32 qp_index)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_immediate entry = {};
	__u32 number = 0;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	if (qp->delivered_wimm != qp->completed_wimm) {
		number = ++qp->delivered_wimm;
		entry = qp->immediates[number & (MRC_WIMM_MAX - 1)];
	}
	bpf_spin_unlock(&qp->lock);
	if (!number)
		return 0;
	nic_event(MRC_EVENT_RECEIVE, qp_index, number, entry.immediate, entry.length);
	return 1;
}

/* The QP a packet is for, if it may receive from this peer; else NULL, and counted. */
static __always_inline struct mrc_qp *receiving_qp(__u32 qp_index, const struct wire_stack *stack)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	if (!qp) {
		nic_count(MRC_NC_DROP_UNKNOWN_QP, 1);
		return (void *)0;
	}
	if (qp->state != MRC_QP_RTR && qp->state != MRC_QP_RTS) {
		nic_count(MRC_NC_DROP_QP_STATE, 1);
		return (void *)0;
	}
	if (!stack_is_from(stack, qp->peer_host)) {
		nic_count(MRC_NC_DROP_UNKNOWN_QP, 1);
		return (void *)0;
	}
	return qp;
}

/*
 * The number of a WRITE with immediate whose last packet this is, from its METH.rqmsn; 0 when the
 * requestor had no right to send it, or a negative number when nobody waits for it yet.
 */
static __always_inline __s64 wimm_number(const struct mrc_qp *qp, __u32 qp_index, __u32 rqmsn)
{
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	__s32 ahead = (__s16)(rqmsn - qp->completed_wimm);
	__u32 number = qp->completed_wimm + ahead;

	if (ahead <= 0 || number - qp->delivered_wimm > qp->max_wimm_dest)
		return 0;
	return ring && (__s32)(ring->receive_tail - number) >= 0 ? (__s64)number : -1;
}

/* Whether a PSN beyond the window is to be refused aloud: not each of a whole burst is. */
static __always_inline int is_refusal_due(struct mrc_qp *qp)
{
	__u64 now_ns = bpf_ktime_get_ns();

	nic_count(MRC_NC_DROP_OUT_OF_WINDOW, 1);
	if (now_ns - qp->refused_ns < REFUSAL_INTERVAL_NS)
		return 0;
	qp->refused_ns = now_ns;
	return 1;
}

static __always_inline int refuse(struct rx_answer *answer, __u32 kind, __u32 code)
{
	answer->kind = kind;
	answer->code = code;
	answer->psn = answer->packet.psn;
	answer->msn = answer->packet.msn;
	return SEND_ANSWER;
}

/* What is left of a data packet that a switch has trimmed: says so, and changes nothing. */
__noinline int on_trimmed(struct xdp_md *ctx, __u32 plane, __u32 dscp)
{
	struct wire_trimmed *head = frame_head(ctx, sizeof(*head));
	struct rx_answer *answer = lookup0(&rx_answers);

	if (!head || !answer ||
	    !(head->stack.bth.flags_psn & bpf_htonl((__u32)WIRE_BTH_TIMESTAMP << 24)))
		return nic_drop(MRC_NC_DROP_MALFORMED);
	answer->packet.qp_index = stack_qp_index(&head->stack);
	answer->packet.plane = plane;
	answer->packet.entropy = stack_entropy(&head->stack);
	answer->packet.psn = bpf_ntohl(head->stack.bth.flags_psn);
	answer->packet.tx_timestamp = head->tx_timestamp;
	if (!receiving_qp(answer->packet.qp_index, &head->stack))
		return XDP_DROP;
	nic_count(MRC_NC_RX_TRIMMED, 1);
	return refuse(answer, ANSWER_NACK,
		      dscp == MRC_DSCP_TRIMMED ? WIRE_NACK_TRIMMED : WIRE_NACK_TRIMMED_LASTHOP);
}

/* A reliability probe: a SACK goes back at once, on its path. Returns a verdict or SEND_ANSWER. */
__noinline int on_probe(struct xdp_md *ctx, __u32 plane)
{
	struct wire_probe *head = frame_exactly(ctx, sizeof(*head));
	struct rx_answer *answer = lookup0(&rx_answers);
	struct mrc_qp *qp;
	__u32 id;

	if (!head || !answer)
		return nic_drop(MRC_NC_DROP_LENGTH);
	answer->packet.qp_index = stack_qp_index(&head->stack);
	answer->packet.plane = plane;
	answer->packet.entropy = stack_entropy(&head->stack);
	answer->packet.tx_timestamp = head->tx_timestamp;
	answer->packet.is_retransmission = 0;
	answer->packet.is_marked =
	    (bpf_ntohl(head->stack.outer.version_class_flow) >> 20 & WIRE_CE) == WIRE_CE;
	answer->packet.is_probe = 1;
	id = bpf_ntohs(head->probe_id);
	qp = receiving_qp(answer->packet.qp_index, &head->stack);
	if (!qp)
		return XDP_DROP;
	bpf_spin_lock(&qp->lock);
	answer->packet.psn = qp->cack_next;
	sack_compose(qp, answer);
	qp->unsacked = 0;
	bpf_spin_unlock(&qp->lock);
	answer->ack_offset = id;
	answer->kind = ANSWER_SACK;
	nic_count(MRC_NC_RX_PROBE, 1);
	return SEND_ANSWER;
}

/* A data packet, whose stack has been checked. Returns a verdict or SEND_ANSWER. */
__noinline int on_write(struct xdp_md *ctx, __u32 plane)
{
	struct wire_write *head = frame_head(ctx, sizeof(*head));
	struct rx_answer *answer = lookup0(&rx_answers);
	__u32 udp_bytes, pad, length, distance, dmalen, is_new, opcode, r_key, rqmsn;
	__u32 head_bytes, has_immediate, flags_psn, psn;
	struct mrc_nic_counters *counters;
	struct received *packet;
	struct mrc_qp *qp;
	__s64 offset, wimm;
	__be32 immediate;
	__u64 va;

	if (!head || !answer)
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet = &answer->packet;
	opcode = head->stack.bth.opcode;
	head_bytes = write_header_bytes(opcode);
	has_immediate = head_bytes > sizeof(*head);
	udp_bytes = bpf_ntohs(head->stack.udp.length);
	pad = head->stack.bth.pad_version >> 4 & 3;
	length = udp_bytes - UDP_TO_PAYLOAD_BYTES - (has_immediate ? 4 : 0) - pad;
	dmalen = bpf_ntohl(head->dmalen);
	flags_psn = bpf_ntohl(head->stack.bth.flags_psn);
	if (!(flags_psn >> 24 & WIRE_BTH_TIMESTAMP))
		return nic_drop(MRC_NC_DROP_MALFORMED); /* without TSETH all else lies elsewhere */
	if (length > MRC_PMTU_MAX || length > dmalen || pad != (-length & 3) ||
	    (opcode >= WIRE_WRITE_ONLY && length != dmalen))
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet->qp_index = stack_qp_index(&head->stack);
	packet->plane = plane;
	packet->entropy = stack_entropy(&head->stack);
	packet->is_retransmission = !!(flags_psn >> 24 & WIRE_BTH_RETRANSMISSION);
	packet->asks_sack = flags_psn >> 31;
	packet->is_marked =
	    (bpf_ntohl(head->stack.outer.version_class_flow) >> 20 & WIRE_CE) == WIRE_CE;
	packet->tx_timestamp = head->tx_timestamp;
	packet->msn = bpf_ntohs(head->msn);
	packet->is_end = opcode >= WIRE_WRITE_LAST;
	packet->message_bytes = dmalen;
	packet->wimm = 0;
	packet->is_probe = 0;
	rqmsn = bpf_ntohs(head->rqmsn);
	r_key = bpf_ntohl(head->r_key);
	va = bpf_be64_to_cpu(head->va);

	qp = receiving_qp(packet->qp_index, &head->stack);
	if (!qp)
		return XDP_DROP;
	psn = psn_expand(qp->cack_next, flags_psn & WIRE_PSN_MASK);
	packet->psn = psn;
	distance = psn - qp->cack_next;
	if ((__s32)distance >= (__s32)qp->mpr_dest_psns)
		return is_refusal_due(qp) ? refuse(answer, ANSWER_NACK, WIRE_NACK_PSN_OOR_WINDOW)
					  : XDP_DROP;
	is_new = (__s32)distance >= 0 && !ring_test(qp->received_bits, psn);
	if (is_new) {
		offset = length ? region_resolve(r_key, va, length) : 0;
		if (offset < 0)
			return refuse(answer, ANSWER_AETH, WIRE_AETH_NAK_REMOTE_ACCESS);
		if (has_immediate) {
			wimm = wimm_number(qp, packet->qp_index, rqmsn);
			if (!wimm)
				return refuse(answer, ANSWER_AETH, WIRE_AETH_NAK_INVALID_REQUEST);
			if (wimm < 0) {
				nic_count(MRC_NC_DROP_NO_RECEIVE, 1);
				return refuse(answer, ANSWER_NACK, WIRE_NACK_NO_RESOURCE);
			}
			if (bpf_xdp_load_bytes(ctx, sizeof(*head), &immediate, sizeof(immediate)))
				return nic_drop(MRC_NC_DROP_LENGTH);
			packet->wimm = wimm;
			packet->immediate = bpf_ntohl(immediate);
		}
		if (memory_transfer(ctx, head_bytes, offset, length, FRAME_TO_MEMORY))
			return nic_drop(MRC_NC_DROP_BOUNDS);
	}
	/*
	 * Marked as received only after its bytes are in place. A second copy that another CPU
	 * takes in the same instant writes the same bytes again and is found to be a duplicate
	 * here.
	 */
	bpf_spin_lock(&qp->lock);
	if (is_new)
		is_new =
		    psn_distance(psn, qp->cack_next) >= 0 && !ring_test(qp->received_bits, psn);
	if (is_new)
		receive_new(qp, packet, udp_bytes + NOMINAL_HEADER_BYTES);
	receive_answer(qp, answer, is_new);
	bpf_spin_unlock(&qp->lock);
	counters = lookup0(&nic_counters);
	if (counters) {
		counters->value[MRC_NC_RX_DATA] += 1;
		counters->value[MRC_NC_RX_PLACED_BYTES] += is_new ? length : 0;
		counters->value[MRC_NC_RX_DUPLICATE] += !is_new;
	}
	for (int i = 0; i < MRC_WIMM_MAX && answer->receives; i++)
		answer->receives = deliver_receive(packet->qp_index);
	return answer->kind == ANSWER_NONE ? XDP_DROP : SEND_ANSWER;
}

#endif

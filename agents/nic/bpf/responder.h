/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The responder: checks a data packet, places its payload where RETH says, in whatever order it
 * comes, and turns the frame into the SACK (docs/protocol.md, "Responder").
 */
#ifndef MRC_RESPONDER_H
#define MRC_RESPONDER_H

#include <mrc/psn.h>
#include "frame.h"
#include "memory.h"
#include "nic_maps.h"

enum {
	SACK_AFTER_BTH = sizeof(struct wire_sack) - sizeof(struct wire_stack) + WIRE_ICRC_BYTES,
	NAK_AFTER_BTH =
	    sizeof(struct wire_acknowledge) - sizeof(struct wire_stack) + WIRE_ICRC_BYTES,
	ACK_OFFSET_MIN = -32768,
	NOMINAL_HEADER_BYTES = 40, /* nominal size of a packet = UDP length + 40 */
};

/* What the answer needs to know of the packet that is answered. */
struct received {
	__u32 qp_index;
	__u32 plane;
	__u32 entropy;
	__u32 psn;
	__u16 tx_timestamp;
	__u16 msn;
	__u8 is_retransmission;
	__u8 is_marked;
};

/* Fields of the SACK that change with every packet. */
struct sack_state {
	__u32 cack;
	__u32 ack_offset;
	__u32 base_offset;
	__u32 above;
	__u64 bitmap;
	__u64 bytes;
};

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

static __always_inline int send_sack(struct xdp_md *ctx, const struct mrc_nic_config *config,
				     struct mrc_port *port, struct mrc_qp *qp,
				     const struct received *packet, const struct sack_state *state)
{
	__u32 flags_psn = state->cack & WIRE_PSN_MASK;
	struct frame_target to;
	struct wire_sack *head;

	if (frame_resize(ctx, sizeof(*head) + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	if (packet->is_retransmission)
		flags_psn |= (__u32)WIRE_BTH_RETRANSMISSION << 24;
	reverse_target(config, qp, packet, &to);
	write_stack(&head->stack, config, port, &to, MRC_DSCP_CONTROL << 2, WIRE_SACK, 0, flags_psn,
		    SACK_AFTER_BTH);
	head->advice = packet->is_marked ? bpf_htons(WIRE_SETH_SKIP_ONCE) : 0;
	head->ack_psn_offset = bpf_htons(state->ack_offset);
	head->entropy = bpf_htonl(packet->entropy);
	head->spdcid = bpf_htons(qp->qpn);
	head->dpdcid = bpf_htons(qp->peer_qpn);
	head->cack_psn = bpf_htonl(state->cack & WIRE_PSN_MASK);
	head->cc_type = 0;
	head->mpr = 0;
	head->sack_offset = bpf_htons(state->base_offset);
	head->bitmap = bpf_cpu_to_be64(state->bitmap);
	head->tx_timestamp = packet->tx_timestamp;
	head->ooo_count = bpf_htons(state->above & 0x7fff);
	head->penalty_received = bpf_htonl(((state->bytes + 255) >> 8) & WIRE_PSN_MASK);
	if (write_icrc_off(ctx, sizeof(*head)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	return port_emit(ctx, nic_port_id(config, packet->plane), port, MRC_CLASS_CONTROL);
}

static __always_inline int send_nak(struct xdp_md *ctx, const struct mrc_nic_config *config,
				    struct mrc_port *port, struct mrc_qp *qp,
				    const struct received *packet)
{
	struct wire_acknowledge *head;
	struct frame_target to;

	if (frame_resize(ctx, sizeof(*head) + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	reverse_target(config, qp, packet, &to);
	write_stack(&head->stack, config, port, &to, MRC_DSCP_CONTROL << 2, WIRE_ACKNOWLEDGE, 0,
		    packet->psn & WIRE_PSN_MASK, NAK_AFTER_BTH);
	head->syndrome_msn = bpf_htonl((__u32)WIRE_AETH_NAK_REMOTE_ACCESS << 24 | packet->msn);
	if (write_icrc_off(ctx, sizeof(*head)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	nic_count(MRC_NC_TX_NAK, 1);
	return port_emit(ctx, nic_port_id(config, packet->plane), port, MRC_CLASS_CONTROL);
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

/* Under the lock: moves cack over what is there, and says what the SACK is to say. */
static __always_inline void receive_account(struct mrc_qp *qp, __u32 psn, int is_new,
					    __u32 nominal_bytes, struct sack_state *state)
{
	if (is_new) {
		ring_set(qp->received_bits, psn);
		qp->received_bytes += nominal_bytes;
		qp->received_above++;
		if (psn_distance(psn, qp->max_received) > 0)
			qp->max_received = psn;
		for (int i = 0; i <= MRC_PSN_WORDS; i++) {
			__u32 run = trailing_zeros(~ring_window(qp->received_bits, qp->cack_next));
			__u32 word = ring_word(qp->cack_next);
			__u32 in_word = 64 - (qp->cack_next & 63);

			if (run > in_word)
				run = in_word;
			if (!run)
				break;
			qp->received_bits[word] &= ~((~0ULL >> (64 - run)) << (qp->cack_next & 63));
			qp->cack_next += run;
			qp->received_above -= run;
		}
	}
	qp->sack_count++;
	state->cack = qp->cack_next - 1;
	/* What is further back than 16 bits reach must not look like a PSN of today. */
	state->ack_offset = psn - state->cack;
	if (psn_distance(psn, state->cack) < ACK_OFFSET_MIN)
		state->ack_offset = ACK_OFFSET_MIN;
	/* The bitmap starts above cack; where arrivals reach beyond it, every second one ends
	 * there. */
	state->base_offset = 1;
	if (psn_distance(qp->max_received, state->cack) > 64 && (qp->sack_count & 1))
		state->base_offset = psn_distance(qp->max_received, state->cack) - 63;
	state->bitmap = ring_window(qp->received_bits, state->cack + state->base_offset);
	state->above = qp->received_above;
	state->bytes = qp->received_bytes;
}

/* A data packet, whose stack has been checked. */
__noinline int on_write(struct xdp_md *ctx, __u32 plane)
{
	struct wire_write *head = frame_head(ctx, sizeof(*head));
	struct mrc_nic_config *config = lookup0(&nic_config);
	__u32 udp_bytes, pad, length, distance, dmalen, is_new, opcode, r_key, port_id;
	struct mrc_nic_counters *counters;
	struct received packet = {};
	struct sack_state state;
	struct mrc_port *port;
	struct mrc_qp *qp;
	__s64 offset;
	__u64 va;

	if (!head || !config)
		return nic_drop(MRC_NC_DROP_LENGTH);
	port_id = nic_port_id(config, plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port)
		return nic_drop(MRC_NC_DROP_MALFORMED);
	opcode = head->stack.bth.opcode;
	udp_bytes = bpf_ntohs(head->stack.udp.length);
	pad = head->stack.bth.pad_version >> 4 & 3;
	length = udp_bytes -
		 (sizeof(struct wire_udp) + sizeof(struct wire_bth) + sizeof(*head) -
		  sizeof(head->stack) + WIRE_ICRC_BYTES) -
		 pad;
	dmalen = bpf_ntohl(head->dmalen);
	if (!(head->stack.bth.flags_psn & bpf_htonl((__u32)WIRE_BTH_TIMESTAMP << 24)))
		return nic_drop(MRC_NC_DROP_MALFORMED); /* without TSETH all else lies elsewhere */
	if (length > MRC_PMTU_MAX || length > dmalen || pad != (-length & 3) ||
	    (opcode == WIRE_WRITE_ONLY && length != dmalen))
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet.qp_index = stack_qp_index(&head->stack);
	packet.plane = plane;
	packet.entropy = stack_entropy(&head->stack);
	packet.psn = bpf_ntohl(head->stack.bth.flags_psn);
	packet.is_retransmission = packet.psn >> 24 & WIRE_BTH_RETRANSMISSION;
	packet.is_marked =
	    (bpf_ntohl(head->stack.outer.version_class_flow) >> 20 & WIRE_CE) == WIRE_CE;
	packet.tx_timestamp = head->tx_timestamp;
	packet.msn = bpf_ntohs(head->msn);
	r_key = bpf_ntohl(head->r_key);
	va = bpf_be64_to_cpu(head->va);

	qp = bpf_map_lookup_elem(&qps, &packet.qp_index);
	if (!qp)
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	if (qp->state != MRC_QP_RTR && qp->state != MRC_QP_RTS)
		return nic_drop(MRC_NC_DROP_QP_STATE);
	if (!stack_is_from(&head->stack, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	packet.psn = psn_expand(qp->cack_next, packet.psn & WIRE_PSN_MASK);
	distance = packet.psn - qp->cack_next;
	if ((__s32)distance >= MRC_PSN_RING)
		return nic_drop(MRC_NC_DROP_OUT_OF_WINDOW);
	is_new = (__s32)distance >= 0 && !ring_test(qp->received_bits, packet.psn);
	if (is_new) {
		offset = length ? region_resolve(r_key, va, length) : 0;
		if (offset < 0)
			return send_nak(ctx, config, port, qp, &packet);
		if (memory_transfer(ctx, sizeof(*head), offset, length, FRAME_TO_MEMORY))
			return nic_drop(MRC_NC_DROP_BOUNDS);
	}
	/*
	 * Marked as received only after its bytes are in place. A second copy that another CPU
	 * takes in the same instant writes the same bytes again and is found to be a duplicate
	 * here.
	 */
	bpf_spin_lock(&qp->lock);
	if (is_new)
		is_new = psn_distance(packet.psn, qp->cack_next) >= 0 &&
			 !ring_test(qp->received_bits, packet.psn);
	receive_account(qp, packet.psn, is_new, udp_bytes + NOMINAL_HEADER_BYTES, &state);
	bpf_spin_unlock(&qp->lock);
	counters = lookup0(&nic_counters);
	if (counters) {
		counters->value[MRC_NC_RX_DATA] += 1;
		counters->value[MRC_NC_TX_SACK] += 1;
		counters->value[MRC_NC_RX_PLACED_BYTES] += is_new ? length : 0;
		counters->value[MRC_NC_RX_DUPLICATE] += !is_new;
	}
	return send_sack(ctx, config, port, qp, &packet, &state);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Packets: their headers, their address, and the outer IPv6 header of the source route. */
#ifndef MRC_PACKET_H
#define MRC_PACKET_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <mrc/wire.h>
#include <mrc/usid.h>
#include <mrc/fabric_config.h>
#include <mrc/emit.h>
#include <queue/time.h>
#include "nic_maps.h"

/* The frame's first `size` bytes, or NULL when it is shorter. */
static __always_inline void *frame_head(struct xdp_md *ctx, __u32 size)
{
	void *data = (void *)(long)ctx->data;

	return data + size > (void *)(long)ctx->data_end ? (void *)0 : data;
}

static __always_inline __u64 frame_bytes(struct xdp_md *ctx)
{
	__u64 present = ctx->data_end - ctx->data;

	barrier_var(present); /* or clang subtracts one pointer at a time */
	return present;
}

/* The frame, or NULL when it is not exactly a packet of `size` bytes and its iCRC. */
static __always_inline void *frame_exactly(struct xdp_md *ctx, __u32 size)
{
	return frame_bytes(ctx) == size + WIRE_ICRC_BYTES ? frame_head(ctx, size) : (void *)0;
}

enum {
	FRAME_MOVE_BYTES = 1024, /* more than the headroom that the kernel leaves, with a margin */
};

/*
 * Cuts or grows the frame to exactly `bytes`; what it holds is lost. A data packet that becomes a
 * SACK, and a SACK that becomes a data packet, does so at its head: at the tail the kernel would
 * clear what is gained. Where there is no room at one end, there is at the other.
 */
static __always_inline int frame_resize(struct xdp_md *ctx, __u32 bytes)
{
	int gain = (int)((__u64)bytes - frame_bytes(ctx));

	if (gain <= -FRAME_MOVE_BYTES)
		return bpf_xdp_adjust_head(ctx, -gain);
	if (gain >= FRAME_MOVE_BYTES) {
		if (!bpf_xdp_adjust_head(ctx, -gain))
			return 0;
		if (!bpf_xdp_adjust_head(ctx, -FRAME_MOVE_BYTES))
			gain -= FRAME_MOVE_BYTES;
	}
	if (!bpf_xdp_adjust_tail(ctx, gain))
		return 0;
	return bpf_xdp_adjust_head(ctx, -gain);
}

/* The address vector of a packet: its destination and its path. */
struct packet_av {
	struct carrier to;
	__u32 peer_host;
	__u32 peer_qpn;
	__u32 plane;
	__u32 entropy;
};

/* Deposits plane and way (docs/reference/protocol.md, "Carriers") in a template built for 0 and 0. */
static __always_inline struct carrier carrier_fill(__u64 hi, __u64 lo, __u32 distance, __u32 plane,
						   __u32 way, const struct mrc_tier *tiers)
{
	__u64 plane_bits = (__u64)plane << MRC_USID_PLANE_SHIFT;
	__u64 uplink = way, lane;
	struct carrier to;

	to.hi = hi | plane_bits << 16 | plane_bits;
	to.lo = lo;
	if (!distance)
		return to;
	to.lo |= plane_bits << 48 | plane_bits << 32;
	if (tiers[1].uplinks)
		uplink = way % tiers[0].uplinks;
	to.hi |= uplink;
	lane = tiers[1].lanes > 1 ? uplink % tiers[1].lanes : 0;
	if (distance == 1) {
		to.lo += lane << 48;
		return to;
	}
	uplink = way / tiers[0].uplinks;
	to.lo |= uplink << 48 | plane_bits << 16 | plane_bits;
	to.lo += (tiers[2].lanes > 1 ? uplink % tiers[2].lanes : 0) << 32 | lane << 16;
	return to;
}

static __always_inline __u32 entropy_uplink(__u32 entropy)
{
	return entropy >> MRC_EV_UPLINK_SHIFT & MRC_EV_UPLINK_MASK;
}

/* The address vector of a packet of a QP, whatever its transport. */
static __always_inline struct packet_av qp_av(const struct mrc_qp_head *head,
					      const struct mrc_nic_config *config, __u32 plane,
					      __u32 entropy)
{
	return (struct packet_av){
	    .to = carrier_fill(head->template_hi, head->template_lo, head->distance, plane,
			       entropy_uplink(entropy), config->tiers),
	    .peer_host = head->peer_host,
	    .peer_qpn = head->peer_qpn,
	    .plane = plane,
	    .entropy = entropy,
	};
}

/* Carrier to a host for which there is no QP, and so no template. */
static __always_inline struct carrier carrier_to(const struct mrc_nic_config *config,
						 __u32 peer_host, __u32 plane, __u32 way)
{
	const struct mrc_tier *tiers = config->tiers;
	__u32 row = config->host_index / tiers[0].joins;
	__u32 peer_row = peer_host / tiers[0].joins;
	__u64 downlink = usid(MRC_USID_DOWNLINK, 0, peer_host % tiers[0].joins);
	__u64 to_t0 = usid(MRC_USID_T0, 0, peer_row * tiers[1].lanes);
	__u64 hi = (__u64)config->srv6_block << 32 | usid(MRC_USID_T0, 0, row * tiers[1].lanes)
							 << 16;
	__u32 pod = peer_row / tiers[1].joins, distance = 1;
	__u64 lo;

	if (row == peer_row)
		return carrier_fill(hi | downlink, 0, 0, plane, way, tiers);
	hi |= usid(MRC_USID_T1, 0, 0);
	lo = to_t0 << 48 | downlink << 32;
	if (row / tiers[1].joins != pod) {
		distance = 2;
		lo = usid(MRC_USID_T2, 0, 0) << 48 |
		     usid(MRC_USID_T1, 0, tiers[0].uplinks + pod * tiers[2].lanes) << 32 |
		     to_t0 << 16 | downlink;
	}
	return carrier_fill(hi, lo, distance, plane, way, tiers);
}

static __always_inline void write_ipv6(struct wire_ipv6 *ip, __u32 class_flow, __u32 length,
				       __u32 next_header)
{
	ip->version_class_flow = bpf_htonl(6U << 28 | class_flow);
	ip->payload_length = bpf_htons(length);
	ip->next_header = next_header;
	ip->hop_limit = WIRE_HOP_LIMIT;
}

/*
 * Writes Ethernet .. BTH for a packet with `after_bth` bytes behind the BTH (iCRC included). The EV
 * rides in UDP source port and flow label as well, so that the far end can reflect it.
 */
static __always_inline void write_stack(struct wire_stack *stack,
					const struct mrc_nic_config *config,
					const struct mrc_port *port, const struct packet_av *to,
					__u32 dscp_ecn, __u32 opcode, __u32 pad, __u32 flags_psn,
					__u32 after_bth)
{
	__u32 class_flow = dscp_ecn << 20 | to->entropy >> 16;
	__u32 udp_bytes = sizeof(struct wire_udp) + sizeof(struct wire_bth) + after_bth;
	__be64 prefix = bpf_cpu_to_be64(config->inner_prefix + to->plane);
	__be64 own = bpf_cpu_to_be64(config->host_index + 1ULL);
	/* By pointers of their own: as members of a packed structure they would be written
	 * piecemeal. */
	struct wire_ipv6 *outer = (void *)&stack->outer, *inner = (void *)&stack->inner;
	struct wire_udp *udp = (void *)&stack->udp;
	struct wire_bth *bth = (void *)&stack->bth;

	if (fabric_is_tunnelled()) { /* else tunnel_tx() cuts this part off */
		write_macs(stack, port);
		stack->eth.ethertype = bpf_htons(WIRE_ETH_P_IPV6);
		write_ipv6(outer, class_flow, sizeof(struct wire_ipv6) + udp_bytes,
			   WIRE_NEXT_HEADER_IPV6);
		outer->source[0] = prefix;
		outer->source[1] = own;
		outer->destination[0] = bpf_cpu_to_be64(to->to.hi);
		outer->destination[1] = bpf_cpu_to_be64(to->to.lo);
	}
	write_ipv6(inner, class_flow, udp_bytes, WIRE_NEXT_HEADER_UDP);
	inner->source[0] = prefix;
	inner->source[1] = own;
	inner->destination[0] = prefix;
	inner->destination[1] = bpf_cpu_to_be64(to->peer_host + 1ULL);
	udp->source = bpf_htons(to->entropy);
	udp->destination = bpf_htons(config->udp_port);
	udp->length = bpf_htons(udp_bytes);
	udp->checksum = 0;
	bth->opcode = opcode;
	bth->pad_version = pad << 4;
	bth->p_key = bpf_htons(0xffff);
	bth->destination_qp = bpf_htonl(to->peer_qpn);
	bth->flags_psn = bpf_htonl(flags_psn);
}

static __always_inline __u32 nic_port_id(const struct mrc_nic_config *config, __u32 plane)
{
	return config->port_id[plane & (MRC_PLANE_MAX - 1)];
}

/*
 * Makes the frame, whatever it held, a packet of `bytes` and iCRC, with its headers up to the BTH.
 * Returns its start, of which `size` bytes may be written, or NULL if it cannot be.
 */
static __always_inline void *packet_make(struct xdp_md *ctx, const struct mrc_nic_config *config,
					 const struct packet_av *to, __u32 bytes, __u32 size,
					 __u32 dscp_ecn, __u32 opcode, __u32 pad, __u32 flags_psn)
{
	__u32 port_id = nic_port_id(config, to->plane);
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	struct wire_stack *stack;

	if (!port || frame_resize(ctx, bytes + WIRE_ICRC_BYTES))
		return (void *)0;
	stack = frame_head(ctx, size);
	if (stack)
		write_stack(stack, config, port, to, dscp_ecn, opcode, pad, flags_psn,
			    bytes - sizeof(*stack) + WIRE_ICRC_BYTES);
	return stack;
}

/* Bytes in front of the payload of a data packet with a timestamp. */
static __always_inline __u32 write_header_bytes(__u32 opcode)
{
	return sizeof(struct wire_write) +
	       (opcode == WIRE_WRITE_LAST_IMMEDIATE || opcode == WIRE_WRITE_ONLY_IMMEDIATE
		    ? sizeof(__be32)
		    : 0);
}

/* Planes on which both ends of a QP have a port that works. */
static __always_inline __u32 usable_planes(const struct mrc_nic_control *control,
					   const struct mrc_qp *qp)
{
	return control->port_up_mask & qp->evs.peer_port_mask & ~qp->evs.peer_sack_down &
	       ((1U << qp->evs.plane_count) - 1);
}

/* The EV a received packet carries. */
static __always_inline __u32 stack_entropy(const struct wire_stack *stack)
{
	return bpf_ntohl(stack->inner.version_class_flow) << 16 | bpf_ntohs(stack->udp.source);
}

/* True if a switch has marked the packet. */
static __always_inline int stack_is_marked(const struct wire_stack *stack)
{
	return (bpf_ntohl(stack->outer.version_class_flow) >> 20 & WIRE_CE) == WIRE_CE;
}

/* Bytes behind `head_bytes` of headers; more than any packet has if the padding does not fit. */
static __always_inline __u32 stack_payload_bytes(const struct wire_stack *stack, __u32 head_bytes)
{
	__u32 pad = stack->bth.pad_version >> 4 & 3;
	__u32 length = offsetof(struct wire_stack, udp) + bpf_ntohs(stack->udp.length) -
		       head_bytes - WIRE_ICRC_BYTES - pad;

	return pad == (-length & 3) ? length : ~0U;
}

/* True if the versions in a frame are those of the protocol. */
static __always_inline int stack_has_known_versions(const struct wire_stack *stack)
{
	const __be32 version_mask = bpf_htonl(0xf0000000), version_6 = bpf_htonl(0x60000000);

	return (stack->outer.version_class_flow & version_mask) == version_6 &&
	       (stack->inner.version_class_flow & version_mask) == version_6 &&
	       !(stack->bth.pad_version & WIRE_BTH_VERSION_MASK);
}

/* True if all lengths in a frame agree with one another and with the frame's. */
static __always_inline int stack_lengths_agree(struct xdp_md *ctx, const struct wire_stack *stack)
{
	__u32 udp_bytes = bpf_ntohs(stack->udp.length);
	__u32 outer_bytes = sizeof(struct wire_ipv6) + udp_bytes;

	return stack->inner.payload_length == stack->udp.length &&
	       bpf_ntohs(stack->outer.payload_length) == outer_bytes &&
	       frame_bytes(ctx) == offsetof(struct wire_stack, inner) + outer_bytes;
}

static __always_inline int stack_is_from(const struct wire_stack *stack, __u32 host)
{
	return bpf_be64_to_cpu(stack->inner.source[1]) == host + 1ULL;
}

/* Number of the QP a packet names. */
static __always_inline __u32 stack_qpn(const struct wire_stack *stack)
{
	return bpf_ntohl(stack->bth.destination_qp) & WIRE_PSN_MASK;
}

/* Index of the QP a packet names, or of one there before or after it: see stack_is_for(). */
static __always_inline __u32 stack_qp_index(const struct wire_stack *stack)
{
	return stack_qpn(stack) & ((1 << MRC_QP_INDEX_BITS) - 1);
}

/* True if a packet is for the QP, and from its peer. */
static __always_inline int stack_is_for(const struct wire_stack *stack,
					const struct mrc_qp_head *head)
{
	return stack_qpn(stack) == head->qpn && stack_is_from(stack, head->peer_host);
}

/*
 * A frame that has come in. Returns 0 when it is one for this port, with two IPv6 headers whatever
 * it came with; else a verdict, which for a frame that is not MRC is XDP_PASS. Lengths and what
 * follows the IPv6 headers are for the caller to check.
 */
static __always_inline int tunnel_rx(struct xdp_md *ctx, const struct mrc_nic_config *config,
				     __u64 plane)
{
	struct wire_stack *head = frame_head(ctx, sizeof(head->eth) + sizeof(head->outer));
	__u64 own_sid = usid(MRC_USID_DOWNLINK, plane, config->downlink) << 16, hi;
	struct wire_ipv6 *outer, *inner;

	if (!head || head->eth.ethertype != bpf_htons(WIRE_ETH_P_IPV6))
		return XDP_PASS;
	hi = bpf_be64_to_cpu(head->outer.destination[0]);
	if (fabric_is_tunnelled()) {
		if (hi >> 32 != config->srv6_block)
			return XDP_PASS;
		head = frame_head(ctx, sizeof(*head));
		if (!head)
			return nic_drop(MRC_NC_DROP_MALFORMED);
		return (hi & 0xffffffff) != own_sid || head->outer.destination[1] ||
			       head->outer.next_header != WIRE_NEXT_HEADER_IPV6
			   ? nic_drop(MRC_NC_DROP_NOT_OURS)
			   : 0;
	}
	if (hi >> 16 != config->inner_prefix >> 16)
		return XDP_PASS;
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*outer)))
		return nic_drop(MRC_NC_DROP_MALFORMED);
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return nic_drop(MRC_NC_DROP_MALFORMED);
	outer = (void *)&head->outer;
	inner = (void *)&head->inner;
	*outer = *inner;
	outer->payload_length =
	    bpf_htons(bpf_ntohs(inner->payload_length) + sizeof(struct wire_ipv6));
	outer->next_header = WIRE_NEXT_HEADER_IPV6;
	return 0;
}

/* Makes the frame, a whole stack, what goes on the wire of that port. Returns 0 on success. */
static __always_inline int tunnel_tx(struct xdp_md *ctx, const struct mrc_port *port)
{
	struct wire_stack *head;
	struct wire_eth *eth;

	if (fabric_is_tunnelled())
		return 0;
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return -1;
	eth = (void *)&head->inner - sizeof(*eth);
	write_macs(eth, port);
	eth->ethertype = bpf_htons(WIRE_ETH_P_IPV6);
	return bpf_xdp_adjust_head(ctx, sizeof(struct wire_ipv6));
}

#endif

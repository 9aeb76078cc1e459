/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where frames enter and leave the NIC. All other code knows one layout, struct wire_stack with its
 * two IPv6 headers. In a fabric without source routes there is one on the wire: the outer one is
 * put in front of it on arrival, and taken off at departure (docs/protocol.md, "Packet stack").
 */
#ifndef MRC_TUNNEL_H
#define MRC_TUNNEL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <mrc/fabric_config.h>
#include <mrc/wire.h>
#include "frame.h"

/*
 * Leaves a TCP packet of the far host's kernel to this one's, without the outer header that brought
 * it here. What switches marked there is handed on (RFC 6040).
 */
static __always_inline int tunnel_pass_tcp(struct xdp_md *ctx, struct wire_stack *head)
{
	const __be32 ecn = bpf_htonl((__u32)WIRE_CE << 20);
	struct wire_eth *eth = (void *)&head->inner - sizeof(*eth);

	if ((head->outer.version_class_flow & ecn) == ecn && head->inner.version_class_flow & ecn)
		head->inner.version_class_flow |= ecn;
	*eth = head->eth;
	return bpf_xdp_adjust_head(ctx, sizeof(struct wire_ipv6)) ? XDP_DROP : XDP_PASS;
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
		if (head->inner.next_header == WIRE_NEXT_HEADER_TCP &&
		    (hi & 0xffffffff) == own_sid && !head->outer.destination[1] &&
		    head->outer.next_header == WIRE_NEXT_HEADER_IPV6)
			return tunnel_pass_tcp(ctx, head);
		return (hi & 0xffffffff) != own_sid || head->outer.destination[1] ||
			       head->outer.next_header != WIRE_NEXT_HEADER_IPV6
			   ? nic_drop(MRC_NC_DROP_NOT_OURS)
			   : 0;
	}
	if (hi >> 16 != config->inner_prefix >> 16 ||
	    head->outer.next_header == WIRE_NEXT_HEADER_TCP)
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

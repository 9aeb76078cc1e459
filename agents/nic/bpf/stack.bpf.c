// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Packets of the host's own kernel: TCP and MPTCP (docs/explanation/transports.md). Its packets
 * come by an interface of their own, are given a way through the fabric where switches choose none,
 * and leave by the NIC's ports, with their rates, queues and faults.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <mrc/abi.h>
#include <mrc/wire.h>
#include <mrc/fabric_maps.h>
#include <mrc/emit.h>
#include "../../switch/bpf/forward_ecmp.h"
#include "nic_maps.h"
#include "packet.h"

enum {
	STACK_OUTER = sizeof(struct wire_eth),
	STACK_INNER = STACK_OUTER + sizeof(struct wire_ipv6),
	STACK_PORTS = STACK_INNER + sizeof(struct wire_ipv6),
};

/* The plane of a packet from this host to another one, or negative for what is none. */
static __always_inline int stack_plane(const struct wire_ipv6 *ip,
				       const struct mrc_nic_config *config)
{
	__u64 plane = bpf_be64_to_cpu(ip->destination[0]) - config->inner_prefix;

	if (plane >= config->plane_count || ip->source[0] != ip->destination[0] ||
	    bpf_be64_to_cpu(ip->source[1]) != config->host_index + 1ULL ||
	    bpf_be64_to_cpu(ip->destination[1]) - 1 >= fabric_config.host_count)
		return -1;
	return plane;
}

/*
 * Puts the source route in front that its T0 would take by ECMP, and that changes as it would there
 * when the kernel gives the flow another label. Returns 0 on success.
 */
static __always_inline int stack_tunnel(struct xdp_md *ctx, const struct mrc_nic_config *config,
					const struct mrc_port *port, __u32 plane)
{
	__u32 t0_port_id = port->peer_port, uplink = 0;
	struct mrc_port *t0_port = bpf_map_lookup_elem(&port_table, &t0_port_id);
	struct wire_stack *head;
	struct carrier to;
	__u64 peer_host;

	if (!t0_port || bpf_xdp_adjust_head(ctx, -(int)sizeof(struct wire_ipv6)))
		return -1;
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return -1;
	uplink =
	    ecmp_uplink((void *)head + STACK_INNER, (void *)head + STACK_PORTS, t0_port->node_id);
	peer_host = bpf_be64_to_cpu(head->inner.destination[1]) - 1;
	to = carrier_to(config, peer_host, plane, uplink);
	head->eth.ethertype = bpf_htons(WIRE_ETH_P_IPV6);
	head->outer = head->inner;
	head->outer.payload_length =
	    bpf_htons(bpf_ntohs(head->inner.payload_length) + sizeof(struct wire_ipv6));
	head->outer.next_header = WIRE_NEXT_HEADER_IPV6;
	head->outer.destination[0] = bpf_cpu_to_be64(to.hi);
	head->outer.destination[1] = bpf_cpu_to_be64(to.lo);
	return 0;
}

SEC("xdp")
int stack(struct xdp_md *ctx)
{
	struct wire_stack *head = frame_head(ctx, sizeof(head->eth) + sizeof(head->outer));
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_port *port;
	__u32 port_id;
	int plane;

	if (!head || !config || head->eth.ethertype != bpf_htons(WIRE_ETH_P_IPV6) ||
	    head->outer.next_header != WIRE_NEXT_HEADER_TCP)
		return XDP_DROP;
	plane = stack_plane((void *)head + STACK_OUTER, config);
	if (plane < 0)
		return XDP_DROP;
	port_id = nic_port_id(config, plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port || (fabric_is_tunnelled() && stack_tunnel(ctx, config, port, plane)))
		return XDP_DROP;
	head = frame_head(ctx, sizeof(head->eth));
	if (!head)
		return XDP_DROP;
	write_macs(head, port);
	return port_xmit_end(ctx, port_xmit(ctx, port_id, port, MRC_CLASS_DATA));
}

char _license[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The stateless switch: uN on the outer destination (docs/protocol.md, "Switch"), a static FIB, and
 * nothing else. One program serves every switch of a lab: a port's ifindex names its lab-wide port
 * id, and that names the switch. What is not MRC goes to the kernel's own stack.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <mrc/abi.h>
#include <mrc/wire.h>
#include <mrc/usid.h>
#include <mrc/fabric_maps.h>
#include <mrc/emit.h>
#include "drain.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} fib SEC(".maps");

/* Set at load; the first 32 bits of every carrier. */
volatile const __u32 srv6_block = 0;

static __always_inline __u32 fib_find(__u32 node_id, __u32 value)
{
	__u32 index = node_id * MRC_FIB_STRIDE + usid_fib_index(value);
	__u32 *entry = bpf_map_lookup_elem(&fib, &index);

	return entry ? *entry : MRC_FIB_NONE;
}

static __always_inline __u32 dscp_class(__be32 version_class_flow)
{
	__u32 dscp = (bpf_ntohl(version_class_flow) >> 22) & 0x3f;

	return dscp == MRC_DSCP_CONTROL || dscp == MRC_DSCP_TRIMMED ||
		       dscp == MRC_DSCP_TRIMMED_LASTHOP
		   ? MRC_CLASS_CONTROL
		   : MRC_CLASS_DATA;
}

static __always_inline int drop(__u32 port_id, __u32 reason)
{
	port_count(port_id, reason, 1);
	return XDP_DROP;
}

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u32 ingress_id = ctx->ingress_ifindex - MRC_IFINDEX_BASE;
	struct wire_eth *eth = data;
	struct wire_ipv6 *outer = (void *)(eth + 1);
	struct mrc_port *ingress, *egress;
	struct carrier to;
	__u32 active, hit, egress_id;

	/* no port: a live frame of the drainer, whose runs are cheap with a program that is
	 * attached */
	if (ctx->ingress_ifindex < MRC_IFINDEX_BASE)
		return queue_drain(ctx);
	ingress = bpf_map_lookup_elem(&port_table, &ingress_id);
	if (!ingress || !ingress->is_configured)
		return XDP_PASS;
	if ((void *)(outer + 1) > data_end)
		return drop(ingress_id, MRC_PC_DROP_MALFORMED);
	to.hi = bpf_be64_to_cpu(outer->destination[0]);
	if (eth->ethertype != bpf_htons(WIRE_ETH_P_IPV6) || to.hi >> 32 != srv6_block) {
		port_count(ingress_id, MRC_PC_PASSED_TO_STACK, 1);
		return XDP_PASS;
	}
	to.lo = bpf_be64_to_cpu(outer->destination[1]);
	active = carrier_active(to.hi);
	if (usid_plane(active) != ingress->plane)
		return drop(ingress_id, MRC_PC_DROP_NO_ROUTE);
	hit = fib_find(ingress->node_id, active);
	if (hit == MRC_FIB_LOCAL) {
		to = carrier_shift(to.hi, to.lo);
		active = carrier_active(to.hi);
		if (!active)
			return drop(ingress_id, MRC_PC_DROP_END_OF_CARRIER);
		if (usid_plane(active) != ingress->plane)
			return drop(ingress_id, MRC_PC_DROP_NO_ROUTE);
		hit = fib_find(ingress->node_id, active);
	}
	if (hit == MRC_FIB_NONE || hit == MRC_FIB_LOCAL)
		return drop(ingress_id, MRC_PC_DROP_NO_ROUTE);
	if (outer->hop_limit <= 1)
		return drop(ingress_id, MRC_PC_DROP_HOP_LIMIT);
	egress_id = hit - 1;
	egress = bpf_map_lookup_elem(&port_table, &egress_id);
	if (!egress)
		return drop(ingress_id, MRC_PC_DROP_NO_ROUTE);

	outer->destination[0] = bpf_cpu_to_be64(to.hi);
	outer->destination[1] = bpf_cpu_to_be64(to.lo);
	outer->hop_limit--;
	write_macs(eth, egress);
	return port_emit(ctx, egress_id, egress, dscp_class(outer->version_class_flow));
}

char _license[] SEC("license") = "Dual BSD/GPL";

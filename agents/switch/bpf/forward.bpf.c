// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The stateless switch (docs/protocol.md, "Switch" and "Forwarding modes"): a static FIB, and
 * nothing else. One program serves every switch of a lab: a port's ifindex names its lab-wide port
 * id, and that names the switch. What is not MRC goes to the kernel's own stack.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <mrc/abi.h>
#include <mrc/wire.h>
#include <mrc/fabric_config.h>
#include <mrc/fabric_maps.h>
#include <mrc/emit_port.h>
#include "drain.h"
#include "route.h"

static __always_inline int drop(__u32 port_id, __u32 reason)
{
	port_count(port_id, reason, 1);
	return XDP_DROP;
}

/* A frame that came in by a port of a switch. */
static __always_inline int forward_frame(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u32 ingress_id = ctx->ingress_ifindex - MRC_IFINDEX_BASE;
	struct wire_eth *eth = data;
	struct mrc_port *ingress, *egress;
	__u32 egress_id;
	int way;

	ingress = bpf_map_lookup_elem(&port_table, &ingress_id);
	if (!ingress || !ingress->is_configured)
		return XDP_PASS;
	if ((void *)(eth + 1) + sizeof(struct wire_ipv6) > data_end)
		return drop(ingress_id, MRC_PC_DROP_MALFORMED);
	way = route(eth, data_end, ingress, fabric_is_adaptive() ? frame_time_ns(ctx) : 0);
	if (way == -MRC_PC_PASSED_TO_STACK) {
		port_count(ingress_id, MRC_PC_PASSED_TO_STACK, 1);
		return XDP_PASS;
	}
	if (way < 0)
		return drop(ingress_id, -way);
	egress_id = way;
	egress = bpf_map_lookup_elem(&port_table, &egress_id);
	if (!egress)
		return drop(ingress_id, MRC_PC_DROP_NO_ROUTE);
	route_leave(eth, egress);
	return port_emit(ctx, egress_id, egress, route_class(eth));
}

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	int verdict;

	/* no port: a live frame of the drainer, whose runs are cheap with a program that is
	 * attached */
	if (ctx->ingress_ifindex < MRC_IFINDEX_BASE)
		return queue_drain(ctx);
	verdict = forward_frame(ctx);
	if (fabric_config.is_shaped) /* else no link is under flow control */
		upstream_settle(ctx);
	return verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";

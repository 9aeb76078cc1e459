// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The stateless switch (docs/reference/protocol.md, "Switch" and "Forwarding modes"): a static FIB,
 * and nothing else. One program serves every switch of a lab: a port's ifindex names its lab-wide
 * port id, and that names the switch. What is not MRC goes to the kernel's own stack.
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

enum {
	DIRECT_LINKS_MAX = 8, /* that one run crosses; a longer way goes on by a veth */
};

/* Values of forward_frame(), below any XDP verdict, for a frame that has to queue. */
#define ENQUEUE(port_id, traffic_class) (~(int)((port_id)*MRC_CLASS_COUNT + (traffic_class)))
#define ENQUEUE_PORT(verdict)		((__u32) ~(verdict) / MRC_CLASS_COUNT)
#define ENQUEUE_CLASS(verdict)		((__u32) ~(verdict) % MRC_CLASS_COUNT)

static __always_inline int drop(__u32 port_id, __u32 reason)
{
	port_count(port_id, reason, 1);
	return XDP_DROP;
}

/*
 * One switch: routes the frame that came in by `ingress` and rewrites its IPv6 header. Returns the
 * egress port, which is then in `*egress`, or, negated, the counter of what else becomes of it.
 */
static __always_inline int cross_switch(struct wire_eth *eth, const void *data_end,
					const struct mrc_port *ingress, __u64 time_ns,
					struct mrc_port **egress)
{
	int way = route(eth, data_end, ingress, time_ns);
	__u32 egress_id = way;

	if (way < 0)
		return way;
	*egress = bpf_map_lookup_elem(&port_table, &egress_id);
	if (!*egress)
		return -MRC_PC_DROP_NO_ROUTE;
	route_leave(eth);
	return way;
}

/*
 * In an unshaped lab, forwards a frame whose headers are rewritten for egress_id from switch to
 * switch while links are direct, and sends it by the first link that is not.
 */
static __always_inline int forward_chain(struct xdp_md *ctx, __u32 egress_id)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct wire_eth *eth = data;
	struct mrc_port *far, *egress = bpf_map_lookup_elem(&port_table, &egress_id);
	__u32 far_id;
	int way;

	if (!egress || (void *)(eth + 1) + sizeof(struct wire_ipv6) > data_end)
		return XDP_DROP;
	for (__u32 i = 0; i < DIRECT_LINKS_MAX; i++) {
		far = direct_peer_port(egress);
		if (!far)
			break;
		far_id = egress->peer_port;
		way = cross_switch(eth, data_end, far, 0, &egress);
		if (way == -MRC_PC_PASSED_TO_STACK)
			break;
		emit_count(egress_id, data_end - data);
		if (way < 0)
			return drop(far_id, -way);
		egress_id = way;
	}
	write_macs(eth, egress); /* what goes on inside needs no addresses */
	return port_emit_unqueued(ctx, egress_id, egress, route_class(eth));
}

/*
 * A frame that came in by a port of a switch. Returns the XDP verdict or, in a shaped lab,
 * ENQUEUE() of its port.
 */
static __always_inline int forward_frame(struct xdp_md *ctx, int is_shaped)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u32 ingress_id = ctx->ingress_ifindex - MRC_IFINDEX_BASE;
	struct wire_eth *eth = data;
	struct mrc_port *ingress, *egress;
	int way;

	ingress = bpf_map_lookup_elem(&port_table, &ingress_id);
	if (!ingress || !ingress->is_configured)
		return XDP_PASS;
	if ((void *)(eth + 1) + sizeof(struct wire_ipv6) > data_end)
		return drop(ingress_id, MRC_PC_DROP_MALFORMED);
	way = cross_switch(eth, data_end, ingress, fabric_is_adaptive() ? frame_time_ns(ctx) : 0,
			   &egress);
	if (way == -MRC_PC_PASSED_TO_STACK) {
		port_count(ingress_id, MRC_PC_PASSED_TO_STACK, 1);
		return XDP_PASS;
	}
	if (way < 0)
		return drop(ingress_id, -way);
	if (!is_shaped && egress->is_direct)
		return forward_chain(ctx, way);
	write_macs(eth, egress);
	if (is_shaped && port_has_queue(egress))
		return ENQUEUE(way, route_class(eth));
	return port_emit_unqueued(ctx, way, egress, route_class(eth));
}

/* A call of its own: its stack is given back before the frame is put into a queue. */
static __noinline int forward_queued(struct xdp_md *ctx)
{
	return forward_frame(ctx, 1);
}

/* For a lab with port rates. */
SEC("xdp")
int forward(struct xdp_md *ctx)
{
	int verdict;

	/* no port: a live frame of the drainer, whose runs are cheap with a program that is
	 * attached */
	if (ctx->ingress_ifindex < MRC_IFINDEX_BASE)
		return queue_drain(ctx);
	verdict = forward_queued(ctx);
	if (verdict < 0)
		verdict = queue_enqueue(ctx, ENQUEUE_PORT(verdict), ENQUEUE_CLASS(verdict));
	upstream_post_process(ctx);
	return verdict;
}

/* For a lab without port rates, where nothing queues: a packet and its SACK save eight calls. */
SEC("xdp")
int forward_unshaped(struct xdp_md *ctx)
{
	return forward_frame(ctx, 0);
}

/* Called by a host's program for a frame that leaves by a port whose link is direct. */
SEC("xdp")
int enter(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct emit_request *request = bpf_map_lookup_elem(&emit_requests, &zero);

	if (!request || fabric_config.is_shaped) /* where a frame queues first */
		return XDP_DROP;
	return forward_chain(ctx, request->port_id);
}

char _license[] SEC("license") = "Dual BSD/GPL";

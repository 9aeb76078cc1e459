/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Frames between the drainer and the far end of a link under flow control: sent, not looked at yet.
 *
 * Their number is bounded. A switch that runs late would else be sent any number of frames before
 * it can say that its buffer is full; so the headroom of PFC holds whatever the machine's load, and
 * the model waits instead.
 */
#ifndef MRC_TRANSIT_H
#define MRC_TRANSIT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <queue/upstream.h>
#include <queue/view.h>

enum {
	TRANSIT_RETRY_NS = 10000, /* until the far end is given another chance to look */
};

/* True if a port has to wait for its far end. Under the lock. */
static __always_inline int transit_is_full(const struct port_view *view, __u64 now_ns)
{
	struct mrc_lossless_link *link = view->link;

	if (link->drained - WHEEL_READ(link->seen) < MRC_LOSSLESS_TRANSIT_MAX) {
		link->transit_since_ns = 0;
		return 0;
	}
	if (!link->transit_since_ns)
		link->transit_since_ns = now_ns;
	if (now_ns - link->transit_since_ns < MRC_LOSSLESS_TRANSIT_NS)
		return 1;
	/* the kernel lost them on their way */
	link->drained = link->seen;
	link->transit_since_ns = 0;
	return 0;
}

static __always_inline int transit_is_to_nic(const struct mrc_port *port)
{
	__u32 far_id = port->peer_port;
	struct mrc_port *far = bpf_map_lookup_elem(&port_table, &far_id);

	return far && far->kind == MRC_PORT_NIC;
}

/*
 * Credit that the frame carries to a switch, which gives it back. A NIC takes in all that comes:
 * its credit goes back at once.
 */
static __always_inline __u32 transit_credit_bytes(__u32 port_id, const struct mrc_port *port,
						  const struct mrc_queue_descriptor *frame)
{
	struct mrc_lossless_settings *flow = bpf_map_lookup_elem(&lossless_settings, &port_id);

	if (!flow || flow->flow_control != MRC_FLOW_CREDITS ||
	    frame->traffic_class != MRC_CLASS_DATA)
		return 0;
	if (!transit_is_to_nic(port))
		return frame->length_bytes;
	ingress_release(port_id + 1, frame->length_bytes, frame->time_ns);
	return 0;
}

/* The link lost the frame. */
static __always_inline void transit_lose(__u32 port_id, __u32 credit_bytes, __u64 time_ns)
{
	if (credit_bytes)
		ingress_release(port_id + 1, credit_bytes, time_ns);
}

/* The frame leaves for a switch, which counts it when it has looked at it. */
static __always_inline void transit_enter(__u32 port_id, const struct mrc_port *port)
{
	struct mrc_lossless_settings *flow = bpf_map_lookup_elem(&lossless_settings, &port_id);
	struct mrc_lossless_link *link = bpf_map_lookup_elem(&lossless_links, &port_id);

	if (flow && flow->flow_control && link && !transit_is_to_nic(port))
		link->drained++;
}

#endif

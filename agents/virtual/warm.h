/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Gets what the next events will read into the cache while those before them run: in a large fabric
 * hardly a port is in it. First what belongs to a port, then the frame that will have arrived.
 */
#ifndef VIRTUAL_WARM_H
#define VIRTUAL_WARM_H

#include "virtual.h"

enum {
	WARM_LINE_BYTES = 64,
	WARM_FRAME_LINES = 3, /* Ethernet, both IPv6 headers, UDP, BTH, extensions */
};

static inline void warm(void *map, __u32 index)
{
	__builtin_prefetch(bpf_map_lookup_elem(map, &index), 1);
}

/* The id of the port of an event, ~0: of something else. */
static inline __u32 warm_port_id(const struct virtual_event *event)
{
	if ((event->order & 3) != VIRTUAL_EVENT_PORT ||
	    event->a & (MRC_LOSSLESS_NODE | MRC_FAULT_LINE))
		return ~0U;
	return event->a - 1;
}

static inline void warm_queue(__u32 port_id)
{
	struct mrc_queue_delays *delays;

	warm(&port_table, port_id);
	warm(&queue_ports, port_id);
	warm(&queue_settings, port_id);
	warm(&queue_state, port_id);
	warm(&port_counters, port_id);
	delays = bpf_map_lookup_elem(&queue_delays, &port_id);
	__builtin_prefetch(&delays->of_class[MRC_CLASS_CONTROL], 1);
	__builtin_prefetch(&delays->of_class[MRC_CLASS_DATA], 1);
}

static inline void warm_descriptor(__u32 id)
{
	__u32 zero = 0;

	if (id)
		__builtin_prefetch(
		    descriptor_of(bpf_map_lookup_elem(&queue_descriptors, &zero), id), 1);
}

static void warm_port(const struct virtual_event *event)
{
	__u32 port_id = warm_port_id(event);

	if (!~port_id)
		return;
	warm_queue(port_id);
	virtual_warm_rate(port_id);
}

static void warm_frame(const struct virtual_event *event)
{
	__u32 port_id = warm_port_id(event), index;
	struct mrc_queue_port *queue;
	struct mrc_queue_frame *frame;

	if (!~port_id)
		return;
	queue = bpf_map_lookup_elem(&queue_ports, &port_id);
	warm(&port_table, virtual_port(port_id)->peer_port);
	warm_descriptor(queue->wire_head);
	warm_descriptor(queue->head[MRC_CLASS_CONTROL]);
	warm_descriptor(queue->head[MRC_CLASS_DATA]);
	index = queue->wire_head - 1;
	frame = bpf_map_lookup_elem(&queue_frames, &index);
	for (int i = 0; frame && i < WARM_FRAME_LINES; i++)
		__builtin_prefetch(frame->bytes + i * WARM_LINE_BYTES, 1);
}

/* The frame that an event delivers to a switch, if it follows a source route; *far is its port. */
static inline struct wire_ipv6 *warm_routed(const struct virtual_event *event,
					    const struct mrc_port **far)
{
	__u32 port_id = warm_port_id(event), index;
	struct mrc_queue_port *queue;
	struct mrc_queue_frame *frame;

	if (!~port_id || !fabric_is_tunnelled())
		return 0;
	*far = virtual_port(virtual_port(port_id)->peer_port);
	if ((*far)->kind == MRC_PORT_NIC)
		return 0;
	queue = bpf_map_lookup_elem(&queue_ports, &port_id);
	index = queue->wire_head - 1;
	frame = bpf_map_lookup_elem(&queue_frames, &index);
	return frame ? (void *)(frame->bytes + sizeof(struct wire_eth)) : 0;
}

static void warm_route(const struct virtual_event *event)
{
	const struct mrc_port *far;
	struct wire_ipv6 *outer = warm_routed(event, &far);
	__u64 hi;

	if (!outer)
		return;
	hi = bpf_be64_to_cpu(outer->destination[0]);
	warm(&fib, far->node_id * MRC_FIB_STRIDE + usid_fib_index(carrier_active(hi)));
	warm(&fib, far->node_id * MRC_FIB_STRIDE + usid_fib_index(carrier_active(hi << 16)));
}

static void warm_egress(const struct virtual_event *event)
{
	const struct mrc_port *far;
	struct wire_ipv6 *outer = warm_routed(event, &far);
	__u32 hit;
	__u64 hi;

	if (!outer)
		return;
	hi = bpf_be64_to_cpu(outer->destination[0]);
	hit = fib_find(far->node_id, carrier_active(hi));
	if (hit == MRC_FIB_LOCAL)
		hit = fib_find(far->node_id, carrier_active(hi << 16 | hi >> 48));
	if (hit && hit != MRC_FIB_LOCAL)
		warm_queue(hit - 1);
}

/* One of WARM_STEPS steps, each of which needs what the one before it got. */
void virtual_warm(__u32 step, const struct virtual_event *event)
{
	switch (step) {
	case 0:
		warm_port(event);
		break;
	case 1:
		warm_frame(event);
		break;
	case 2:
		warm_route(event);
		break;
	case 3:
		warm_egress(event);
		break;
	}
}

#endif

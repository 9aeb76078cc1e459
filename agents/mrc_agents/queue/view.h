/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parts of a port, and the two steps of every service: take the oldest frame of a class, put
 * it on the wire.
 *
 * What is called under a lock is inlined: kernels before 6.9 allow no call there, and none allows a
 * map look-up, hence struct port_view.
 */
#ifndef MRC_QUEUE_VIEW_H
#define MRC_QUEUE_VIEW_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/fabric_maps.h>
#include <queue/delay.h>
#include <queue/maps.h>
#include <mrc/trace.h>
#include <mrc/verifier.h>

/* A port's parts, each in its own map. */
struct port_view {
	struct mrc_queue_port *queue;
	struct mrc_queue_state *state;
	struct mrc_queue_settings *settings;
	struct mrc_queue_delays *delays;
	struct mrc_queue_descriptors *descriptors;
	struct mrc_port *port;
	struct mrc_lossless_settings *flow; /* NULL, as the next: no flow control here */
	struct mrc_lossless_link *link;
};

/*
 * True if flow control may hold the port's data class. Programs test this once and branch, each
 * branch with its own copy of what follows: the verifier could not follow both at a time.
 */
static __always_inline int port_is_lossless(__u32 port_id)
{
	struct mrc_lossless_settings *flow = bpf_map_lookup_elem(&lossless_settings, &port_id);

	return flow && flow->flow_control;
}

static __always_inline int port_find(__u32 port_id, struct port_view *view, const int is_lossless)
{
	__u32 zero = 0;

	view->queue = bpf_map_lookup_elem(&queue_ports, &port_id);
	view->state = bpf_map_lookup_elem(&queue_state, &port_id);
	view->settings = bpf_map_lookup_elem(&queue_settings, &port_id);
	view->delays = bpf_map_lookup_elem(&queue_delays, &port_id);
	view->port = bpf_map_lookup_elem(&port_table, &port_id);
	view->descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	view->flow = (void *)0;
	view->link = (void *)0;
	if (is_lossless) {
		view->flow = bpf_map_lookup_elem(&lossless_settings, &port_id);
		view->link = bpf_map_lookup_elem(&lossless_links, &port_id);
		if (!view->flow || !view->link)
			return 0;
	}
	return view->queue && view->state && view->settings && view->delays && view->port &&
	       view->descriptors;
}

static __always_inline struct mrc_queue_descriptor *
descriptor_of(struct mrc_queue_descriptors *descriptors, __u32 id)
{
	return &descriptors->entry[index_within(id - 1, MRC_QUEUE_FRAMES_MAX)];
}

static __always_inline void list_append(struct mrc_queue_descriptors *descriptors, __u32 *head,
					__u32 *tail, __u32 id)
{
	if (*head)
		descriptor_of(descriptors, *tail)->next = id;
	else
		*head = id;
	*tail = id;
}

/* Puts a frame, whose time_ns is its arrival here, on the wire at start_ns. Under the lock. */
static __always_inline void port_transmit(const struct port_view *view, __u32 id, __u64 start_ns)
{
	struct mrc_queue_descriptor *frame = descriptor_of(view->descriptors, id);
	__u64 end_ns, arrival_ns;

	if (start_ns > view->queue->free_at_ns) /* it was idle */
		view->queue->carry = 0;
	end_ns = start_ns + serialisation_ns(view->port, frame->length_bytes, &view->queue->carry);
	arrival_ns = end_ns + view->port->delay_ns;
	delay_add(&view->delays->of_class[frame->traffic_class & 1], start_ns - frame->time_ns);
	/* a delay that was shortened overtakes nothing */
	if (arrival_ns < view->queue->wire_end_ns)
		arrival_ns = view->queue->wire_end_ns;
	TRACE_FRAME(MRC_TRACE_HOP, view->port, virtual_trace_bytes(id), .time_ns = frame->time_ns,
		    .start_ns = start_ns, .end_ns = arrival_ns, .value = frame->length_bytes);
	view->queue->free_at_ns = end_ns;
	view->queue->wire_end_ns = arrival_ns;
	frame->time_ns = arrival_ns;
	frame->next = 0;
	list_append(view->descriptors, &view->queue->wire_head, &view->queue->wire_tail, id);
}

/* Begins the transmission of the oldest waiting frame of a class. Under the lock. */
static __always_inline void port_begin(const struct port_view *view, __u32 traffic_class,
				       __u64 start_ns)
{
	__u32 id = view->queue->head[traffic_class];
	struct mrc_queue_descriptor *frame = descriptor_of(view->descriptors, id);

	view->queue->head[traffic_class] = frame->next;
	view->state->depth_bytes[traffic_class] -= frame->length_bytes;
	port_transmit(view, id, start_ns);
}

#endif

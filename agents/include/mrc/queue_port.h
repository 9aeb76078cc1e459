/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * One port of the queue engine: two waiting lists, a transmitter, a wire.
 *
 *   admitted --> waiting, by class --> transmitter: rate --> wire: delay --> far end
 *                depth_bytes           free_at_ns            wire_head .. wire_tail
 *
 * Service is lazy and exact: nothing happens when a transmission begins. Whoever looks at the port
 * next, at time t, begins all transmissions that were to begin by t, each at its true time and with
 * the class that had the right of way then. A port with waiting frames always has one on the wire,
 * so its next event is the arrival of wire_head.
 *
 * What is called under a lock is inlined: kernels before 6.9 allow no call there, and none allows a
 * map look-up, hence struct port_view.
 */
#ifndef MRC_QUEUE_PORT_H
#define MRC_QUEUE_PORT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/fabric_maps.h>
#include <mrc/queue_maps.h>

enum {
	PORT_STARTS_MAX = 8, /* transmissions begun per look; the rest at the next look */
};

/* A port's parts, each in its own map. */
struct port_view {
	struct mrc_queue_port *queue;
	struct mrc_queue_state *state;
	struct mrc_queue_descriptors *descriptors;
	struct mrc_port *port;
};

static __always_inline int port_find(__u32 port_id, struct port_view *view)
{
	__u32 zero = 0;

	view->queue = bpf_map_lookup_elem(&queue_ports, &port_id);
	view->state = bpf_map_lookup_elem(&queue_state, &port_id);
	view->port = bpf_map_lookup_elem(&port_table, &port_id);
	view->descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	return view->queue && view->state && view->port && view->descriptors;
}

static __always_inline struct mrc_queue_descriptor *
descriptor_of(struct mrc_queue_descriptors *descriptors, __u32 id)
{
	__u32 index = id - 1;

	/* the mask is for the verifier; hidden, or clang moves it to where the verifier loses it */
	asm volatile("" : "+r"(index));
	return &descriptors->entry[index & (MRC_QUEUE_FRAMES_MAX - 1)];
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

/* Nanoseconds that a frame occupies the transmitter; rate 0 is a port that was unshaped meanwhile.
 */
static __always_inline __u64 serialisation_ns(struct mrc_port *port, __u64 length_bytes)
{
	__u64 rate_bps = port->rate_bps;

	return rate_bps ? length_bytes * 8000000000ULL / rate_bps : 0;
}

/* Puts a frame on the wire at start_ns. Under the lock. */
static __always_inline void port_transmit(const struct port_view *view, __u32 id, __u64 start_ns)
{
	struct mrc_queue_descriptor *frame = descriptor_of(view->descriptors, id);
	__u64 end_ns = start_ns + serialisation_ns(view->port, frame->length_bytes);
	__u64 arrival_ns = end_ns + view->port->delay_ns;

	/* a delay that was shortened overtakes nothing */
	if (arrival_ns < view->queue->wire_end_ns)
		arrival_ns = view->queue->wire_end_ns;
	view->queue->free_at_ns = end_ns;
	view->queue->wire_end_ns = arrival_ns;
	frame->time_ns = arrival_ns;
	frame->next = 0;
	list_append(view->descriptors, &view->queue->wire_head, &view->queue->wire_tail, id);
}

/*
 * Begins the transmissions that begin by until_ns, and one that begins later if else the wire would
 * be empty. Under the lock.
 */
static __always_inline void port_serve(const struct port_view *view, __u64 until_ns)
{
	struct mrc_queue_port *queue = view->queue;

	for (int i = 0; i < PORT_STARTS_MAX; i++) {
		__u32 control = queue->head[MRC_CLASS_CONTROL], data = queue->head[MRC_CLASS_DATA];
		__u64 control_ns = ~0ULL, start_ns = ~0ULL;
		struct mrc_queue_descriptor *frame;
		__u32 id;

		if (data)
			start_ns = descriptor_of(view->descriptors, data)->time_ns;
		if (control)
			control_ns = descriptor_of(view->descriptors, control)->time_ns;
		if (control_ns < start_ns)
			start_ns = control_ns;
		if (!~start_ns)
			return;
		if (start_ns < queue->free_at_ns)
			start_ns = queue->free_at_ns;
		if (start_ns > until_ns && queue->wire_head)
			return;
		if (control_ns <= start_ns) {
			id = control;
			frame = descriptor_of(view->descriptors, id);
			queue->head[MRC_CLASS_CONTROL] = frame->next;
			view->state->depth_bytes[MRC_CLASS_CONTROL] -= frame->length_bytes;
		} else {
			id = data;
			frame = descriptor_of(view->descriptors, id);
			queue->head[MRC_CLASS_DATA] = frame->next;
			view->state->depth_bytes[MRC_CLASS_DATA] -= frame->length_bytes;
		}
		port_transmit(view, id, start_ns);
	}
}

/*
 * Accepts a frame that arrives at arrival_ns, or returns 0: its class's buffer is full. A frame
 * that finds the port idle needs no buffer. Under the lock.
 */
static __always_inline int port_admit(const struct port_view *view, __u32 id, __u64 arrival_ns,
				      __u32 length_bytes, __u32 traffic_class)
{
	__u32 is_data = traffic_class != MRC_CLASS_CONTROL;
	struct mrc_queue_descriptor *frame = descriptor_of(view->descriptors, id);
	struct mrc_queue_port *queue = view->queue;
	__u32 depth_bytes, buffer_bytes;

	frame->length_bytes = length_bytes;
	frame->traffic_class = is_data;
	port_serve(view, arrival_ns);
	if (!queue->head[MRC_CLASS_CONTROL] && !queue->head[MRC_CLASS_DATA] &&
	    queue->free_at_ns <= arrival_ns) {
		port_transmit(view, id, arrival_ns);
		return 1;
	}
	depth_bytes = view->state->depth_bytes[is_data] + length_bytes;
	buffer_bytes = is_data ? view->port->data_buffer_bytes : view->port->control_buffer_bytes;
	if (depth_bytes > buffer_bytes)
		return 0;
	view->state->depth_bytes[is_data] = depth_bytes;
	if (depth_bytes > view->state->depth_peak_bytes[is_data])
		view->state->depth_peak_bytes[is_data] = depth_bytes;
	frame->time_ns = arrival_ns;
	frame->next = 0;
	list_append(view->descriptors, &queue->head[is_data], &queue->tail[is_data], id);
	return 1;
}

#endif

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
 * A port whose data class flow control may hold is served otherwise: lossless.h.
 */
#ifndef MRC_QUEUE_PORT_H
#define MRC_QUEUE_PORT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <queue/admission.h>
#include <queue/frame.h>
#include <queue/lossless.h>
#include <queue/view.h>

enum {
	PORT_STARTS_MAX = 8, /* transmissions begun in one go */
};

/*
 * Begins the transmissions that begin by until_ns, and one that begins later if else the wire would
 * be empty. Returns 1 when there may be more of them than it could begin in one go. Under the lock.
 */
static __always_inline int port_serve(const struct port_view *view, __u64 until_ns)
{
	struct mrc_queue_port *queue = view->queue;

	for (int i = 0; i < PORT_STARTS_MAX; i++) {
		__u32 control = queue->head[MRC_CLASS_CONTROL], data = queue->head[MRC_CLASS_DATA];
		__u64 control_ns = ~0ULL, start_ns = ~0ULL;

		if (data)
			start_ns = descriptor_of(view->descriptors, data)->time_ns;
		if (control)
			control_ns = descriptor_of(view->descriptors, control)->time_ns;
		if (control_ns < start_ns)
			start_ns = control_ns;
		if (!~start_ns)
			return 0;
		if (start_ns < queue->free_at_ns)
			start_ns = queue->free_at_ns;
		if (start_ns > until_ns && queue->wire_head)
			return 0;
		port_begin(view, control_ns <= start_ns ? MRC_CLASS_CONTROL : MRC_CLASS_DATA,
			   start_ns);
	}
	return 1;
}

/* Puts a frame at the end of its class's list. Under the lock. */
static __always_inline void port_append(const struct port_view *view, __u32 id)
{
	struct mrc_queue_descriptor *frame = descriptor_of(view->descriptors, id);
	__u32 is_data = frame->traffic_class != MRC_CLASS_CONTROL, depth_bytes;

	depth_bytes = view->state->depth_bytes[is_data] + frame->length_bytes;
	view->state->depth_bytes[is_data] = depth_bytes;
	if (depth_bytes > view->state->depth_peak_bytes[is_data])
		view->state->depth_peak_bytes[is_data] = depth_bytes;
	frame->next = 0;
	list_append(view->descriptors, &view->queue->head[is_data], &view->queue->tail[is_data],
		    id);
}

/* True if a frame is sent at once when it arrives. Under the lock. */
static __always_inline int port_is_idle(const struct port_view *view,
					const struct queue_arrival *arrival)
{
	if (view->link && arrival->is_data &&
	    (lossless_forbids(view, arrival->length_bytes) ||
	     lossless_is_ahead(view, arrival->time_ns)))
		return 0;
	return !view->queue->head[MRC_CLASS_CONTROL] && !view->queue->head[MRC_CLASS_DATA] &&
	       view->queue->free_at_ns <= arrival->time_ns;
}

/*
 * Takes a frame in, or refuses it, at a port that was served up to its arrival: one that finds the
 * port idle needs no buffer, and queue_decide() decides on any other. A mark or a trim is written
 * into the frame, so that it lies in the pool as the far end will get it. Under the lock.
 */
static __always_inline enum queue_verdict port_admit(const struct port_view *view, __u32 id,
						     struct mrc_queue_frame *bytes,
						     const struct queue_arrival *arrival)
{
	struct mrc_queue_descriptor *frame = descriptor_of(view->descriptors, id);
	enum queue_verdict verdict;

	frame->length_bytes = arrival->length_bytes;
	frame->traffic_class = arrival->is_data ? MRC_CLASS_DATA : MRC_CLASS_CONTROL;
	frame->time_ns = arrival->time_ns;
	if (port_is_idle(view, arrival)) {
		if (view->link && arrival->is_data)
			lossless_begin(view, frame, arrival->time_ns);
		port_transmit(view, id, arrival->time_ns);
		return QUEUE_SENT;
	}
	if (!arrival->has_room) {
		TRACE_FRAME(MRC_TRACE_LOST, view->port, bytes, .time_ns = arrival->time_ns,
			    .what = MRC_PC_DROP_QUEUE_FULL);
		return QUEUE_DROPS_DATA;
	}
	verdict = queue_decide(view->settings, view->state, arrival, &view->queue->draws);
	if (verdict == QUEUE_DROPS_DATA || verdict == QUEUE_DROPS_CONTROL) {
		TRACE_FRAME(MRC_TRACE_LOST, view->port, bytes, .time_ns = arrival->time_ns,
			    .what = MRC_PC_DROP_QUEUE_FULL);
		return verdict;
	}
	if (verdict == QUEUE_WAITS_MARKED)
		frame_mark(bytes);
	if (verdict == QUEUE_WAITS_TRIMMED) {
		TRACE_FRAME(MRC_TRACE_TRIMMED, view->port, bytes, .time_ns = arrival->time_ns,
			    .value = arrival->length_bytes);
		frame_set_dscp(bytes, view->port->kind == MRC_PORT_T0_DOWN
					  ? MRC_DSCP_TRIMMED_LASTHOP
					  : MRC_DSCP_TRIMMED);
		frame->length_bytes = arrival->trimmed_bytes;
		frame->traffic_class = MRC_CLASS_CONTROL;
	}
	TRACE_QUEUED(view->port, id, view->descriptors, view->queue->head[frame->traffic_class & 1],
		     .time_ns = arrival->time_ns,
		     .value = view->state->depth_bytes[frame->traffic_class & 1]);
	port_append(view, id);
	/*
	 * Where the model runs behind the clock, what is being sent may have left already: then
	 * nothing is on the wire, and nobody would look at the port again.
	 */
	if (!view->link && !view->queue->wire_head)
		port_begin(view, frame->traffic_class & 1,
			   view->queue->free_at_ns > arrival->time_ns ? view->queue->free_at_ns
								      : arrival->time_ns);
	return verdict;
}

#endif

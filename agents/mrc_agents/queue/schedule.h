/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* When a port is to be looked at again: decided under its lock, put into the wheel after it. */
#ifndef MRC_QUEUE_SCHEDULE_H
#define MRC_QUEUE_SCHEDULE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <queue/lossless.h>
#include <queue/view.h>
#include <queue/wheel.h>

/* The events to put into the wheel; 0: none. */
struct port_events {
	__u64 arrival_ns; /* of the first frame on the wire, at the far end */
	__u64 start_ns;	  /* of a transmission, where nobody would look in time */
};

/* Decides on a port that was served up to now_ns. Under the lock. */
static __always_inline void port_plan(const struct port_view *view, __u64 now_ns,
				      struct port_events *events)
{
	struct mrc_queue_port *queue = view->queue;
	struct mrc_lossless_link *link = view->link;
	__u64 arrival_ns = NEVER_NS, start_ns;

	events->arrival_ns = 0;
	events->start_ns = 0;
	if (queue->wire_head) {
		arrival_ns = descriptor_of(view->descriptors, queue->wire_head)->time_ns;
		if (!queue->is_scheduled) {
			queue->is_scheduled = 1;
			events->arrival_ns = arrival_ns;
		}
	}
	if (!link || link->is_start_scheduled)
		return;
	start_ns = lossless_next_ns(view, now_ns);
	if (start_ns >= arrival_ns)
		return;
	link->is_start_scheduled = 1;
	link->start_due_ns = start_ns;
	events->start_ns = start_ns;
}

/* Puts what was decided into the wheel, and wakes a drainer that sleeps for longer. */
static __always_inline void port_schedule(const struct port_view *view, __u32 port_id,
					  const struct port_events *events)
{
	__u32 index = view->settings->drainer;
	struct mrc_queue_drainer *drainer = bpf_map_lookup_elem(&queue_drainer, &index);
	void *ring, *record;
	int is_late = 0;

	if (!drainer)
		return;
	if (events->arrival_ns)
		is_late =
		    wheel_push(drainer, &view->queue->wheel_next, port_id + 1, events->arrival_ns);
	if (events->start_ns && view->link)
		is_late |= wheel_push(drainer, &view->link->start_next,
				      (port_id + 1) | MRC_LOSSLESS_NODE, events->start_ns);
	if (!is_late)
		return;
	ring = bpf_map_lookup_elem(&queue_wakes, &index);
	if (!ring)
		return;
	/* a full ring is one that nobody reads: no drainer sleeps on it */
	record = bpf_ringbuf_reserve(ring, 8, 0);
	if (record)
		bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
}

#endif

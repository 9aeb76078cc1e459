/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sending half of the queue engine: run by the drainer process on a live frame, it turns that
 * frame into the next one that has reached the far end of its link.
 */
#ifndef MRC_DRAIN_H
#define MRC_DRAIN_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/emit_port.h>
#include <mrc/histogram.h>
#include <mrc/map.h>
#include "direct.h"
#include "fault_line.h"
#include "transit.h"

enum {
	DRAIN_LOOKS = 4,  /* ports and buckets looked at per frame */
	DRAIN_PASSES = 4, /* frames that go on directly per run */
	DRAIN_ENTRY_KINDS = MRC_LOSSLESS_NODE | MRC_FAULT_LINE,
	DRAIN_PASSED_FAULTS = 0x40000000, /* with a frame's id: it comes from a line */
};

/* Lateness of frames, per drainer; mmapable, written by it alone. */
MMAPABLE_ARRAY(queue_lateness, struct mrc_histogram, 1);

/* The drainer that runs this: it is known by its CPU. */
static __always_inline __u32 drain_index(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 *index = bpf_map_lookup_elem(&queue_cpus, &cpu);

	return index ? *index : 0;
}

/*
 * Takes the frame of a port that is due by limit_ns, and sees that the port is looked at again.
 * Returns the frame's id, 0 when none is due.
 */
static __noinline __u32 port_take_due(__u32 port_id, __u64 limit_ns)
{
	struct mrc_queue_descriptor *frame;
	struct port_events events;
	struct port_view view;
	__u32 id;

	if (!port_find(port_id, &view, 0))
		return 0;
	bpf_spin_lock(&view.queue->lock);
	view.queue->is_scheduled = 0; /* the caller took it out of the wheel */
	id = view.queue->wire_head;
	if (id) {
		frame = descriptor_of(view.descriptors, id);
		if (frame->time_ns > limit_ns) {
			id = 0;
		} else {
			view.queue->wire_head = frame->next;
			port_serve(&view, frame->time_ns);
		}
	}
	port_plan(&view, limit_ns, &events);
	bpf_spin_unlock(&view.queue->lock);
	port_schedule(&view, port_id, &events);
	return id;
}

/* The same for a port under flow control. */
static __noinline __u32 lossless_take_due(__u32 port_id, __u64 limit_ns)
{
	struct port_events events = {};
	struct mrc_queue_descriptor *frame;
	struct port_view view;
	__u64 due_ns = limit_ns;
	__u32 id;

	if (!port_find(port_id, &view, 1))
		return 0;
	bpf_spin_lock(&view.queue->lock);
	id = view.queue->wire_head;
	if (id && descriptor_of(view.descriptors, id)->time_ns <= limit_ns &&
	    transit_is_full(&view, limit_ns)) {
		id = 0;
		events.arrival_ns = limit_ns + TRANSIT_RETRY_NS;
	} else {
		view.queue->is_scheduled = 0;
		if (id) {
			frame = descriptor_of(view.descriptors, id);
			if (frame->time_ns > limit_ns) {
				id = 0;
			} else {
				due_ns = frame->time_ns;
				view.queue->wire_head = frame->next;
			}
		}
	}
	bpf_spin_unlock(&view.queue->lock);
	if (events.arrival_ns)
		port_schedule(&view, port_id, &events);
	else
		lossless_catch_up(port_id, due_ns);
	return id;
}

/* Begins the transmissions of a port that are due by limit_ns. */
static __noinline int lossless_start_due(__u32 port_id, __u64 limit_ns)
{
	struct port_view view;
	__u64 due_ns;

	if (!port_find(port_id, &view, 1))
		return 0;
	bpf_spin_lock(&view.queue->lock);
	view.link->is_start_scheduled = 0;
	due_ns = view.link->start_due_ns;
	bpf_spin_unlock(&view.queue->lock);
	return lossless_catch_up(port_id, due_ns < limit_ns ? due_ns : limit_ns);
}

/*
 * Takes the next entry of the bucket that is being emptied. Returns it, 0 when it cannot be taken
 * yet: a push is about to store its link.
 */
static __always_inline __u32 drain_next_entry(struct mrc_queue_drainer *drainer)
{
	__u32 entry = drainer->current, port_id = (entry & ~DRAIN_ENTRY_KINDS) - 1, next;
	struct mrc_queue_port *queue;
	struct mrc_lossless_link *link;

	if (entry & MRC_FAULT_LINE) {
		next = line_next(port_id);
	} else {
		queue = bpf_map_lookup_elem(&queue_ports, &port_id);
		link = bpf_map_lookup_elem(&lossless_links, &port_id);
		if (!queue || !link)
			return 0;
		next = entry & MRC_LOSSLESS_NODE ? WHEEL_READ(link->start_next)
						 : WHEEL_READ(queue->wheel_next);
	}
	if (next == MRC_QUEUE_LINK_PENDING)
		return 0;
	drainer->current = next;
	return entry;
}

/*
 * The next frame that is due, id in the low half, perhaps with DRAIN_PASSED_FAULTS, and port in the
 * high half; or 0. Global, so that the verifier looks at it once.
 */
__noinline __u64 drain_take(__u64 now_ns)
{
	__u64 last = (now_ns >> MRC_QUEUE_BUCKET_SHIFT) - 1;
	__u32 index = drain_index();
	struct mrc_queue_drainer *drainer = bpf_map_lookup_elem(&queue_drainer, &index);

	if (!drainer)
		return 0;
	for (int i = 0; i < DRAIN_LOOKS; i++) {
		__u32 entry, port_id, id;

		if (!drainer->current) {
			if (!wheel_take_bucket(drainer, last))
				return 0;
			continue;
		}
		entry = drain_next_entry(drainer);
		if (!entry)
			return 0;
		port_id = (entry & ~DRAIN_ENTRY_KINDS) - 1;
		if (entry & MRC_FAULT_LINE) {
			id = line_take_due(port_id, drainer->limit_ns);
			if (id)
				return (__u64)(port_id / MRC_FAULT_LINES) << 32 | id |
				       DRAIN_PASSED_FAULTS;
			continue;
		}
		if (entry & MRC_LOSSLESS_NODE) {
			lossless_start_due(port_id, drainer->limit_ns);
			continue;
		}
		id = port_is_lossless(port_id) ? lossless_take_due(port_id, drainer->limit_ns)
					       : port_take_due(port_id, drainer->limit_ns);
		if (id)
			return (__u64)port_id << 32 | id;
	}
	return 0;
}

/* Makes the live frame a copy of frame `id`: length, bytes, model time. Returns 0 on success. */
static __noinline int drain_copy(struct xdp_md *ctx, __u32 id, __u64 arrival_ns, __u64 length_bytes,
				 __u32 credit_bytes)
{
	__u32 index = id - 1;
	struct mrc_queue_frame *frame = bpf_map_lookup_elem(&queue_frames, &index);
	struct mrc_frame_time *time;

	if (!frame || !length_within(&length_bytes, MRC_QUEUE_FRAME_BYTES))
		return -1;
	/* a recycled page has whatever length its last user left: always set it */
	if (bpf_xdp_adjust_tail(ctx, (int)length_bytes - (int)bpf_xdp_get_buff_len(ctx)) ||
	    bpf_xdp_store_bytes(ctx, 0, frame->bytes, length_bytes) ||
	    bpf_xdp_adjust_meta(ctx, -(int)sizeof(*time)))
		return -1;
	time = (void *)(long)ctx->data_meta;
	if ((void *)(time + 1) > (void *)(long)ctx->data)
		return -1;
	time->arrival_ns = arrival_ns;
	time->magic = FRAME_TIME_MAGIC;
	time->credit_bytes = credit_bytes;
	return 0;
}

static __noinline void drain_account(__u32 id, __u64 now_ns)
{
	__u32 index = drain_index(), zero = 0;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	struct mrc_queue_drainer *drainer = bpf_map_lookup_elem(&queue_drainer, &index);
	struct mrc_histogram *lateness = bpf_map_lookup_elem(&queue_lateness, &index);

	if (!drainer || !lateness || !descriptors)
		return;
	drainer->taken++;
	histogram_add(lateness, now_ns - descriptor_of(descriptors, id)->time_ns);
}

/* Sends frame `id`, which is due, through the link of port_id. Returns the XDP verdict. */
static __noinline int drain_send(struct xdp_md *ctx, __u32 port_id, __u32 id,
				 __u32 has_passed_faults)
{
	__u32 zero = 0, traffic_class, credit_bytes, fault = 0;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	struct mrc_queue_descriptor *descriptor;
	__u64 arrival_ns, length_bytes;
	int is_ready;

	if (!descriptors || !port)
		return XDP_DROP;
	descriptor = descriptor_of(descriptors, id);
	arrival_ns = descriptor->time_ns;
	length_bytes = descriptor->length_bytes;
	traffic_class = descriptor->traffic_class & FAULT_CLASS_MASK;
	if (port->is_faulted && !has_passed_faults) {
		fault = fault_apply_pooled(port_id, id, length_bytes, traffic_class);
		if (fault)
			TRACE_FRAME(MRC_TRACE_LOST, port, virtual_trace_bytes(id),
				    .time_ns = arrival_ns, .what = fault);
		if (!fault && line_hold(port_id, id, arrival_ns))
			return XDP_DROP;
	}
	credit_bytes = transit_credit_bytes(port_id, port, descriptor);
	is_ready = !drain_copy(ctx, id, arrival_ns, length_bytes, credit_bytes);
	if (descriptor->traffic_class & FAULT_DUPLICATED)
		line_send_copy(port_id, id, arrival_ns);
	else
		pool_return(id);
	if (!is_ready) {
		port_count(port_id, MRC_PC_DROP_MALFORMED, 1);
		transit_lose(port_id, credit_bytes, arrival_ns);
		return XDP_DROP;
	}
	if (port->capture_bytes)
		capture_frame(ctx, port_id, arrival_ns, fault);
	if (fault) {
		transit_lose(port_id, credit_bytes, arrival_ns);
		return XDP_DROP;
	}
	transit_enter(port_id, port);
	port_count(port_id, MRC_PC_TX_PACKETS, 1);
	port_count(port_id, MRC_PC_TX_BYTES, length_bytes);
	return bpf_redirect_map(&port_devmap, port_id, XDP_DROP);
}

/*
 * Sends the next due frame that takes a veth, after some that go on directly. Returns XDP_DROP when
 * there is none, or its link lost it.
 */
static __always_inline int queue_drain(struct xdp_md *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns();

	for (int i = 0; i < DRAIN_PASSES; i++) {
		__u64 taken = drain_take(now_ns);
		__u32 has_passed_faults = taken & DRAIN_PASSED_FAULTS;
		__u32 id = (__u32)taken & ~DRAIN_PASSED_FAULTS, port_id = taken >> 32;

		if (!id)
			return XDP_DROP;
		drain_account(id, now_ns);
		if (has_passed_faults || !direct_pass(port_id, id))
			return drain_send(ctx, port_id, id, has_passed_faults);
	}
	return XDP_DROP;
}

#endif

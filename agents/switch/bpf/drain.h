/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sending half of the queue engine: run by the drainer process on a live frame, it turns that
 * frame into the next one that has reached the far end of its link.
 */
#ifndef MRC_DRAIN_H
#define MRC_DRAIN_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/emit.h>
#include <mrc/histogram.h>

enum {
	DRAIN_LOOKS = 4, /* ports and buckets looked at per run */
};

/* How late frames left, per drainer; mmapable, written by it alone. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mrc_histogram);
} queue_lateness SEC(".maps");

/*
 * Takes the frame of a port that is due by limit_ns, and puts the port back into the wheel for the
 * next. Returns the frame's id, 0 when none is due.
 */
static __noinline __u32 port_take_due(__u32 port_id, __u64 limit_ns)
{
	__u32 zero = 0, id, next;
	struct mrc_queue_drainer *drainer = bpf_map_lookup_elem(&queue_drainer, &zero);
	struct mrc_queue_descriptor *frame;
	struct port_view view;
	__u64 due_ns = 0;

	if (!drainer || !port_find(port_id, &view))
		return 0;
	bpf_spin_lock(&view.queue->lock);
	id = view.queue->wire_head;
	if (id) {
		frame = descriptor_of(view.descriptors, id);
		due_ns = frame->time_ns;
		if (due_ns > limit_ns) {
			id = 0;
		} else {
			view.queue->wire_head = frame->next;
			port_serve(&view, due_ns);
		}
	}
	next = view.queue->wire_head;
	if (next)
		due_ns = descriptor_of(view.descriptors, next)->time_ns;
	else
		view.queue->is_scheduled = 0;
	bpf_spin_unlock(&view.queue->lock);
	/* the drainer is awake: it runs this */
	if (next)
		wheel_push(drainer, view.queue, port_id, due_ns);
	return id;
}

/* The next frame that is due, id in the low half and port in the high half, or 0. */
static __noinline __u64 drain_take(__u64 now_ns)
{
	__u64 last = (now_ns >> MRC_QUEUE_BUCKET_SHIFT) - 1;
	__u32 zero = 0;
	struct mrc_queue_drainer *drainer = bpf_map_lookup_elem(&queue_drainer, &zero);

	if (!drainer)
		return 0;
	for (int i = 0; i < DRAIN_LOOKS; i++) {
		struct mrc_queue_port *queue;
		__u32 port_id, id, next;

		if (!drainer->current) {
			if (!wheel_take_bucket(drainer, last))
				return 0;
			continue;
		}
		port_id = drainer->current - 1;
		queue = bpf_map_lookup_elem(&queue_ports, &port_id);
		if (!queue)
			return 0;
		next = WHEEL_READ(queue->wheel_next);
		if (next == MRC_QUEUE_LINK_PENDING)
			return 0;
		drainer->current = next;
		id = port_take_due(port_id, drainer->limit_ns);
		if (id)
			return (__u64)port_id << 32 | id;
	}
	return 0;
}

/* Makes the live frame a copy of frame `id`: exact length, bytes, model time. Returns 0 on success.
 */
static __noinline int drain_copy(struct xdp_md *ctx, __u32 id, __u64 arrival_ns, __u64 length_bytes)
{
	__u32 index = id - 1;
	struct mrc_queue_frame *frame = bpf_map_lookup_elem(&queue_frames, &index);
	struct mrc_frame_time *time;

	if (!frame || length_bytes < 1 || length_bytes > MRC_QUEUE_FRAME_BYTES)
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
	return 0;
}

static __always_inline void drain_account(__u64 late_ns)
{
	__u32 zero = 0;
	struct mrc_queue_drainer *drainer = bpf_map_lookup_elem(&queue_drainer, &zero);
	struct mrc_histogram *lateness = bpf_map_lookup_elem(&queue_lateness, &zero);

	if (!drainer || !lateness)
		return;
	drainer->taken++;
	histogram_add(lateness, late_ns);
}

/* Sends the next due frame. Returns XDP_DROP when there is none or its link lost it. */
static __always_inline int queue_drain(struct xdp_md *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 taken = drain_take(now_ns);
	__u32 id = taken, port_id = taken >> 32, zero = 0;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	struct mrc_queue_descriptor *descriptor;
	__u64 arrival_ns, length_bytes;
	__u32 traffic_class, fault = 0;
	int is_ready;

	if (!id || !descriptors || !port)
		return XDP_DROP;
	descriptor = descriptor_of(descriptors, id);
	arrival_ns = descriptor->time_ns;
	length_bytes = descriptor->length_bytes;
	traffic_class = descriptor->traffic_class;
	drain_account(now_ns - arrival_ns);
	is_ready = !drain_copy(ctx, id, arrival_ns, length_bytes);
	pool_return(id);
	if (!is_ready) {
		port_count(port_id, MRC_PC_DROP_MALFORMED, 1);
		return XDP_DROP;
	}
	if (port->fault_flags || port->loss_q32)
		fault = link_fault_drops(port_id, traffic_class);
	if (port->capture_bytes)
		capture_frame(ctx, port_id, arrival_ns, fault);
	if (fault)
		return XDP_DROP;
	port_count(port_id, MRC_PC_TX_PACKETS, 1);
	port_count(port_id, MRC_PC_TX_BYTES, length_bytes);
	return bpf_redirect_map(&port_devmap, port_id, XDP_DROP);
}

#endif

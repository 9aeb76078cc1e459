/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The queue engine's face towards a program that sends a frame: shaped ports with rate,
 * serialisation, propagation delay and two classes, control before data (docs/queue-engine.md).
 *
 * The frame is copied into the lab's pool and dropped here; the drainer sends the copy when it has
 * arrived at the far end of the link in the model. Model time travels with the frame, as metadata:
 * the next hop starts from when the frame was due, so lateness of the drainer does not add up.
 */
#ifndef MRC_QUEUE_H
#define MRC_QUEUE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/capture.h>
#include <mrc/fabric_maps.h>
#include <mrc/queue_maps.h>
#include <mrc/queue_wheel.h>
#include <mrc/queue_port.h>
#include <mrc/queue_pool.h>

#define FRAME_TIME_MAGIC 0x6d72632d74696d65ULL /* "mrc-time" */

/* When the frame arrived in the model, or 0: it crossed no shaped link. */
static __always_inline __u64 frame_model_ns(struct xdp_md *ctx)
{
	struct mrc_frame_time *time = (void *)(long)ctx->data_meta;

	if ((void *)(time + 1) <= (void *)(long)ctx->data && time->magic == FRAME_TIME_MAGIC)
		return time->arrival_ns;
	return 0;
}

/* When the frame arrived: in the model, or by the clock where no model is. */
static __always_inline __u64 frame_time_ns(struct xdp_md *ctx)
{
	return frame_model_ns(ctx) ?: bpf_ktime_get_ns();
}

/*
 * Admits frame `id` to a port and sees that the drainer looks at the port in time. Returns 0, or
 * the reason of the drop.
 */
static __noinline int queue_admit(__u32 port_id, __u32 id, __u64 arrival_ns, __u32 length_bytes,
				  __u32 traffic_class)
{
	__u32 zero = 0;
	struct mrc_queue_drainer *drainer = bpf_map_lookup_elem(&queue_drainer, &zero);
	struct port_view view;
	__u64 due_ns = 0;
	int is_admitted;

	if (!drainer || !port_find(port_id, &view))
		return MRC_PC_DROP_POOL_EMPTY;
	bpf_spin_lock(&view.queue->lock);
	is_admitted = port_admit(&view, id, arrival_ns, length_bytes, traffic_class);
	if (!view.queue->is_scheduled && view.queue->wire_head) {
		view.queue->is_scheduled = 1;
		due_ns = descriptor_of(view.descriptors, view.queue->wire_head)->time_ns;
	}
	bpf_spin_unlock(&view.queue->lock);
	if (due_ns && wheel_push(drainer, view.queue, port_id, due_ns)) {
		void *record = bpf_ringbuf_reserve(&queue_wake, 8, 0);

		/* a full ring is one that nobody reads: no drainer sleeps on it */
		if (record)
			bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
	}
	return is_admitted ? 0 : MRC_PC_DROP_QUEUE_FULL;
}

static __always_inline int queue_drop(__u32 port_id, __u32 reason)
{
	port_count(port_id, reason, 1);
	return XDP_DROP;
}

/*
 * Queues the frame, rewritten for departure, on egress port port_id. Returns the XDP verdict,
 * always XDP_DROP. Global, so that the verifier looks at it once however many call it.
 */
__noinline int queue_enqueue(struct xdp_md *ctx, __u32 port_id, __u32 traffic_class)
{
	__u64 length_bytes = ctx->data_end - ctx->data;
	__u64 arrival_ns = frame_time_ns(ctx);
	struct mrc_queue_frame *frame;
	__u32 id, index;
	int reason;

	if (length_bytes < 1 || length_bytes > MRC_QUEUE_FRAME_BYTES)
		return queue_drop(port_id, MRC_PC_DROP_MALFORMED);
	id = pool_take();
	if (!id)
		return queue_drop(port_id, MRC_PC_DROP_POOL_EMPTY);
	index = id - 1;
	frame = bpf_map_lookup_elem(&queue_frames, &index);
	if (!frame) {
		pool_reject(id);
		return queue_drop(port_id, MRC_PC_DROP_POOL_EMPTY);
	}
	if (bpf_xdp_load_bytes(ctx, 0, frame->bytes, length_bytes))
		reason = MRC_PC_DROP_MALFORMED;
	else
		reason = queue_admit(port_id, id, arrival_ns, length_bytes, traffic_class);
	if (reason) {
		pool_return(id);
		port_count(port_id, reason, 1);
		capture_frame(ctx, port_id, arrival_ns, reason);
	}
	return XDP_DROP;
}

#endif

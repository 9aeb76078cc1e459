/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The queue engine's face towards a program that sends a frame: shaped ports with rate,
 * serialisation, propagation delay and two classes, control before data
 * (docs/explanation/queue-engine.md).
 *
 * The frame is copied into the lab's pool and dropped here; the drainer sends the copy when it has
 * arrived at the far end of the link in the model. Model time travels with the frame, as metadata:
 * the next hop starts from when the frame was due, so lateness of the drainer does not add up.
 */
#ifndef MRC_QUEUE_ENQUEUE_H
#define MRC_QUEUE_ENQUEUE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/capture.h>
#include <mrc/fabric_maps.h>
#include <queue/maps.h>
#include <queue/pool.h>
#include <queue/port.h>
#include <queue/schedule.h>
#include <queue/time.h>
#include <queue/upstream.h>

enum {
	QUEUE_EAGAIN = MRC_PC_COUNT, /* queue_admit(): call again; no counter */
	QUEUE_TURNS_MAX = MRC_QUEUE_FRAMES_MAX / PORT_STARTS_MAX, /* then every frame has begun */
	LOSSLESS_TURNS_MAX = 64, /* what is left then only makes the frame wait */
};

/* The counter of what became of a frame: a drop, a mark or a trim; 0 when it was taken as it is. */
static __always_inline int verdict_counter(enum queue_verdict verdict)
{
	switch (verdict) {
	case QUEUE_WAITS_MARKED:
		return MRC_PC_ECN_MARKS;
	case QUEUE_WAITS_TRIMMED:
		return MRC_PC_TRIMS;
	case QUEUE_DROPS_DATA:
		return MRC_PC_DROP_QUEUE_FULL;
	case QUEUE_DROPS_CONTROL:
		return MRC_PC_DROP_CONTROL_FULL;
	default:
		return 0;
	}
}

/* Reads the arrival's fields from a frame whose bytes are in the pool. */
static __always_inline void arrival_describe(struct queue_arrival *arrival,
					     const struct mrc_queue_frame *frame)
{
	if (!arrival->is_data)
		return;
	arrival->is_ect = frame_is_ect(frame);
	arrival->trimmed_bytes = frame_trimmed_bytes(frame, arrival->length_bytes);
}

/*
 * Admits frame `id` to a port and sees that the drainer looks at the port in time. Returns
 * verdict_counter(), or QUEUE_EAGAIN when more transmissions were to begin before its arrival than
 * one call can begin: call again. Global, so that the verifier looks at it once.
 */
__noinline int queue_admit(struct queue_arrival *arrival)
{
	enum queue_verdict verdict = QUEUE_WAITS;
	struct mrc_queue_frame *frame;
	struct port_events events;
	struct port_view view;
	int is_behind;
	__u32 index;

	if (!arrival)
		return MRC_PC_DROP_POOL_EMPTY;
	index = arrival->id - 1;
	frame = bpf_map_lookup_elem(&queue_frames, &index);
	if (!frame || !port_find(arrival->port_id, &view, 0))
		return MRC_PC_DROP_POOL_EMPTY;
	arrival_describe(arrival, frame);
	bpf_spin_lock(&view.queue->lock);
	is_behind = port_serve(&view, arrival->time_ns);
	if (!is_behind)
		verdict = port_admit(&view, arrival->id, frame, arrival);
	port_plan(&view, arrival->time_ns, &events);
	bpf_spin_unlock(&view.queue->lock);
	port_schedule(&view, arrival->port_id, &events);
	return is_behind ? QUEUE_EAGAIN : verdict_counter(verdict);
}

/* Repeats queue_admit() until the port has caught up with the frame's arrival. */
static long queue_retry(__u64 turn, struct queue_arrival *arrival)
{
	(void)turn;
	arrival->outcome = queue_admit(arrival);
	return arrival->outcome != QUEUE_EAGAIN;
}

/*
 * Admits a frame that is in the pool, and counts its verdict. Returns that of queue_admit().
 * Global, so that the verifier looks at it once.
 */
__noinline int queue_enqueue_id(__u32 port_id, __u32 id, __u64 arrival_ns, __u32 length_bytes,
				__u32 traffic_class)
{
	struct queue_arrival arrival = {
	    .time_ns = arrival_ns,
	    .length_bytes = length_bytes,
	    .is_data = traffic_class != MRC_CLASS_CONTROL,
	    .has_room = 1,
	    .port_id = port_id,
	    .id = id,
	};

	if (!queue_retry(0, &arrival))
		bpf_loop(QUEUE_TURNS_MAX, queue_retry, &arrival, 0);
	if (arrival.outcome)
		port_count(port_id, arrival.outcome, 1);
	return arrival.outcome;
}

/* True if a frame that came to this did not enter the queue. */
static __always_inline int outcome_is_drop(__u32 outcome)
{
	return outcome && outcome != MRC_PC_ECN_MARKS && outcome != MRC_PC_TRIMS;
}

/*
 * As queue_admit() for a port under flow control that lossless_catch_up() has served. A frame that
 * comes to wait occupies the buffer of the link it came in by; credit that was reserved for it is
 * then its descriptor's.
 */
__noinline int queue_admit_lossless(struct xdp_md *ctx, __u32 port_id, __u32 id, __u32 length_bytes,
				    __u32 traffic_class)
{
	__u32 index = id - 1, upstream = 0;
	struct mrc_queue_frame *frame = bpf_map_lookup_elem(&queue_frames, &index);
	struct mrc_frame_time *time = frame_time(ctx);
	struct queue_arrival arrival = {
	    .time_ns = frame_time_ns(ctx),
	    .length_bytes = length_bytes,
	    .is_data = traffic_class != MRC_CLASS_CONTROL,
	    .has_room = 1,
	};
	struct port_events events;
	struct port_view view;
	enum queue_verdict verdict;

	if (!frame || !port_find(port_id, &view, 1))
		return MRC_PC_DROP_POOL_EMPTY;
	arrival_describe(&arrival, frame);
	if (time && arrival.is_data)
		upstream = upstream_of(ctx);
	if (upstream)
		arrival.has_room = upstream_has_room(upstream, length_bytes);
	descriptor_of(view.descriptors, id)->upstream = upstream;
	bpf_spin_lock(&view.queue->lock);
	verdict = port_admit(&view, id, frame, &arrival);
	port_plan(&view, arrival.time_ns, &events);
	bpf_spin_unlock(&view.queue->lock);
	port_schedule(&view, port_id, &events);
	if (time && upstream && (verdict == QUEUE_WAITS || verdict == QUEUE_WAITS_MARKED)) {
		ingress_charge(upstream, length_bytes, arrival.time_ns);
		time->credit_bytes = 0;
	}
	return verdict_counter(verdict);
}

struct lossless_catching_up {
	__u64 until_ns;
	__u32 port_id;
	__u32 pad0;
};

static long lossless_turn(__u64 turn, struct lossless_catching_up *port)
{
	(void)turn;
	return !lossless_catch_up(port->port_id, port->until_ns);
}

/* Serves a port under flow control up to until_ns, however much there is to begin. */
static __always_inline void lossless_catch_up_all(__u32 port_id, __u64 until_ns)
{
	struct lossless_catching_up port = {.until_ns = until_ns, .port_id = port_id};

	if (!lossless_turn(0, &port))
		bpf_loop(LOSSLESS_TURNS_MAX, lossless_turn, &port, 0);
}

static __always_inline int queue_drop(__u32 port_id, __u32 reason)
{
	port_count(port_id, reason, 1);
	return XDP_DROP;
}

/*
 * Queues the frame, whose headers are rewritten, on egress port port_id. Returns the XDP verdict,
 * always XDP_DROP. Global, so that the verifier looks at it once however many call it.
 */
__noinline int queue_enqueue(struct xdp_md *ctx, __u32 port_id, __u32 traffic_class)
{
	__u64 length_bytes = ctx->data_end - ctx->data;
	__u64 arrival_ns = frame_time_ns(ctx);
	struct mrc_queue_frame *frame;
	__u32 id, index, outcome;

	if (!length_within(&length_bytes, MRC_QUEUE_FRAME_BYTES))
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
	if (bpf_xdp_load_bytes(ctx, 0, frame->bytes, length_bytes)) {
		outcome = MRC_PC_DROP_MALFORMED;
		port_count(port_id, outcome, 1);
	} else if (port_is_lossless(port_id)) {
		lossless_catch_up_all(port_id, arrival_ns);
		outcome = queue_admit_lossless(ctx, port_id, id, length_bytes, traffic_class);
		if (outcome)
			port_count(port_id, outcome, 1);
	} else {
		outcome = queue_enqueue_id(port_id, id, arrival_ns, length_bytes, traffic_class);
	}
	if (!outcome_is_drop(outcome))
		return XDP_DROP;
	pool_return(id);
	capture_frame(ctx, port_id, arrival_ns, outcome);
	return XDP_DROP;
}

#endif

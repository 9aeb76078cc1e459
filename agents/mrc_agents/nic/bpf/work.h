/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * From work requests to what packets carry, and back to completions: the same for the QPs of every
 * transport. All functions run under the QP's lock but those that report.
 */
#ifndef MRC_WORK_H
#define MRC_WORK_H

#include "nic_maps.h"

/* The work request whose packets are being sent; there is one unless `next` is the ring's tail. */
static __always_inline struct mrc_work *work_current(const struct mrc_work_cursor *cursor,
						     struct mrc_work_ring *ring)
{
	return &ring->entries[cursor->next & (MRC_WORK_RING - 1)];
}

/* True if there is something to send that was never sent. */
static __always_inline int work_ready(const struct mrc_work_cursor *cursor,
				      struct mrc_work_ring *ring)
{
	struct mrc_work *work = work_current(cursor, ring);

	if (cursor->next == ring->tail)
		return 0;
	if (cursor->sent_bytes)
		return 1;
	if (work->stop || cursor->outstanding_messages >= MRC_WORK_RING)
		return 0;
	return !cursor->iteration || cursor->outstanding_messages < work->depth;
}

/* The part of a message that one packet carries. */
struct work_segment {
	__u32 local_offset;
	__u32 remote_offset;
	__u32 length;
	__u32 msn;
	__u32 work_index;
	__u32 is_first; /* of its message */
	__u32 is_last;
};

/* RETH.va of a packet from the half that its slot holds: a message may cross 4 GiB. */
static __always_inline __u64 work_address(const struct mrc_work *work, __u32 low)
{
	return (__u64)(work->remote_high + (low < work->remote_offset)) << 32 | low;
}

/* The next packet's segment of the current work request. */
static __always_inline struct work_segment work_next_segment(const struct mrc_work_cursor *cursor,
							     const struct mrc_work *work,
							     __u32 pmtu_bytes)
{
	__u32 offset = cursor->sent_bytes, rest = work->length - offset;

	return (struct work_segment){
	    .local_offset = work->local_offset + cursor->local_slot * work->length + offset,
	    .remote_offset = work->remote_offset + cursor->remote_slot * work->length + offset,
	    .length = rest < pmtu_bytes ? rest : pmtu_bytes,
	    .msn = cursor->next_msn,
	    .work_index = cursor->next & (MRC_WORK_RING - 1),
	    .is_first = !offset,
	    .is_last = rest <= pmtu_bytes,
	};
}

/* Moves on behind a segment that is on its way. */
static __always_inline void work_advance(struct mrc_work_cursor *cursor,
					 const struct mrc_work *work,
					 const struct work_segment *segment, __u64 now_ns)
{
	if (segment->is_first) {
		cursor->message_start_ns[segment->msn & (MRC_WORK_RING - 1)] = now_ns;
		cursor->outstanding_messages++;
	}
	cursor->sent_bytes += segment->length;
	if (segment->is_last) {
		cursor->sent_bytes = 0;
		cursor->next_msn++;
		cursor->iteration++;
		if (++cursor->local_slot >= work->local_slots)
			cursor->local_slot = 0;
		if (++cursor->remote_slot >= work->remote_slots)
			cursor->remote_slot = 0;
	}
}

/* Moves on to the next work request when the current one is sent whole, or stopped. */
static __always_inline void work_next(struct mrc_work_cursor *cursor, struct mrc_work_ring *ring)
{
	struct mrc_work *work = work_current(cursor, ring);

	if (cursor->next == ring->tail || cursor->sent_bytes)
		return;
	if (cursor->iteration < work->iterations && !work->stop)
		return;
	cursor->started[cursor->next & (MRC_WORK_RING - 1)] = cursor->iteration;
	cursor->iteration = 0;
	cursor->local_slot = 0;
	cursor->remote_slot = 0;
	cursor->next++;
}

/* The oldest message that is outstanding is completed; returns when it began. */
static __always_inline __u64 work_complete(struct mrc_work_cursor *cursor)
{
	__u32 msn = cursor->done_msn++;

	cursor->outstanding_messages--;
	cursor->completed_iterations++;
	return cursor->message_start_ns[msn & (MRC_WORK_RING - 1)];
}

/* Takes the oldest work request off the ring if it has nothing left to wait for. */
static __always_inline void work_reap(struct mrc_work_cursor *cursor, struct reaped_work *reaped)
{
	reaped->index = cursor->head & (MRC_WORK_RING - 1);
	reaped->is_finished = cursor->head != cursor->next &&
			      cursor->completed_iterations == cursor->started[reaped->index];
	reaped->iterations = cursor->completed_iterations;
	if (!reaped->is_finished)
		return;
	cursor->completed_iterations = 0;
	cursor->head++;
}

/*
 * True if an event is to say what the ring says since the last atomic operation, which is a full
 * barrier: who arms a ring and finds nothing new in it gets an event.
 */
static __always_inline int is_event_wanted(struct mrc_work_ring *ring, enum mrc_work_side side)
{
	__u32 notify = ring->notify[side];

	if (notify == MRC_NOTIFY_ARMED)
		return __sync_val_compare_and_swap(&ring->notify[side], notify, MRC_NOTIFY_NEVER) ==
		       notify;
	return notify == MRC_NOTIFY_ALWAYS;
}

/* Wakes who sleeps on a channel; false: it has no ring, and the agent has to. */
static __noinline int wake_channel(__u32 number)
{
#ifndef MRC_VIRTUAL
	__u32 place = number - 1;
	void *ring = bpf_map_lookup_elem(&channels, &place);
	__u64 *record;

	if (!ring)
		return 0;
	record = bpf_ringbuf_reserve(ring, sizeof(*record), 0);
	if (record) { /* a ring that is full wakes as it is */
		*record = 0;
		bpf_ringbuf_submit(record, 0);
	}
	return 1;
#else
	(void)number;
	return 0;
#endif
}

/* Reports a completed work request to its poster. */
static __noinline int report_completion(__u32 qp_index, __u32 index, __u32 iterations)
{
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_work *work;

	if (!ring)
		return 0;
	work = &ring->entries[index & (MRC_WORK_RING - 1)];
	__sync_lock_test_and_set(&work->is_completed, 1);
	if (work->is_silent || !is_event_wanted(ring, MRC_SIDE_SENDS) ||
	    wake_channel(ring->channels[MRC_SIDE_SENDS]))
		return 0;
	return nic_event(MRC_EVENT_COMPLETION, qp_index, work->id, iterations,
			 (__u64)MRC_STATUS_SUCCESS << 32 | work->length);
}

/* Writes what has arrived into the ring, where nobody looks before its number is there. */
static __always_inline void work_arrive(struct mrc_work_ring *ring, __u32 number, __u32 immediate,
					__u32 length, __u32 r_key)
{
	struct mrc_arrival *arrival = &ring->arrivals[number & (MRC_WIMM_MAX - 1)];

	arrival->immediate = immediate;
	arrival->length = length;
	arrival->r_key = r_key;
}

/* Reports what was written there to whoever posted the receive. */
static __noinline __attribute__((unused)) int report_arrival(__u32 qp_index, __u32 number)
{
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_arrival *arrival;

	if (!ring)
		return 0;
	arrival = &ring->arrivals[number & (MRC_WIMM_MAX - 1)];
	__sync_lock_test_and_set(&arrival->number, number);
	if (!is_event_wanted(ring, MRC_SIDE_RECEIVES) ||
	    wake_channel(ring->channels[MRC_SIDE_RECEIVES]))
		return 0;
	return nic_event(MRC_EVENT_RECEIVE, qp_index, number, arrival->immediate, arrival->length);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Frames that a fault keeps on their way: they have arrived in the model, but are let go later. A
 * line is in order of time, and the drainer of its port alone works on it:
 *
 *   line 0       frames that are delayed, in the order in which they arrived
 *   line 1 + r   frames that rule r holds back: all for the same time, so in order too
 *   the last     second copies, each right behind its original
 */
#ifndef MRC_FAULT_LINE_H
#define MRC_FAULT_LINE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/link_fault.h>
#include <mrc/map.h>
#include <queue/maps.h>
#include <queue/pool.h>
#include <queue/view.h>
#include <queue/wheel.h>

enum {
	FAULT_DUPLICATED = 0x100, /* in a descriptor's traffic_class: a copy is to follow */
	FAULT_CLASS_MASK = 0xff,
	FAULT_LINE_COPIES = MRC_FAULT_LINES - 1,
};

struct fault_line {
	struct bpf_spin_lock lock;
	__u32 is_scheduled; /* it sits in the wheel */
	__u32 head;
	__u32 tail;
	__u64 end_ns; /* of the last frame put here */
	__u32 wheel_next;
	__u32 pad0;
};

/* By port id * MRC_FAULT_LINES + line; an unshaped lab leaves it at one element. */
INDEX_MAP(ARRAY, fault_lines, struct fault_line, 1);

static __always_inline void line_schedule(struct fault_line *line, __u32 line_id, __u64 due_ns)
{
	__u32 port_id = line_id / MRC_FAULT_LINES;
	struct mrc_queue_settings *settings = bpf_map_lookup_elem(&queue_settings, &port_id);
	struct mrc_queue_drainer *drainer;
	__u32 index;

	if (!settings)
		return;
	index = settings->drainer;
	drainer = bpf_map_lookup_elem(&queue_drainer, &index);
	/* the drainer is awake: it runs this */
	if (drainer)
		wheel_push(drainer, &line->wheel_next, (line_id + 1) | MRC_FAULT_LINE, due_ns);
}

/*
 * Puts frame `id` at the end of a line, where a delay that was shortened overtakes nothing. Returns
 * 0 when there is no such line.
 */
static __noinline int line_put(__u32 line_id, __u32 id, __u64 due_ns)
{
	__u32 zero = 0;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	struct fault_line *line = bpf_map_lookup_elem(&fault_lines, &line_id);
	int is_in_order = line_id % MRC_FAULT_LINES == 0, is_first;

	if (!descriptors || !line)
		return 0;
	bpf_spin_lock(&line->lock);
	if (is_in_order && due_ns < line->end_ns)
		due_ns = line->end_ns;
	line->end_ns = due_ns;
	descriptor_of(descriptors, id)->time_ns = due_ns;
	descriptor_of(descriptors, id)->next = 0;
	list_append(descriptors, &line->head, &line->tail, id);
	is_first = !line->is_scheduled;
	line->is_scheduled = 1;
	bpf_spin_unlock(&line->lock);
	if (is_first)
		line_schedule(line, line_id, due_ns);
	return 1;
}

/*
 * Takes the frame of a line that is due by limit_ns, and sees that the line is looked at again.
 * Returns the frame's id, 0 when none is due.
 */
static __noinline __u32 line_take_due(__u32 line_id, __u64 limit_ns)
{
	__u32 zero = 0, id;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	struct fault_line *line = bpf_map_lookup_elem(&fault_lines, &line_id);
	__u64 due_ns = 0;

	if (!descriptors || !line)
		return 0;
	bpf_spin_lock(&line->lock);
	id = line->head;
	if (id && descriptor_of(descriptors, id)->time_ns <= limit_ns)
		line->head = descriptor_of(descriptors, id)->next;
	else
		id = 0;
	line->is_scheduled = line->head != 0;
	if (line->head)
		due_ns = descriptor_of(descriptors, line->head)->time_ns;
	bpf_spin_unlock(&line->lock);
	if (due_ns)
		line_schedule(line, line_id, due_ns);
	return id;
}

/* Flips what the verdict says in frame `id`. */
static __noinline int fault_corrupt_pooled(__u32 id, __u32 bth_bytes, __u32 length_bytes)
{
	__u32 zero = 0, index = id - 1, room_bytes = fault_room_bytes(bth_bytes, length_bytes);
	struct mrc_queue_frame *frame = bpf_map_lookup_elem(&queue_frames, &index);
	struct fault_verdict *verdict = bpf_map_lookup_elem(&fault_verdicts, &zero);

	if (!frame || !verdict || !room_bytes)
		return 0;
	for (__u32 i = 0; i < MRC_FAULT_RULES * FAULT_FLIP_SLOTS; i++) {
		struct fault_flip flip =
		    fault_flip_at(verdict, i / FAULT_FLIP_SLOTS, i % FAULT_FLIP_SLOTS,
				  bth_bytes + sizeof(struct wire_bth), room_bytes);

		if (flip.mask && flip.offset < MRC_QUEUE_FRAME_BYTES)
			frame->bytes[flip.offset] ^= flip.mask;
	}
	return 0;
}

/*
 * Applies the faults of a port to frame `id`, which is in the pool and has arrived at the far end.
 * Returns the counter of the drop, or 0; it may be damaged then, and line_hold() says more.
 */
static __noinline __u32 fault_apply_pooled(__u32 port_id, __u32 id, __u32 length_bytes,
					   __u32 traffic_class)
{
	__u32 zero = 0, index = id - 1, drop;
	struct mrc_queue_frame *frame = bpf_map_lookup_elem(&queue_frames, &index);
	struct fault_verdict *verdict = bpf_map_lookup_elem(&fault_verdicts, &zero);
	struct fault_view view;

	if (!frame || !verdict)
		return 0;
	fault_see(&view, frame->bytes, frame->bytes + length_bytes);
	drop = fault_decide(port_id, traffic_class, view.entropy, view.is_mrc);
	if (!drop && verdict->is_altered)
		fault_corrupt_pooled(id, view.bth_bytes, length_bytes);
	return drop;
}

/*
 * Keeps a frame that met faults for as long as they want. Returns 1 when it must not leave now; its
 * descriptor says whether it is to be sent again then.
 */
static __noinline int line_hold(__u32 port_id, __u32 id, __u64 arrival_ns)
{
	__u32 zero = 0, line_id = port_id * MRC_FAULT_LINES;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	struct fault_verdict *verdict = bpf_map_lookup_elem(&fault_verdicts, &zero);

	if (!descriptors || !verdict || !verdict->is_altered)
		return 0;
	if (verdict->is_duplicated)
		descriptor_of(descriptors, id)->traffic_class |= FAULT_DUPLICATED;
	if (!verdict->delay_ns && !verdict->reorder_ns)
		return 0;
	if (verdict->reorder_ns)
		line_id += verdict->is_reordered_by;
	return line_put(line_id, id, arrival_ns + verdict->delay_ns + verdict->reorder_ns);
}

/* Puts a frame that has just been sent into the line of copies, which sends it once more. */
static __noinline int line_send_copy(__u32 port_id, __u32 id, __u64 arrival_ns)
{
	__u32 zero = 0;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);

	if (!descriptors)
		return 0;
	descriptor_of(descriptors, id)->traffic_class &= FAULT_CLASS_MASK;
	if (!line_put(port_id * MRC_FAULT_LINES + FAULT_LINE_COPIES, id, arrival_ns))
		pool_return(id);
	return 0;
}

/* The line after this one in the bucket of the wheel that is being emptied. */
static __always_inline __u32 line_next(__u32 line_id)
{
	struct fault_line *line = bpf_map_lookup_elem(&fault_lines, &line_id);

	return line ? WHEEL_READ(line->wheel_next) : MRC_QUEUE_LINK_PENDING;
}

#endif

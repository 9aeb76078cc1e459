// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The queue of events: a heap of four children per node. Events at one time come in the order in
 * which they were pushed, or in one drawn from the seed: each is one that a real machine may show.
 */
#include <stdio.h>
#include <stdlib.h>
#include "api.h"

enum {
	HEAP_FIRST_ROOM = 4096,
	HEAP_CHILDREN = 4,
	ORDER_KIND_BITS = 2,
	ORDER_NUMBER_BITS = 40,
};

__u64 virtual_now_ns = 1;
struct mrc_virtual_totals virtual_totals;

static struct virtual_event *heap;
static __u64 heap_size, heap_room, pushed;
static __u64 random_state, tie_seed;
static int has_shuffled_ties;

/* splitmix64 */
static __u64 mix(__u64 value)
{
	value += 0x9e3779b97f4a7c15ULL;
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
	return value ^ (value >> 31);
}

__u32 bpf_get_prandom_u32(void)
{
	return mix(random_state++) >> 32;
}

void virtual_begin_events(__u64 seed, int shuffles_ties)
{
	heap_size = 0;
	pushed = 0;
	memset(&virtual_totals, 0, sizeof(virtual_totals));
	random_state = mix(seed);
	tie_seed = mix(seed ^ 1);
	has_shuffled_ties = shuffles_ties;
}

void virtual_end_events(void)
{
	free(heap);
	heap = 0;
	heap_size = 0;
	heap_room = 0;
}

static inline int is_before(const struct virtual_event *one, const struct virtual_event *other)
{
	return one->time_ns < other->time_ns ||
	       (one->time_ns == other->time_ns && one->order < other->order);
}

static void grow(void)
{
	heap_room = heap_room ? heap_room * 2 : HEAP_FIRST_ROOM;
	heap = realloc(heap, heap_room * sizeof(*heap));
	if (!heap) {
		perror("virtual time: queue of events");
		abort();
	}
}

void virtual_push(__u64 time_ns, enum virtual_event_kind kind, struct virtual_event event)
{
	__u64 at = heap_size++, number = pushed++;

	if (heap_size > heap_room)
		grow();
	if (heap_size > virtual_totals.queued_peak)
		virtual_totals.queued_peak = heap_size;
	event.time_ns = time_ns > virtual_now_ns ? time_ns : virtual_now_ns;
	event.order = number << ORDER_KIND_BITS | kind;
	if (has_shuffled_ties)
		event.order |= mix(tie_seed + number) << (ORDER_NUMBER_BITS + ORDER_KIND_BITS);
	while (at) {
		__u64 up = (at - 1) / HEAP_CHILDREN;

		if (!is_before(&event, &heap[up]))
			break;
		heap[at] = heap[up];
		at = up;
	}
	heap[at] = event;
}

int virtual_pop(__u64 until_ns, struct virtual_event *event)
{
	struct virtual_event last;
	__u64 at = 0;

	if (!heap_size || heap[0].time_ns > until_ns)
		return 0;
	*event = heap[0];
	virtual_totals.events++;
	last = heap[--heap_size];
	for (;;) {
		__u64 child = at * HEAP_CHILDREN + 1, best = child, end = child + HEAP_CHILDREN;

		if (child >= heap_size)
			break;
		if (end > heap_size)
			end = heap_size;
		while (++child < end)
			if (is_before(&heap[child], &heap[best]))
				best = child;
		if (!is_before(&heap[best], &last))
			break;
		heap[at] = heap[best];
		at = best;
	}
	heap[at] = last;
	return 1;
}

void virtual_push_port(__u32 entry, __u64 due_ns)
{
	virtual_push(due_ns, VIRTUAL_EVENT_PORT, (struct virtual_event){.a = entry});
}

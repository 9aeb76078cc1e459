// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The queue of events: a ring of buckets of one nanosecond for those that are due soon, a heap for
 * the rest. Time never goes back, so an event of the heap was pushed before every event of the ring
 * that is due at the same time.
 *
 * Events at one time come in the order in which they were pushed. Where the seed draws their order,
 * the heap has all of them. A real machine may show either order.
 */
#include <stdio.h>
#include <stdlib.h>
#include "api.h"

enum {
	HEAP_FIRST_ROOM = 4096,
	HEAP_CHILDREN = 4,
	ORDER_KIND_BITS = 2,
	ORDER_NUMBER_BITS = 40,
	RING_NS = 8192, /* a power of two: more than a frame and a link at 100 Gbit/s take */
	RING_WORD_BITS = 64,
	BUCKET_FIRST_ROOM = 16,
};

struct bucket {
	struct virtual_event *events;
	__u32 count, room, taken;
};

__u64 virtual_now_ns = 1;
struct mrc_virtual_totals virtual_totals;

static struct virtual_event *heap;
static __u64 heap_size, heap_room, pushed;
static struct bucket ring[RING_NS];
static __u64 ring_words[RING_NS / RING_WORD_BITS]; /* bit by bucket: it has events */
static __u64 ring_size;
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

static void empty_ring(void)
{
	for (__u32 i = 0; i < RING_NS; i++)
		ring[i].count = ring[i].taken = 0;
	memset(ring_words, 0, sizeof(ring_words));
	ring_size = 0;
}

void virtual_begin_events(__u64 seed, int shuffles_ties)
{
	heap_size = 0;
	empty_ring();
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
	empty_ring();
	for (__u32 i = 0; i < RING_NS; i++) {
		free(ring[i].events);
		ring[i].events = 0;
		ring[i].room = 0;
	}
}

static void *grown(void *events, __u64 room)
{
	void *found = realloc(events, room * sizeof(struct virtual_event));

	if (!found) {
		perror("virtual time: queue of events");
		abort();
	}
	return found;
}

/* ---- the heap: of four children per node */

static inline int is_before(const struct virtual_event *one, const struct virtual_event *other)
{
	return one->time_ns < other->time_ns ||
	       (one->time_ns == other->time_ns && one->order < other->order);
}

static void heap_push(const struct virtual_event *event)
{
	__u64 at = heap_size++;

	if (heap_size > heap_room) {
		heap_room = heap_room ? heap_room * 2 : HEAP_FIRST_ROOM;
		heap = grown(heap, heap_room);
	}
	while (at) {
		__u64 up = (at - 1) / HEAP_CHILDREN;

		if (!is_before(event, &heap[up]))
			break;
		heap[at] = heap[up];
		at = up;
	}
	heap[at] = *event;
}

static void heap_pop(struct virtual_event *event)
{
	struct virtual_event last;
	__u64 at = 0;

	*event = heap[0];
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
}

/* ---- the ring */

static void ring_push(const struct virtual_event *event)
{
	__u32 index = event->time_ns % RING_NS;
	struct bucket *bucket = &ring[index];

	if (bucket->count == bucket->room) {
		bucket->room = bucket->room ? bucket->room * 2 : BUCKET_FIRST_ROOM;
		bucket->events = grown(bucket->events, bucket->room);
	}
	bucket->events[bucket->count++] = *event;
	ring_words[index / RING_WORD_BITS] |= 1ULL << index % RING_WORD_BITS;
	ring_size++;
}

/* The time of the first bucket with events; there is one. */
static __u64 ring_first_ns(void)
{
	__u64 base_ns = virtual_now_ns - virtual_now_ns % RING_WORD_BITS;
	__u64 bits = ring_words[base_ns % RING_NS / RING_WORD_BITS] &
		     ~0ULL << virtual_now_ns % RING_WORD_BITS;

	while (!bits) {
		base_ns += RING_WORD_BITS;
		bits = ring_words[base_ns % RING_NS / RING_WORD_BITS];
	}
	return base_ns + __builtin_ctzll(bits);
}

static void ring_pop(__u64 time_ns, struct virtual_event *event)
{
	__u32 index = time_ns % RING_NS;
	struct bucket *bucket = &ring[index];

	*event = bucket->events[bucket->taken++];
	ring_size--;
	if (bucket->taken < bucket->count)
		return;
	bucket->count = bucket->taken = 0;
	ring_words[index / RING_WORD_BITS] &= ~(1ULL << index % RING_WORD_BITS);
}

/* ---- both */

void virtual_push(__u64 time_ns, enum virtual_event_kind kind, struct virtual_event event)
{
	__u64 number = pushed++;

	event.time_ns = time_ns > virtual_now_ns ? time_ns : virtual_now_ns;
	event.order = number << ORDER_KIND_BITS | kind;
	if (has_shuffled_ties)
		event.order |= mix(tie_seed + number) << (ORDER_NUMBER_BITS + ORDER_KIND_BITS);
	if (has_shuffled_ties || event.time_ns - virtual_now_ns >= RING_NS)
		heap_push(&event);
	else
		ring_push(&event);
	if (heap_size + ring_size > virtual_totals.queued_peak)
		virtual_totals.queued_peak = heap_size + ring_size;
}

int virtual_pop(__u64 until_ns, struct virtual_event *event)
{
	__u64 ring_ns = ring_size ? ring_first_ns() : ~0ULL;
	__u64 heap_ns = heap_size ? heap[0].time_ns : ~0ULL;

	if (heap_ns <= ring_ns) {
		if (!heap_size || heap_ns > until_ns)
			return 0;
		heap_pop(event);
	} else {
		if (ring_ns > until_ns)
			return 0;
		ring_pop(ring_ns, event);
	}
	virtual_totals.events++;
	return 1;
}

void virtual_push_port(__u32 entry, __u64 due_ns)
{
	virtual_push(due_ns, VIRTUAL_EVENT_PORT, (struct virtual_event){.a = entry});
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Timing wheel of ports: which port has something to do when. Any CPU pushes, without a lock; the
 * drainer alone takes.
 *
 *   bucket    b = time_ns >> 10, a number that only grows; it lives in slot b % 4096
 *   words     a bit per slot that may hold ports         summary   a bit per word that may have one
 *
 * A push stores the port in the slot's list first, then the word's bit, then the summary's; a take
 * clears in the opposite order and looks again. So a bit may be set for nothing, but never missing.
 *
 * The drainer empties bucket after bucket and never skips one that is marked, however late it is:
 * the model runs behind the clock then, but in order (to MRC_QUEUE_FAR_BEHIND). What is due more
 * than LOOK_AHEAD buckets after its position is looked at again there, so buckets in use span less
 * than a turn.
 */
#ifndef MRC_QUEUE_WHEEL_H
#define MRC_QUEUE_WHEEL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <queue/maps.h>

enum {
	WHEEL_SLOT_MASK = MRC_QUEUE_BUCKETS - 1,
	WHEEL_WORD_MASK = MRC_QUEUE_BUCKETS / 64 - 1,
	WHEEL_EMPTY = MRC_QUEUE_BUCKETS,
};

#define WHEEL_READ(lvalue) (*(volatile typeof(lvalue) *)&(lvalue))

/* Index of the lowest set bit; bits is not 0. BPF has no such instruction. */
static __always_inline __u32 wheel_lowest_bit(__u64 bits)
{
	__u64 below = ~bits & (bits - 1);

	below -= (below >> 1) & 0x5555555555555555ULL;
	below = (below & 0x3333333333333333ULL) + ((below >> 2) & 0x3333333333333333ULL);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (below * 0x0101010101010101ULL) >> 56;
}

/* With their result unused these would become unordered on some machines; the result is used. */
static __always_inline void wheel_set_bits(__u64 *word, __u64 bits)
{
	__u64 before = __sync_fetch_and_or(word, bits);

	asm volatile("" : : "r"(before));
}

static __always_inline __u64 wheel_clear_bits(__u64 *word, __u64 bits)
{
	return __sync_fetch_and_and(word, ~bits) & ~bits;
}

/*
 * Puts an entry into the wheel: a port, or the start of a transmission there (MRC_LOSSLESS_NODE).
 * It must be in no list; its own link is at `link`. Returns whether the drainer sleeps longer than
 * the event allows: then the caller wakes it.
 */
static __always_inline int wheel_push(struct mrc_queue_drainer *drainer, __u32 *link, __u32 entry,
				      __u64 due_ns)
{
	__u64 bucket = due_ns >> MRC_QUEUE_BUCKET_SHIFT;
	__u64 scan = WHEEL_READ(drainer->scan);
	__u64 wake_at_ns;
	__u32 slot, before;

	if ((__s64)(bucket - scan) < 0)
		bucket = scan;
	if ((__s64)(bucket - scan) > MRC_QUEUE_LOOK_AHEAD)
		bucket = scan + MRC_QUEUE_LOOK_AHEAD;
	slot = bucket & WHEEL_SLOT_MASK;

	WHEEL_READ(*link) = MRC_QUEUE_LINK_PENDING;
	before = __sync_lock_test_and_set(&drainer->buckets[slot], entry);
	WHEEL_READ(*link) = before;
	wheel_set_bits(&drainer->words[slot >> 6], 1ULL << (slot & 63));
	wheel_set_bits(&drainer->summary, 1ULL << (slot >> 6));

	wake_at_ns = WHEEL_READ(drainer->wake_at_ns);
	if (wake_at_ns <= (bucket + 1) << MRC_QUEUE_BUCKET_SHIFT)
		return 0;
	/* of several pushes at once, the one that finds it asleep wakes it */
	return __sync_lock_test_and_set(&drainer->wake_at_ns, 0) != 0;
}

/*
 * Forgets the summary's bit of a word that was seen empty, unless a push fills the word meanwhile.
 */
static __always_inline void wheel_forget_word(struct mrc_queue_drainer *drainer, __u32 word)
{
	__u64 left = wheel_clear_bits(&drainer->summary, 1ULL << word);

	asm volatile("" : : "r"(left));
	if (WHEEL_READ(drainer->words[word & WHEEL_WORD_MASK]))
		wheel_set_bits(&drainer->summary, 1ULL << word);
}

/* Distance from bucket `from` to the first one marked, WHEEL_EMPTY when none is. */
static __always_inline __u32 wheel_distance(struct mrc_queue_drainer *drainer, __u64 from)
{
	__u32 slot = from & WHEEL_SLOT_MASK;
	__u32 first = slot >> 6, bit = slot & 63;
	__u64 bits = WHEEL_READ(drainer->words[first]) >> bit;
	__u32 turn, word;
	__u64 summary;

	if (bits)
		return wheel_lowest_bit(bits);
	/* bit 0 of the turned summary is the word after the first, bit 63 the first itself */
	turn = (first + 1) & WHEEL_WORD_MASK;
	summary = WHEEL_READ(drainer->summary);
	summary = summary >> turn | summary << ((64 - turn) & 63);
	if (!summary)
		return WHEEL_EMPTY;
	word = (turn + wheel_lowest_bit(summary)) & WHEEL_WORD_MASK;
	bits = WHEEL_READ(drainer->words[word]);
	if (!bits) {
		wheel_forget_word(drainer, word);
		return WHEEL_EMPTY;
	}
	return (word * 64 + wheel_lowest_bit(bits) - slot) & WHEEL_SLOT_MASK;
}

/*
 * Moves the ports of the next bucket, `last` at the latest, to drainer->current. Returns 0 when
 * there is none.
 */
static __always_inline int wheel_take_bucket(struct mrc_queue_drainer *drainer, __u64 last)
{
	__u64 scan = drainer->scan, earliest = last + 1 - MRC_QUEUE_LOOK_BEHIND;
	__u32 distance, slot;

	distance = wheel_distance(drainer, scan);
	if (distance == WHEEL_EMPTY || (__s64)(scan + distance - last) > 0) {
		/* what raced with the search lies behind it: look there again next time */
		WHEEL_READ(drainer->scan) = earliest;
		return 0;
	}
	slot = (scan + distance) & WHEEL_SLOT_MASK;
	scan += distance + 1;
	WHEEL_READ(drainer->scan) = scan;
	drainer->limit_ns = (scan << MRC_QUEUE_BUCKET_SHIFT) - 1;
	if (!wheel_clear_bits(&drainer->words[slot >> 6], 1ULL << (slot & 63)))
		wheel_forget_word(drainer, slot >> 6);
	drainer->current = __sync_lock_test_and_set(&drainer->buckets[slot], 0);
	/* so far behind, and nothing else to be in order with: no use in going step by step */
	if (!WHEEL_READ(drainer->summary) && (__s64)(earliest - scan) > MRC_QUEUE_FAR_BEHIND)
		WHEEL_READ(drainer->scan) = earliest;
	return 1;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Coarse histogram of times, small enough for every port and class: 8 linear buckets in every
 * octave, so a bucket is never wider than an eighth of its lower bound, in units of 256 ns.
 *
 *    value, 256 ns   0 .. 15     16 .. 31    32 .. 63    ...   2^23 .. 2^24 - 1
 *    width           1           2           4                 2^20
 *    index           0 .. 15     16 .. 23    24 .. 31          168 .. 175
 *
 * With s the smallest shift for which value >> s is below 16: index = 8 * s + (value >> s). From
 * 2^32 ns (4.3 s) on, everything is in the last bucket. It is the layout of histogram.h with other
 * numbers; mrc_testbed/metrics/histogram.py has the twin that reads it.
 */
#ifndef MRC_QUEUE_DELAY_H
#define MRC_QUEUE_DELAY_H

#include <linux/types.h>
#include <mrc/histogram.h>
#include <mrc/queue_abi.h>
#include <mrc/verifier.h>

enum {
	DELAY_UNIT_SHIFT = 8,
	DELAY_LINEAR_BITS = 3,
	DELAY_VALUE_BITS = 24, /* of 256 ns */
};

_Static_assert(MRC_QUEUE_DELAY_BUCKETS == (DELAY_VALUE_BITS - DELAY_LINEAR_BITS + 1)
					      << DELAY_LINEAR_BITS,
	       "the buckets do not cover the values");

static __always_inline __u32 delay_index(__u64 value_ns)
{
	const __u64 largest = (1ULL << DELAY_VALUE_BITS) - 1;
	__u64 value = value_ns >> DELAY_UNIT_SHIFT, shift;

	value |= 0 - histogram_exceeds(value >> DELAY_VALUE_BITS, 0);
	value &= largest;
	shift = histogram_bit_length(value >> (DELAY_LINEAR_BITS + 1));
	return (shift << DELAY_LINEAR_BITS) + (value >> shift);
}

static __always_inline void delay_add(struct mrc_queue_delay *delay, __u64 value_ns)
{
	__u32 index = delay_index(value_ns);

	barrier_var(index); /* or clang drops the test that the verifier needs */
	if (index < MRC_QUEUE_DELAY_BUCKETS)
		delay->buckets[index] += 1;
	delay->sum_ns += value_ns;
	if (value_ns > delay->max_ns)
		delay->max_ns = value_ns;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Log-linear histogram of times: 32 linear buckets in every octave, so a bucket is never wider than
 * 1/32 of its lower bound and its middle is at most 1.6 % from any value in it.
 *
 *    value, ns   0 .. 63         64 .. 127       128 .. 255      ...   2^35 .. 2^36 - 1
 *    width, ns   1               2               4                     2^30
 *    index       0 .. 63         64 .. 95        96 .. 127             992 .. 1023
 *
 * With s the smallest shift for which value >> s is below 64:
 *
 *    index = 32 * s + (value >> s)
 *
 *    41 000 ns = 1010 0000 0010 1000 b        s = 10: the top 6 bits stay, 10 go
 *                [--- 40 --]                  41 000 >> 10 = 40
 *                                             index = 320 + 40 = 360: 40 960 .. 41 983 ns
 *
 * From 2^36 ns (68.7 s) on, everything is in the last bucket. mrc_testbed/metrics/histogram.py is
 * the twin that reads it; a test compares the two.
 */
#ifndef MRC_HISTOGRAM_H
#define MRC_HISTOGRAM_H

#include <linux/types.h>
#include <mrc/abi.h>
#include <mrc/verifier.h>

enum mrc_histogram_layout {
	MRC_HISTOGRAM_LINEAR_BITS = 5, /* 32 buckets per octave */
	MRC_HISTOGRAM_VALUE_BITS = 36, /* values from 2^36 ns on share the last bucket */
};

_Static_assert(MRC_HISTOGRAM_BUCKETS == (MRC_HISTOGRAM_VALUE_BITS - MRC_HISTOGRAM_LINEAR_BITS + 1)
					    << MRC_HISTOGRAM_LINEAR_BITS,
	       "the buckets do not cover the values");

/*
 * 1 when value > limit, else 0; both below 2^63. Five compares would give the verifier 32 paths
 * through all that follows; the empty asm keeps clang from turning the arithmetic back into them.
 */
static __always_inline __u64 histogram_exceeds(__u64 value, __u64 limit)
{
	__u64 difference = limit - value;

	barrier_var(difference);
	return difference >> 63;
}

/* Bit length of *rest*, which is below 2^31, by halving. */
static __always_inline __u64 histogram_bit_length(__u64 rest)
{
	__u64 step, length;

	step = histogram_exceeds(rest, 0xffff) << 4;
	length = step;
	rest >>= step;
	step = histogram_exceeds(rest, 0xff) << 3;
	length += step;
	rest >>= step;
	step = histogram_exceeds(rest, 0xf) << 2;
	length += step;
	rest >>= step;
	step = histogram_exceeds(rest, 0x3) << 1;
	length += step;
	rest >>= step;
	/* rest is 0 .. 3 here, its bit length 0, 1, 2, 2 */
	return length + rest - histogram_exceeds(rest, 2);
}

static __always_inline __u32 histogram_index(__u64 value_ns)
{
	const __u64 largest = (1ULL << MRC_HISTOGRAM_VALUE_BITS) - 1;
	__u64 shift;

	value_ns |= 0 - histogram_exceeds(value_ns >> MRC_HISTOGRAM_VALUE_BITS, 0);
	value_ns &= largest;
	shift = histogram_bit_length(value_ns >> (MRC_HISTOGRAM_LINEAR_BITS + 1));
	return (shift << MRC_HISTOGRAM_LINEAR_BITS) + (value_ns >> shift);
}

/* Adds one time to this CPU's histogram. */
static __always_inline void histogram_add(struct mrc_histogram *histogram, __u64 value_ns)
{
	__u32 index = histogram_index(value_ns) & (MRC_HISTOGRAM_BUCKETS - 1);

	histogram->buckets[index] += 1;
	histogram->sum_ns += value_ns;
	if (value_ns > histogram->max_ns)
		histogram->max_ns = value_ns;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Random numbers that a seed repeats. */
#ifndef MRC_DRAW_H
#define MRC_DRAW_H

#include <linux/types.h>

/*
 * The sequence-th 32-bit number of a seed (the finaliser of SplitMix64): the n-th packet of a port
 * has the same verdict in every run with the same seed.
 */
static __always_inline __u32 seeded_draw(__u32 seed, __u64 sequence)
{
	__u64 x = sequence * 0x9e3779b97f4a7c15ULL + ((__u64)seed << 32 | seed);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return (x ^ (x >> 31)) >> 32;
}

#endif

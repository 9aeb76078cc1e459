/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* PSN arithmetic and bit rings indexed by PSN (docs/reference/protocol.md, "PSN arithmetic"). */
#ifndef MRC_PSN_H
#define MRC_PSN_H

#include <linux/types.h>
#include <mrc/abi.h>
#include <mrc/wire.h>

/*
 * PSNs are kept free-running in 32 bits and cut to 24 on the wire. The 32-bit PSN nearest to
 * `reference` whose low 24 bits are `wire_psn`.
 */
static __always_inline __u32 psn_expand(__u32 reference, __u32 wire_psn)
{
	__s32 distance = (__s32)((wire_psn - reference) << 8) >> 8;

	return reference + distance;
}

static __always_inline __s32 psn_distance(__u32 newer, __u32 older)
{
	return (__s32)(newer - older);
}

static __always_inline __u32 ring_word(__u32 psn)
{
	return (psn >> 6) & (MRC_PSN_WORDS - 1);
}

static __always_inline int ring_test(const __u64 *bits, __u32 psn)
{
	return (bits[ring_word(psn)] >> (psn & 63)) & 1;
}

static __always_inline void ring_set(__u64 *bits, __u32 psn)
{
	bits[ring_word(psn)] |= 1ULL << (psn & 63);
}

static __always_inline void ring_clear(__u64 *bits, __u32 psn)
{
	bits[ring_word(psn)] &= ~(1ULL << (psn & 63));
}

/* The 64 bits of PSNs first .. first + 63, bit 0 = first. */
static __always_inline __u64 ring_window(const __u64 *bits, __u32 first)
{
	__u32 shift = first & 63;
	__u64 low = bits[ring_word(first)] >> shift;
	__u64 high = bits[ring_word(first + 64)];

	return shift ? low | high << (64 - shift) : low;
}

/* trailing_zeros() of 1 << n is n; the index is the top 6 bits of a de Bruijn sequence shifted by
 * n. */
static const __u8 de_bruijn_position[64] = {
    0,	1,  2,	53, 3,	7,  54, 27, 4,	38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
    22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,	26, 37, 40, 33, 47, 61, 45, 43, 21,
    23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
};

/*
 * Number of zero bits below the lowest set one; 64 for 0. BPF has no such instruction, and a search
 * by halves would give the verifier 64 paths.
 */
static __always_inline __u32 trailing_zeros(__u64 bits)
{
	if (!bits)
		return 64;
	return de_bruijn_position[((bits & -bits) * 0x022fdd63cc95386dULL) >> 58];
}

/* Number of set bits. */
static __always_inline __u32 count_bits(__u64 bits)
{
	bits -= bits >> 1 & 0x5555555555555555ULL;
	bits = (bits & 0x3333333333333333ULL) + (bits >> 2 & 0x3333333333333333ULL);
	return ((bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fULL) * 0x0101010101010101ULL >> 56;
}

/* Position of the highest set bit; bits must not be 0. */
static __always_inline __u32 highest_bit(__u64 bits)
{
	bits |= bits >> 1;
	bits |= bits >> 2;
	bits |= bits >> 4;
	bits |= bits >> 8;
	bits |= bits >> 16;
	bits |= bits >> 32;
	return count_bits(bits) - 1;
}

#endif

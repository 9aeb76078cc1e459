/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * F3216 uSID carriers in the two 64-bit halves of an IPv6 destination, host order.
 *
 *   hi: block 32 | uSID 16 | next 16        lo: 4 more uSIDs
 *
 * uN (RFC 9800 NEXT-CSID) drops the active uSID and moves the rest 16 bits to the left:
 *
 *   fcbb:0000:4400:8401 : 4801:c402:0000:0000  ->  fcbb:0000:8401:4801 : c402:0000:0000:0000
 */
#ifndef MRC_USID_H
#define MRC_USID_H

#include <linux/types.h>
#include <mrc/abi.h>

struct carrier {
	__u64 hi;
	__u64 lo;
};

static __always_inline __u32 carrier_active(__u64 hi)
{
	return (hi >> 16) & 0xffff;
}

static __always_inline struct carrier carrier_shift(__u64 hi, __u64 lo)
{
	struct carrier shifted = {
	    .hi = (hi & 0xffffffff00000000ULL) | ((hi << 16) & 0xffff0000ULL) | (lo >> 48),
	    .lo = lo << 16,
	};

	return shifted;
}

static __always_inline __u64 usid(__u32 role, __u32 plane, __u32 index)
{
	return role << MRC_USID_ROLE_SHIFT | plane << MRC_USID_PLANE_SHIFT | index;
}

/* Role and index of a uSID, as the FIB is indexed; the plane bits are taken out. */
static __always_inline __u32 usid_fib_index(__u32 value)
{
	return (value >> MRC_USID_ROLE_SHIFT) << MRC_USID_PLANE_SHIFT |
	       (value & MRC_USID_INDEX_MASK);
}

static __always_inline __u32 usid_plane(__u32 value)
{
	return (value >> MRC_USID_PLANE_SHIFT) & (MRC_PLANE_MAX - 1);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* mrc_agents/include/mrc/psn.h as a shared library, for its comparison with reference.psn. */
#include <mrc/psn.h>

__u32 twin_expand(__u32 reference, __u32 wire_psn)
{
	return psn_expand(reference, wire_psn);
}

__s32 twin_distance(__u32 newer, __u32 older)
{
	return psn_distance(newer, older);
}

__u64 twin_window(const __u64 *bits, __u32 first)
{
	return ring_window(bits, first);
}

int twin_test(const __u64 *bits, __u32 psn)
{
	return ring_test(bits, psn);
}

void twin_set(__u64 *bits, __u32 psn)
{
	ring_set(bits, psn);
}

void twin_clear(__u64 *bits, __u32 psn)
{
	ring_clear(bits, psn);
}

__u32 twin_trailing_zeros(__u64 bits)
{
	return trailing_zeros(bits);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A switch's static table, by role and index of a uSID. All modes use the same one: where there are
 * no carriers, the uSID to look up is made from the address and the EV.
 */
#ifndef MRC_FIB_H
#define MRC_FIB_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/abi.h>
#include <mrc/map.h>
#include <mrc/usid.h>

INDEX_MAP(ARRAY, fib, __u32, 1);

static __always_inline __u32 fib_find(__u32 node_id, __u32 value)
{
	__u32 index = node_id * MRC_FIB_STRIDE + usid_fib_index(value);
	__u32 *entry = bpf_map_lookup_elem(&fib, &index);

	return entry ? *entry : MRC_FIB_NONE;
}

/*
 * Result of a mode's look-up: the id of the egress port, or minus the mrc_port_counter of what
 * becomes of the packet instead.
 */
static __always_inline int fib_verdict(__u32 hit)
{
	return hit == MRC_FIB_NONE || hit == MRC_FIB_LOCAL ? -MRC_PC_DROP_NO_ROUTE : (int)hit - 1;
}

#endif

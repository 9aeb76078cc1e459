/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The source route: uN on the outer destination (docs/reference/protocol.md, "Switch"). */
#ifndef MRC_FORWARD_SRV6_H
#define MRC_FORWARD_SRV6_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <mrc/fabric_config.h>
#include <mrc/usid.h>
#include <mrc/wire.h>
#include "fib.h"

/* Consumes the active uSID if it is the switch's own; returns what fib_verdict() does. */
static __always_inline int forward_srv6(struct wire_ipv6 *outer, const struct mrc_port *ingress)
{
	struct carrier to = {
	    .hi = bpf_be64_to_cpu(outer->destination[0]),
	    .lo = bpf_be64_to_cpu(outer->destination[1]),
	};
	__u32 active = carrier_active(to.hi), hit;

	if (to.hi >> 32 != fabric_config.srv6_block)
		return -MRC_PC_PASSED_TO_STACK;
	if (usid_plane(active) != ingress->plane)
		return -MRC_PC_DROP_NO_ROUTE;
	hit = fib_find(ingress->node_id, active);
	if (hit == MRC_FIB_LOCAL) {
		to = carrier_shift(to.hi, to.lo);
		active = carrier_active(to.hi);
		if (!active)
			return -MRC_PC_DROP_END_OF_CARRIER;
		if (usid_plane(active) != ingress->plane)
			return -MRC_PC_DROP_NO_ROUTE;
		hit = fib_find(ingress->node_id, active);
	}
	outer->destination[0] = bpf_cpu_to_be64(to.hi);
	outer->destination[1] = bpf_cpu_to_be64(to.lo);
	return fib_verdict(hit);
}

#endif

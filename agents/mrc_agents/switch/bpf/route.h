/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The switch's decision on one frame, wherever its headers lie: in a packet or in the pool. */
#ifndef MRC_ROUTE_H
#define MRC_ROUTE_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <mrc/emit.h>
#include <mrc/fabric_config.h>
#include <mrc/wire.h>
#include "forward_host.h"
#include "forward_srv6.h"

/*
 * The egress port of a frame that came in by a port at time_ns in the model, of which Ethernet and
 * one IPv6 header are there; or, negated, the counter of what else becomes of it.
 */
static __always_inline int route(struct wire_eth *eth, const void *data_end,
				 const struct mrc_port *ingress, __u64 time_ns)
{
	struct wire_ipv6 *outer = (void *)(eth + 1);
	int way;

	if (eth->ethertype != bpf_htons(WIRE_ETH_P_IPV6))
		return -MRC_PC_PASSED_TO_STACK;
	if (fabric_is_tunnelled())
		way = forward_srv6(outer, ingress);
	else
		way = forward_host(outer, data_end, ingress, time_ns);
	if (way >= 0 && outer->hop_limit <= 1)
		return -MRC_PC_DROP_HOP_LIMIT;
	return way;
}

/* Rewrites the headers for the next link, except the MAC addresses. */
static __always_inline void route_leave(struct wire_eth *eth)
{
	struct wire_ipv6 *outer = (void *)(eth + 1);

	outer->hop_limit--;
}

static __always_inline __u32 route_class(const struct wire_eth *eth)
{
	const struct wire_ipv6 *outer = (const void *)(eth + 1);
	__u32 dscp = (bpf_ntohl(outer->version_class_flow) >> 22) & 0x3f;

	return dscp == MRC_DSCP_CONTROL || dscp == MRC_DSCP_TRIMMED ||
		       dscp == MRC_DSCP_TRIMMED_LASTHOP
		   ? MRC_CLASS_CONTROL
		   : MRC_CLASS_DATA;
}

#endif

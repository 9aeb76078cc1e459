/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The common part of the modes without a source route: the address names the host, hence the way
 * down; only the way up, and a lane among parallel links, are chosen (docs/reference/protocol.md,
 * "Forwarding modes").
 */
#ifndef MRC_FORWARD_HOST_H
#define MRC_FORWARD_HOST_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <mrc/fabric_config.h>
#include <mrc/usid.h>
#include <mrc/wire.h>
#include "fib.h"
#include "forward_adaptive.h"
#include "forward_ecmp.h"
#include "forward_stev.h"

/*
 * The way to the host that the only IPv6 header names, at time_ns in the model; returns what
 * fib_verdict() does.
 */
static __always_inline int forward_host(const struct wire_ipv6 *ip, const void *data_end,
					const struct mrc_port *ingress, __u64 time_ns)
{
	const volatile struct mrc_tier *tiers = fabric_config.tiers;
	const struct wire_udp *udp = (const void *)(ip + 1);
	__u64 plane = bpf_be64_to_cpu(ip->destination[0]) - fabric_config.inner_prefix;
	__u64 host = bpf_be64_to_cpu(ip->destination[1]) - 1;
	__u32 node_id = ingress->node_id, row, hit, first, count, number;

	if (plane >> 16 || ip->next_header != WIRE_NEXT_HEADER_UDP)
		return -MRC_PC_PASSED_TO_STACK;
	if ((const void *)(udp + 1) > data_end)
		return -MRC_PC_DROP_MALFORMED;
	if (plane != ingress->plane || host >= fabric_config.host_count)
		return -MRC_PC_DROP_NO_ROUTE;
	row = (__u32)host / tiers[0].joins;
	first = usid(MRC_USID_T0, 0, row * tiers[1].lanes);
	count = tiers[1].lanes;
	hit = fib_find(node_id, first);
	if (hit == MRC_FIB_LOCAL)
		return fib_verdict(
		    fib_find(node_id, usid(MRC_USID_DOWNLINK, 0, (__u32)host % tiers[0].joins)));
	if (ingress->kind == MRC_PORT_T2_DOWN) {
		first =
		    usid(MRC_USID_T1, 0, tiers[0].uplinks + row / tiers[1].joins * tiers[2].lanes);
		count = tiers[2].lanes;
	} else if (hit == MRC_FIB_NONE) {
		switch (ingress->kind) {
		case MRC_PORT_T0_DOWN:
			first = usid(MRC_USID_T1, 0, 0);
			count = tiers[0].uplinks;
			break;
		case MRC_PORT_T1_DOWN:
			first = usid(MRC_USID_T2, 0, 0);
			count = tiers[1].uplinks;
			break;
		default: /* what has come down never goes up again: there is no loop */
			return -MRC_PC_DROP_NO_ROUTE;
		}
	}
	if (fabric_is_adaptive() && count > 1)
		return adaptive_verdict(ip, udp, node_id, first, count, time_ns);
	if (fabric_config.forwarding == MRC_FORWARDING_STEV)
		number = ingress->kind == MRC_PORT_T0_DOWN ? stev_uplink(ip) : stev_lane(udp);
	else
		number = count == 1 ? 0 : ecmp_share(ecmp_hash(ip, udp, node_id), count);
	if (number >= count)
		return -MRC_PC_DROP_NO_ROUTE;
	return fib_verdict(fib_find(node_id, first + number));
}

#endif

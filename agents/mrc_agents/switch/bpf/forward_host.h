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

static __always_inline __u32 host_uplink(const struct wire_ipv6 *ip, const struct wire_udp *udp,
					 __u32 node_id)
{
	return fabric_config.forwarding == MRC_FORWARDING_STEV ? stev_uplink(ip)
							       : ecmp_uplink(ip, udp, node_id);
}

static __always_inline __u32 host_lane(const struct wire_ipv6 *ip, const struct wire_udp *udp,
				       __u32 node_id)
{
	return fabric_config.forwarding == MRC_FORWARDING_STEV ? stev_lane(udp)
							       : ecmp_lane(ip, udp, node_id);
}

/*
 * The way to the host that the only IPv6 header names, at time_ns in the model; returns what
 * fib_verdict() does.
 */
static __always_inline int forward_host(const struct wire_ipv6 *ip, const void *data_end,
					const struct mrc_port *ingress, __u64 time_ns)
{
	const struct wire_udp *udp = (const void *)(ip + 1);
	__u64 plane = bpf_be64_to_cpu(ip->destination[0]) - fabric_config.inner_prefix;
	__u64 host = bpf_be64_to_cpu(ip->destination[1]) - 1;
	__u32 lanes = fabric_config.uplinks_per_pair, row, lane;
	__u32 node_id = ingress->node_id;

	if (plane >> 16 || ip->next_header != WIRE_NEXT_HEADER_UDP)
		return -MRC_PC_PASSED_TO_STACK;
	if ((const void *)(udp + 1) > data_end)
		return -MRC_PC_DROP_MALFORMED;
	if (plane != ingress->plane || host >= fabric_config.host_count)
		return -MRC_PC_DROP_NO_ROUTE;
	row = (__u32)host / fabric_config.hosts_per_t0;
	if (ingress->kind == MRC_PORT_T1_DOWN) {
		if (fabric_is_adaptive() && lanes > 1)
			return adaptive_verdict(ip, udp, node_id, usid(MRC_USID_T0, 0, row * lanes),
						lanes, time_ns);
		lane = host_lane(ip, udp, node_id);
		if (lane >= lanes)
			return -MRC_PC_DROP_NO_ROUTE;
		return fib_verdict(fib_find(node_id, usid(MRC_USID_T0, 0, row * lanes + lane)));
	}
	if (fib_find(node_id, usid(MRC_USID_T0, 0, row * lanes)) == MRC_FIB_LOCAL)
		return fib_verdict(fib_find(
		    node_id, usid(MRC_USID_DOWNLINK, 0, (__u32)host % fabric_config.hosts_per_t0)));
	/* what has come down never goes up again: there is no loop */
	if (ingress->kind == MRC_PORT_T0_UP)
		return -MRC_PC_DROP_NO_ROUTE;
	if (fabric_is_adaptive())
		return adaptive_verdict(ip, udp, node_id, usid(MRC_USID_T1, 0, 0),
					fabric_config.uplink_count, time_ns);
	return fib_verdict(fib_find(node_id, usid(MRC_USID_T1, 0, host_uplink(ip, udp, node_id))));
}

#endif

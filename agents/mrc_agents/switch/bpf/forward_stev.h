/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Structured EVs: each tier reads its own field of flow label and source port. */
#ifndef MRC_FORWARD_STEV_H
#define MRC_FORWARD_STEV_H

#include <bpf/bpf_endian.h>
#include <mrc/abi.h>
#include <mrc/wire.h>

/* The uplink that a T0 takes. */
static __always_inline __u32 stev_uplink(const struct wire_ipv6 *ip)
{
	return bpf_ntohl(ip->version_class_flow) & MRC_EV_UPLINK_MASK;
}

/* Which of the parallel links to the next T0 a T1 takes. */
static __always_inline __u32 stev_lane(const struct wire_udp *udp)
{
	return bpf_ntohs(udp->source) >> MRC_EV_LANE_SHIFT & MRC_EV_LANE_MASK;
}

#endif

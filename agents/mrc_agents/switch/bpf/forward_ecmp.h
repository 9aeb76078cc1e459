/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ECMP: each switch hashes addresses, flow label and ports with a seed of its own over its equal
 * links. mrc_testbed/topology/host_forwarding.py is the same in Python, which is how the lab knows a
 * path.
 */
#ifndef MRC_FORWARD_ECMP_H
#define MRC_FORWARD_ECMP_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <mrc/fabric_config.h>
#include <mrc/wire.h>

#define ECMP_FLOW_LABEL_MASK 0xfffff

static __always_inline __u64 ecmp_absorb(__u64 state, __u64 word)
{
	state = (state ^ word) * 0x9e3779b97f4a7c15ULL;
	return state ^ state >> 32;
}

static __always_inline __u32 ecmp_hash(const struct wire_ipv6 *ip, const struct wire_udp *udp,
				       __u32 node_id)
{
	__u64 flow_label = bpf_ntohl(ip->version_class_flow) & ECMP_FLOW_LABEL_MASK;
	__u64 ports = (__u64)bpf_ntohs(udp->source) << 16 | bpf_ntohs(udp->destination);
	__u64 state = (__u64)fabric_config.hash_seed << 32 | node_id;

	state = ecmp_absorb(state, flow_label << 32 | ports);
	state = ecmp_absorb(state, bpf_be64_to_cpu(ip->source[0]));
	state = ecmp_absorb(state, bpf_be64_to_cpu(ip->source[1]));
	state = ecmp_absorb(state, bpf_be64_to_cpu(ip->destination[0]));
	state = ecmp_absorb(state, bpf_be64_to_cpu(ip->destination[1]));
	return (state * 0xbf58476d1ce4e5b9ULL) >> 32;
}

static __always_inline __u32 ecmp_share(__u32 hash, __u32 count)
{
	return (__u64)hash * count >> 32;
}

#endif

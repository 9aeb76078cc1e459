/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The queue engine's face towards a program that sends a frame. */
#ifndef MRC_QUEUE_H
#define MRC_QUEUE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/fabric_maps.h>

static __always_inline int queue_enqueue(struct xdp_md *ctx, __u32 port_id, __u32 traffic_class)
{
	(void)ctx;
	(void)traffic_class;
	port_count(port_id, MRC_PC_DROP_POOL_EMPTY, 1);
	return XDP_DROP;
}

static __always_inline __u64 frame_time_ns(struct xdp_md *ctx)
{
	(void)ctx;
	return bpf_ktime_get_ns();
}

#endif

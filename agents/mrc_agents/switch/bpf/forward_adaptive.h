/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Adaptive choice among equal links, as InfiniBand switches make it: per packet, the link with the
 * least to send; of equal ones the first from the hash's on. What a switch cannot see, it does not
 * avoid: it knows its own ports and nothing behind them. tests/reference/adaptive_choice.py is the
 * same in Python.
 */
#ifndef MRC_FORWARD_ADAPTIVE_H
#define MRC_FORWARD_ADAPTIVE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/fabric_maps.h>
#include <mrc/link_fault.h>
#include <queue/upstream.h>
#include <queue/view.h>
#include "fib.h"
#include "forward_ecmp.h"

enum {
	ADAPTIVE_NS_MAX = 1 << 30, /* a port that is ahead or behind by more counts as this much */
	ADAPTIVE_HELD = 1 << 30,   /* bytes: more than can wait, for a port that may not send */
};

struct adaptive_search {
	__u64 time_ns;
	__u64 load_bytes; /* of the best so far */
	__u32 node_id;
	__u32 first; /* uSID of the first link */
	__u32 count;
	__u32 start; /* the hash's link */
	__u32 hit;   /* table entry of the best so far */
	__u32 usual; /* that of the hash's, for when all are down */
};

/* True if a fault takes the link down that this port sends into. */
static __always_inline int adaptive_is_cut(__u32 port_id)
{
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	struct mrc_port_fault *fault;
	__u64 now_ns;

	if (!port || !port->is_faulted)
		return 0;
	fault = bpf_map_lookup_elem(&port_fault, &port_id);
	if (!fault)
		return 0;
	now_ns = bpf_ktime_get_ns();
	for (int i = 0; i < MRC_FAULT_RULES; i++) {
		if (WHEEL_READ(fault->rule[i].action) == MRC_FAULT_DOWN &&
		    fault_acts(&fault->rule[i], now_ns))
			return 1;
	}
	return 0;
}

/* Bytes that a port sends in a time. */
static __always_inline __u64 adaptive_bytes(__u64 time_ns, __u64 rate_bps)
{
	if (time_ns > ADAPTIVE_NS_MAX)
		time_ns = ADAPTIVE_NS_MAX;
	return time_ns * (rate_bps / 1000) / 8000000;
}

/*
 * Bytes that a port has to send at time_ns, what is being sent included; with credits, what waits
 * and what has not been given back. Service is lazy, but a port with waiting frames sends without a
 * gap: what has left since it was looked at last follows from the clock. Global, so that the
 * verifier looks at it once.
 */
__noinline __u64 adaptive_load_bytes(__u32 port_id, __u64 time_ns)
{
	struct mrc_lossless_settings *flow = bpf_map_lookup_elem(&lossless_settings, &port_id);
	struct mrc_lossless_link *link = bpf_map_lookup_elem(&lossless_links, &port_id);
	struct mrc_queue_state *state = bpf_map_lookup_elem(&queue_state, &port_id);
	struct mrc_queue_port *queue = bpf_map_lookup_elem(&queue_ports, &port_id);
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	__u64 waiting_bytes, gone_bytes, held_bytes = 0;
	int is_lossless;

	if (!flow || !link || !state || !queue || !port)
		return ADAPTIVE_HELD;
	is_lossless = flow->flow_control != MRC_FLOW_NONE;
	if (is_lossless) {
		lossless_catch_up(port_id, time_ns);
		if (link->is_forced || link->is_paused)
			held_bytes = ADAPTIVE_HELD;
	}
	if (flow->flow_control == MRC_FLOW_CREDITS)
		return held_bytes + state->depth_bytes[MRC_CLASS_DATA] + link->used_bytes;
	waiting_bytes = state->depth_bytes[MRC_CLASS_CONTROL] + state->depth_bytes[MRC_CLASS_DATA];
	if ((__s64)(queue->free_at_ns - time_ns) >= 0)
		return held_bytes + waiting_bytes +
		       adaptive_bytes(queue->free_at_ns - time_ns, port->rate_bps);
	gone_bytes = is_lossless ? 0 : adaptive_bytes(time_ns - queue->free_at_ns, port->rate_bps);
	return held_bytes + (waiting_bytes > gone_bytes ? waiting_bytes - gone_bytes : 0);
}

/* Looks at the number-th link from the hash's on. */
static long adaptive_look(__u64 number, struct adaptive_search *search)
{
	__u32 link = search->start + number, hit, port_id, peer_id;
	struct mrc_port *port;
	__u64 load_bytes;

	if (link >= search->count)
		link -= search->count;
	hit = fib_find(search->node_id, search->first + link);
	if (!number)
		search->usual = hit;
	if (hit == MRC_FIB_NONE || hit == MRC_FIB_LOCAL)
		return 0;
	port_id = hit - 1;
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port)
		return 0;
	peer_id = port->peer_port;
	/* carrier is lost at both ends, whatever the direction that is cut */
	if (adaptive_is_cut(port_id) || adaptive_is_cut(peer_id))
		return 0;
	load_bytes = adaptive_load_bytes(port_id, search->time_ns);
	if (load_bytes < search->load_bytes) {
		search->load_bytes = load_bytes;
		search->hit = hit;
	}
	return 0;
}

/* Which of `count` links from uSID `first` on a packet takes; returns what fib_verdict() does. */
static __always_inline int adaptive_verdict(const struct wire_ipv6 *ip, const struct wire_udp *udp,
					    __u32 node_id, __u32 first, __u32 count, __u64 time_ns)
{
	struct adaptive_search search = {
	    .time_ns = time_ns,
	    .load_bytes = ~0ULL,
	    .node_id = node_id,
	    .first = first,
	    .count = count,
	    .start = ecmp_share(ecmp_hash(ip, udp, node_id), count),
	    .hit = MRC_FIB_NONE,
	    .usual = MRC_FIB_NONE,
	};

	bpf_loop(count, adaptive_look, &search, 0);
	return fib_verdict(search.hit == MRC_FIB_NONE ? search.usual : search.hit);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How a frame leaves a port: faults of the link first, then the queue engine or a plain redirect.
 */
#ifndef MRC_EMIT_H
#define MRC_EMIT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/fabric_maps.h>
#include <mrc/capture.h>

/*
 * 64 to 32 bit mix (the finaliser of SplitMix64): the n-th packet of a port meets the same fate in
 * every run with the same seed.
 */
static __always_inline __u32 loss_draw(__u32 seed, __u64 sequence)
{
	__u64 x = sequence * 0x9e3779b97f4a7c15ULL + ((__u64)seed << 32 | seed);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return (x ^ (x >> 31)) >> 32;
}

/*
 * The counter of the fault that takes this packet, 0 when none does. The times are those of data
 * packets: EV probes on a dead path are meant to be lost, and say nothing about who still uses it.
 */
static __noinline __u32 link_fault_drops(__u32 port_id, __u32 traffic_class)
{
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	struct mrc_port_state *state = bpf_map_lookup_elem(&port_state, &port_id);
	__u32 fault = MRC_PC_DROP_LOSS;
	__u64 now_ns;

	if (!port || !state)
		return 0;
	if (port->fault_flags & MRC_FAULT_DOWN) {
		fault = MRC_PC_DROP_LINK_DOWN;
	} else {
		__u64 sequence = __sync_fetch_and_add(&state->loss_sequence, 1);

		if (loss_draw(port->loss_seed, sequence) >= port->loss_q32)
			return 0;
	}
	port_count(port_id, fault, 1);
	__sync_fetch_and_add(&state->fault_drops, 1);
	if (traffic_class != MRC_CLASS_DATA)
		return fault;
	__sync_fetch_and_add(&state->fault_data_drops, 1);
	now_ns = bpf_ktime_get_ns();
	if (!state->first_fault_drop_ns)
		state->first_fault_drop_ns = now_ns;
	state->last_fault_drop_ns = now_ns;
	return fault;
}

#include <mrc/queue.h>

_Static_assert(__builtin_offsetof(struct mrc_port, peer_mac) % 8 == 0 &&
		   __builtin_offsetof(struct mrc_port, mac) ==
		       __builtin_offsetof(struct mrc_port, peer_mac) + 6,
	       "write_macs() copies both at once");

/* Destination and source address of a frame that leaves a port. */
static __always_inline void write_macs(void *frame, const struct mrc_port *port)
{
	const void *macs = port->peer_mac;

	*(__u64 *)frame = *(const __u64 *)macs;
	*(__u32 *)(frame + 8) = *(const __u32 *)(macs + 8);
}

/*
 * Sends the frame, already rewritten for departure, out of port_id. Returns the XDP verdict. The
 * frame is counted as sent when it is redirected, or, on a shaped port, when its transmission ends.
 */
static __always_inline int port_emit(struct xdp_md *ctx, __u32 port_id, struct mrc_port *port,
				     __u32 traffic_class)
{
	struct mrc_port_counters *counters;
	__u32 fault = 0;

	if (port->rate_bps)
		return queue_enqueue(ctx, port_id, traffic_class);
	if (port->fault_flags || port->loss_q32)
		fault = link_fault_drops(port_id, traffic_class);
	if (port->capture_bytes)
		capture_frame(ctx, port_id, bpf_ktime_get_ns(), fault);
	if (fault)
		return XDP_DROP;
	counters = bpf_map_lookup_elem(&port_counters, &port_id);
	if (counters) {
		counters->value[MRC_PC_TX_PACKETS] += 1;
		counters->value[MRC_PC_TX_BYTES] += ctx->data_end - ctx->data;
	}
	return bpf_redirect_map(&port_devmap, port_id, 0);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Link probes (docs/reference/protocol.md, "Link probes"): the agent provides frames, each of which
 * becomes the next path's probe; what the fabric brings back is matched and counted here.
 */
#ifndef MRC_LINK_PROBE_H
#define MRC_LINK_PROBE_H

#include <mrc/link_probe_abi.h>
#include "nic_maps.h"
#include "packet.h"
#include "stage.h"

MMAPABLE_ARRAY(link_probe_paths, struct mrc_link_probe_path, 1); /* at load */
MMAPABLE_ARRAY(link_probing, struct mrc_link_probing, 1);

static __always_inline __u64 round_bit(__u32 round)
{
	return 1ULL << (round & (MRC_LINK_PROBE_ROUNDS - 1));
}

/* Judges the round whose time is up, and makes room for `round`. */
static __always_inline void close_round(struct mrc_link_probe_path *path, __u32 round, __u32 lag)
{
	if (round >= lag) {
		if (path->responded & round_bit(round - lag)) {
			path->failed_in_row = 0;
		} else {
			path->failed++;
			path->failed_in_row++;
		}
	}
	__sync_fetch_and_and(&path->responded, ~round_bit(round));
}

/* The next path of the round: its probe leaves in this frame. */
__noinline int send_link_probe(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_link_probing *probing = lookup0(&link_probing);
	struct mrc_kick *request = lookup0(&kick);
	struct mrc_link_probe_path *path;
	struct wire_link_probe *head;
	struct packet_av to = {};
	__u32 index, round;
	__u64 now_ns = bpf_ktime_get_ns();

	if (!config || !probing || !request || request->probe_cursor >= request->probe_count)
		return XDP_DROP;
	index = request->probe_cursor++;
	path = bpf_map_lookup_elem(&link_probe_paths, &index);
	if (!path)
		return XDP_DROP;
	to.to.hi = path->carrier_hi;
	to.to.lo = path->carrier_lo;
	to.plane = path->plane;
	to.entropy = path->plane << MRC_EV_PLANE_SHIFT;
	to.peer_host = config->host_index;
	to.peer_qpn = WIRE_ENDPOINT_QP;
	head = packet_make(ctx, config, &to, sizeof(*head), sizeof(*head), MRC_DSCP_CONTROL << 2,
			   WIRE_LINK_PROBE, 0, 0);
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	round = path->next_round;
	close_round(path, round, probing->lag_rounds);
	path->next_round = round + 1;
	path->sent++;
	head->path = bpf_htonl(index);
	head->round = bpf_htonl(round);
	head->sent_ns = bpf_cpu_to_be64(now_ns);
	nic_count(MRC_NC_TX_LINK_PROBE, 1);
	return stage_transmit(to.plane, MRC_CLASS_CONTROL);
}

/* A packet with that opcode, whose stack has been checked: ours if it says so. */
__noinline int on_link_probe(struct xdp_md *ctx)
{
	struct wire_link_probe *head = frame_exactly(ctx, sizeof(*head));
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_link_probing *probing = lookup0(&link_probing);
	__u32 ingress_id = ctx->ingress_ifindex - MRC_IFINDEX_BASE;
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &ingress_id);
	__u64 now_ns = bpf_ktime_get_ns(), rtt_ns, bit;
	struct mrc_link_probe_path *path;
	__u32 index, age, round;

	if (!head || !config || !probing || !port)
		return nic_drop(MRC_NC_DROP_LENGTH);
	index = bpf_ntohl(head->path);
	round = bpf_ntohl(head->round);
	rtt_ns = now_ns - bpf_be64_to_cpu(head->sent_ns);
	if (!stack_is_from(&head->stack, config->host_index) || index >= probing->path_count)
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	path = bpf_map_lookup_elem(&link_probe_paths, &index);
	if (!path || path->plane != port->plane)
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	age = path->next_round - 1 - round;
	/* also a round that has not been sent */
	if (age >= MRC_LINK_PROBE_ROUNDS || age >= path->sent)
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	bit = round_bit(round);
	if (__sync_fetch_and_or(&path->responded, bit) & bit)
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	nic_count(MRC_NC_RX_LINK_PROBE, 1);
	path->last_pass_ns = now_ns;
	if (age >= probing->lag_rounds) {
		__sync_fetch_and_add(&path->late, 1);
		return XDP_DROP;
	}
	__sync_fetch_and_add(&path->passed, 1);
	__sync_fetch_and_add(&path->rtt_sum_ns, rtt_ns);
	if (rtt_ns > path->rtt_max_ns)
		path->rtt_max_ns = rtt_ns;
	return XDP_DROP;
}

#endif

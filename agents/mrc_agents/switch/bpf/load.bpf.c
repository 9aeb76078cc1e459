// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Background traffic: each run puts the frame it is given, which nobody asked for, into the queue
 * of the port that the metadata in front of it names. Run by mrc_testbed/faults/raw_load.py.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/abi.h>
#include <mrc/emit_port.h>
#include <mrc/fabric_maps.h>
#include <mrc/wire.h>

struct load_target {
	__u32 port_id;
	__u32 pad0;
};

SEC("xdp")
int load(struct xdp_md *ctx)
{
	struct load_target *target = (void *)(long)ctx->data_meta;
	void *frame = (void *)(long)ctx->data;
	struct mrc_port *port;
	__u32 port_id;

	if ((void *)(target + 1) > frame ||
	    frame + sizeof(struct wire_eth) + sizeof(struct wire_ipv6) >
		(void *)(long)ctx->data_end)
		return XDP_ABORTED;
	port_id = target->port_id;
	port = bpf_map_lookup_elem(&port_table, &port_id);
	/* an unshaped port would have the frame redirected, and nobody would run again */
	if (!port || !port->rate_bps)
		return XDP_ABORTED;
	write_macs(frame, port);
	return port_emit(ctx, port_id, port, MRC_CLASS_DATA);
}

char _license[] SEC("license") = "Dual BSD/GPL";

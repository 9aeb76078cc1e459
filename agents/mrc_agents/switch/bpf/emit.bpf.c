// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Faults and queues for frames that leave a NIC: loaded once per lab and called by the NICs'
 * programs, which would otherwise each have to be verified with all of it.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/abi.h>
#include <mrc/fabric_maps.h>
#include <mrc/emit_port.h>

SEC("xdp")
int emit(struct xdp_md *ctx)
{
	__u32 zero = 0, port_id;
	struct emit_request *request = bpf_map_lookup_elem(&emit_requests, &zero);
	struct mrc_port *port;

	if (!request)
		return XDP_DROP;
	port_id = request->port_id;
	port = bpf_map_lookup_elem(&port_table, &port_id);
	return port ? port_emit(ctx, port_id, port, request->traffic_class) : XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";

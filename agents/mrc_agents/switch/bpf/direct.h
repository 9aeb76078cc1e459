/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Links without a wire. In a shaped lab a due frame whose far end is a switch is routed as it lies
 * in the pool and admitted to its next port; its bytes never leave the engine. In an unshaped one
 * the run of the program that sends it goes on with the next switch (forward.bpf.c). Whatever has
 * to see or touch a frame on its way (capture, faults, flow control, the kernel's stack) makes it
 * take the veth.
 */
#ifndef MRC_DIRECT_H
#define MRC_DIRECT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/emit.h>
#include <queue/enqueue.h>
#include <queue/pool.h>
#include "route.h"

/* True if frames may enter a port with a rate without a frame at hand. */
static __always_inline int direct_takes(__u32 port_id, const struct mrc_port *port)
{
	return port->rate_bps && !port->capture_bytes && !port_is_lossless(port_id);
}

/* The switch port at the far end of a link that frames need not cross, or nothing. */
static __always_inline struct mrc_port *direct_peer_port(const struct mrc_port *port)
{
	__u32 far_id = port->peer_port;
	struct mrc_port *far;

	if (!port->is_direct || port->is_faulted || port->capture_bytes)
		return 0;
	far = bpf_map_lookup_elem(&port_table, &far_id);
	return far && far->is_configured && far->kind != MRC_PORT_NIC ? far : 0;
}

/*
 * Hands frame `id`, due at the far end of port_id, on to its next port. Returns 0 when it has to
 * take the veth; it is as it was then. Global, so that the verifier looks at it once.
 */
__noinline int direct_pass(__u32 port_id, __u32 id)
{
	__u32 zero = 0, index = id - 1, egress_id, outcome;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id), *far, *egress;
	struct mrc_queue_frame *frame = bpf_map_lookup_elem(&queue_frames, &index);
	__u64 arrival_ns, length_bytes;
	struct wire_ipv6 *outer;
	struct wire_eth *eth;
	__be64 carrier[2];
	int way;

	if (!descriptors || !port || !frame || !direct_takes(port_id, port))
		return 0;
	far = direct_peer_port(port);
	if (!far)
		return 0;
	length_bytes = descriptor_of(descriptors, id)->length_bytes;
	arrival_ns = descriptor_of(descriptors, id)->time_ns;
	eth = (void *)frame->bytes;
	outer = (void *)(eth + 1);
	if (length_bytes < sizeof(*eth) + sizeof(*outer) || length_bytes > MRC_QUEUE_FRAME_BYTES)
		return 0;
	carrier[0] = outer->destination[0];
	carrier[1] = outer->destination[1];
	way = route(eth, frame->bytes + length_bytes, far, arrival_ns);
	if (way == -MRC_PC_PASSED_TO_STACK)
		return 0;
	if (way >= 0) {
		egress_id = way;
		egress = bpf_map_lookup_elem(&port_table, &egress_id);
		if (!egress || !direct_takes(egress_id, egress)) {
			outer->destination[0] = carrier[0];
			outer->destination[1] = carrier[1];
			return 0;
		}
		route_leave(eth);
		write_macs(eth, egress);
	}
	port_count(port_id, MRC_PC_TX_PACKETS, 1);
	port_count(port_id, MRC_PC_TX_BYTES, length_bytes);
	if (way < 0) {
		pool_return(id);
		port_count(port->peer_port, -way, 1);
		return 1;
	}
	outcome = queue_enqueue_id(egress_id, id, arrival_ns, length_bytes, route_class(eth));
	if (outcome_is_drop(outcome))
		pool_return(id);
	return 1;
}

#endif

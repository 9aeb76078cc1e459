/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Transmission by any port: faults of the link, queue engine or plain redirect. Faults and
 * engine are most of what the verifier has to look at, so only programs that a lab loads once have
 * them: a NIC's program tail-calls one of these.
 */
#ifndef MRC_EMIT_PORT_H
#define MRC_EMIT_PORT_H

#include <mrc/emit.h>
#include <mrc/fabric_config.h>
#include <mrc/link_fault.h>
#include <queue/enqueue.h>

static __always_inline int port_has_queue(const struct mrc_port *port)
{
	return fabric_config.is_shaped && port->rate_bps;
}

/* port_emit() for a port without a queue. */
static __always_inline int port_emit_unqueued(struct xdp_md *ctx, __u32 port_id,
					      struct mrc_port *port, __u32 traffic_class)
{
	__u32 fault = 0;

	if (port->is_faulted)
		fault = link_fault_apply(ctx, port_id, traffic_class);
	if (!fault)
		return port_xmit_direct(ctx, port_id, port);
	if (port->capture_bytes)
		capture_frame(ctx, port_id, bpf_ktime_get_ns(), fault);
	return XDP_DROP;
}

/*
 * Sends the frame, whose headers are already rewritten, out of port_id. Returns the XDP verdict.
 * The frame is counted as sent when it is redirected, or, on a port with a rate, when its
 * transmission ends.
 */
static __always_inline int port_emit(struct xdp_md *ctx, __u32 port_id, struct mrc_port *port,
				     __u32 traffic_class)
{
	if (port_has_queue(port))
		return queue_enqueue(ctx, port_id, traffic_class);
	return port_emit_unqueued(ctx, port_id, port, traffic_class);
}

#endif

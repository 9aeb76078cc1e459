/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How a frame leaves a host: by itself, or handed on to a program that the lab has once, for the
 * port's faults and queue or for the switches behind a direct link.
 */
#ifndef MRC_HAND_ON_H
#define MRC_HAND_ON_H

#include <mrc/emit.h>

/*
 * Sends the frame, rewritten for departure, out of port_id. Returns the XDP verdict, or ~ the enum
 * mrc_fabric_program that hand_on() has to call.
 */
static __always_inline int emit_from_host(struct xdp_md *ctx, __u32 port_id, struct mrc_port *port,
					  __u32 traffic_class)
{
	__u32 zero = 0;
	struct emit_request *request;

	if (!port->rate_bps && !port->is_faulted && !port->is_direct)
		return emit_plainly(ctx, port_id, port);
	request = bpf_map_lookup_elem(&emit_requests, &zero);
	if (!request)
		return XDP_DROP;
	request->port_id = port_id;
	request->traffic_class = traffic_class;
	return port->rate_bps || port->is_faulted ? ~MRC_FABRIC_PROGRAM_EMIT
						  : ~MRC_FABRIC_PROGRAM_FORWARD;
}

/* Ends the program with what emit_from_host() returned. */
static __always_inline int hand_on(struct xdp_md *ctx, int verdict)
{
	if (verdict >= 0)
		return verdict;
	/* by a constant index each, so that the kernel makes them plain jumps */
	if (verdict == ~MRC_FABRIC_PROGRAM_FORWARD)
		bpf_tail_call_static(ctx, &fabric_programs, MRC_FABRIC_PROGRAM_FORWARD);
	else
		bpf_tail_call_static(ctx, &fabric_programs, MRC_FABRIC_PROGRAM_EMIT);
	return XDP_DROP; /* never: every lab has these programs */
}

#endif

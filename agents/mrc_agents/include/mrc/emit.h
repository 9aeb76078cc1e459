/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Transmission by a port without rate and faults, and how a host's program passes a frame to one
 * that knows about these: mrc/emit_port.h is too much for a verifier to have in every NIC.
 */
#ifndef MRC_EMIT_H
#define MRC_EMIT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/fabric_maps.h>
#include <mrc/capture.h>

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

/* Counts a frame as sent. */
static __always_inline void emit_count(__u32 port_id, __u64 length_bytes)
{
	struct mrc_port_counters *counters = bpf_map_lookup_elem(&port_counters, &port_id);

	if (counters) {
		counters->value[MRC_PC_TX_PACKETS] += 1;
		counters->value[MRC_PC_TX_BYTES] += length_bytes;
	}
}

/*
 * Sends the frame, whose headers are already rewritten, out of port_id, which has neither a rate
 * nor a fault. Returns the XDP verdict.
 */
static __always_inline int port_xmit_direct(struct xdp_md *ctx, __u32 port_id,
					    struct mrc_port *port)
{
	if (port->capture_bytes)
		capture_frame(ctx, port_id, bpf_ktime_get_ns(), 0);
	emit_count(port_id, ctx->data_end - ctx->data);
	return bpf_redirect_map(&port_devmap, port_id, 0);
}

/*
 * Sends the frame, whose headers are rewritten, out of port_id of a host. Returns the XDP verdict,
 * or ~ the enum mrc_fabric_program that port_xmit_end() has to call.
 */
static __always_inline int port_xmit(struct xdp_md *ctx, __u32 port_id, struct mrc_port *port,
				     __u32 traffic_class)
{
	__u32 zero = 0;
	struct emit_request *request;

	if (!port->rate_bps && !port->is_faulted && !port->is_direct)
		return port_xmit_direct(ctx, port_id, port);
	request = bpf_map_lookup_elem(&emit_requests, &zero);
	if (!request)
		return XDP_DROP;
	request->port_id = port_id;
	request->traffic_class = traffic_class;
	return port->rate_bps || port->is_faulted ? ~MRC_FABRIC_PROGRAM_EMIT
						  : ~MRC_FABRIC_PROGRAM_FORWARD;
}

/* Ends the program with what port_xmit() returned. */
static __always_inline int port_xmit_end(struct xdp_md *ctx, int verdict)
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

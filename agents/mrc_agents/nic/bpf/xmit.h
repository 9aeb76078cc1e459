/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Transmission: the data packet of a tx_desc, whatever the transport, and the last step of every
 * frame that leaves the NIC. Programs call both themselves, so that no handler's stack is below.
 */
#ifndef MRC_XMIT_H
#define MRC_XMIT_H

#include <mrc/emit.h>
#include "icrc.h"
#include "mr.h"
#include "nic_maps.h"
#include "packet.h"
#include "stage.h"

#define PORT_WAIT_MAX_NS 1000000000ULL

/* The format of a transport's data packets. */
struct tx_format {
	struct packet_av to;
	__u32 head_bytes;  /* in front of the payload */
	__u32 stack_bytes; /* of these, that the caller writes in place: the result has so many */
	__u32 dscp;
	__u32 flags_psn; /* of the BTH */
};

/*
 * The data packets of a NIC wait for each other in the queue of its port, which is no delay of a
 * path: a NIC that has its port to itself knows how long. Control packets have priority and are
 * short; pauses, credits and the fabric's own load of the port are not foreseen.
 */
static __always_inline void port_occupy(const struct mrc_nic_config *config, __u32 plane,
					__u64 now_ns, __u32 length_bytes)
{
	__u32 port_id = nic_port_id(config, plane);
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	struct mrc_nic_paths *paths = lookup0(&nic_paths);
	__u64 *idle_ns, *carry;

	if (!paths || !port || !port->rate_bps)
		return;
	idle_ns = &paths->port_idle_ns[plane & (MRC_PLANE_MAX - 1)];
	carry = &paths->port_carry[plane & (MRC_PLANE_MAX - 1)];
	if (*idle_ns < now_ns) {
		*idle_ns = now_ns;
		*carry = 0;
	}
	*idle_ns += serialisation_ns(port, length_bytes, carry);
}

/* Time that a data packet for the plane would wait before the port begins to send it. */
static __always_inline __u32 port_wait_ns(const struct mrc_nic_paths *paths, __u32 plane,
					  __u64 now_ns)
{
	__u64 idle_ns = paths->port_idle_ns[plane & (MRC_PLANE_MAX - 1)];

	if (idle_ns <= now_ns)
		return 0;
	return idle_ns - now_ns < PORT_WAIT_MAX_NS ? idle_ns - now_ns : PORT_WAIT_MAX_NS;
}

/*
 * Makes the frame, whatever it held, the packet, with its headers up to the BTH. Returns
 * its start, or NULL when that is not possible.
 */
static __always_inline void *tx_data_begin(struct xdp_md *ctx, const struct mrc_nic_config *config,
					   const struct tx_desc *desc,
					   const struct tx_format *format)
{
	__u32 pad = -desc->length & 3, bytes = format->head_bytes + desc->length + pad;

	port_occupy(config, desc->plane, desc->model_ns, bytes + WIRE_ICRC_BYTES);
	return packet_make(ctx, config, &format->to, bytes, format->stack_bytes,
			   format->dscp << 2 | WIRE_ECT0, desc->opcode, pad, format->flags_psn);
}

/* Puts immediate, payload and padding behind the headers, and counts the packet. */
static __always_inline int tx_data_end(struct xdp_md *ctx, const struct tx_desc *desc,
				       __u32 head_bytes, int has_immediate)
{
	__be32 immediate = bpf_htonl(desc->immediate), zeros = 0;

	if (has_immediate &&
	    bpf_xdp_store_bytes(ctx, head_bytes - sizeof(immediate), &immediate, sizeof(immediate)))
		return nic_drop(MRC_NC_DROP_BOUNDS);
	/* Of these 4 bytes the iCRC will overwrite what is not padding. */
	if (desc->length & 3 &&
	    bpf_xdp_store_bytes(ctx, head_bytes + desc->length, &zeros, sizeof(zeros)))
		return nic_drop(MRC_NC_DROP_BOUNDS);
	if (mr_copy(ctx, head_bytes, desc->local_offset, desc->length, MR_TO_FRAME))
		return nic_drop(MRC_NC_DROP_BOUNDS);
	nic_count(MRC_NC_TX_DATA, 1);
	if (desc->loss)
		nic_count(MRC_NC_TX_RETRANSMIT_SACK + desc->loss - MRC_LOSS_SACK, 1);
	return stage_transmit(desc->plane, MRC_CLASS_DATA);
}

/* Completes the frame; returns what port_xmit() does. */
static __always_inline int nic_tx_finish(struct xdp_md *ctx, __u32 stage)
{
	__u32 traffic_class = stage >> STAGE_TRANSMIT_CLASS_SHIFT & 15;
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct mrc_port *port;
	__u32 port_id;

	if (!config || !control)
		return XDP_DROP;
	port_id = nic_port_id(config, stage);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port || write_icrc(ctx, control))
		return nic_drop(MRC_NC_DROP_LENGTH);
	if (tunnel_tx(ctx, port))
		return nic_drop(MRC_NC_DROP_LENGTH);
	return port_xmit(ctx, port_id, port, traffic_class);
}

/* MRC_STAGE_TRANSMIT and above; returns the XDP verdict. */
static __always_inline int nic_xmit(struct xdp_md *ctx, __u32 stage)
{
	return port_xmit_end(ctx, nic_tx_finish(ctx, stage));
}

#endif

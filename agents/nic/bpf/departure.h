/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The last step of every frame that leaves the NIC. Handlers only say through which port; the
 * program itself does the rest, once for all of them.
 */
#ifndef MRC_DEPARTURE_H
#define MRC_DEPARTURE_H

#include "hand_on.h"
#include "icrc.h"
#include "nic_maps.h"
#include "tunnel.h"

enum {
	DEPARTURE = 256, /* verdicts of XDP are smaller */
	DEPARTURE_CLASS_SHIFT = 4,
};

/* What a handler returns when the frame is complete but for its iCRC. */
static __always_inline int depart(__u32 plane, __u32 traffic_class)
{
	return DEPARTURE | traffic_class << DEPARTURE_CLASS_SHIFT | (plane & (MRC_PLANE_MAX - 1));
}

/* Completes the frame; returns what emit_from_host() does. */
static __always_inline int leave(struct xdp_md *ctx, __u32 departure)
{
	__u32 traffic_class = departure >> DEPARTURE_CLASS_SHIFT & 15;
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct mrc_port *port;
	__u32 port_id;

	if (!config || !control)
		return XDP_DROP;
	port_id = nic_port_id(config, departure);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port || write_icrc(ctx, control))
		return nic_drop(MRC_NC_DROP_LENGTH);
	if (tunnel_leave(ctx, port))
		return nic_drop(MRC_NC_DROP_LENGTH);
	return emit_from_host(ctx, port_id, port, traffic_class);
}

/* Sends the frame that a handler has completed; returns the XDP verdict. */
static __always_inline int send(struct xdp_md *ctx, __u32 departure)
{
	return hand_on(ctx, leave(ctx, departure));
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The endpoint QP: requests of peers without a connection, EV probes and port status updates
 * (docs/reference/protocol.md, "EV probes" and "Port status").
 */
#ifndef MRC_ENDPOINT_H
#define MRC_ENDPOINT_H

#include "nic_maps.h"
#include "packet.h"
#include "probe.h"
#include "stage.h"

/* The content of a PORT_STATUS_UPDATE. */
struct port_status_update {
	__u32 peer_host;
	__u32 mask;
	__u32 id;
};

/* Every QP to that peer leaves the planes its ports are not up in, or returns to them, at once. */
static long apply_port_status(void *map, __u32 *key, struct mrc_qp *qp,
			      struct port_status_update *update)
{
	__u32 known = qp->evs.peer_port_update;

	(void)map;
	(void)key;
	/* Updates come by several planes: an older one must not undo a newer. */
	if (qp->head.peer_host == update->peer_host &&
	    (!known || (__s16)(update->id - known) > 0)) {
		qp->evs.peer_port_update = update->id | 1 << 16;
		qp->evs.peer_port_mask = update->mask;
		qp->evs.peer_sack_down = 0;
	}
	return 0;
}

/* Responds to a peer's request on the path it came by. */
__noinline int on_endpoint_request(struct xdp_md *ctx, __u32 plane)
{
	struct wire_endpoint_request *request = frame_exactly(ctx, sizeof(*request));
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct wire_endpoint_response *head;
	struct packet_av to;
	__u64 source;
	struct port_status_update update;
	__be16 timestamp;
	__u32 id, operation;

	if (!request || !config)
		return nic_drop(MRC_NC_DROP_LENGTH);
	if ((bpf_ntohl(request->stack.bth.destination_qp) & WIRE_PSN_MASK) != WIRE_ENDPOINT_QP)
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	operation = bpf_ntohs(request->operation) & 3;
	if (operation != WIRE_ERTH_EV_PROBE && operation != WIRE_ERTH_PORT_STATUS)
		return nic_drop(MRC_NC_DROP_OPCODE);
	update.mask = bpf_ntohl(request->port_status_mask);
	id = bpf_ntohl(request->stack.bth.flags_psn) & PROBE_ID_MASK;
	timestamp = request->tx_timestamp;
	source = bpf_be64_to_cpu(request->stack.inner.source[1]);
	if (!source || source > 0xffffffff)
		return nic_drop(MRC_NC_DROP_MALFORMED);
	if (operation == WIRE_ERTH_PORT_STATUS) {
		update.peer_host = source - 1;
		update.id = id;
		bpf_for_each_map_elem(&qps, apply_port_status, &update, 0);
		nic_count(MRC_NC_RX_PORT_STATUS, 1);
		nic_event(MRC_EVENT_PEER_PORTS, 0, update.peer_host, update.mask, 0);
		request = frame_head(ctx, sizeof(*request));
		if (!request)
			return nic_drop(MRC_NC_DROP_LENGTH);
	}
	to.entropy = stack_entropy(&request->stack);
	to.plane = plane;
	to.peer_host = source - 1;
	to.peer_qpn = WIRE_ENDPOINT_QP;
	to.to = carrier_to(config, to.peer_host, plane, entropy_uplink(to.entropy));
	head = packet_make(ctx, config, &to, sizeof(*head), sizeof(*head), MRC_DSCP_CONTROL << 2,
			   WIRE_ENDPOINT_RESPONSE, 0, id);
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	head->operation = bpf_htons(operation << 2);
	__builtin_memset(head->reserved, 0, sizeof(head->reserved));
	head->tx_timestamp = timestamp;
	__builtin_memset(head->reserved_tail, 0, sizeof(head->reserved_tail));
	nic_count(MRC_NC_TX_PROBE_RESPONSE, 1);
	return stage_transmit(to.plane, MRC_CLASS_CONTROL);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * EV probes: connectionless requests to the peer's endpoint QP over one EV, answered without any
 * state there (docs/protocol.md, "EV probes").
 */
#ifndef MRC_PROBE_H
#define MRC_PROBE_H

#include "acknowledge.h"
#include "ev_set.h"
#include "frame.h"
#include "nic_maps.h"

enum {
	REQUEST_AFTER_BTH =
	    sizeof(struct wire_endpoint_request) - sizeof(struct wire_stack) + WIRE_ICRC_BYTES,
	RESPONSE_AFTER_BTH =
	    sizeof(struct wire_endpoint_response) - sizeof(struct wire_stack) + WIRE_ICRC_BYTES,
};

/* The next probe of the agent's list leaves in this frame. */
__noinline int send_probe(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_kick *request = lookup0(&kick);
	struct wire_endpoint_request *head;
	struct frame_target to;
	__u32 cursor, id, slot, qp_index, ev_index, port_id, kind, mask;
	struct mrc_probe *probe;
	struct mrc_port *port;
	struct wire_probe *probe_head;
	struct mrc_qp *qp;
	struct mrc_ev *ev;
	__u64 now_ns = bpf_ktime_get_ns();

	if (!config || !request || request->probe_cursor >= request->probe_count)
		return XDP_DROP;
	cursor = request->probe_cursor++ & (MRC_KICK_PROBES - 1);
	id = request->next_probe_id++ & PROBE_ID_MASK;
	slot = id & (MRC_PROBE_RING - 1);
	qp_index = request->probe_qp[cursor];
	ev_index = EV_INDEX(request->probe_ev[cursor]);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	probe = bpf_map_lookup_elem(&probes, &slot);
	if (!qp || !probe)
		return XDP_DROP;
	kind = request->probe_kind;
	mask = kind == MRC_PROBE_PORT_STATUS ? config->port_up_mask : 0;
	ev = &qp->evs[ev_index];
	bpf_spin_lock(&qp->lock);
	if (kind != MRC_PROBE_PORT_STATUS) {
		if (ev->is_probe_pending)
			ev->probe_successes = 0;
		ev->is_probe_pending = 1;
	}
	to.entropy = ev->entropy;
	to.plane = ev->plane;
	bpf_spin_unlock(&qp->lock);
	probe->probe_id = id;
	probe->qp_index = qp_index;
	probe->ev_index = ev_index;
	probe->kind = kind;
	probe->port_status_mask = mask;
	probe->sent_ns = now_ns;
	probe->is_pending = 1;

	to.to = carrier_fill(qp->template_hi, qp->template_lo, qp->is_local, to.plane,
			     entropy_uplink(to.entropy), config->uplinks_per_pair);
	to.peer_host = qp->peer_host;
	to.peer_qpn = kind == MRC_PROBE_RELIABILITY ? qp->peer_qpn : WIRE_ENDPOINT_QP;
	port_id = nic_port_id(config, to.plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port || frame_resize(ctx, sizeof(*head) + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	write_stack(&head->stack, config, port, &to, MRC_DSCP_CONTROL << 2,
		    kind == MRC_PROBE_RELIABILITY ? WIRE_PROBE : WIRE_ENDPOINT_REQUEST, 0,
		    kind == MRC_PROBE_RELIABILITY ? 0 : id, REQUEST_AFTER_BTH);
	if (kind == MRC_PROBE_RELIABILITY) {
		probe_head = (void *)head; /* of the same length, with its last 4 bytes in common */
		probe_head->reserved = 0;
		probe_head->probe_id = bpf_htons(id);
		probe_head->reserved_id = 0;
		probe_head->spdcid = bpf_htons(qp->qpn);
		probe_head->dpdcid = bpf_htons(qp->peer_qpn);
	} else {
		head->operation =
		    bpf_htons(kind == MRC_PROBE_EV ? WIRE_ERTH_EV_PROBE : WIRE_ERTH_PORT_STATUS);
		head->vendor = 0;
		head->port_status_mask = bpf_htonl(mask);
		head->reserved = 0;
	}
	head->tx_timestamp = bpf_htons(now_ns >> 7);
	head->timestamp_type = bpf_htons(WIRE_ERTH_TIMESTAMP_128NS);
	if (write_icrc_off(ctx, sizeof(*head)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	nic_count(kind == MRC_PROBE_PORT_STATUS ? MRC_NC_TX_PORT_STATUS : MRC_NC_TX_PROBE, 1);
	return port_emit(ctx, port_id, port, MRC_CLASS_CONTROL);
}

/* What a PORT_STATUS_UPDATE says. */
struct port_update {
	__u32 peer_host;
	__u32 mask;
	__u32 id;
};

/* Every QP to that peer leaves the planes its ports are not up in, or returns to them, at once. */
static long take_port_update(void *map, __u32 *key, struct mrc_qp *qp, struct port_update *update)
{
	__u32 known = qp->peer_port_update;

	(void)map;
	(void)key;
	/* Updates come by several planes: an older one must not undo a newer. */
	if (qp->peer_host == update->peer_host && (!known || (__s16)(update->id - known) > 0)) {
		qp->peer_port_update = update->id | 1 << 16;
		qp->peer_port_mask = update->mask;
	}
	return 0;
}

/* Answers a peer's request on the path it came by. */
__noinline int on_endpoint_request(struct xdp_md *ctx, __u32 plane)
{
	struct wire_endpoint_request *request = frame_exactly(ctx, sizeof(*request));
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct wire_endpoint_response *head;
	struct frame_target to;
	struct mrc_port *port;
	__u64 source;
	struct port_update update;
	__be16 timestamp;
	__u32 id, port_id, operation;

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
		bpf_for_each_map_elem(&qps, take_port_update, &update, 0);
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
	port_id = nic_port_id(config, plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port || frame_resize(ctx, sizeof(*head) + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	write_stack(&head->stack, config, port, &to, MRC_DSCP_CONTROL << 2, WIRE_ENDPOINT_RESPONSE,
		    0, id, RESPONSE_AFTER_BTH);
	head->operation = bpf_htons(operation << 2);
	__builtin_memset(head->reserved, 0, sizeof(head->reserved));
	head->tx_timestamp = timestamp;
	__builtin_memset(head->reserved_tail, 0, sizeof(head->reserved_tail));
	if (write_icrc_off(ctx, sizeof(*head)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	nic_count(MRC_NC_TX_PROBE_ANSWER, 1);
	return port_emit(ctx, port_id, port, MRC_CLASS_CONTROL);
}

/* The peer's answer to an endpoint request. */
__noinline int on_endpoint_response(struct xdp_md *ctx)
{
	struct wire_endpoint_response *head = frame_exactly(ctx, sizeof(*head));
	__u32 id;

	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	id = bpf_ntohl(head->stack.bth.flags_psn) & PROBE_ID_MASK;
	if (!probe_answered(id, MRC_PROBE_EV, 0, 0, 0))
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	return XDP_DROP;
}

#endif

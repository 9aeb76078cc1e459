/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * EV probes: connectionless requests to the peer's endpoint QP over one EV, answered without any
 * state there (docs/protocol.md, "EV probes").
 */
#ifndef MRC_PROBE_H
#define MRC_PROBE_H

#include "nic_action.h"
#include "ev_set.h"
#include "frame.h"
#include "nic_maps.h"
#include "probe_answer.h"
#include "receive_window.h"
#include "reverse_ev.h"

enum {
	REQUEST_AFTER_BTH =
	    sizeof(struct wire_endpoint_request) - sizeof(struct wire_stack) + WIRE_ICRC_BYTES,
	RESPONSE_AFTER_BTH =
	    sizeof(struct wire_endpoint_response) - sizeof(struct wire_stack) + WIRE_ICRC_BYTES,
};

/* A probe that is to leave: what its answer must match, and which way it goes. */
struct probe_order {
	struct frame_target to;
	__u32 kind; /* enum mrc_probe_kind */
	__u32 qp_index;
	__u32 ev_index;
	__u32 mask;
	__u32 qpn;
};

/* Enters a probe among those under way; returns its id, or a negative number. */
static __always_inline __s32 probe_enter(const struct probe_order *order, __u64 now_ns)
{
	struct mrc_kick *request = lookup0(&kick);
	struct mrc_probe *probe;
	__u32 id, slot;

	if (!request)
		return -1;
	id = __sync_fetch_and_add(&request->next_probe_id, 1) & PROBE_ID_MASK;
	slot = id & (MRC_PROBE_RING - 1);
	probe = bpf_map_lookup_elem(&probes, &slot);
	if (!probe)
		return -1;
	probe->is_pending = 0;
	probe->probe_id = id;
	probe->qp_index = order->qp_index;
	probe->qpn = order->qpn;
	probe->ev_index = order->ev_index;
	probe->kind = order->kind;
	probe->port_status_mask = order->mask;
	probe->entropy = order->to.entropy;
	probe->peer_host = order->to.peer_host;
	probe->sent_ns = now_ns;
	probe->is_pending = 1;
	return id;
}

/* Makes the frame, whatever it held, the probe `id`; returns a departure or a verdict. */
static __always_inline int probe_write(struct xdp_md *ctx, const struct mrc_nic_config *config,
				       const struct probe_order *order, __u32 id, __u64 now_ns)
{
	int is_reliability = order->kind == MRC_PROBE_RELIABILITY;
	int is_update = order->kind == MRC_PROBE_PORT_STATUS;
	__u32 port_id = nic_port_id(config, order->to.plane);
	struct wire_endpoint_request *head;
	struct wire_probe *probe_head;
	struct mrc_port *port;

	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port || frame_resize(ctx, sizeof(*head) + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	write_stack(&head->stack, config, port, &order->to, MRC_DSCP_CONTROL << 2,
		    is_reliability ? WIRE_PROBE : WIRE_ENDPOINT_REQUEST, 0, is_reliability ? 0 : id,
		    REQUEST_AFTER_BTH);
	if (is_reliability) {
		probe_head = (void *)head; /* of the same length, with its last 4 bytes in common */
		probe_head->reserved = 0;
		probe_head->probe_id = bpf_htons(id);
		probe_head->reserved_id = 0;
		probe_head->spdcid = bpf_htons(order->qpn);
		probe_head->dpdcid = bpf_htons(order->to.peer_qpn);
	} else {
		head->operation = bpf_htons(is_update ? WIRE_ERTH_PORT_STATUS : WIRE_ERTH_EV_PROBE);
		head->vendor = 0;
		head->port_status_mask = bpf_htonl(order->mask);
		head->reserved = 0;
	}
	head->tx_timestamp = bpf_htons(now_ns >> 7);
	head->timestamp_type = bpf_htons(WIRE_ERTH_TIMESTAMP_128NS);
	nic_count(is_update ? MRC_NC_TX_PORT_STATUS : MRC_NC_TX_PROBE, 1);
	return nic_xmit_on(order->to.plane, MRC_CLASS_CONTROL);
}

/* A probe on an EV of a QP; returns whether there is such a QP. */
static __always_inline int probe_of_qp(const struct mrc_nic_config *config,
				       struct probe_order *order)
{
	__u32 qp_index = order->qp_index;
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_ev *ev;

	if (!qp)
		return 0;
	order->ev_index = EV_INDEX(order->ev_index);
	ev = &qp->evs[order->ev_index];
	if (ev->is_probe_pending && order->kind == MRC_PROBE_EV && ev->state == MRC_EV_ASSUMED_BAD)
		path_suspect(qp, ev->entropy);
	bpf_spin_lock(&qp->lock);
	if (order->kind != MRC_PROBE_PORT_STATUS) {
		if (ev->is_probe_pending)
			ev->probe_successes = 0;
		ev->is_probe_pending = 1;
	}
	order->to.entropy = ev->entropy;
	order->to.plane = ev->plane;
	bpf_spin_unlock(&qp->lock);
	order->to.to = carrier_fill(qp->template_hi, qp->template_lo, qp->is_local, order->to.plane,
				    entropy_uplink(order->to.entropy), config->uplinks_per_pair);
	order->to.peer_host = qp->peer_host;
	order->to.peer_qpn = order->kind == MRC_PROBE_RELIABILITY ? qp->peer_qpn : WIRE_ENDPOINT_QP;
	order->qpn = qp->qpn;
	return 1;
}

/* The next probe of the agent's list leaves in this frame. */
__noinline int send_probe(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct mrc_kick *request = lookup0(&kick);
	__u64 now_ns = bpf_ktime_get_ns();
	struct probe_order order = {};
	__u32 cursor;
	__s32 id;

	if (!config || !control || !request || request->probe_cursor >= request->probe_count)
		return XDP_DROP;
	cursor = request->probe_cursor++ & (MRC_KICK_PROBES - 1);
	order.kind = request->probe_kind;
	order.mask = order.kind == MRC_PROBE_PORT_STATUS ? control->port_up_mask : 0;
	if (order.kind == MRC_PROBE_PATH) {
		order.to.entropy = request->probe_ev[cursor];
		order.to.plane = order.to.entropy >> MRC_EV_PLANE_SHIFT;
		order.to.peer_host = request->probe_qp[cursor];
		order.to.peer_qpn = WIRE_ENDPOINT_QP;
		order.to.to = carrier_to(config, order.to.peer_host, order.to.plane,
					 entropy_uplink(order.to.entropy));
	} else {
		order.qp_index = request->probe_qp[cursor];
		order.ev_index = request->probe_ev[cursor];
		if (!probe_of_qp(config, &order))
			return XDP_DROP;
	}
	id = probe_enter(&order, now_ns);
	if (id < 0)
		return XDP_DROP;
	request->probe_id[cursor] = id;
	return probe_write(ctx, config, &order, id, now_ns);
}

/*
 * The frame of a packet whose SACK can wait becomes a reverse probe (reverse_ev.h). Called by the
 * program itself, as xmit_response() is.
 */
__noinline int xmit_ack_path_probe(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct rx_answer *answer = lookup0(&rx_answers);
	struct probe_order order = {.kind = MRC_PROBE_REVERSE};
	__u32 qp_index, usable, random = bpf_get_prandom_u32();
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_qp *qp;
	__s32 id;

	if (!config || !control || !answer)
		return XDP_DROP;
	qp_index = answer->packet.qp_index;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp)
		return XDP_DROP;
	usable = usable_planes(control, qp);
	if (!usable)
		return XDP_DROP;
	order.qp_index = qp_index;
	order.qpn = qp->qpn;
	bpf_spin_lock(&qp->lock);
	order.to.entropy = reverse_candidate(qp, usable, random);
	bpf_spin_unlock(&qp->lock);
	order.to.plane = order.to.entropy >> MRC_EV_PLANE_SHIFT;
	order.to.to = carrier_fill(qp->template_hi, qp->template_lo, qp->is_local, order.to.plane,
				   entropy_uplink(order.to.entropy), config->uplinks_per_pair);
	order.to.peer_host = qp->peer_host;
	order.to.peer_qpn = WIRE_ENDPOINT_QP;
	id = probe_enter(&order, now_ns);
	if (id < 0)
		return XDP_DROP;
	bpf_spin_lock(&qp->lock);
	reverse_asked(qp, order.to.entropy, id);
	bpf_spin_unlock(&qp->lock);
	return probe_write(ctx, config, &order, id, now_ns);
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
		qp->peer_sack_down = 0;
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
	nic_count(MRC_NC_TX_PROBE_ANSWER, 1);
	return nic_xmit_on(to.plane, MRC_CLASS_CONTROL);
}

/*
 * Whether an answer is exactly that to a probe under way: its id, from the host that was asked, on
 * the EV that was probed.
 */
static __always_inline int response_matches(const struct mrc_probe *probe,
					    const struct wire_stack *stack, __u32 id)
{
	return probe->is_pending && probe->probe_id == id && probe->kind != MRC_PROBE_RELIABILITY &&
	       stack_is_from(stack, probe->peer_host) && stack_entropy(stack) == probe->entropy;
}

/*
 * The answer to a reverse probe: its EV is where answers of that plane go from now on, and its
 * frame becomes the SACK that the probe took the place of. Returns a verdict or NIC_TX_RESPONSE.
 */
static __always_inline int on_reverse_answer(struct mrc_probe *probe, __u32 id, __u32 plane,
					     __u64 now_ns)
{
	struct rx_answer *answer = lookup0(&rx_answers);
	__u64 rtt_ns = now_ns - probe->sent_ns;
	__u32 qp_index = probe->qp_index, entropy = probe->entropy, is_alive;
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	if (!qp || !answer || qp->qpn != probe->qpn ||
	    !__sync_lock_test_and_set(&probe->is_pending, 0))
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	answer->packet = (struct received){
	    .qp_index = qp_index, .plane = plane, .entropy = entropy, .is_retransmission = 1};
	answer->kind = ANSWER_SACK;
	bpf_spin_lock(&qp->lock);
	is_alive = qp->state == MRC_QP_RTR || qp->state == MRC_QP_RTS;
	if (is_alive) {
		reverse_answered(qp, entropy, id, rtt_ns);
		answer->packet.psn = qp->cack_next - 1;
		qp->unsacked = 0;
		sack_compose(qp, answer);
	}
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_PROBE_ANSWER, 1);
	return is_alive ? NIC_TX_RESPONSE : XDP_DROP;
}

/* The peer's answer to an endpoint request. Returns a verdict or NIC_TX_RESPONSE. */
__noinline int on_endpoint_response(struct xdp_md *ctx, __u32 plane)
{
	struct wire_endpoint_response *head = frame_exactly(ctx, sizeof(*head));
	__u64 now_ns = bpf_ktime_get_ns(), rtt_ns;
	struct mrc_probe *probe;
	__u32 id, slot;

	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	if ((bpf_ntohl(head->stack.bth.destination_qp) & WIRE_PSN_MASK) != WIRE_ENDPOINT_QP)
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	id = bpf_ntohl(head->stack.bth.flags_psn) & PROBE_ID_MASK;
	slot = id & (MRC_PROBE_RING - 1);
	probe = bpf_map_lookup_elem(&probes, &slot);
	if (!probe || !response_matches(probe, &head->stack, id))
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	if (probe->kind == MRC_PROBE_PATH) {
		if (!__sync_lock_test_and_set(&probe->is_pending, 0))
			return nic_drop(MRC_NC_DROP_STALE_PROBE);
		rtt_ns = now_ns - probe->sent_ns;
		nic_count(MRC_NC_RX_PROBE_ANSWER, 1);
		nic_event(MRC_EVENT_PROBE, 0, id, rtt_ns > 0xffffffff ? 0xffffffff : rtt_ns,
			  (__u64)probe->entropy << 32 | probe->peer_host);
		return XDP_DROP;
	}
	if (probe->kind == MRC_PROBE_REVERSE)
		return on_reverse_answer(probe, id, plane, now_ns);
	if (!probe_answered(id, MRC_PROBE_EV, 0, 0, 0))
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	return XDP_DROP;
}

#endif

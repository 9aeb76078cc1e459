/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * EV probes: connectionless requests to the peer's endpoint QP over one EV, acknowledged without
 * any state there (docs/reference/protocol.md, "EV probes").
 */
#ifndef MRC_PROBE_H
#define MRC_PROBE_H

#include "ack_path.h"
#include "ev.h"
#include "nic_maps.h"
#include "packet.h"
#include "resp_state.h"
#include "stage.h"

enum {
	PROBE_ID_MASK = 0xffff,
};

/* A probe to send: what its response must match, and which way it goes. */
struct probe_desc {
	struct packet_av to;
	__u32 kind; /* enum mrc_probe_kind */
	__u32 qp_index;
	__u32 ev_index;
	__u32 mask;
	__u32 qpn;
};

/* Enters a probe among those in flight; returns its id, or a negative number. */
static __always_inline __s32 probe_register(const struct probe_desc *desc, __u64 now_ns)
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
	probe->qp_index = desc->qp_index;
	probe->qpn = desc->qpn;
	probe->ev_index = desc->ev_index;
	probe->kind = desc->kind;
	probe->port_status_mask = desc->mask;
	probe->entropy = desc->to.entropy;
	probe->peer_host = desc->to.peer_host;
	probe->sent_ns = now_ns;
	probe->is_pending = 1;
	return id;
}

/* Makes the frame, whatever it held, the probe `id`. Returns a stage. */
static __always_inline int xmit_probe(struct xdp_md *ctx, const struct mrc_nic_config *config,
				      const struct probe_desc *desc, __u32 id, __u64 now_ns)
{
	int is_reliability = desc->kind == MRC_PROBE_RELIABILITY;
	int is_update = desc->kind == MRC_PROBE_PORT_STATUS;
	struct wire_endpoint_request *head;
	struct wire_probe *probe_head;

	head = packet_make(
	    ctx, config, &desc->to, sizeof(*head), sizeof(*head), MRC_DSCP_CONTROL << 2,
	    is_reliability ? WIRE_PROBE : WIRE_ENDPOINT_REQUEST, 0, is_reliability ? 0 : id);
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	if (is_reliability) {
		probe_head = (void *)head; /* of the same length, with its last 4 bytes in common */
		probe_head->reserved = 0;
		probe_head->probe_id = bpf_htons(id);
		probe_head->reserved_id = 0;
		probe_head->spdcid = bpf_htons(desc->qpn);
		probe_head->dpdcid = bpf_htons(desc->to.peer_qpn);
	} else {
		head->operation = bpf_htons(is_update ? WIRE_ERTH_PORT_STATUS : WIRE_ERTH_EV_PROBE);
		head->vendor = 0;
		head->port_status_mask = bpf_htonl(desc->mask);
		head->reserved = 0;
	}
	head->tx_timestamp = bpf_htons(now_ns >> 7);
	head->timestamp_type = bpf_htons(WIRE_ERTH_TIMESTAMP_128NS);
	nic_count(is_update ? MRC_NC_TX_PORT_STATUS : MRC_NC_TX_PROBE, 1);
	return stage_transmit(desc->to.plane, MRC_CLASS_CONTROL);
}

/* A probe on an EV of a QP; returns whether there is such a QP. */
static __always_inline int probe_fill_desc(const struct mrc_nic_config *config,
					   struct probe_desc *desc)
{
	__u32 qp_index = desc->qp_index, entropy, plane;
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_ev *ev;

	if (!qp)
		return 0;
	desc->ev_index = EV_INDEX(desc->ev_index);
	ev = &qp->evs.ev[desc->ev_index];
	if (ev->is_probe_pending && desc->kind == MRC_PROBE_EV && ev->state == MRC_EV_ASSUMED_BAD)
		path_suspect(qp, ev->entropy);
	bpf_spin_lock(&qp->lock);
	if (desc->kind != MRC_PROBE_PORT_STATUS) {
		if (ev->is_probe_pending)
			ev->probe_successes = 0;
		ev->is_probe_pending = 1;
	}
	entropy = ev->entropy;
	plane = ev->plane;
	bpf_spin_unlock(&qp->lock);
	desc->to = qp_av(&qp->head, config, plane, entropy);
	if (desc->kind != MRC_PROBE_RELIABILITY)
		desc->to.peer_qpn = WIRE_ENDPOINT_QP;
	desc->qpn = qp->head.qpn;
	return 1;
}

/* The next probe of the agent's list leaves in this frame. */
__noinline int send_probe(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct mrc_kick *request = lookup0(&kick);
	__u64 now_ns = bpf_ktime_get_ns();
	struct probe_desc desc = {};
	__u32 cursor;
	__s32 id;

	if (!config || !control || !request || request->probe_cursor >= request->probe_count)
		return XDP_DROP;
	cursor = request->probe_cursor++ & (MRC_KICK_PROBES - 1);
	desc.kind = request->probe_kind;
	desc.mask = desc.kind == MRC_PROBE_PORT_STATUS ? control->port_up_mask : 0;
	if (desc.kind == MRC_PROBE_PATH) {
		desc.to.entropy = request->probe_ev[cursor];
		desc.to.plane = desc.to.entropy >> MRC_EV_PLANE_SHIFT;
		desc.to.peer_host = request->probe_qp[cursor];
		desc.to.peer_qpn = WIRE_ENDPOINT_QP;
		desc.to.to = carrier_to(config, desc.to.peer_host, desc.to.plane,
					entropy_uplink(desc.to.entropy));
	} else {
		desc.qp_index = request->probe_qp[cursor];
		desc.ev_index = request->probe_ev[cursor];
		if (!probe_fill_desc(config, &desc))
			return XDP_DROP;
	}
	id = probe_register(&desc, now_ns);
	if (id < 0)
		return XDP_DROP;
	request->probe_id[cursor] = id;
	return xmit_probe(ctx, config, &desc, id, now_ns);
}

/*
 * The frame of a packet whose SACK can wait becomes an ACK-path probe (ack_path.h). Called by the
 * program itself, as xmit_response() is.
 */
__noinline int xmit_ack_path_probe(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct rx_response *response = lookup0(&rx_responses);
	struct probe_desc desc = {.kind = MRC_PROBE_ACK_PATH};
	__u32 qp_index, usable, entropy, random = bpf_get_prandom_u32();
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_qp *qp;
	__s32 id;

	if (!config || !control || !response)
		return XDP_DROP;
	qp_index = response->packet.qp_index;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp)
		return XDP_DROP;
	usable = usable_planes(control, qp);
	if (!usable)
		return XDP_DROP;
	desc.qp_index = qp_index;
	desc.qpn = qp->head.qpn;
	bpf_spin_lock(&qp->lock);
	entropy = ack_path_probe_ev(qp, usable, random);
	bpf_spin_unlock(&qp->lock);
	desc.to = qp_av(&qp->head, config, entropy >> MRC_EV_PLANE_SHIFT, entropy);
	desc.to.peer_qpn = WIRE_ENDPOINT_QP;
	id = probe_register(&desc, now_ns);
	if (id < 0)
		return XDP_DROP;
	bpf_spin_lock(&qp->lock);
	ack_path_probe_sent(qp, entropy, id);
	bpf_spin_unlock(&qp->lock);
	return xmit_probe(ctx, config, &desc, id, now_ns);
}

/*
 * True if a response is exactly that to an outstanding probe: its id, from the host probed, on
 * the EV that was probed.
 */
static __always_inline int response_matches(const struct mrc_probe *probe,
					    const struct wire_stack *stack, __u32 id)
{
	return probe->is_pending && probe->probe_id == id && probe->kind != MRC_PROBE_RELIABILITY &&
	       stack_is_from(stack, probe->peer_host) && stack_entropy(stack) == probe->entropy;
}

/*
 * A response to a probe. An EV probe is one success of several that an EV needs to return; a
 * reliability probe, which went the way of data, brings it back at once, to SKIP if it was marked.
 * Returns 0 when there is no such probe; `entropy` is that of a SACK alone.
 */
__noinline int probe_acked(__u32 id, __u32 kind, __u32 qp_index, __u32 entropy, __u32 is_marked)
{
	__u32 slot = id & (MRC_PROBE_RING - 1), ev_index, to, has_returned = 0, mask;
	struct mrc_probe *probe = bpf_map_lookup_elem(&probes, &slot);
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_qp *qp;
	struct mrc_ev *ev;

	if (!probe || probe->probe_id != id)
		return 0;
	if (kind == MRC_PROBE_RELIABILITY
		? probe->kind != MRC_PROBE_RELIABILITY || probe->qp_index != qp_index
		: probe->kind == MRC_PROBE_RELIABILITY)
		return 0;
	qp_index = probe->qp_index;
	ev_index = EV_INDEX(probe->ev_index);
	kind = probe->kind;
	mask = probe->port_status_mask;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	/* The QP, or the EV at its place, may be another one by now. */
	if (!qp || qp->head.qpn != probe->qpn || qp->evs.ev[ev_index].entropy != probe->entropy ||
	    (kind == MRC_PROBE_RELIABILITY && probe->entropy != entropy) ||
	    !__sync_lock_test_and_set(&probe->is_pending, 0))
		return 0;
	ev = &qp->evs.ev[ev_index];
	to = kind == MRC_PROBE_RELIABILITY && is_marked ? MRC_EV_SKIP : MRC_EV_GOOD;
	bpf_spin_lock(&qp->lock);
	ev->is_probe_pending = 0;
	ev->rtt_ns = now_ns - probe->sent_ns;
	if (ev->state == MRC_EV_ASSUMED_BAD) {
		if (ev->probe_successes < 255)
			ev->probe_successes++;
		if (kind == MRC_PROBE_RELIABILITY ||
		    ev->probe_successes >= qp->evs.probe_success_target)
			has_returned = ev_restore(qp, ev_index, MRC_EV_ASSUMED_BAD, to,
						  MRC_REASON_PROBE, now_ns);
	}
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_PROBE_RESPONSE, 1);
	if (has_returned) {
		path_trust(qp, qp->evs.ev[ev_index].entropy);
		ev_report_transition(qp_index, ev_index, MRC_EV_ASSUMED_BAD, to, MRC_REASON_PROBE);
	}
	if (kind == MRC_PROBE_PORT_STATUS)
		nic_event(MRC_EVENT_PORT_STATUS, qp_index, mask, 0, 0);
	return 1;
}

/*
 * The response to an ACK-path probe: responses of that plane take its EV from now on, and its
 * frame becomes the SACK that the probe took the place of. Returns a stage.
 */
static __always_inline int on_ack_path_response(struct mrc_probe *probe, __u32 id, __u32 plane,
						__u64 now_ns)
{
	struct rx_response *response = lookup0(&rx_responses);
	__u64 rtt_ns = now_ns - probe->sent_ns;
	__u32 qp_index = probe->qp_index, entropy = probe->entropy, is_alive;
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	if (!qp || !response || qp->head.qpn != probe->qpn ||
	    !__sync_lock_test_and_set(&probe->is_pending, 0))
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	response->packet = (struct rx_packet){
	    .qp_index = qp_index, .plane = plane, .entropy = entropy, .is_retransmission = 1};
	response->kind = RESPONSE_SACK;
	bpf_spin_lock(&qp->lock);
	is_alive = qp->state == MRC_QP_RTR || qp->state == MRC_QP_RTS;
	if (is_alive) {
		ack_path_probe_acked(qp, entropy, id, rtt_ns);
		response->packet.psn = qp->resp.cack_next - 1;
		qp->resp.unsacked = 0;
		sack_compose(qp, response);
	}
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_PROBE_RESPONSE, 1);
	return is_alive ? MRC_STAGE_SEND_RESPONSE : XDP_DROP;
}

/* The peer's response to an endpoint request. Returns a stage. */
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
		nic_count(MRC_NC_RX_PROBE_RESPONSE, 1);
		nic_event(MRC_EVENT_PROBE, 0, id, rtt_ns > 0xffffffff ? 0xffffffff : rtt_ns,
			  (__u64)probe->entropy << 32 | probe->peer_host);
		return XDP_DROP;
	}
	if (probe->kind == MRC_PROBE_ACK_PATH)
		return on_ack_path_response(probe, id, plane, now_ns);
	if (!probe_acked(id, MRC_PROBE_EV, 0, 0, 0))
		return nic_drop(MRC_NC_DROP_STALE_PROBE);
	return XDP_DROP;
}

#endif

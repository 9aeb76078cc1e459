/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The responder: checks a data packet, places its payload where RETH says, in whatever order it
 * comes, and turns the frame into the SACK (docs/reference/protocol.md, "Responder").
 */
#ifndef MRC_RESP_H
#define MRC_RESP_H

#include <mrc/fabric_config.h>
#include <mrc/psn.h>
#include "ack_path.h"
#include "mr.h"
#include "nic_maps.h"
#include "packet.h"
#include "qp.h"
#include "resp_state.h"
#include "stage.h"

enum {
	NAK_INTERVAL_NS = 100000, /* between NACKs for PSNs beyond the window, paced */
};

/* The QP a packet is for, if it may receive from this peer; else NULL, and counted. */
static __always_inline struct mrc_qp *resp_find_qp(__u32 qp_index, const struct wire_stack *stack)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	if (!qp || !stack_is_for(stack, &qp->head)) {
		nic_count(MRC_NC_DROP_UNKNOWN_QP, 1);
		return (void *)0;
	}
	if (qp->state != MRC_QP_RTR && qp->state != MRC_QP_RTS) {
		nic_count(MRC_NC_DROP_QP_STATE, 1);
		return (void *)0;
	}
	return qp;
}

/* True if a refusal may be sent now: not each packet of a burst is refused aloud. */
static __always_inline int may_nak(struct mrc_qp *qp)
{
	__u64 now_ns = bpf_ktime_get_ns();

	if (now_ns - qp->resp.nak_ns < paced_ns(NAK_INTERVAL_NS))
		return 0;
	qp->resp.nak_ns = now_ns;
	return 1;
}

/*
 * True if a packet that resp_find_qp() did not let in is for a QP in ERROR: its peer gets a NACK,
 * as nothing that it sends will ever be received.
 */
static __always_inline int is_qp_in_error(__u32 qp_index, const struct wire_stack *stack)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	return qp && qp->state == MRC_QP_ERROR && stack_is_for(stack, &qp->head) && may_nak(qp);
}

/* Notes what all packets say. */
static __always_inline void packet_begin(struct rx_packet *packet, const struct wire_stack *stack,
					 __u32 plane)
{
	__u32 flags_psn = bpf_ntohl(stack->bth.flags_psn);

	packet->qp_index = stack_qp_index(stack);
	packet->plane = plane;
	packet->entropy = stack_entropy(stack);
	packet->psn = flags_psn;
	packet->is_retransmission = !!(flags_psn >> 24 & WIRE_BTH_RETRANSMISSION);
	packet->is_marked = stack_is_marked(stack);
	packet->requests_sack = flags_psn >> 31;
	packet->is_probe = 0;
}

/* On a trimmed data packet: sends a NACK, and changes nothing. */
__noinline int on_trimmed(struct xdp_md *ctx, __u32 plane, __u32 dscp)
{
	struct wire_trimmed *head = frame_head(ctx, sizeof(*head));
	struct rx_response *response = lookup0(&rx_responses);

	if (!head || !response ||
	    !(head->stack.bth.flags_psn & bpf_htonl((__u32)WIRE_BTH_TIMESTAMP << 24)))
		return nic_drop(MRC_NC_DROP_MALFORMED);
	packet_begin(&response->packet, &head->stack, plane);
	response->packet.tx_timestamp = head->tx_timestamp;
	if (!resp_find_qp(response->packet.qp_index, &head->stack))
		return XDP_DROP;
	nic_count(MRC_NC_RX_TRIMMED, 1);
	return respond_nak(response, RESPONSE_NACK,
			   dscp == MRC_DSCP_TRIMMED ? WIRE_NACK_TRIMMED
						    : WIRE_NACK_TRIMMED_LASTHOP);
}

/* A reliability probe: its SACK goes back at once, on its path. Returns a stage. */
__noinline int on_probe(struct xdp_md *ctx, __u32 plane)
{
	struct wire_probe *head = frame_exactly(ctx, sizeof(*head));
	struct rx_response *response = lookup0(&rx_responses);
	struct mrc_qp *qp;
	__u32 id;

	if (!head || !response)
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet_begin(&response->packet, &head->stack, plane);
	response->packet.tx_timestamp = head->tx_timestamp;
	response->packet.is_retransmission = 0;
	response->packet.is_probe = 1;
	id = bpf_ntohs(head->probe_id);
	qp = resp_find_qp(response->packet.qp_index, &head->stack);
	if (!qp)
		return XDP_DROP;
	bpf_spin_lock(&qp->lock);
	response->packet.psn = qp->resp.cack_next;
	sack_compose(qp, response);
	qp->resp.unsacked = 0;
	bpf_spin_unlock(&qp->lock);
	response->ack_offset = id;
	response->kind = RESPONSE_SACK;
	nic_count(MRC_NC_RX_PROBE, 1);
	return MRC_STAGE_SEND_RESPONSE;
}

/* Notes what a data packet says. Returns 0, or the verdict on one that cannot be. */
static __always_inline int write_parse(struct rx_packet *packet, const struct wire_write *head,
				       __u32 plane)
{
	__u32 opcode = head->stack.bth.opcode, dmalen = bpf_ntohl(head->dmalen);
	__u32 length = stack_payload_bytes(&head->stack, write_header_bytes(opcode));

	if (!(head->stack.bth.flags_psn & bpf_htonl((__u32)WIRE_BTH_TIMESTAMP << 24)))
		return nic_drop(MRC_NC_DROP_MALFORMED); /* without TSETH all else lies elsewhere */
	if (length > MRC_PMTU_MAX || length > dmalen ||
	    (opcode >= WIRE_WRITE_ONLY && length != dmalen))
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet_begin(packet, &head->stack, plane);
	packet->tx_timestamp = head->tx_timestamp;
	packet->msn = bpf_ntohs(head->msn);
	packet->rqmsn = bpf_ntohs(head->rqmsn);
	packet->opcode = opcode;
	packet->r_key = bpf_ntohl(head->r_key);
	packet->length = length;
	packet->va = bpf_be64_to_cpu(head->va);
	packet->message_bytes = mr_message_bytes(packet->r_key, packet->va, dmalen);
	return 0;
}

/* Returns 0 if a packet so far above cack_psn can be tracked, else the stage that follows. */
static __always_inline int write_check_window(struct mrc_qp *qp, struct rx_response *response,
					      __s32 distance)
{
	if (distance < tracked_range(qp))
		return 0;
	nic_count(MRC_NC_DROP_OUT_OF_WINDOW, 1);
	if (distance < (__s32)qp->resp.mpr_dest_psns)
		return respond_nak(response, RESPONSE_NACK, WIRE_NACK_NO_BITMAP);
	return may_nak(qp) ? respond_nak(response, RESPONSE_NACK, WIRE_NACK_PSN_OOR_WINDOW)
			   : XDP_DROP;
}

/* Reads the immediate, if there is one. Returns 0, or the stage of one that nobody waits for. */
static __always_inline int write_take_immediate(struct xdp_md *ctx, const struct mrc_qp *qp,
						struct rx_response *response)
{
	struct rx_packet *packet = &response->packet;
	__be32 immediate;
	__s64 wimm;

	packet->wimm = 0;
	if (write_header_bytes(packet->opcode) == sizeof(struct wire_write))
		return 0;
	wimm = wimm_number(qp, packet->qp_index, packet->rqmsn);
	if (!wimm)
		return respond_nak(response, RESPONSE_AETH, WIRE_AETH_NAK_INVALID_REQUEST);
	if (wimm < 0) {
		nic_count(MRC_NC_DROP_NO_RECEIVE, 1);
		return respond_nak(response, RESPONSE_NACK, WIRE_NACK_NO_RESOURCE);
	}
	if (bpf_xdp_load_bytes(ctx, sizeof(struct wire_write), &immediate, sizeof(immediate)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet->wimm = wimm;
	packet->immediate = bpf_ntohl(immediate);
	return 0;
}

/* Places the payload. Returns 0, or the stage of a packet that is not placed. */
static __always_inline int write_place(struct xdp_md *ctx, struct mrc_qp *qp,
				       struct rx_response *response)
{
	struct rx_packet *packet = &response->packet;
	__s64 place =
	    mr_of_qp(packet->qp_index, &qp->head, packet->r_key, packet->va, packet->length);
	int result;

	if (place < 0)
		return respond_nak(response, RESPONSE_AETH, WIRE_AETH_NAK_REMOTE_ACCESS);
	result = place_payload(ctx, qp->resp.placings, packet->psn - qp->resp.first_expected,
			       write_header_bytes(packet->opcode), place, packet->length);
	return result < 0 ? respond_nak(response, RESPONSE_NACK, WIRE_NACK_NO_PKT_BUFFER) : result;
}

/* A packet is in place, or, not new, was before. Returns the stage of its response. */
static __always_inline int write_receive(struct mrc_qp *qp, struct rx_response *response,
					 int is_new)
{
	struct mrc_nic_counters *counters = lookup0(&nic_counters);
	struct rx_packet *packet = &response->packet;
	__u64 now_ns = 0;
	int next;

	if (qp->resp.since_ack_path_probe + 1 >= MRC_ACK_PATH_SPACING)
		now_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&qp->lock);
	if (is_new)
		resp_receive(qp, packet);
	next = resp_choose(qp, response, is_new, now_ns);
	bpf_spin_unlock(&qp->lock);
	if (counters) {
		counters->value[MRC_NC_RX_DATA] += 1;
		counters->value[MRC_NC_RX_PLACED_BYTES] += is_new ? packet->length : 0;
		counters->value[MRC_NC_RX_DUPLICATE] += !is_new;
	}
	for (int i = 0; i < MRC_WIMM_MAX && response->receives; i++)
		response->receives = deliver_immediate(packet->qp_index);
	return next;
}

/* A data packet, whose stack has been checked. Returns a stage. */
__noinline int on_write(struct xdp_md *ctx, __u32 plane)
{
	struct wire_write *head = frame_head(ctx, sizeof(*head));
	struct rx_response *response = lookup0(&rx_responses);
	struct rx_packet *packet;
	struct mrc_qp *qp;
	int next, is_new;
	__s32 distance;

	if (!head || !response)
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet = &response->packet;
	next = write_parse(packet, head, plane);
	if (next)
		return next;
	qp = resp_find_qp(packet->qp_index, &head->stack);
	if (!qp)
		return is_qp_in_error(packet->qp_index, &head->stack)
			   ? respond_nak(response, RESPONSE_NACK, WIRE_NACK_UNEXP_EVENT)
			   : XDP_DROP;
	packet->psn = psn_expand(qp->resp.cack_next, packet->psn & WIRE_PSN_MASK);
	if (qp_end_orphan(&qp->lock, &qp->state, packet->qp_index, packet->psn))
		return respond_nak(response, RESPONSE_NACK, WIRE_NACK_UNEXP_EVENT);
	distance = psn_distance(packet->psn, qp->resp.cack_next);
	next = write_check_window(qp, response, distance);
	is_new = distance >= 0 && !ring_test(qp->resp.received_bits, packet->psn);
	if (!next && is_new)
		next = write_take_immediate(ctx, qp, response);
	if (!next && is_new)
		next = write_place(ctx, qp, response);
	/* Marked as received only after its bytes are in place. */
	return next ?: write_receive(qp, response, is_new);
}

static __always_inline void write_sack(struct wire_sack *head, const struct mrc_qp *qp,
				       const struct rx_response *response, __u32 port_up_mask)
{
	head->advice = bpf_htons((response->packet.is_marked ? WIRE_SETH_SKIP_ONCE : 0) |
				 (response->packet.is_probe ? WIRE_SETH_PROBE_RESPONSE : 0));
	head->ack_psn_offset = bpf_htons(response->ack_offset);
	head->entropy = bpf_htonl(response->packet.entropy);
	head->spdcid = bpf_htons(qp->head.qpn);
	head->dpdcid = bpf_htons(qp->head.peer_qpn);
	head->cack_psn =
	    bpf_htonl((~port_up_mask & ((1U << qp->evs.plane_count) - 1) & 0xff) << 24 |
		      (response->psn & WIRE_PSN_MASK));
	head->cc_type = cc_algorithm_cc_type() << 4;
	head->mpr = response->mpr;
	head->sack_offset = bpf_htons(response->base_offset);
	head->bitmap = bpf_cpu_to_be64(response->bitmap);
	head->cc_state = bpf_cpu_to_be64((__u64)bpf_ntohs(response->packet.tx_timestamp) << 48 |
					 response->cc_state);
}

static __always_inline void write_nack(struct wire_nack *head, const struct mrc_qp *qp,
				       const struct rx_response *response)
{
	head->reserved = 0;
	head->reason = response->code;
	head->vendor = 0;
	head->entropy = bpf_htonl(response->packet.entropy);
	head->spdcid = bpf_htons(qp->head.qpn);
	head->dpdcid = bpf_htons(qp->head.peer_qpn);
	head->psn = bpf_htonl(response->psn & WIRE_PSN_MASK);
	head->cc_type = WIRE_NETH_CC_TYPE;
	head->reserved_tail = 0;
	head->tx_timestamp = response->packet.tx_timestamp;
}

/*
 * Turns the frame, whatever it held, into the response that was decided. Called by the
 * program itself, as xmit_data() is.
 */
__noinline int xmit_response(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct rx_response *response = lookup0(&rx_responses);
	__u32 opcode = WIRE_ACKNOWLEDGE, bytes = sizeof(struct wire_acknowledge);
	__u32 flags_psn;
	struct packet_av to;
	struct mrc_qp *qp;
	union {
		struct wire_stack *stack;
		struct wire_sack *sack;
		struct wire_nack *nack;
		struct wire_acknowledge *acknowledge;
	} head;

	if (!config || !control || !response)
		return XDP_DROP;
	qp = qp_find(response->packet.qp_index);
	if (!qp)
		return XDP_DROP;
	ack_path_av(config, control, qp, response->packet.plane, response->packet.entropy, &to);
	flags_psn = response->psn & WIRE_PSN_MASK;
	if (response->kind != RESPONSE_NACK && response->packet.is_retransmission)
		flags_psn |= (__u32)WIRE_BTH_RETRANSMISSION << 24;
	if (response->kind == RESPONSE_SACK) {
		opcode = WIRE_SACK;
		bytes = sizeof(*head.sack);
	} else if (response->kind == RESPONSE_NACK) {
		opcode = WIRE_NACK;
		bytes = sizeof(*head.nack);
	}
	head.stack = packet_make(ctx, config, &to, bytes, sizeof(*head.acknowledge),
				 MRC_DSCP_CONTROL << 2, opcode, 0, flags_psn);
	if (!head.stack)
		return nic_drop(MRC_NC_DROP_LENGTH);
	if (response->kind == RESPONSE_SACK) {
		head.sack = frame_head(ctx, sizeof(*head.sack) + WIRE_ICRC_BYTES);
		if (!head.sack)
			return nic_drop(MRC_NC_DROP_LENGTH);
		write_sack(head.sack, qp, response, control->port_up_mask);
	} else if (response->kind == RESPONSE_NACK) {
		head.nack = frame_head(ctx, sizeof(*head.nack) + WIRE_ICRC_BYTES);
		if (!head.nack)
			return nic_drop(MRC_NC_DROP_LENGTH);
		write_nack(head.nack, qp, response);
	} else {
		head.acknowledge->syndrome_msn =
		    bpf_htonl(response->code << 24 | (response->msn & WIRE_PSN_MASK));
	}
	if (response->kind == RESPONSE_NACK)
		nic_count(MRC_NC_TX_NACK, 1);
	else if (response->kind == RESPONSE_SACK)
		nic_count(MRC_NC_TX_SACK, 1);
	else
		nic_count(response->code == WIRE_AETH_ACK ? MRC_NC_TX_ACK : MRC_NC_TX_NAK, 1);
	return stage_transmit(to.plane, MRC_CLASS_CONTROL);
}

#endif

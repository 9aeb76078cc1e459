/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The frame made of an answer (docs/protocol.md, "SETH", "AETH" and "NETH"). */
#ifndef MRC_SEND_ANSWER_H
#define MRC_SEND_ANSWER_H

#include "answer.h"
#include "nic_action.h"
#include "frame.h"
#include "nic_maps.h"
#include "reverse_ev.h"

static __always_inline void fill_sack(struct wire_sack *head, const struct mrc_qp *qp,
				      const struct rx_answer *answer, __u32 port_up_mask)
{
	head->advice = bpf_htons((answer->packet.is_marked ? WIRE_SETH_SKIP_ONCE : 0) |
				 (answer->packet.is_probe ? WIRE_SETH_ANSWERS_PROBE : 0));
	head->ack_psn_offset = bpf_htons(answer->ack_offset);
	head->entropy = bpf_htonl(answer->packet.entropy);
	head->spdcid = bpf_htons(qp->qpn);
	head->dpdcid = bpf_htons(qp->peer_qpn);
	head->cack_psn = bpf_htonl((~port_up_mask & ((1U << qp->plane_count) - 1) & 0xff) << 24 |
				   (answer->psn & WIRE_PSN_MASK));
	head->cc_type = 0;
	head->mpr = answer->mpr;
	head->sack_offset = bpf_htons(answer->base_offset);
	head->bitmap = bpf_cpu_to_be64(answer->bitmap);
	head->tx_timestamp = answer->packet.tx_timestamp;
	head->ooo_count = bpf_htons(answer->above & 0x7fff);
	head->penalty_received =
	    bpf_htonl(answer->penalty << 24 | (((answer->bytes + 255) >> 8) & WIRE_PSN_MASK));
}

static __always_inline void fill_nack(struct wire_nack *head, const struct mrc_qp *qp,
				      const struct rx_answer *answer)
{
	head->reserved = 0;
	head->reason = answer->code;
	head->vendor = 0;
	head->entropy = bpf_htonl(answer->packet.entropy);
	head->spdcid = bpf_htons(qp->qpn);
	head->dpdcid = bpf_htons(qp->peer_qpn);
	head->psn = bpf_htonl(answer->psn & WIRE_PSN_MASK);
	head->cc_type = WIRE_NETH_CC_TYPE;
	head->reserved_tail = 0;
	head->tx_timestamp = answer->packet.tx_timestamp;
}

/*
 * Turns the frame, whatever it held, into the answer that was decided, and sends it. Called by the
 * program itself, as xmit_data() is.
 */
__noinline int xmit_response(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct rx_answer *answer = lookup0(&rx_answers);
	__u32 opcode = WIRE_ACKNOWLEDGE, bytes = sizeof(struct wire_acknowledge);
	__u32 port_id, flags_psn, qp_index;
	struct frame_target to;
	struct mrc_port *port;
	struct mrc_qp *qp;
	union {
		struct wire_stack *stack;
		struct wire_sack *sack;
		struct wire_nack *nack;
		struct wire_acknowledge *acknowledge;
	} head;

	if (!config || !control || !answer)
		return XDP_DROP;
	qp_index = answer->packet.qp_index;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp)
		return XDP_DROP;
	reverse_target(config, control, qp, &answer->packet, &to);
	port_id = nic_port_id(config, to.plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!port)
		return XDP_DROP;
	flags_psn = answer->psn & WIRE_PSN_MASK;
	if (answer->kind != ANSWER_NACK && answer->packet.is_retransmission)
		flags_psn |= (__u32)WIRE_BTH_RETRANSMISSION << 24;
	if (answer->kind == ANSWER_SACK) {
		opcode = WIRE_SACK;
		bytes = sizeof(*head.sack);
	} else if (answer->kind == ANSWER_NACK) {
		opcode = WIRE_NACK;
		bytes = sizeof(*head.nack);
	}
	if (frame_resize(ctx, bytes + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head.stack = frame_head(ctx, sizeof(*head.acknowledge) + WIRE_ICRC_BYTES);
	if (!head.stack)
		return nic_drop(MRC_NC_DROP_LENGTH);
	write_stack(head.stack, config, port, &to, MRC_DSCP_CONTROL << 2, opcode, 0, flags_psn,
		    bytes - sizeof(*head.stack) + WIRE_ICRC_BYTES);
	if (answer->kind == ANSWER_SACK) {
		head.sack = frame_head(ctx, sizeof(*head.sack) + WIRE_ICRC_BYTES);
		if (!head.sack)
			return nic_drop(MRC_NC_DROP_LENGTH);
		fill_sack(head.sack, qp, answer, control->port_up_mask);
	} else if (answer->kind == ANSWER_NACK) {
		head.nack = frame_head(ctx, sizeof(*head.nack) + WIRE_ICRC_BYTES);
		if (!head.nack)
			return nic_drop(MRC_NC_DROP_LENGTH);
		fill_nack(head.nack, qp, answer);
	} else {
		head.acknowledge->syndrome_msn =
		    bpf_htonl(answer->code << 24 | (answer->msn & WIRE_PSN_MASK));
	}
	if (answer->kind == ANSWER_NACK)
		nic_count(MRC_NC_TX_NACK, 1);
	else if (answer->kind == ANSWER_SACK)
		nic_count(MRC_NC_TX_SACK, 1);
	else
		nic_count(answer->code == WIRE_AETH_ACK ? MRC_NC_TX_ACK : MRC_NC_TX_NAK, 1);
	return nic_xmit_on(to.plane, MRC_CLASS_CONTROL);
}

#endif

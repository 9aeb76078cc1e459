/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a responder of a reliable connection checks and says, in whatever order packets come. */
#ifndef MRC_RC_ANSWER_H
#define MRC_RC_ANSWER_H

#include "frame.h"
#include "rc_requestor.h"

static __always_inline int rc_answer_with(struct rc_answer *answer, __u32 syndrome, __u32 psn,
					  __u32 msn)
{
	answer->syndrome = syndrome;
	answer->psn = psn;
	answer->msn = msn;
	return RC_SEND_ANSWER;
}

/* Makes the frame the answer that was decided: it goes back on the path of its packet. */
__noinline int rc_send_answer(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct rc_answer *answer = lookup0(&rc_answers);
	__u32 port_id, bytes, opcode = RC_ACKNOWLEDGE, dscp = MRC_DSCP_RC;
	__u32 traffic_class = MRC_CLASS_DATA;
	struct frame_target to;
	struct mrc_port *port;
	struct mrc_rc_qp *qp;
	struct rc_cnp *head;

	if (!config || !answer)
		return XDP_DROP;
	qp = rc_find(answer->qp_index);
	port_id = nic_port_id(config, answer->plane);
	port = bpf_map_lookup_elem(&port_table, &port_id);
	if (!qp || !port)
		return XDP_DROP;
	bytes = sizeof(struct wire_acknowledge);
	if (answer->is_cnp) {
		bytes = sizeof(*head);
		opcode = RC_CNP;
		dscp = MRC_DSCP_CONTROL;
		traffic_class = MRC_CLASS_CONTROL;
	}
	if (frame_resize(ctx, bytes + WIRE_ICRC_BYTES))
		return nic_drop(MRC_NC_DROP_LENGTH);
	head = frame_head(ctx, sizeof(struct wire_acknowledge));
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	to.to = carrier_fill(qp->template_hi, qp->template_lo, qp->is_local, answer->plane,
			     entropy_uplink(answer->entropy), config->uplinks_per_pair);
	to.peer_host = qp->peer_host;
	to.peer_qpn = qp->peer_qpn;
	to.plane = answer->plane;
	to.entropy = answer->entropy;
	write_stack(&head->stack, config, port, &to, dscp << 2 | (answer->is_cnp ? 0 : WIRE_ECT0),
		    opcode, 0, answer->psn & WIRE_PSN_MASK,
		    bytes - sizeof(head->stack) + WIRE_ICRC_BYTES);
	head->syndrome_msn = bpf_htonl(answer->syndrome << 24 | (answer->msn & WIRE_PSN_MASK));
	if (answer->is_cnp) {
		head = frame_head(ctx, sizeof(*head));
		if (!head)
			return nic_drop(MRC_NC_DROP_LENGTH);
		head->stack.bth.destination_qp |= bpf_htonl((__u32)RC_BECN << 24);
		__builtin_memset(head->reserved, 0, sizeof(head->reserved));
	}
	nic_count(answer->is_cnp		      ? MRC_NC_TX_CNP
		  : answer->syndrome == WIRE_AETH_ACK ? MRC_NC_TX_ACK
						      : MRC_NC_TX_NAK,
		  1);
	return depart(answer->plane, traffic_class);
}

#endif

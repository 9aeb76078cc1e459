/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Transport ACKs and NAKs (docs/protocol.md, "Transport acknowledgement"). */
#ifndef MRC_TRANSPORT_ACK_H
#define MRC_TRANSPORT_ACK_H

#include "acknowledge.h"
#include "frame.h"
#include "qp.h"

/*
 * The responder refuses a message: the QP's work fails (docs/protocol.md, "AETH"). Only the packet
 * that is refused can say so: one of that PSN and message is under way.
 */
static __noinline int on_nak(__u32 qp_index, __u32 psn, __u32 syndrome, __u32 msn)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 from = MRC_QP_ERROR, status = MRC_STATUS_REMOTE_OPERATION, is_stale;

	if (!qp)
		return XDP_DROP;
	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->una_psn, psn);
	is_stale = qp->state != MRC_QP_RTS || !is_under_way(qp, psn) ||
		   TX_SLOT(qp, psn)->msn != (__u16)msn;
	if (!is_stale)
		from = qp_to_error(qp);
	bpf_spin_unlock(&qp->lock);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_ACK);
	nic_count(MRC_NC_RX_NAK, 1);
	if (syndrome == WIRE_AETH_NAK_INVALID_REQUEST)
		status = MRC_STATUS_REMOTE_INVALID_REQUEST;
	else if (syndrome == WIRE_AETH_NAK_REMOTE_ACCESS)
		status = MRC_STATUS_REMOTE_ACCESS;
	if (from != MRC_QP_ERROR)
		qp_fail(qp_index, from, status);
	return XDP_DROP;
}

/*
 * A transport ACK: completes messages. It stands for the SACK of the packet that completed the last
 * of them, so it acknowledges everything up to that message's end, and its own EV is the one that
 * packet came by (docs/protocol.md, "Transport acknowledgement"). Returns a verdict or
 * NIC_POST_PROCESS.
 */
__noinline int on_acknowledge(struct xdp_md *ctx)
{
	struct wire_acknowledge *head = frame_exactly(ctx, sizeof(*head));
	__u32 qp_index, syndrome, psn, msn, is_retransmission, plane = 0, is_stale, is_due = 0;
	struct heard_sack *heard = lookup0(&heard_sacks);
	struct tx_plan *plan = lookup0(&tx_plans);
	__u64 now_ns, rtt_ns = 0;
	struct mrc_histogram *histogram;
	struct mrc_qp *qp;

	if (!head || !plan || !heard)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_for(&head->stack, qp->qpn, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	psn = bpf_ntohl(head->stack.bth.flags_psn) & WIRE_PSN_MASK;
	msn = bpf_ntohl(head->syndrome_msn);
	syndrome = msn >> 24;
	if (syndrome >= WIRE_AETH_NAK_INVALID_REQUEST && syndrome <= WIRE_AETH_NAK_REMOTE_OPERATION)
		return on_nak(qp_index, psn, syndrome, msn);
	if (syndrome & WIRE_AETH_KIND_MASK)
		return nic_drop(MRC_NC_DROP_OPCODE);
	is_retransmission = bpf_ntohl(head->stack.bth.flags_psn) & (__u32)WIRE_BTH_RETRANSMISSION
								       << 24;
	now_ns = bpf_ktime_get_ns();
	plan->now_ns = now_ns;
	plan->model_ns = frame_model_ns(ctx) ?: now_ns;
	plan->ack_rtt_ns = 0;
	heard->is_tail_answer = 0;

	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->una_psn, psn);
	is_stale = qp->state != MRC_QP_RTS || psn_distance(psn, qp->next_psn) >= 0 ||
		   qp->next_psn - psn > MRC_PSN_RING ||
		   (__u16)(TX_SLOT(qp, psn)->msn + 1) != (__u16)msn;
	if (!is_stale) {
		if (psn_distance(psn, qp->una_psn) >= 0 && !ring_test(qp->acked_bits, psn)) {
			struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
			struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

			if (!slot->retransmissions && !is_retransmission) {
				rtt_ns = now_ns - slot->sent_ns;
				plan->ack_rtt_ns =
				    full_packet_rtt_ns(qp, slot, sizeof(struct wire_acknowledge),
						       plan->model_ns - slot->sent_ns);
				ev->rtt_ns = rtt_ns + rtt_to_full_ns(qp, slot);
				rtt_update(qp, slot, rtt_ns);
				plane = ev->plane;
			}
			if (slot->retransmissions && !is_retransmission)
				rack_on_spurious(qp);
			heard->is_tail_answer = is_retransmission && slot->loss == MRC_LOSS_TAIL;
		}
		if (psn_distance(psn + 1, qp->peer_cack_next) > 0)
			qp->peer_cack_next = psn + 1;
		if ((__s16)(msn - qp->acked_msn) > 0)
			qp->acked_msn = msn & 0xffff;
		is_due = is_loss_due(qp, now_ns);
	}
	bpf_spin_unlock(&qp->lock);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_ACK);
	nic_count(MRC_NC_RX_ACK, 1);
	if (rtt_ns) {
		histogram = bpf_map_lookup_elem(&rtt_histogram, &plane);
		if (histogram)
			histogram_add(histogram, rtt_ns);
	}
	plan->qp_index = qp_index;
	plan->is_loss_due = is_due;
	plan->cause = PLAN_CAUSE_ACK;
	plan->is_settled = 0;
	return NIC_POST_PROCESS;
}

#endif

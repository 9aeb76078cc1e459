/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The completer of a reliable connection: ACK, NAK, RNR NAK and CNP. */
#ifndef MRC_RC_COMP_H
#define MRC_RC_COMP_H

#include <mrc/dcqcn.h>
#include <mrc/psn.h>
#include "../stage.h"
#include "req.h"

enum {
	RC_PSNS_PER_STEP = 64,
	RC_STEPS_PER_ACK = 96, /* more than messages and packets outstanding need */
};

/*
 * Accounts for packets below acked_psn, up to the end of one message. Returns whether there is more
 * of it to do.
 */
__noinline int rc_complete_acked(__u32 qp_index, __u64 now_ns, __u64 model_ns, __u32 rtt_ns)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);
	__u32 packets = 0, bytes = 0, is_end = 0, is_more;
	struct reaped_work reaped = {};
	__u64 start_ns = 0;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	for (int i = 0; i < RC_PSNS_PER_STEP; i++) {
		struct mrc_rc_slot *slot = RC_SLOT(qp, qp->req.una_psn);

		if (is_end || qp->req.una_psn == qp->req.acked_psn)
			break;
		packets++;
		bytes += slot->length;
		is_end = rc_ends_message(slot->opcode);
		qp->req.una_psn++;
	}
	qp->req.acked_bytes += bytes;
	dcqcn_on_ack(&qp->dcqcn, &qp->cc, model_ns, bytes, rtt_ns);
	if (is_end) {
		start_ns = work_complete(&qp->req.work);
		work_reap(&qp->req.work, &reaped);
	}
	is_more = qp->req.una_psn != qp->req.acked_psn;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_ACKED_PACKETS, packets);
	nic_count(MRC_NC_ACKED_BYTES, bytes);
	if (is_end) {
		nic_count(MRC_NC_MESSAGES, 1);
		nic_record(&message_histogram, 0, now_ns - start_ns);
	}
	if (reaped.is_finished)
		report_completion(qp_index, reaped.index, reaped.iterations);
	return is_more;
}

/* Meaning of a syndrome of an AETH for the QP that gets it. */
static __always_inline __u32 rc_status(__u32 syndrome)
{
	if (syndrome == RC_NAK_INVALID_REQUEST)
		return MRC_STATUS_REMOTE_INVALID_REQUEST;
	return syndrome == RC_NAK_REMOTE_ACCESS ? MRC_STATUS_REMOTE_ACCESS
						: MRC_STATUS_REMOTE_OPERATION;
}

/* ACK, NAK or CNP. Returns a stage. */
__noinline int rc_on_ack(struct xdp_md *ctx, __u32 is_cnp)
{
	struct rc_cnp *head = frame_head(ctx, sizeof(struct wire_acknowledge));
	__u32 expected = is_cnp ? sizeof(struct rc_cnp) : sizeof(struct wire_acknowledge);
	struct tx_desc *desc = lookup0(&tx_descs);
	__u32 qp_index, psn, syndrome, kind, is_stale, from = MRC_QP_ERROR, plane = 0;
	__u32 is_waiting = 0, is_rnr_over = 0;
	__u64 now_ns, model_ns, rtt_ns = 0;
	struct mrc_rc_qp *qp;

	if (!head || !desc || frame_bytes(ctx) != expected + WIRE_ICRC_BYTES)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = rc_find(qp_index);
	if (!qp || !stack_is_for(&head->stack, &qp->head))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	psn = bpf_ntohl(head->stack.bth.flags_psn) & WIRE_PSN_MASK;
	syndrome = bpf_ntohl(head->syndrome_msn) >> 24;
	kind = syndrome >> 5 & 3;
	if (kind != RC_AETH_ACK && kind != RC_AETH_NAK && kind != RC_AETH_RNR_NAK)
		return nic_drop(MRC_NC_DROP_OPCODE);
	now_ns = bpf_ktime_get_ns();
	model_ns = frame_model_ns(ctx) ?: now_ns;
	desc->now_ns = now_ns;
	desc->model_ns = model_ns;
	desc->qp_index = qp_index;
	desc->ack_rtt_ns = 0;

	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->req.acked_psn, psn);
	/* A NAK names the packet it waits for or refuses, an ACK the last one it has: one that was
	 * sent. */
	is_stale = qp->state != MRC_QP_RTS || psn_distance(psn, qp->req.max_psn) >= 0;
	if (kind == RC_AETH_ACK)
		psn++;
	is_stale |= psn_distance(psn, qp->req.acked_psn) < 0;
	if (!is_stale) {
		struct mrc_rc_slot *slot = RC_SLOT(qp, psn - 1);

		if (psn != qp->req.acked_psn) {
			qp->head.progress_ns = now_ns;
			qp->head.retries = 0;
			qp->head.rnr_retries = 0;
			if (kind == RC_AETH_ACK && !slot->is_resent) {
				rtt_ns = now_ns - slot->sent_ns;
				desc->ack_rtt_ns = model_ns - slot->sent_ns;
				plane = slot->plane;
			}
			qp->req.acked_psn = psn;
			if (psn_distance(qp->req.next_psn, psn) < 0)
				qp->req.next_psn = psn;
		}
		if (is_cnp)
			dcqcn_on_cnp(&qp->dcqcn, &qp->cc, model_ns);
		if (kind == RC_AETH_RNR_NAK || syndrome == RC_NAK_SEQUENCE)
			rc_go_back_n(qp, MRC_LOSS_NACK);
		if (kind == RC_AETH_RNR_NAK) {
			is_waiting = !qp->req.is_rnr_wait;
			is_rnr_over = rc_wait_for_receive(qp, now_ns);
		}
		if (is_rnr_over || (kind == RC_AETH_NAK && syndrome != RC_NAK_SEQUENCE)) {
			from = qp->state;
			qp->state = MRC_QP_ERROR;
		}
	}
	bpf_spin_unlock(&qp->lock);
	if (is_stale)
		return nic_drop(kind == RC_AETH_ACK ? MRC_NC_DROP_STALE_ACK
						    : MRC_NC_DROP_STALE_NACK);
	if (from != MRC_QP_ERROR)
		qp_fail(qp_index, from,
			is_rnr_over ? MRC_STATUS_RNR_RETRY_EXCEEDED : rc_status(syndrome));
	else if (is_waiting)
		rc_rto_timer_start(qp_index);
	nic_count(is_cnp ? MRC_NC_RX_CNP : kind == RC_AETH_ACK ? MRC_NC_RX_ACK : MRC_NC_RX_NAK, 1);
	if (rtt_ns)
		nic_record(&rtt_histogram, plane, rtt_ns);
	return MRC_STAGE_COMPLETE;
}

/* MRC_STAGE_COMPLETE */
static __always_inline int rc_stage_complete(const struct tx_desc *desc)
{
	__u32 rtt_ns = desc->ack_rtt_ns;

	for (int i = 0; i < RC_STEPS_PER_ACK; i++) {
		if (!rc_complete_acked(desc->qp_index, desc->now_ns, desc->model_ns, rtt_ns))
			break;
		rtt_ns = 0;
	}
	return MRC_STAGE_NEXT_PACKET;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* NACKs (docs/protocol.md, "NETH"). */
#ifndef MRC_NACK_H
#define MRC_NACK_H

#include "acknowledge.h"
#include "ev_report.h"
#include "frame.h"
#include "qp.h"

/*
 * The responder refuses one packet: it is sent again at once, on another EV (docs/protocol.md,
 * "NETH"). Returns a verdict or NIC_POST_PROCESS.
 */
__noinline int on_nack(struct xdp_md *ctx)
{
	struct wire_nack *head = frame_exactly(ctx, sizeof(*head));
	__u32 qp_index, psn, entropy, reason, ev_index = 0, status = MRC_STATUS_RETRY_EXCEEDED;
	__u32 is_stale = 1, is_skipped = 0, from = MRC_QP_ERROR, is_trim;
	__u32 cwnd_change = MRC_NSCC_NONE;
	struct tx_plan *plan = lookup0(&tx_plans);
	struct mrc_qp *qp;
	__u64 now_ns;

	if (!head || !plan)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_for(&head->stack, qp->qpn, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	psn = bpf_ntohl(head->psn) & WIRE_PSN_MASK;
	entropy = bpf_ntohl(head->entropy);
	reason = head->reason;
	is_trim = reason == WIRE_NACK_TRIMMED || reason == WIRE_NACK_TRIMMED_LASTHOP;
	now_ns = bpf_ktime_get_ns();
	plan->now_ns = now_ns;
	plan->model_ns = frame_model_ns(ctx) ?: now_ns;
	plan->qp_index = qp_index;
	plan->cause = PLAN_CAUSE_NACK;
	plan->is_settled = 0;

	bpf_spin_lock(&qp->lock);
	psn = psn_expand(qp->una_psn, psn);
	if (qp->state == MRC_QP_RTS && is_under_way(qp, psn) && !ring_test(qp->lost_bits, psn)) {
		struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
		struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

		/* Unless it is about an earlier transmission of the packet. */
		is_stale = ev->entropy != entropy;
		if (!is_stale) {
			ev_index = slot->ev_index;
			slot->loss = MRC_LOSS_NACK;
			ring_set(qp->lost_bits, psn);
			qp->lost_count++;
			qp->inflight--;
			cwnd_change = nscc_on_nack(&qp->nscc, &qp->cc, plan->model_ns,
						   slot_nominal_bytes(slot), is_trim);
			ev_off(qp, ev);
			path_unlink(qp, slot->path, psn);
			path_heard(qp, slot->path);
			if (reason == WIRE_NACK_TRIMMED)
				is_skipped = ev_skip(ev, MRC_REASON_TRIM, now_ns);
		}
		if (reason == WIRE_NACK_NO_BITMAP || reason == WIRE_NACK_NO_PKT_BUFFER ||
		    reason == WIRE_NACK_NO_RESOURCE) {
			qp->retries += !is_stale;
			if (qp->retries > qp->retry_limit)
				from = qp_to_error(qp);
		} else if (!is_trim && reason != WIRE_NACK_PSN_OOR_WINDOW) {
			status = MRC_STATUS_REMOTE_OPERATION;
			from = qp_to_error(qp);
		}
	}
	plan->is_loss_due = is_loss_due(qp, now_ns);
	bpf_spin_unlock(&qp->lock);
	if (from != MRC_QP_ERROR)
		qp_fail(qp_index, from, status);
	if (is_stale)
		return nic_drop(MRC_NC_DROP_STALE_NACK);
	nic_count(MRC_NC_RX_NACK, 1);
	cwnd_changed(cwnd_change);
	if (is_skipped)
		ev_counted(qp_index, ev_index, MRC_EV_GOOD, MRC_EV_SKIP, MRC_REASON_TRIM);
	return NIC_POST_PROCESS;
}

#endif

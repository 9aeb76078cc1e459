/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* SACKs (docs/protocol.md, "SACK processing"). */
#ifndef MRC_SACK_H
#define MRC_SACK_H

#include "ack_path.h"
#include "acknowledge.h"
#include "ev_report.h"
#include "frame.h"
#include "loss.h"
#include "probe.h"

/* The peer advises against an EV for good. */
static __noinline int shun(__u32 qp_index, __u32 ev, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 from;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	from = ev_leave(qp, ev, MRC_REASON_ADVICE, now_ns);
	bpf_spin_unlock(&qp->lock);
	if (from)
		ev_changed(qp_index, ev, from, MRC_EV_ASSUMED_BAD, MRC_REASON_ADVICE);
	return 0;
}

/*
 * Under the lock, once the packet that caused a SACK is accounted for: whether it has passed an
 * older packet on its path that is missing, once too often.
 */
static __always_inline int notice_passing(struct mrc_qp *qp, struct heard_sack *heard)
{
	const struct mrc_tx_slot *slot = TX_SLOT(qp, heard->ack);
	const struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

	heard->is_tail_answer = 0;
	/* Which copy it was must be certain. */
	if (heard->is_probe || qp->next_psn - heard->ack - 1 >= MRC_PSN_RING ||
	    ev->entropy != heard->entropy || slot->retransmissions != heard->is_retransmission)
		return 0;
	heard->passed_path = slot->path;
	heard->passing_order = slot->order;
	heard->passing_ns = slot->sent_ns;
	heard->is_tail_answer = heard->is_retransmission && slot->loss == MRC_LOSS_TAIL;
	if (heard->is_tail_answer)
		return 1;
	return path_is_passed(qp, heard, slot->path) &&
	       PATH(qp, slot->path)->passed++ >= qp->reorder_packets;
}

/* Under the lock: the packet that caused the SACK, unless another SACK told of it first. */
static __always_inline void account_cause(struct mrc_qp *qp, struct heard_sack *heard,
					  const struct tx_plan *plan)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, heard->ack);
	struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

	if (!is_under_way(qp, heard->ack))
		return;
	if (!slot->retransmissions && !heard->is_retransmission) {
		heard->rtt_ns = plan->now_ns - slot->sent_ns;
		heard->congestion.rtt_ns = full_packet_rtt_ns(qp, slot, sizeof(struct wire_sack),
							      plan->model_ns - slot->sent_ns);
		heard->plane = ev->plane;
		ev->rtt_ns = heard->rtt_ns + rtt_to_full_ns(qp, slot);
		qp->rtt_ns = heard->rtt_ns;
		rtt_update(qp, slot, heard->rtt_ns);
	}
	if (slot->retransmissions && !heard->is_retransmission)
		rack_on_spurious(qp);
	account_ack(qp, heard->ack, plan->now_ns);
	ack_path_learn(qp, ev);
}

/* Under the lock: the advice about the EV of that packet, whose slot is still there. */
static __always_inline void take_advice(struct mrc_qp *qp, struct heard_sack *heard, __u64 now_ns)
{
	struct mrc_ev *ev;

	if (!heard->advice || heard->is_probe || heard->advice == WIRE_SETH_ADVICE_MASK ||
	    qp->next_psn - heard->ack - 1 >= MRC_PSN_RING)
		return;
	heard->marked_ev = TX_SLOT(qp, heard->ack)->ev_index;
	ev = &qp->evs[EV_INDEX(heard->marked_ev)];
	if (ev->entropy != heard->entropy)
		return;
	ev->marks++;
	heard->is_marked =
	    heard->advice == WIRE_SETH_ALWAYS_SKIP || ev_skip(ev, MRC_REASON_ECN, now_ns);
}

/* Under the lock: arrivals in the bitmap whose own SACK has not come. */
static __always_inline __u64 bitmap_news(struct mrc_qp *qp, const struct heard_sack *heard)
{
	__u64 news = heard->bitmap & ~ring_window(qp->acked_bits, heard->base);
	__s32 behind = psn_distance(qp->una_psn, heard->base);
	__s32 ahead = psn_distance(qp->next_psn, heard->base);

	if (behind > 0)
		news = behind < 64 ? news & ~0ULL << behind : 0;
	if (ahead < 64)
		news = ahead > 0 ? news & ~(~0ULL << ahead) : 0;
	return news;
}

/* Under the lock: whether a SACK leaves nothing to do but to decide the next packet. */
static __always_inline int leaves_nothing(struct mrc_qp *qp, const struct heard_sack *heard,
					  const struct tx_plan *plan)
{
	return !heard->news && !heard->is_passed && !heard->is_probe && !plan->is_loss_due &&
	       heard->advice != WIRE_SETH_ALWAYS_SKIP && !ring_test(qp->acked_bits, qp->una_psn) &&
	       psn_distance(qp->peer_cack_next, qp->una_psn) <= 0;
}

/*
 * The books of the QP after a SACK, all but what settle() does, and mostly that is nothing: then
 * the next packet is decided in the same lock section. Returns whether the SACK is stale.
 */
static __always_inline int hear_sack(__u32 qp_index)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct mrc_nic_paths *paths = lookup0(&nic_paths);
	struct heard_sack *heard = lookup0(&heard_sacks);
	struct tx_plan *plan = lookup0(&tx_plans);
	__u32 is_stale = 0, cack;

	if (!qp || !ring || !control || !paths || !heard || !plan)
		return 1;
	bpf_spin_lock(&qp->lock);
	cack = psn_expand(qp->una_psn, heard->cack);
	if (qp->state != MRC_QP_RTS || psn_distance(cack, qp->next_psn) >= 0) {
		is_stale = 1;
		goto unlock;
	}
	heard->packets = qp->acked_total;
	heard->bytes = qp->acked_bytes;
	if (psn_distance(cack + 1, qp->peer_cack_next) > 0)
		qp->peer_cack_next = cack + 1;
	if (cack + 1 == qp->peer_cack_next) { /* what an older SACK says no longer holds */
		qp->peer_sack_down = heard->ports_down;
		if (heard->mpr && heard->mpr <= MRC_MPR_MAX && qp->is_mpr_dynamic)
			qp->mpr_psns = heard->mpr * MRC_MPR_UNIT;
	}
	/* In a probe's answer the field is the probe's id, and no PSN caused it. */
	heard->ack = heard->is_probe ? qp->una_psn - 1 : heard->ack + cack;
	heard->base += cack;
	account_cause(qp, heard, plan);
	take_advice(qp, heard, plan->now_ns);
	heard->is_passed = notice_passing(qp, heard);
	heard->cwnd_change = nscc_on_sack(&qp->nscc, &qp->cc, &heard->congestion);
	slide(qp);
	heard->news = bitmap_news(qp, heard);
	plan->is_loss_due = is_loss_due(qp, plan->now_ns);
	heard->packets = qp->acked_total - heard->packets;
	heard->bytes = qp->acked_bytes - heard->bytes;
	plan->is_settled = leaves_nothing(qp, heard, plan);
	if (plan->is_settled)
		plan->is_planned = plan_locked(qp, ring, control, paths, plan);
unlock:
	bpf_spin_unlock(&qp->lock);
	return is_stale;
}

/* A SACK. Returns a verdict or NIC_POST_PROCESS. */
__noinline int on_sack(struct xdp_md *ctx)
{
	struct wire_sack *head = frame_exactly(ctx, sizeof(*head));
	struct heard_sack *heard = lookup0(&heard_sacks);
	struct tx_plan *plan = lookup0(&tx_plans);
	struct mrc_nic_counters *counters;
	struct mrc_histogram *histogram;
	__u32 qp_index, cc_state, advice;
	struct mrc_qp *qp;

	if (!head || !plan || !heard)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_for(&head->stack, qp->qpn, qp->peer_host))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	plan->qp_index = qp_index;
	plan->now_ns = bpf_ktime_get_ns();
	plan->model_ns = frame_model_ns(ctx) ?: plan->now_ns;
	plan->cause = PLAN_CAUSE_SACK;
	advice = bpf_ntohs(head->advice);
	heard->cack = bpf_ntohl(head->cack_psn) & WIRE_PSN_MASK;
	heard->ack = (__s16)bpf_ntohs(head->ack_psn_offset);
	heard->base = (__s16)bpf_ntohs(head->sack_offset);
	heard->bitmap = bpf_be64_to_cpu(head->bitmap);
	heard->entropy = bpf_ntohl(head->entropy);
	heard->advice = advice & WIRE_SETH_ADVICE_MASK;
	heard->is_probe = !!(advice & WIRE_SETH_ANSWERS_PROBE);
	heard->probe_id = heard->ack & PROBE_ID_MASK;
	heard->is_retransmission =
	    !!(bpf_ntohl(head->stack.bth.flags_psn) & (__u32)WIRE_BTH_RETRANSMISSION << 24);
	heard->mpr = head->mpr;
	heard->ports_down = bpf_ntohl(head->cack_psn) >> 24;
	heard->is_marked = 0;
	heard->rtt_ns = 0;
	cc_state = bpf_ntohl(head->penalty_received);
	heard->congestion.now_ns = plan->model_ns;
	heard->congestion.rtt_ns = 0;
	heard->congestion.received_units = cc_state & WIRE_PSN_MASK;
	heard->congestion.penalty = cc_state >> 24 & 127;
	heard->congestion.is_penalty_over = cc_state >> 31;
	heard->congestion.is_marked = heard->advice == WIRE_SETH_SKIP_ONCE;
	if (hear_sack(qp_index))
		return nic_drop(MRC_NC_DROP_STALE_SACK);

	counters = lookup0(&nic_counters);
	if (counters) {
		counters->value[MRC_NC_RX_SACK] += 1;
		counters->value[MRC_NC_ACKED_PACKETS] += heard->packets;
		counters->value[MRC_NC_ACKED_BYTES] += heard->bytes;
	}
	cwnd_changed(heard->cwnd_change);
	if (heard->rtt_ns) {
		histogram = bpf_map_lookup_elem(&rtt_histogram, &heard->plane);
		if (histogram)
			histogram_add(histogram, heard->rtt_ns);
	}
	return NIC_POST_PROCESS;
}

/*
 * What a SACK says of EVs: advice against one, and a probe answered. Called by the program itself
 * and not by on_sack(), whose stack it would share.
 */
__noinline int sack_report(__u32 qp_index)
{
	struct heard_sack *heard = lookup0(&heard_sacks);
	struct tx_plan *plan = lookup0(&tx_plans);

	if (!heard || !plan)
		return 0;
	if (heard->is_marked && heard->advice == WIRE_SETH_ALWAYS_SKIP)
		shun(qp_index, heard->marked_ev, plan->now_ns);
	else if (heard->is_marked)
		ev_counted(qp_index, heard->marked_ev, MRC_EV_GOOD, MRC_EV_SKIP, MRC_REASON_ECN);
	if (heard->is_probe)
		probe_acked(heard->probe_id, MRC_PROBE_RELIABILITY, qp_index, heard->entropy,
			    heard->advice == WIRE_SETH_SKIP_ONCE);
	return 0;
}

/* Whether sack_report() has anything to do. */
static __always_inline int sack_has_report(const struct tx_plan *plan)
{
	const struct heard_sack *heard = lookup0(&heard_sacks);

	return plan->cause == PLAN_CAUSE_SACK && heard && (heard->is_marked || heard->is_probe);
}

#endif

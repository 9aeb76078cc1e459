/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* SACKs (docs/reference/protocol.md, "SACK processing"). */
#ifndef MRC_SACK_H
#define MRC_SACK_H

#include "ack_path.h"
#include "comp.h"
#include "ev.h"
#include "packet.h"
#include "probe.h"
#include "recovery.h"

/* The peer advises against an EV for good. */
static __noinline int ev_mark_bad_by_peer(__u32 qp_index, __u32 ev, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 from;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	from = ev_mark_bad(qp, ev, MRC_REASON_ADVICE, now_ns);
	bpf_spin_unlock(&qp->lock);
	if (from)
		ev_report_transition(qp_index, ev, from, MRC_EV_ASSUMED_BAD, MRC_REASON_ADVICE);
	return 0;
}

/*
 * Under the lock: whether the packet that triggered a SACK had been declared lost and was only
 * late: the transmission that was given up has arrived, no more than a round trip after it was sent
 * again, and its EV is out of use for that loss alone. On a slow path packets are later than that.
 */
static __always_inline void find_late_packet(struct mrc_qp *qp, struct sack_ctx *sack, __u64 now_ns)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, sack->ack);
	const struct mrc_ev *ev = EV(qp, slot->lost_ev);

	sack->is_late = 0;
	if (sack->is_probe || sack->is_retransmission || !slot->has_lost_ev ||
	    qp->req.next_psn - sack->ack - 1 >= MRC_PSN_RING || ev->entropy != sack->entropy)
		return;
	slot->has_lost_ev = 0;
	sack->late_ev = slot->lost_ev;
	sack->is_late = (ev->reason == MRC_REASON_LOSS || ev->reason == MRC_REASON_TIMEOUT) &&
			slot->lost_at == (__u16)ev->lost_packets &&
			(!slot->retransmissions || now_ns - slot->sent_ns <= qp->comp.srtt_ns);
}

/* An EV that left for a packet that was only late comes back, and its path is trusted. */
static __noinline int ev_return_late(__u32 qp_index, __u32 ev, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 has_returned;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	has_returned = ev_restore(qp, ev, MRC_EV_ASSUMED_BAD, MRC_EV_GOOD, MRC_REASON_LATE, now_ns);
	bpf_spin_unlock(&qp->lock);
	if (!has_returned)
		return 0;
	path_trust(qp, EV(qp, ev)->entropy);
	return ev_report_transition(qp_index, ev, MRC_EV_ASSUMED_BAD, MRC_EV_GOOD, MRC_REASON_LATE);
}

/*
 * Under the lock, once the packet that triggered a SACK is acknowledged: whether it has overtaken
 * an older packet on its path that is missing, once too often.
 */
static __always_inline int is_overtaking(struct mrc_qp *qp, struct sack_ctx *sack)
{
	const struct mrc_tx_slot *slot = TX_SLOT(qp, sack->ack);
	const struct mrc_ev *ev = EV(qp, slot->ev_index);

	sack->is_tlp_ack = 0;
	/* Which copy it was must be certain. */
	if (sack->is_probe || qp->req.next_psn - sack->ack - 1 >= MRC_PSN_RING ||
	    ev->entropy != sack->entropy || slot->retransmissions != sack->is_retransmission)
		return 0;
	sack->overtaken_path = slot->path;
	sack->trigger_order = slot->order;
	sack->trigger_sent_ns = slot->sent_ns;
	sack->is_tlp_ack = sack->is_retransmission && slot->loss == MRC_LOSS_TLP;
	if (sack->is_tlp_ack)
		return 1;
	return is_overtaken_on_path(qp, sack, slot->path) &&
	       PATH(qp, slot->path)->passed++ >= qp->comp.reorder_packets;
}

/* Under the lock: the packet that triggered the SACK, unless another SACK covered it first. */
static __always_inline void process_sack_trigger(struct mrc_qp *qp, struct sack_ctx *sack,
						 const struct tx_desc *desc)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, sack->ack);
	struct mrc_ev *ev = EV(qp, slot->ev_index);

	if (!is_outstanding(qp, sack->ack))
		return;
	if (!slot->retransmissions && !sack->is_retransmission) {
		sack->rtt_ns = desc->now_ns - slot->sent_ns;
		sack->congestion.rtt_ns = full_packet_rtt_ns(qp, slot, sizeof(struct wire_sack),
							     desc->model_ns - slot->sent_ns);
		sack->plane = ev->plane;
		qp->comp.rtt_ns = sack->rtt_ns;
		rtt_update(qp, slot, desc->now_ns);
	}
	if (slot->retransmissions && !sack->is_retransmission)
		rack_update_reo_wnd(qp, 1);
	on_packet_acked(qp, sack->ack, desc->now_ns);
	ack_path_learn(qp, ev);
	if (ev->entropy == sack->entropy)
		ev_selector_on_ack(qp, slot->ev_index, sack->congestion.ack.is_marked);
}

/* Under the lock: the advice about the EV of that packet, whose slot is still there. */
static __always_inline void apply_ev_advice(struct mrc_qp *qp, struct sack_ctx *sack, __u64 now_ns)
{
	struct mrc_ev *ev;

	if (!sack->advice || sack->is_probe || sack->advice == WIRE_SETH_ADVICE_MASK ||
	    qp->req.next_psn - sack->ack - 1 >= MRC_PSN_RING)
		return;
	sack->marked_ev = TX_SLOT(qp, sack->ack)->ev_index;
	ev = EV(qp, sack->marked_ev);
	if (ev->entropy != sack->entropy)
		return;
	ev->marks++;
	sack->is_marked = sack->advice == WIRE_SETH_ALWAYS_SKIP ||
			  ev_skip(qp, sack->marked_ev, MRC_REASON_ECN, now_ns);
}

/* Under the lock: arrivals in the bitmap whose own SACK has not come. */
static __always_inline __u64 sack_new_bits(struct mrc_qp *qp, const struct sack_ctx *sack)
{
	__u64 new_bits = sack->bitmap & ~ring_window(qp->comp.acked_bits, sack->base);
	__s32 behind = psn_distance(qp->comp.una_psn, sack->base);
	__s32 ahead = psn_distance(qp->req.next_psn, sack->base);

	if (behind > 0)
		new_bits = behind < 64 ? new_bits & ~0ULL << behind : 0;
	if (ahead < 64)
		new_bits = ahead > 0 ? new_bits & ~(~0ULL << ahead) : 0;
	return new_bits;
}

/* Under the lock: whether a SACK leaves nothing to do but to decide the next packet. */
static __always_inline int completes_nothing(struct mrc_qp *qp, const struct sack_ctx *sack,
					     const struct tx_desc *desc)
{
	return !sack->new_bits && !sack->is_overtaken && !sack->is_probe && !desc->is_loss_due &&
	       sack->advice != WIRE_SETH_ALWAYS_SKIP &&
	       !ring_test(qp->comp.acked_bits, qp->comp.una_psn) &&
	       psn_distance(qp->comp.peer_cack_next, qp->comp.una_psn) <= 0;
}

/*
 * Applies a SACK to its QP but for what is left to later stages, mostly nothing: then the next
 * packet is decided in the same lock section. Returns whether the SACK is stale.
 */
static __always_inline int process_sack(__u32 qp_index)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct mrc_nic_paths *paths = lookup0(&nic_paths);
	struct sack_ctx *sack = lookup0(&sack_ctxs);
	struct tx_desc *desc = lookup0(&tx_descs);
	__u32 is_stale = 0, cack;

	if (!qp || !ring || !control || !paths || !sack || !desc)
		return 1;
	bpf_spin_lock(&qp->lock);
	cack = psn_expand(qp->comp.una_psn, sack->cack);
	if (qp->state != MRC_QP_RTS || psn_distance(cack, qp->req.next_psn) >= 0) {
		is_stale = 1;
		goto unlock;
	}
	sack->packets = qp->comp.acked_total;
	sack->bytes = qp->comp.acked_bytes;
	if (psn_distance(cack + 1, qp->comp.peer_cack_next) > 0)
		qp->comp.peer_cack_next = cack + 1;
	if (cack + 1 == qp->comp.peer_cack_next) { /* what an older SACK says no longer holds */
		qp->evs.peer_sack_down = sack->ports_down;
		if (sack->mpr && sack->mpr <= MRC_MPR_MAX && qp->resp.is_mpr_dynamic)
			qp->req.mpr_psns = sack->mpr * MRC_MPR_UNIT;
	}
	/* In a probe's response the field is the probe's id, and no PSN caused it. */
	sack->ack = sack->is_probe ? qp->comp.una_psn - 1 : sack->ack + cack;
	sack->base += cack;
	find_late_packet(qp, sack, desc->now_ns);
	process_sack_trigger(qp, sack, desc);
	apply_ev_advice(qp, sack, desc->now_ns);
	sack->is_overtaken = is_overtaking(qp, sack);
	sack->cwnd_change = cc_on_sack(&qp->cc, &qp->cc_parameters, &sack->congestion);
	advance_una(qp);
	sack->new_bits = sack_new_bits(qp, sack);
	desc->is_loss_due = is_loss_due(qp, desc->now_ns);
	sack->packets = qp->comp.acked_total - sack->packets;
	sack->bytes = qp->comp.acked_bytes - sack->bytes;
	desc->is_packet_decided = completes_nothing(qp, sack, desc);
	if (desc->is_packet_decided)
		desc->has_packet = build_next_packet_locked(qp, ring, control, paths, desc);
unlock:
	bpf_spin_unlock(&qp->lock);
	return is_stale;
}

/* A SACK. Returns a stage. */
__noinline int on_sack(struct xdp_md *ctx)
{
	struct wire_sack *head = frame_exactly(ctx, sizeof(*head));
	struct sack_ctx *sack = lookup0(&sack_ctxs);
	struct tx_desc *desc = lookup0(&tx_descs);
	struct mrc_nic_counters *counters;
	__u32 qp_index, advice;
	struct mrc_qp *qp;

	if (!head || !desc || !sack)
		return nic_drop(MRC_NC_DROP_LENGTH);
	qp_index = stack_qp_index(&head->stack);
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp || !stack_is_for(&head->stack, &qp->head))
		return nic_drop(MRC_NC_DROP_UNKNOWN_QP);
	desc->qp_index = qp_index;
	desc->now_ns = bpf_ktime_get_ns();
	desc->model_ns = frame_model_ns(ctx) ?: desc->now_ns;
	desc->cause = ACK_KIND_SACK;
	advice = bpf_ntohs(head->advice);
	sack->cack = bpf_ntohl(head->cack_psn) & WIRE_PSN_MASK;
	sack->ack = (__s16)bpf_ntohs(head->ack_psn_offset);
	sack->base = (__s16)bpf_ntohs(head->sack_offset);
	sack->bitmap = bpf_be64_to_cpu(head->bitmap);
	sack->entropy = bpf_ntohl(head->entropy);
	sack->advice = advice & WIRE_SETH_ADVICE_MASK;
	sack->is_probe = !!(advice & WIRE_SETH_PROBE_RESPONSE);
	sack->probe_id = sack->ack & PROBE_ID_MASK;
	sack->is_retransmission =
	    !!(bpf_ntohl(head->stack.bth.flags_psn) & (__u32)WIRE_BTH_RETRANSMISSION << 24);
	sack->mpr = head->mpr;
	sack->ports_down = bpf_ntohl(head->cack_psn) >> 24;
	sack->is_marked = 0;
	sack->rtt_ns = 0;
	sack->congestion.ack.now_ns = desc->model_ns;
	sack->congestion.rtt_ns = 0;
	cc_state_take(&sack->congestion, head->cc_type >> 4, bpf_be64_to_cpu(head->cc_state));
	sack->congestion.ack.is_marked = sack->advice == WIRE_SETH_SKIP_ONCE;
	if (process_sack(qp_index))
		return nic_drop(MRC_NC_DROP_STALE_SACK);

	counters = lookup0(&nic_counters);
	if (counters) {
		counters->value[MRC_NC_RX_SACK] += 1;
		counters->value[MRC_NC_ACKED_PACKETS] += sack->packets;
		counters->value[MRC_NC_ACKED_BYTES] += sack->bytes;
	}
	cwnd_count_change(sack->cwnd_change);
	if (sack->rtt_ns)
		nic_record(&rtt_histogram, sack->plane, sack->rtt_ns);
	return sack->is_marked || sack->is_late || sack->is_probe ? MRC_STAGE_JUDGE_EVS
								  : MRC_STAGE_COMPLETE;
}

/*
 * MRC_STAGE_JUDGE_EVS: the parts of a SACK about EVs: advice against one, a late packet, and a probe
 * acknowledged.
 */
__noinline int stage_judge_evs(__u32 qp_index)
{
	struct sack_ctx *sack = lookup0(&sack_ctxs);
	struct tx_desc *desc = lookup0(&tx_descs);

	if (!sack || !desc)
		return XDP_DROP;
	if (sack->is_marked && sack->advice == WIRE_SETH_ALWAYS_SKIP)
		ev_mark_bad_by_peer(qp_index, sack->marked_ev, desc->now_ns);
	else if (sack->is_marked)
		ev_count_transition(qp_index, sack->marked_ev, MRC_EV_GOOD, MRC_EV_SKIP,
				    MRC_REASON_ECN);
	if (sack->is_late)
		ev_return_late(qp_index, sack->late_ev, desc->now_ns);
	if (sack->is_probe)
		probe_acked(sack->probe_id, MRC_PROBE_RELIABILITY, qp_index, sack->entropy,
			    sack->advice == WIRE_SETH_SKIP_ONCE);
	return MRC_STAGE_COMPLETE;
}

#endif

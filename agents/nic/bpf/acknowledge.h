/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What acknowledgements do to a QP's books, whichever packet brings them: the left edge, messages
 * completed, and the next packet (docs/protocol.md, "SACK processing").
 */
#ifndef MRC_ACKNOWLEDGE_H
#define MRC_ACKNOWLEDGE_H

#include <mrc/psn.h>
#include "congestion.h"
#include "ev_set.h"
#include "loss.h"
#include "nic_maps.h"
#include "requestor.h"
#include "work.h"

enum {
	SLIDE_STEPS = 4,
	ADVANCE_STEPS = 16,
};

enum advance_result {
	ADVANCE_MORE = 1,     /* the edge may move further */
	ADVANCE_LOSS_DUE = 2, /* what was acknowledged may prove packets lost */
};

/* Under the lock: whether PSN `psn` has been sent, and not yet been acknowledged. */
static __always_inline int is_under_way(const struct mrc_qp *qp, __u32 psn)
{
	return psn_distance(psn, qp->una_psn) >= 0 && psn_distance(psn, qp->next_psn) < 0 &&
	       !ring_test(qp->acked_bits, psn);
}

/* Under the lock: PSN `psn`, which is under way, has arrived. */
static __always_inline void account_ack(struct mrc_qp *qp, __u32 psn, __u64 now_ns)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
	struct mrc_ev *ev = &qp->evs[EV_INDEX(slot->ev_index)];

	ring_set(qp->acked_bits, psn);
	if ((__s16)(slot->order - qp->rack_order) > 0 && !slot->retransmissions)
		qp->rack_order = slot->order;
	qp->acked_total++;
	qp->acked_bytes += slot->length;
	qp->acked_nominal_bytes += slot_nominal_bytes(slot);
	if (ring_test(qp->lost_bits, psn)) {
		ring_clear(qp->lost_bits, psn);
		qp->lost_count--;
		nscc_on_false_loss(&qp->nscc, slot_nominal_bytes(slot));
	} else {
		qp->inflight--;
		ev_off(qp, ev);
		path_unlink(qp, slot->path, psn);
	}
	path_heard(qp, slot->path);
	qp->is_tail_due = 0;
	qp->tail_probes = 0;
	qp->overdue = 0;
	qp->progress_ns = now_ns;
	qp->retries = 0;
}

/* Messages that a transport ACK tells of and that have not been completed yet. */
static __always_inline __u32 messages_to_complete(const struct mrc_qp *qp)
{
	return (__u16)(qp->acked_msn - qp->work.done_msn);
}

/*
 * Moves the left edge over what has arrived, and completes one message that has been acknowledged.
 * Returns advance_result bits.
 */
__noinline int advance(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	__u32 is_complete = 0, packets, result = ADVANCE_MORE;
	struct finished_work finished;
	struct mrc_histogram *histogram;
	__u64 start_ns = 0, bytes;

	if (!qp || !ring)
		return 0;
	bpf_spin_lock(&qp->lock);
	packets = qp->acked_total;
	bytes = qp->acked_bytes;
	for (int i = 0; i < ADVANCE_STEPS; i++) {
		__u32 una = qp->una_psn;

		if (una == qp->next_psn) {
			result = 0;
			break;
		}
		if (!ring_test(qp->acked_bits, una)) {
			if (psn_distance(qp->peer_cack_next, una) <= 0) {
				result = 0;
				break;
			}
			account_ack(qp, una, now_ns);
		}
		ring_clear(qp->acked_bits, una);
		qp->una_psn = una + 1;
	}
	if (messages_to_complete(qp)) {
		__u32 msn = qp->work.done_msn;

		start_ns = work_complete(&qp->work);
		qp->retries = 0;
		qp->is_ack_asked = 0;
		qp->progress_ns = now_ns;
		qp->outstanding_wimm -= qp->wimm_messages >> (msn & 63) & 1;
		qp->wimm_messages &= ~(1ULL << (msn & 63));
		is_complete = 1;
		if (messages_to_complete(qp))
			result |= ADVANCE_MORE;
	}
	work_finish(&qp->work, &finished);
	packets = qp->acked_total - packets;
	bytes = qp->acked_bytes - bytes;
	if (is_loss_due(qp, now_ns))
		result |= ADVANCE_LOSS_DUE;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_ACKED_PACKETS, packets);
	nic_count(MRC_NC_ACKED_BYTES, bytes);
	if (is_complete) {
		nic_count(MRC_NC_MESSAGES, 1);
		histogram = lookup0(&message_histogram);
		if (histogram)
			histogram_add(histogram, now_ns - start_ns);
	}
	if (finished.is_finished)
		report_completion(qp_index, finished.index, finished.iterations);
	return result;
}

/* Under the lock: the common part of advance(): moves the left edge over what is known to be there.
 */
static __always_inline void slide(struct mrc_qp *qp)
{
	for (int i = 0; i < SLIDE_STEPS; i++) {
		__u32 una = qp->una_psn;

		if (una == qp->next_psn || !ring_test(qp->acked_bits, una))
			break;
		ring_clear(qp->acked_bits, una);
		qp->una_psn = una + 1;
	}
}

/* Accounts for arrivals in a SACK's bitmap whose own SACK has not come. */
__noinline int account_bitmap(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct heard_sack *heard = lookup0(&heard_sacks);
	__u64 bytes;
	__u32 packets;

	if (!qp || !heard)
		return 0;
	bpf_spin_lock(&qp->lock);
	packets = qp->acked_total;
	bytes = qp->acked_bytes;
	for (int i = 0; i < BITMAP_NEWS_PER_SACK && heard->news; i++) {
		__u32 psn = heard->base + trailing_zeros(heard->news);

		heard->news &= heard->news - 1;
		/* Another CPU may have heard of it in the meantime. */
		if (is_under_way(qp, psn))
			account_ack(qp, psn, now_ns);
	}
	packets = qp->acked_total - packets;
	bytes = qp->acked_bytes - bytes;
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_ACKED_PACKETS, packets);
	nic_count(MRC_NC_ACKED_BYTES, bytes);
	return 0;
}

/*
 * What a handler that returned NIC_POST_PROCESS leaves to be done, each step in a lock section of
 * its own; then whether a packet is planned.
 */
static __always_inline int settle(const struct tx_plan *plan)
{
	__u32 qp_index = plan->qp_index, result = ADVANCE_MORE, is_due = plan->is_loss_due;
	struct heard_sack *heard = lookup0(&heard_sacks);
	__u64 now_ns = plan->now_ns;
	__u32 is_passed;

	if (!heard)
		return 0;
	if (plan->is_settled) {
		plan_report(qp_index, &plan->news);
		return plan->is_planned;
	}
	is_passed = plan->cause == PLAN_CAUSE_SACK && heard->is_passed;
	if (plan->cause == PLAN_CAUSE_SACK && heard->news)
		account_bitmap(qp_index, now_ns);
	for (int i = 0; result & ADVANCE_MORE && i < COMPLETIONS_PER_SACK; i++) {
		result = advance(qp_index, now_ns);
		is_due = result & ADVANCE_LOSS_DUE;
	}
	if (plan->cause == PLAN_CAUSE_ACK)
		congestion_acknowledged(qp_index, plan->model_ns, plan->ack_rtt_ns);
	if (plan->cause != PLAN_CAUSE_NACK && heard->is_tail_answer)
		tail_answered(qp_index, now_ns);
	is_due |= is_passed; /* a loss changes which path has its turn */
	for (__u32 i = 0; is_passed && i < LOSSES_PER_SACK; i++)
		is_passed = declare_passed(qp_index, i, now_ns);
	for (int i = 0; is_due && i < LOSSES_PER_SACK; i++)
		is_due = declare_loss(qp_index, MRC_REASON_LOSS, now_ns);
	return plan_next(qp_index);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The retransmission timer of a QP. It also detects congestion window that nothing uses. A timer
 * cannot send, so it decides and requests a TX kick.
 */
#ifndef MRC_RTO_TIMER_H
#define MRC_RTO_TIMER_H

#include <mrc/verifier.h>
#include "cc.h"
#include "nic_maps.h"
#include "path.h"
#include "qp.h"
#include "recovery.h"
#include "req_state.h"
#include "rtt.h"

enum {
	RTO_TIMER_EXPIRIES_PER_RTO = 4,
	RTO_TIMER_MIN_SHARE = 16, /* of an interval: no two are closer */
	RTO_BACKOFF_SHIFT_MAX = 25,
	RTO_MAX_S = 3600, /* no time-out grows beyond this */
	/*
	 * Packets one time-out declares lost. A few restart the acknowledgements, which then show
	 * what else is lost; all of them would condemn every EV in use whenever the machine pauses.
	 */
	LOSSES_PER_RTO = 8,
};

#define RTO_MAX_NS (RTO_MAX_S * 1000000000ULL)

/*
 * The time-out in force: the base one for the first linear_count in a row, then twice as long each
 * time, exponential_count times.
 */
static __always_inline __u64 rto_backoff_ns(const struct mrc_qp *qp)
{
	__u64 shift = rtt_larger(qp->head.retries, qp->comp.linear_count) - qp->comp.linear_count;

	shift = rtt_smaller(rtt_smaller(shift, qp->comp.exponential_count), RTO_BACKOFF_SHIFT_MAX);
	return rtt_smaller(rtt_rto_ns(qp) << shift, RTO_MAX_NS);
}

/*
 * Under the lock: when the RTO begins: with the last acknowledgement, and later by what the oldest
 * packet waited in the queue of the NIC's own port. A retransmission does not begin it again.
 */
static __always_inline __u64 rto_start_ns(const struct mrc_qp *qp)
{
	const struct mrc_tx_slot *slot = TX_SLOT(qp, PATH(qp, qp->paths.oldest)->head);

	return qp->head.progress_ns + (qp->paths.busy ? slot->port_wait_ns : 0);
}

static __always_inline __u64 rto_timer_interval_ns(const struct mrc_qp *qp)
{
	__u64 interval_ns = qp->head.rto_ns / RTO_TIMER_EXPIRIES_PER_RTO;

	return qp->comp.pto_min_ns ? rtt_smaller(qp->comp.pto_min_ns, interval_ns) : interval_ns;
}

/*
 * Under the lock, with packets in flight: when the next tail loss probe is due: a PTO after the
 * last packet left, and when acknowledgements that were still coming then have ceased.
 */
static __always_inline __u64 tlp_deadline_ns(const struct mrc_qp *qp)
{
	const struct mrc_tx_slot *slot = TX_SLOT(qp, PATH(qp, qp->paths.oldest)->head);

	return rtt_larger(qp->req.last_sent_ns + tlp_calc_pto_ns(qp, slot),
			  qp->head.progress_ns + qp->comp.srtt_ns / PTO_RTT_SHARE);
}

/* Under the lock: whether tail loss probes are sent; after a time-out the RTO backs off instead. */
static __always_inline int sends_tlp(const struct mrc_qp *qp)
{
	return qp->comp.pto_min_ns && !qp->comp.is_tlp_due && !qp->head.retries;
}

/* Under the lock, with packets in flight: whether a tail loss probe is due. */
static __always_inline int is_tlp_due(const struct mrc_qp *qp, __u64 now_ns)
{
	return sends_tlp(qp) && !qp->req.lost_count && (__s64)(now_ns - tlp_deadline_ns(qp)) > 0;
}

/*
 * Under the lock, with window and something to send: packets worth a TX kick. While
 * acknowledgements come they carry what there is to send, and a little credit is always on its way:
 * then a look now and then will do, in an unshaped lab for what nothing has spent since the last.
 */
static __always_inline __u32 tx_budget_of_timer(struct mrc_qp *qp, __u64 now_ns)
{
	int is_idle_path =
	    (__s64)(now_ns - qp->head.progress_ns) >= (__s64)rto_timer_interval_ns(qp);
	__u32 frames;

	if (!is_idle_path && (__s64)(now_ns - qp->req.timer_kick_ns) <
				 (__s64)(qp->head.rto_ns / RTO_TIMER_EXPIRIES_PER_RTO))
		return qp->req.rto_retx_left;
	frames = is_idle_path || fabric_config.is_shaped
		     ? packets_allowed(qp)
		     : packets_for_credit(qp, qp->req.idle_min_bytes);
	qp->req.timer_kick_ns = now_ns;
	qp->req.idle_min_bytes = cc_credit_bytes(&qp->cc);
	return frames < qp->req.rto_retx_left ? qp->req.rto_retx_left : frames;
}

/*
 * Under the lock: when the timer is to expire next: as the first packet is lost by RACK, a tail
 * loss probe or the RTO is due, and after an interval at the latest, for window that nothing uses.
 */
static __always_inline __u64 rto_timer_delay_ns(struct mrc_qp *qp, __u64 now_ns)
{
	__u64 delay_ns = rto_timer_interval_ns(qp), least_ns = delay_ns / RTO_TIMER_MIN_SHARE;
	__u32 index = qp->paths.oldest;
	__s64 left_ns, probe_ns;

	if (!qp->req.inflight)
		return delay_ns;
	left_ns = rto_start_ns(qp) + rto_backoff_ns(qp) - now_ns;
	probe_ns = tlp_deadline_ns(qp) - now_ns;
	if (sends_tlp(qp))
		left_ns = rtt_smaller(probe_ns, left_ns);
	delay_ns = rtt_larger(rtt_smaller(left_ns, delay_ns), least_ns);
	for (__u32 i = 0; qp->comp.reo_wnd_min_ns && i < LOSS_PATHS && i < qp->paths.busy; i++) {
		const struct mrc_path *path = PATH(qp, index);
		const struct mrc_tx_slot *slot = TX_SLOT(qp, path->head);

		barrier_var(index); /* else 6.1 refuses the loop: see LOOP_ENDS() */
		left_ns = rack_deadline_ns(qp, slot) - now_ns;
		if (rack_sent_after(qp, slot))
			delay_ns = rtt_larger(rtt_smaller(left_ns, delay_ns), least_ns);
		index = path->newer;
		LOOP_ENDS(i);
	}
	return delay_ns;
}

/* Has what waited for receives sent again, once its time has come; returns how many packets. */
__noinline int release_held(__u32 qp_index, __u64 now_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u32 count = 0;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	if (qp->req.held_count && (__s64)(now_ns - qp->head.rnr_until_ns) >= 0) {
		count = qp->req.held_count;
		for (__u32 i = 0; i < MRC_PSN_WORDS; i++) {
			qp->req.lost_bits[i] |= qp->req.held_bits[i];
			qp->req.held_bits[i] = 0;
		}
		qp->req.lost_count += count;
		qp->req.held_count = 0;
	}
	bpf_spin_unlock(&qp->lock);
	return count;
}

static int rto_timer_expired(void *map, __u32 *key, struct mrc_qp *given)
{
	struct mrc_qp *qp = TIMER_ELEMENT(&qps, key);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, key);
	__u32 qp_index = *key, wanted = 0, is_failed = 0, is_expired = 0, is_idle = 0, is_orphan,
	      is_tlp = 0, losses = 0, released;
	__u64 now_ns = bpf_ktime_get_ns(), delay_ns;

	(void)map;
	(void)given;
	if (!qp || !ring)
		return 0;
	is_orphan = is_agent_dead(now_ns);
	released = qp->req.held_count ? release_held(qp_index, now_ns) : 0;
	bpf_spin_lock(&qp->lock);
	qp_skip_pause(&qp->head, now_ns);
	if (qp->state != MRC_QP_RTS) {
		is_idle = 1;
	} else if (is_orphan) {
		is_failed = 1;
		qp->state = MRC_QP_ERROR;
	} else if (qp->req.inflight || (is_ack_missing(qp) && !has_packet_to_send(qp, ring))) {
		is_expired = (__s64)(now_ns - rto_start_ns(qp)) > (__s64)rto_backoff_ns(qp);
		if (is_expired) {
			TRACE_QP(MRC_TRACE_TIMER, qp, .psn = qp->comp.una_psn, .time_ns = now_ns,
				 .start_ns = rto_start_ns(qp));
			qp_time_out(&qp->head, now_ns);
			qp->req.is_ack_requested = 0;
		}
		is_failed = qp_is_given_up(&qp->head, now_ns);
		if (is_failed)
			qp->state = MRC_QP_ERROR;
	} else {
		is_idle =
		    !qp->req.lost_count && !qp->req.held_count && !has_packet_to_send(qp, ring);
	}
	if (is_idle || is_failed)
		qp->head.is_timer_armed = 0;
	bpf_spin_unlock(&qp->lock);

	if (is_failed) {
		qp_fail(qp_index, MRC_QP_RTS,
			is_orphan ? MRC_STATUS_FLUSHED : MRC_STATUS_RETRY_EXCEEDED);
		return 0;
	}
	if (is_idle)
		return 0;
	for (; losses < LOSSES_PER_RTO; losses++) {
		if (!rack_detect_loss(qp_index, is_expired ? MRC_REASON_TIMEOUT : MRC_REASON_LOSS,
				      now_ns))
			break;
	}
	bpf_spin_lock(&qp->lock);
	is_tlp = !is_expired && qp->req.inflight && is_tlp_due(qp, now_ns);
	if (is_tlp)
		qp->comp.is_tlp_due = 1;
	delay_ns = rto_timer_delay_ns(qp, now_ns);
	if (qp->req.held_count && (__s64)(qp->head.rnr_until_ns - now_ns) < (__s64)delay_ns)
		delay_ns = rtt_larger(qp->head.rnr_until_ns - now_ns, QP_RNR_MIN_NS);
	qp->head.timer_due_ns = now_ns + delay_ns;
	if (window_is_open(qp) && (qp->req.lost_count || has_packet_to_send(qp, ring))) {
		wanted = tx_budget_of_timer(qp, now_ns);
		wanted = wanted < losses ? losses : wanted;
		wanted = wanted < released ? released : wanted;
		qp->head.is_kick_pending |= !!wanted;
	} else if (is_ack_missing(qp) && !qp->req.is_ack_requested) {
		wanted = 1;
	}
	bpf_spin_unlock(&qp->lock);
	if (is_tlp && !wanted)
		wanted = 1;
	if (wanted)
		nic_event(MRC_EVENT_KICK, qp_index, wanted, 0, 0);
	bpf_timer_start(&qp->timer, delay_ns, 0);
	return 0;
}

/* Starts the timer of a QP whose is_timer_armed the caller has just set. */
static __noinline int rto_timer_start(__u32 qp_index)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	__u64 now_ns = bpf_ktime_get_ns();

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	qp_skip_pause(&qp->head, now_ns);
	qp->head.timer_due_ns = now_ns + rto_timer_interval_ns(qp);
	bpf_spin_unlock(&qp->lock);
	qp_timer_start(&qp->timer, &qps, rto_timer_expired, rto_timer_interval_ns(qp));
	return 0;
}

/* Starts a timer that should fire and does not: see qp_timer_has_stopped(). */
static __noinline int rto_timer_check(__u32 qp_index)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	return qp && qp_timer_has_stopped(&qp->head) ? rto_timer_start(qp_index) : 0;
}

#endif

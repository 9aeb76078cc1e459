/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The retransmission timer of a reliable connection. It also ends an RNR wait, and requests TX
 * kicks when rate and window leave room that no ACK will use.
 */
#ifndef MRC_RC_RTO_TIMER_H
#define MRC_RC_RTO_TIMER_H

#include <mrc/dcqcn.h>
#include <mrc/verifier.h>
#include "../qp.h"
#include "../work.h"
#include "maps.h"

enum {
	RC_TIMER_EXPIRIES_PER_RTO = 4,
};

/* Packets that rate and window let leave now; 0: none. */
static __always_inline __u32 rc_packets_allowed(const struct mrc_rc_qp *qp)
{
	__u32 inflight = qp->req.next_psn - qp->req.acked_psn;
	__u64 window = dcqcn_window_bytes(&qp->dcqcn, &qp->cc) / qp->cc.mtu_bytes;

	if (window > qp->req.window_packets)
		window = qp->req.window_packets;
	return !qp->req.is_rnr_wait && inflight < window ? window - inflight : 0;
}

/* Goes back to the oldest packet that has not been acknowledged. */
static __always_inline void rc_go_back_n(struct mrc_rc_qp *qp, __u32 loss)
{
	qp->req.next_psn = qp->req.acked_psn;
	qp->req.loss = loss;
}

/* Under the lock: the peer has no receive; returns whether that has been so too often. */
static __always_inline int rc_wait_for_receive(struct mrc_rc_qp *qp, __u64 now_ns)
{
	qp->head.progress_ns = now_ns; /* it is there */
	qp->head.retries = 0;
	if (qp->req.is_rnr_wait)
		return 0;
	qp->req.is_rnr_wait = 1;
	qp->head.rnr_until_ns = now_ns + qp->head.rnr_timer_ns;
	qp->head.rnr_retries++;
	return qp->head.rnr_limit < MRC_RNR_FOREVER && qp->head.rnr_retries > qp->head.rnr_limit;
}

/* When the timer is to expire next: after a part of the RTO, or when an RNR wait ends. */
static __always_inline __u64 rc_timer_delay_ns(const struct mrc_rc_qp *qp, __u64 now_ns)
{
	__u64 delay_ns = qp->head.rto_ns / RC_TIMER_EXPIRIES_PER_RTO;
	__s64 left_ns = qp->head.rnr_until_ns - now_ns;

	if (!qp->req.is_rnr_wait || left_ns >= (__s64)delay_ns)
		return delay_ns;
	return left_ns < QP_RNR_MIN_NS ? QP_RNR_MIN_NS : left_ns;
}

static int rc_rto_timer_expired(void *map, __u32 *key, struct mrc_rc_qp *given)
{
	struct mrc_rc_qp *qp = TIMER_ELEMENT(&rc_qps, key);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, key);
	__u32 qp_index = *key, wanted = 0, is_failed = 0, is_idle = 0, is_orphan;
	__u64 now_ns = bpf_ktime_get_ns(), delay_ns;

	(void)map;
	(void)given;
	if (!qp || !ring)
		return 0;
	is_orphan = is_agent_dead(now_ns);
	bpf_spin_lock(&qp->lock);
	qp_skip_pause(&qp->head, now_ns);
	if (qp->req.is_rnr_wait && (__s64)(now_ns - qp->head.rnr_until_ns) >= 0) {
		qp->req.is_rnr_wait = 0;
		qp->head.progress_ns = now_ns;
	}
	if (qp->state != MRC_QP_RTS) {
		is_idle = 1;
	} else if (is_orphan) {
		is_failed = 1;
	} else if (qp->req.acked_psn != qp->req.max_psn) {
		if (!qp->req.is_rnr_wait &&
		    (__s64)(now_ns - qp->head.progress_ns) > (__s64)qp->head.rto_ns) {
			qp_time_out(&qp->head, now_ns);
			rc_go_back_n(qp, MRC_LOSS_TIMEOUT);
		}
		is_failed = qp_is_given_up(&qp->head, now_ns);
	} else {
		is_idle = !work_ready(&qp->req.work, ring);
	}
	if (is_failed)
		qp->state = MRC_QP_ERROR;
	if (is_idle || is_failed)
		qp->head.is_timer_armed = 0;
	if (!is_idle && !is_failed &&
	    (qp->req.next_psn != qp->req.max_psn || work_ready(&qp->req.work, ring)))
		wanted = rc_packets_allowed(qp);
	if (wanted)
		qp->head.is_kick_pending = 1;
	delay_ns = rc_timer_delay_ns(qp, now_ns);
	qp->head.timer_due_ns = now_ns + delay_ns;
	bpf_spin_unlock(&qp->lock);
	if (is_failed)
		qp_fail(qp_index, MRC_QP_RTS,
			is_orphan ? MRC_STATUS_FLUSHED : MRC_STATUS_RETRY_EXCEEDED);
	if (is_failed || is_idle)
		return 0;
	if (wanted)
		nic_event(MRC_EVENT_KICK, qp_index, wanted, 0, 0);
	bpf_timer_start(&qp->timer, delay_ns, 0);
	return 0;
}

/* Starts the timer of a QP whose is_timer_armed is set; what it was to wait for is forgotten. */
static __noinline int rc_rto_timer_start(__u32 qp_index)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);
	__u64 now_ns = bpf_ktime_get_ns(), delay_ns;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	qp_skip_pause(&qp->head, now_ns);
	delay_ns = rc_timer_delay_ns(qp, now_ns);
	qp->head.timer_due_ns = now_ns + delay_ns;
	bpf_spin_unlock(&qp->lock);
	qp_timer_start(&qp->timer, &rc_qps, rc_rto_timer_expired, delay_ns);
	return 0;
}

/* Starts a timer that should fire and does not: see qp_timer_has_stopped(). */
static __noinline int rc_rto_timer_check(__u32 qp_index)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);

	return qp && qp_timer_has_stopped(&qp->head) ? rc_rto_timer_start(qp_index) : 0;
}

#endif

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
	__u32 inflight = qp->next_psn - qp->acked_psn;
	__u64 window = dcqcn_window_bytes(&qp->dcqcn, &qp->cc) / qp->cc.mtu_bytes;

	if (window > qp->window_packets)
		window = qp->window_packets;
	return !qp->is_rnr_wait && inflight < window ? window - inflight : 0;
}

/* Goes back to the oldest packet that has not been acknowledged. */
static __always_inline void rc_go_back_n(struct mrc_rc_qp *qp, __u32 loss)
{
	qp->next_psn = qp->acked_psn;
	qp->loss = loss;
}

static int rc_rto_timer_expired(void *map, __u32 *key, struct mrc_rc_qp *given)
{
	struct mrc_rc_qp *qp = TIMER_ELEMENT(&rc_qps, key);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, key);
	__u32 qp_index = *key, wanted = 0, is_failed = 0, is_idle = 0;
	__u64 now_ns = bpf_ktime_get_ns(), rto_ns;

	(void)map;
	(void)given;
	if (!qp || !ring)
		return 0;
	rto_ns = qp->rto_ns;
	bpf_spin_lock(&qp->lock);
	qp->timer_expired_ns = now_ns;
	qp->is_rnr_wait = 0;
	if (qp->state != MRC_QP_RTS) {
		is_idle = 1;
	} else if (qp->acked_psn != qp->max_psn) {
		if ((__s64)(now_ns - qp->progress_ns) > (__s64)rto_ns) {
			qp->progress_ns = now_ns;
			qp->retries++;
			is_failed = qp->retries > qp->retry_limit;
			if (is_failed)
				qp->state = MRC_QP_ERROR;
			else
				rc_go_back_n(qp, MRC_LOSS_TIMEOUT);
		}
	} else {
		is_idle = !work_ready(&qp->work, ring);
	}
	if (is_idle || is_failed)
		qp->is_timer_armed = 0;
	if (!is_idle && !is_failed && (qp->next_psn != qp->max_psn || work_ready(&qp->work, ring)))
		wanted = rc_packets_allowed(qp);
	if (wanted)
		qp->is_kick_pending = 1;
	bpf_spin_unlock(&qp->lock);
	if (is_failed)
		qp_fail(qp_index, MRC_QP_RTS, MRC_STATUS_RETRY_EXCEEDED);
	if (is_failed || is_idle)
		return 0;
	if (wanted)
		nic_event(MRC_EVENT_KICK, qp_index, wanted, 0, 0);
	bpf_timer_start(&qp->timer, rto_ns / RC_TIMER_EXPIRIES_PER_RTO, 0);
	return 0;
}

/* Starts the timer of a QP whose is_timer_armed the caller has just set. */
static __noinline int rc_rto_timer_start(__u32 qp_index)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);

	if (!qp)
		return 0;
	qp->timer_expired_ns = bpf_ktime_get_ns();
	qp_timer_start(&qp->timer, &rc_qps, rc_rto_timer_expired,
		       qp->rto_ns / RC_TIMER_EXPIRIES_PER_RTO);
	return 0;
}

/* Starts a timer that should fire and does not: see qp_timer_has_stopped(). */
static __noinline int rc_rto_timer_check(__u32 qp_index)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);

	if (!qp || !qp->is_timer_armed || !qp_timer_has_stopped(qp->timer_expired_ns, qp->rto_ns))
		return 0;
	nic_count(MRC_NC_CLOCK_RESTARTS, 1);
	return rc_rto_timer_start(qp_index);
}

#endif

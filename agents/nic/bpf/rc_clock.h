/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The clock of a reliable connection: time-outs, the end of a hold, and credit nobody spends. */
#ifndef MRC_RC_CLOCK_H
#define MRC_RC_CLOCK_H

#include <mrc/dcqcn.h>
#include <mrc/verifier.h>
#include "rc_maps.h"
#include "work.h"

#define RC_CLOCK_MONOTONIC 1 /* <time.h> does not compile for BPF */

enum {
	RC_TICKS_PER_RTO = 4,
	RC_CLOCK_SILENCE_S = 1,
};

/* Tells the agent that the QP is in ERROR; its work fails with `status`. */
static __always_inline void rc_fail(__u32 qp_index, __u32 from, __u32 status)
{
	nic_count(MRC_NC_QP_ERRORS, 1);
	nic_event(MRC_EVENT_QP_STATE, qp_index, from, MRC_QP_ERROR, (__u64)status << 32);
}

/* Packets that rate and window let leave now; 0: none. */
static __always_inline __u32 rc_room(const struct mrc_rc_qp *qp)
{
	__u32 inflight = qp->next_psn - qp->acked_psn;
	__u64 window = dcqcn_window_bytes(&qp->dcqcn, &qp->cc) / qp->cc.mtu_bytes;

	if (window > qp->window_packets)
		window = qp->window_packets;
	return !qp->is_held && inflight < window ? window - inflight : 0;
}

/* Goes back to the oldest packet that has not been acknowledged. */
static __always_inline void rc_go_back(struct mrc_rc_qp *qp, __u32 loss)
{
	qp->next_psn = qp->acked_psn;
	qp->loss = loss;
}

static int rc_on_clock(void *map, __u32 *key, struct mrc_rc_qp *given)
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
	qp->clock_ns = now_ns;
	qp->is_held = 0;
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
				rc_go_back(qp, MRC_LOSS_TIMEOUT);
		}
	} else {
		is_idle = !work_ready(&qp->work, ring);
	}
	if (is_idle || is_failed)
		qp->timer_armed = 0;
	if (!is_idle && !is_failed && (qp->next_psn != qp->max_psn || work_ready(&qp->work, ring)))
		wanted = rc_room(qp);
	if (wanted)
		qp->kick_asked = 1;
	bpf_spin_unlock(&qp->lock);
	if (is_failed)
		rc_fail(qp_index, MRC_QP_RTS, MRC_STATUS_RETRY_EXCEEDED);
	if (is_failed || is_idle)
		return 0;
	if (wanted)
		nic_event(MRC_EVENT_KICK, qp_index, wanted, 0, 0);
	bpf_timer_start(&qp->timer, rto_ns / RC_TICKS_PER_RTO, 0);
	return 0;
}

/* Starts the clock of a QP whose timer_armed the caller has just set. */
static __noinline int rc_clock_start(__u32 qp_index)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);

	if (!qp)
		return 0;
	qp->clock_ns = bpf_ktime_get_ns();
	/* Fails harmlessly when this element's timer exists already. */
	bpf_timer_init(&qp->timer, &rc_qps, RC_CLOCK_MONOTONIC);
	bpf_timer_set_callback(&qp->timer, rc_on_clock);
	bpf_timer_start(&qp->timer, qp->rto_ns / RC_TICKS_PER_RTO, 0);
	return 0;
}

/* Starts a clock that should tick and does not; see clock_check(). */
static __noinline int rc_clock_check(__u32 qp_index)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);
	__s64 silence_ns = bpf_ktime_get_ns();

	if (!qp || !qp->timer_armed)
		return 0;
	silence_ns -= qp->clock_ns;
	if (silence_ns < (__s64)(RC_CLOCK_SILENCE_S * 1000000000ULL + 2 * qp->rto_ns))
		return 0;
	nic_count(MRC_NC_CLOCK_RESTARTS, 1);
	return rc_clock_start(qp_index);
}

#endif

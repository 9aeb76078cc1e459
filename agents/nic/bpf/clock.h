/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A QP's own clock, for when no SACK comes: time-outs, and credit that nobody spends. A timer
 * cannot send, so it decides and asks the agent for frames.
 */
#ifndef MRC_CLOCK_H
#define MRC_CLOCK_H

#include <mrc/verifier.h>
#include "congestion.h"
#include "heartbeat.h"
#include "loss.h"
#include "nic_maps.h"
#include "path.h"
#include "qp.h"
#include "req_state.h"
#include "rtt.h"

enum {
	CLOCK_TICKS_PER_RTO = 4,
	CLOCK_TICK_SHARE = 16, /* of a tick: no two are closer */
	CLOCK_SHIFT_MAX = 25,
	CLOCK_RTO_MAX_S = 3600, /* no time-out grows beyond this */
	/*
	 * Packets one time-out declares lost. A few restart the acknowledgements, which then tell
	 * what else is lost; all of them would condemn every EV in use whenever the machine pauses.
	 */
	CLOCK_LOSSES_PER_RTO = 8,
};

#define CLOCK_RTO_MAX_NS (CLOCK_RTO_MAX_S * 1000000000ULL)

/*
 * The time-out in force: the base one for the first linear_count in a row, then twice as long each
 * time, exponential_count times.
 */
static __always_inline __u64 clock_rto_ns(const struct mrc_qp *qp)
{
	__u32 shift = qp->retries < qp->linear_count ? 0 : qp->retries - qp->linear_count;
	__u64 rto_ns;

	if (shift > qp->exponential_count)
		shift = qp->exponential_count;
	if (shift > CLOCK_SHIFT_MAX)
		shift = CLOCK_SHIFT_MAX;
	rto_ns = rtt_rto_ns(qp) << shift;
	return rto_ns < CLOCK_RTO_MAX_NS ? rto_ns : CLOCK_RTO_MAX_NS;
}

static __always_inline __u64 clock_tick_ns(const struct mrc_qp *qp)
{
	__u64 tick_ns = qp->rto_ns / CLOCK_TICKS_PER_RTO;

	return qp->pto_min_ns && qp->pto_min_ns < tick_ns ? qp->pto_min_ns : tick_ns;
}

/*
 * Under the lock, with packets under way: when the next tail probe is due: a PTO after the last
 * packet left, and when acknowledgements that were still coming then have ceased.
 */
static __always_inline __u64 clock_probe_ns(const struct mrc_qp *qp)
{
	const struct mrc_tx_slot *slot = TX_SLOT(qp, PATH(qp, qp->path_oldest)->head);

	return rtt_larger(qp->last_sent_ns + rtt_pto_ns(qp, slot),
			  qp->progress_ns + qp->srtt_ns / PTO_RTT_SHARE);
}

/* Under the lock, with packets under way: whether it is time for a tail probe. */
static __always_inline int is_tail_due(const struct mrc_qp *qp, __u64 now_ns)
{
	return qp->pto_min_ns && !qp->is_tail_due && !qp->lost_count &&
	       (__s64)(now_ns - clock_probe_ns(qp)) > 0;
}

/*
 * Under the lock, with credit and something to send: frames worth asking for. While
 * acknowledgements come they carry what there is to send, and a little credit is always on its way:
 * then a look now and then will do, in an unshaped lab for what nothing has spent since the last.
 */
static __always_inline __u32 frames_missed(struct mrc_qp *qp, __u64 now_ns)
{
	int is_silent = (__s64)(now_ns - qp->progress_ns) >= (__s64)clock_tick_ns(qp);
	__u32 frames;

	if (!is_silent &&
	    (__s64)(now_ns - qp->clock_kick_ns) < (__s64)(qp->rto_ns / CLOCK_TICKS_PER_RTO))
		return qp->overdue;
	frames = is_silent || fabric_config.is_shaped ? frames_allowed(qp)
						      : frames_for(qp, qp->idle_least_bytes);
	qp->clock_kick_ns = now_ns;
	qp->idle_least_bytes = nscc_credit_bytes(&qp->nscc);
	return frames < qp->overdue ? qp->overdue : frames;
}

/*
 * Under the lock: when the clock is to tick next: as the first packet is lost by RACK, a tail loss
 * probe or the RTO is due, and after a tick at the latest, for credit that nobody spends.
 */
static __always_inline __u64 clock_delay_ns(struct mrc_qp *qp, __u64 now_ns)
{
	__u64 delay_ns = clock_tick_ns(qp), least_ns = delay_ns / CLOCK_TICK_SHARE;
	__u32 index = qp->path_oldest;
	__s64 left_ns, probe_ns;

	if (!qp->inflight)
		return delay_ns;
	left_ns = qp->progress_ns + clock_rto_ns(qp) - now_ns;
	probe_ns = clock_probe_ns(qp) - now_ns;
	if (qp->pto_min_ns && !qp->is_tail_due && probe_ns < left_ns)
		left_ns = probe_ns;
	if (left_ns < (__s64)delay_ns)
		delay_ns = left_ns < (__s64)least_ns ? least_ns : left_ns;
	for (__u32 i = 0; qp->reo_wnd_min_ns && i < LOSS_PATHS && i < qp->busy_paths; i++) {
		const struct mrc_path *path = PATH(qp, index);
		const struct mrc_tx_slot *slot = TX_SLOT(qp, path->head);

		left_ns = rack_deadline_ns(qp, slot) - now_ns;
		if (rack_is_passed(qp, slot) && left_ns < (__s64)delay_ns)
			delay_ns = left_ns < (__s64)least_ns ? least_ns : left_ns;
		index = path->newer;
		LOOP_ENDS(i);
	}
	return delay_ns;
}

static int on_clock(void *map, __u32 *key, struct mrc_qp *given)
{
	struct mrc_qp *qp = TIMER_ELEMENT(&qps, key);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, key);
	__u32 qp_index = *key, wanted = 0, is_failed = 0, is_expired = 0, is_idle = 0, is_orphan,
	      is_tail = 0, losses = 0;
	struct mrc_nic_control *control = lookup0(&nic_control);
	__u64 now_ns = bpf_ktime_get_ns(), delay_ns;

	(void)map;
	(void)given;
	if (!qp || !ring || !control)
		return 0;
	is_orphan = is_agent_gone(control, now_ns);
	bpf_spin_lock(&qp->lock);
	qp->clock_ns = now_ns;
	if (qp->state != MRC_QP_RTS) {
		is_idle = 1;
	} else if (is_orphan) {
		is_failed = 1;
		qp->state = MRC_QP_ERROR;
	} else if (qp->inflight || (is_ack_missing(qp) && !packet_ready(qp, ring))) {
		is_expired = (__s64)(now_ns - qp->progress_ns) > (__s64)clock_rto_ns(qp);
		if (is_expired) {
			qp->progress_ns = now_ns;
			qp->retries++;
			qp->is_ack_asked = 0;
			is_failed = qp->retries > qp->retry_limit;
			if (is_failed)
				qp->state = MRC_QP_ERROR;
		}
	} else {
		is_idle = !qp->lost_count && !packet_ready(qp, ring);
	}
	if (is_idle || is_failed)
		qp->timer_armed = 0;
	bpf_spin_unlock(&qp->lock);

	if (is_failed) {
		qp_fail(qp_index, MRC_QP_RTS,
			is_orphan ? MRC_STATUS_FLUSHED : MRC_STATUS_RETRY_EXCEEDED);
		return 0;
	}
	if (is_idle)
		return 0;
	for (; losses < CLOCK_LOSSES_PER_RTO; losses++) {
		if (!declare_loss(qp_index, is_expired ? MRC_REASON_TIMEOUT : MRC_REASON_LOSS,
				  now_ns))
			break;
	}
	bpf_spin_lock(&qp->lock);
	is_tail = !is_expired && qp->inflight && is_tail_due(qp, now_ns);
	if (is_tail)
		qp->is_tail_due = 1;
	delay_ns = clock_delay_ns(qp, now_ns);
	if (window_is_open(qp) && (qp->lost_count || packet_ready(qp, ring))) {
		wanted = frames_missed(qp, now_ns);
		wanted = wanted < losses ? losses : wanted;
		qp->kick_asked |= !!wanted;
	} else if (is_ack_missing(qp) && !qp->is_ack_asked) {
		wanted = 1;
	}
	bpf_spin_unlock(&qp->lock);
	if (is_tail && !wanted)
		wanted = 1;
	if (wanted)
		nic_event(MRC_EVENT_KICK, qp_index, wanted, 0, 0);
	bpf_timer_start(&qp->timer, delay_ns, 0);
	return 0;
}

/* Starts the clock of a QP whose timer_armed the caller has just set. */
static __noinline int clock_start(__u32 qp_index)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	if (!qp)
		return 0;
	qp->clock_ns = bpf_ktime_get_ns();
	qp_timer_start(&qp->timer, &qps, on_clock, clock_tick_ns(qp));
	return 0;
}

/* Starts a timer that should fire and does not: see qp_timer_has_stopped(). */
static __noinline int clock_check(__u32 qp_index)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	if (!qp || !qp->timer_armed || !qp_timer_has_stopped(qp->clock_ns, qp->rto_ns))
		return 0;
	nic_count(MRC_NC_CLOCK_RESTARTS, 1);
	return clock_start(qp_index);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* States and timers of queue pairs, whatever the transport. */
#ifndef MRC_QP_H
#define MRC_QP_H

#include "nic_maps.h"

#define CLOCK_MONOTONIC 1 /* <time.h> does not compile for BPF */

#define NO_END_NS (1ULL << 62)

enum {
	QP_TIMER_SILENCE_S = 1, /* a timer that has not fired for so long has stopped */
	QP_PAUSE_SHARE = 4,	/* part of the RTO: a timer that is later was paused */
	QP_RNR_MIN_NS = 10000,	/* IBTA's shortest RNR timer */
};

static __always_inline struct mrc_qp *qp_find(__u32 qp_index)
{
	return bpf_map_lookup_elem(&qps, &qp_index);
}

/* Under the lock: takes the QP to ERROR; returns the state it was in, or MRC_QP_ERROR itself. */
static __always_inline __u32 qp_to_error(struct mrc_qp *qp)
{
	__u32 from = qp->state;

	if (from == MRC_QP_RTR || from == MRC_QP_RTS)
		qp->state = MRC_QP_ERROR;
	else
		from = MRC_QP_ERROR;
	return from;
}

/* Reports that a QP has gone to ERROR: the agent fails its work requests with `status`. */
static __always_inline void qp_fail(__u32 qp_index, __u32 from, __u32 status)
{
	nic_count(MRC_NC_QP_ERRORS, 1);
	nic_event(MRC_EVENT_QP_STATE, qp_index, from, MRC_QP_ERROR, (__u64)status << 32);
}

/* Takes a QP to ERROR, with its work flushed; returns whether it was alive. */
static __always_inline int qp_end(struct bpf_spin_lock *lock, __u32 *state, __u32 qp_index)
{
	__u32 from;

	bpf_spin_lock(lock);
	from = *state;
	if (from != MRC_QP_RESET)
		*state = MRC_QP_ERROR;
	bpf_spin_unlock(lock);
	if (from == MRC_QP_RESET || from == MRC_QP_ERROR)
		return 0;
	qp_fail(qp_index, from, MRC_STATUS_FLUSHED);
	return 1;
}

/* Sets the time-out of a QP, its retry limits, and whether its peer may write. */
static __always_inline int qp_set_limits(struct bpf_spin_lock *lock, struct mrc_qp_head *head,
					 const struct mrc_kick *request)
{
	__u64 give_up_us = request->argument[0];

	bpf_spin_lock(lock);
	head->give_up_ns = give_up_us == (__u32)-1 ? NO_END_NS : give_up_us * 1000;
	head->rnr_timer_ns = request->argument[1] * 1000ULL;
	head->rnr_limit = request->argument[2];
	head->is_writable = request->argument[3];
	bpf_spin_unlock(lock);
	return 1;
}

/* Under the lock: packets are sent again: for a time-out, or as the peer could not take one. */
static __always_inline void qp_count_retry(struct mrc_qp_head *head)
{
	if (!head->retries)
		head->stalled_ns = head->progress_ns;
	head->retries++;
}

/* Under the lock: nothing was acknowledged for a whole time-out. */
static __always_inline void qp_time_out(struct mrc_qp_head *head, __u64 now_ns)
{
	qp_count_retry(head);
	head->progress_ns = now_ns;
}

/*
 * Under the lock: whether retries in a row are too many: by their number, or by the time since
 * something was last acknowledged.
 */
static __always_inline int qp_is_given_up(const struct mrc_qp_head *head, __u64 now_ns)
{
	return head->give_up_ns ? head->retries && now_ns - head->stalled_ns >= head->give_up_ns
				: head->retries > head->retry_limit;
}

/* Starts the timer of an element of `map`, which is initialised where it never was. */
static __always_inline void qp_timer_start(struct bpf_timer *timer, void *map, void *callback,
					   __u64 delay_ns)
{
	bpf_timer_init(timer, map, CLOCK_MONOTONIC); /* fails harmlessly when that is done */
	bpf_timer_set_callback(timer, callback);
	bpf_timer_start(timer, delay_ns, 0);
}

/*
 * True if a timer should have fired. Under heavy load a kernel timer was seen to be gone although
 * its callback had started it again: its QP would wait for ever. The agent provides every QP with a
 * frame now and then, so that its timer is looked at.
 */
static __always_inline int qp_timer_has_stopped(const struct mrc_qp_head *head)
{
	__s64 late_ns = bpf_ktime_get_ns() - head->timer_due_ns;

	if (!head->is_timer_armed ||
	    late_ns < (__s64)(QP_TIMER_SILENCE_S * 1000000000ULL + 2 * head->rto_ns))
		return 0;
	nic_count(MRC_NC_CLOCK_RESTARTS, 1);
	return 1;
}

/*
 * Under the lock: leaves a pause of the whole machine (steal, a snapshot, live migration) out of the
 * time without an acknowledgement. The timer of the QP is late by the pause.
 */
static __always_inline void qp_skip_pause(struct mrc_qp_head *head, __u64 now_ns)
{
	__s64 late_ns = now_ns - head->timer_due_ns, ago_ns = now_ns - head->progress_ns;

	if (late_ns <= (__s64)(head->rto_ns / QP_PAUSE_SHARE))
		late_ns = 0;
	head->stalled_ns += late_ns;
	ago_ns -= late_ns;
	if (late_ns && ago_ns < 0) /* an acknowledgement came behind the pause */
		ago_ns = 0;
	barrier_var(ago_ns); /* else 6.1 checks all that follows for each of these cases */
	head->progress_ns = now_ns - ago_ns;
}

enum {
	HEARTBEAT_PSN_MASK = 255,  /* a responder has no clock: it looks once in so many PSNs */
	HEARTBEAT_LOOKS = 4,	   /* that find an agent silent before it is dead ... */
	HEARTBEAT_LOOK_SHARE = 16, /* ... that part of its limit apart */
};

/*
 * True if the agent is dead: it is silent beyond its limit, and was so at looks before. After a
 * pause of the whole machine the kernel may look before the agent has had its turn.
 */
__noinline int is_agent_dead(__u64 now_ns)
{
	struct mrc_nic_control *control = lookup0(&nic_control);
	__u64 limit_ns, heartbeat_ns, found_ns;
	int is_known;

	if (!control)
		return 0;
	limit_ns = control->heartbeat_limit_ns;
	heartbeat_ns = control->heartbeat_ns;
	found_ns = control->silence_ns;
	is_known = found_ns > heartbeat_ns;
	if (!limit_ns || !heartbeat_ns || (__s64)(now_ns - heartbeat_ns) <= (__s64)limit_ns)
		return 0;
	if (!is_known)
		control->silences = 0;
	/* Of CPUs that look at once, as timers that are due behind a pause do, one counts. */
	if ((!is_known || (__s64)(now_ns - found_ns) >= (__s64)(limit_ns / HEARTBEAT_LOOK_SHARE)) &&
	    __sync_val_compare_and_swap(&control->silence_ns, found_ns, now_ns) == found_ns)
		control->silences++;
	return control->silences >= HEARTBEAT_LOOKS;
}

/* Looks for the agent at some PSNs; returns whether it is gone, and the QP has been ended for that. */
static __always_inline int qp_end_orphan(struct bpf_spin_lock *lock, __u32 *state, __u32 qp_index,
					 __u32 psn)
{
	if (psn & HEARTBEAT_PSN_MASK || !is_agent_dead(bpf_ktime_get_ns()))
		return 0;
	qp_end(lock, state, qp_index);
	return 1;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* States and timers of queue pairs, whatever the transport. */
#ifndef MRC_QP_H
#define MRC_QP_H

#include "nic_maps.h"

#define CLOCK_MONOTONIC 1 /* <time.h> does not compile for BPF */

enum {
	QP_TIMER_SILENCE_S = 1, /* a timer that has not fired for so long has stopped */
	QP_PAUSE_SHARE = 4,	/* part of the RTO: a timer that is later slept, as all did */
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

#define NO_END_NS (1ULL << 62)

/* Time that a QP waits for an acknowledgement, as a program has set it. */
static __always_inline __u64 give_up_ns_of(__u32 give_up_us)
{
	return give_up_us == (__u32)-1 ? NO_END_NS : give_up_us * 1000ULL;
}

/* Reports that a QP has gone to ERROR: the agent fails its work requests with `status`. */
static __always_inline void qp_fail(__u32 qp_index, __u32 from, __u32 status)
{
	nic_count(MRC_NC_QP_ERRORS, 1);
	nic_event(MRC_EVENT_QP_STATE, qp_index, from, MRC_QP_ERROR, (__u64)status << 32);
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
static __always_inline int qp_timer_has_stopped(__u64 due_ns, __u64 rto_ns)
{
	__s64 late_ns = bpf_ktime_get_ns() - due_ns;

	return late_ns >= (__s64)(QP_TIMER_SILENCE_S * 1000000000ULL + 2 * rto_ns);
}

/*
 * Under the lock: does not count a pause of the whole machine (steal, a snapshot, live migration) as
 * time without an acknowledgement. The timer of the QP is late by it: its peer did not wait either.
 */
static __always_inline void qp_skip_pause(__u64 due_ns, __u64 rto_ns, __u64 now_ns,
					  __u64 *progress_ns, __u64 *stalled_ns)
{
	__s64 late_ns = now_ns - due_ns;

	if (late_ns <= (__s64)(rto_ns / QP_PAUSE_SHARE))
		return;
	*stalled_ns += late_ns;
	*progress_ns += late_ns;
	if ((__s64)(*progress_ns - now_ns) > 0) /* something was acknowledged behind the pause */
		*progress_ns = now_ns;
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
static __always_inline int is_agent_dead(struct mrc_nic_control *control, __u64 now_ns)
{
	__u64 limit_ns = control->heartbeat_limit_ns, heartbeat_ns = control->heartbeat_ns;
	__u64 found_ns = control->silence_ns;
	int is_known = found_ns > heartbeat_ns;

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

#endif

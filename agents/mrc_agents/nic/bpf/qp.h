/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* States and timers of queue pairs, whatever the transport. */
#ifndef MRC_QP_H
#define MRC_QP_H

#include "nic_maps.h"

#define CLOCK_MONOTONIC 1 /* <time.h> does not compile for BPF */

enum {
	QP_TIMER_SILENCE_S = 1, /* a timer that has not fired for so long has stopped */
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
 * True if a timer that fired last at `fired_ns` should have fired since. Under heavy load a kernel
 * timer was seen to be gone although its callback had started it again: its QP would wait for ever.
 * The agent provides every QP with a frame now and then, so that its timer is looked at.
 */
static __always_inline int qp_timer_has_stopped(__u64 fired_ns, __u64 rto_ns)
{
	__s64 silence_ns = bpf_ktime_get_ns() - fired_ns;

	return silence_ns >= (__s64)(QP_TIMER_SILENCE_S * 1000000000ULL + 2 * rto_ns);
}

enum {
	HEARTBEAT_PSN_MASK = 255, /* a responder has no clock: it looks once in so many PSNs */
};

static __always_inline int is_agent_dead(const struct mrc_nic_control *control, __u64 now_ns)
{
	return control->heartbeat_limit_ns && control->heartbeat_ns &&
	       (__s64)(now_ns - control->heartbeat_ns) > (__s64)control->heartbeat_limit_ns;
}

#endif

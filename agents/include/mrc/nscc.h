/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * NSCC, the congestion control of a QP, in fixed point (docs/reference/protocol.md, "Congestion
 * control").
 *
 *                  delay below target             delay at target or above
 *    no mark       proportional, fast increase    fair increase
 *    mark          nothing: that path is full     multiplicative decrease: most paths are
 *
 * All under the QP's lock: no loop, no call, no signed division. Every function that may change the
 * window returns the enum mrc_nscc_reason to count, 0 for no change. tests/reference/nscc.py is the
 * twin; a test compares the two state by state. What may be sent is in nscc_inflight.h.
 *
 * Quotients are rounded down, towards the smaller window. An increase is bytes per window, but
 * SACKs bring parts of a window, so it is first summed as increase x bytes received and divided by
 * the window when it is fulfilled. Worked, 100 Gb/s, 12 us, MTU 4096, trimming:
 *
 *    max_cwnd 225 000   target 9 000 ns   pi 12 288   eta 614   gamma 52 429 / 2^16 (0.8)
 *
 *    window 100 000, 4 096 bytes received, no mark, delay 3 000 ns, the adjust period elapsed
 *        gain    = 12 288 * (9 000 - 3 000) / 9 000                =      8 192 bytes per window
 *        sum    += 8 192 * 4 096                                   = 33 554 432
 *        window += 33 554 432 / 100 000 + 614                      =    100 949
 *
 *    window 100 000, marked, delay 15 000 ns, avg_delay 12 000 ns (3 072 000 / 2^8)
 *        cut     = 52 429 * (3 072 000 - 2 304 000) / 3 072 000    =     13 107 / 2^16 (0.2)
 *        window  = 100 000 * (65 536 - 13 107) / 2^16              =     80 000
 */
#ifndef MRC_NSCC_H
#define MRC_NSCC_H

#include <mrc/nscc_abi.h>
#include <mrc/nscc_inflight.h>

#define NSCC_ONE (1U << MRC_NSCC_RATIO_SHIFT)

/* What a SACK says to congestion control. */
struct nscc_sack {
	__u64 now_ns;
	__s64 rtt_ns;	      /* of the packet that caused it; 0 or less: no valid sample */
	__u32 received_units; /* CC_STATE.rcvd_bytes */
	__u8 penalty;	      /* CC_STATE.rcv_cwnd_pen, 0 .. 127 */
	__u8 is_penalty_over; /* CC_STATE.r_c */
	__u8 is_marked;	      /* SETH.m is SKIP_ONCE */
};

static __always_inline __u64 nscc_larger(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 nscc_smaller(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* Whether `period_ns` or more have passed; model time may step back, so as signed numbers. */
static __always_inline int nscc_has_passed(__u64 now_ns, __u64 since_ns, __u64 period_ns)
{
	return (__s64)(now_ns - since_ns) >= (__s64)period_ns;
}

/* Sets the window; returns `reason` if that changes it, else 0. */
static __always_inline __u32 nscc_set_cwnd(struct mrc_nscc *nscc, __u64 cwnd_bytes, __u32 reason)
{
	int is_change = nscc->cwnd_bytes != cwnd_bytes;

	nscc->cwnd_bytes = cwnd_bytes;
	return is_change ? reason : MRC_NSCC_NONE;
}

/* Notes why the window has changed, unless it has not; returns the same. */
static __always_inline __u32 nscc_conclude(struct mrc_nscc *nscc, __u32 reason)
{
	if (reason)
		nscc->reason = reason;
	return reason;
}

/* The state of a QP that has sent nothing; all else in *nscc is 0. */
static __always_inline void nscc_start(struct mrc_nscc *nscc,
				       const struct mrc_nscc_parameters *parameters)
{
	nscc->cwnd_bytes = parameters->max_cwnd_bytes;
	nscc->max_wnd_bytes = parameters->max_cwnd_bytes;
	nscc->base_rtt_ns = parameters->base_rtt_ns;
}

/*
 * Nothing is under way, nor waits to be sent again: a window of quick adapt that began before the
 * pause would measure the pause.
 */
static __always_inline void nscc_on_idle(struct mrc_nscc *nscc)
{
	nscc->achieved_bytes = 0;
	nscc->qa_end_ns = 0;
	nscc->is_qa_triggered = 0;
}

/*
 * avg_delay += gain * (delay - avg_delay). The shift of a negative product rounds down, so the
 * average can rest up to 1 / gain units of 2^-8 ns (0.3 ns) below a constant delay.
 */
static __always_inline void
nscc_average(struct mrc_nscc *nscc, const struct mrc_nscc_parameters *parameters, __u64 delay_ns)
{
	__s64 difference = (delay_ns << MRC_NSCC_DELAY_SHIFT) - nscc->avg_delay_q8;

	nscc->avg_delay_q8 +=
	    difference * (__s64)parameters->delay_gain_q16 >> MRC_NSCC_RATIO_SHIFT;
}

/*
 * The queueing delay, ns, that a sample tells, with base RTT, its window and the average brought up
 * to date; the average where there is no sample.
 */
static __always_inline __u64 nscc_sample(struct mrc_nscc *nscc,
					 const struct mrc_nscc_parameters *parameters, __s64 rtt_ns)
{
	__u64 rtt = nscc_smaller(rtt_ns, 0xffffffff), max_wnd;

	if (rtt_ns <= 0)
		return nscc->avg_delay_q8 >> MRC_NSCC_DELAY_SHIFT;
	if (rtt < nscc->base_rtt_ns) {
		max_wnd = (__u64)parameters->max_cwnd_bytes * rtt / parameters->base_rtt_ns;
		nscc->base_rtt_ns = rtt;
		nscc->max_wnd_bytes = nscc_larger(max_wnd, parameters->mtu_bytes);
	}
	nscc_average(nscc, parameters, rtt - nscc->base_rtt_ns);
	return rtt - nscc->base_rtt_ns;
}

/*
 * After a big loss: straight to what arrived in the last round trip. Returns whether this feedback
 * is dealt with: the window was set, or the feedback is from before it was.
 */
static __always_inline int nscc_quick_adapt(struct mrc_nscc *nscc,
					    const struct mrc_nscc_parameters *parameters,
					    __u64 now_ns, int is_loss, int is_marked,
					    __u64 delay_ns, __u32 *reason)
{
	int is_handled = 0;
	__u64 cwnd;

	if (parameters->disable_qa)
		return 0;
	if (is_marked && nscc->bytes_ignored < nscc->bytes_to_ignore) {
		is_handled = 1;
	} else if (nscc_has_passed(now_ns, nscc->qa_end_ns, 0)) {
		if (nscc->qa_end_ns &&
		    (is_loss || nscc->is_qa_triggered || delay_ns > parameters->qa_threshold_ns) &&
		    nscc->achieved_bytes < nscc->max_wnd_bytes >> parameters->qa_gate) {
			cwnd = nscc_larger(nscc->achieved_bytes, parameters->mtu_bytes);
			*reason =
			    nscc_larger(*reason, nscc_set_cwnd(nscc, cwnd, MRC_NSCC_QUICK_ADAPT));
			nscc->bytes_to_ignore = nscc->inflight_bytes > 0 ? nscc->inflight_bytes : 0;
			nscc->bytes_ignored = 0;
			nscc->is_qa_triggered = 0;
			is_handled = 1;
		}
		nscc->achieved_bytes = 0;
		nscc->qa_end_ns = now_ns + nscc->base_rtt_ns + parameters->target_delay_ns;
	}
	if (is_handled) {
		nscc->increase_square_bytes = 0;
		nscc->received_bytes = 0;
	}
	return is_handled;
}

/* A mark, and delay with it. */
static __always_inline __u32 nscc_decrease(struct mrc_nscc *nscc,
					   const struct mrc_nscc_parameters *parameters,
					   __u64 now_ns)
{
	__u64 target_q8 = (__u64)parameters->target_delay_ns << MRC_NSCC_DELAY_SHIFT;
	__u64 cut_q16, left_q16, cwnd;

	nscc->is_increasing = 0;
	nscc->fi_count_bytes = 0;
	if (nscc->avg_delay_q8 <= target_q8 ||
	    !nscc_has_passed(now_ns, nscc->last_decrease_ns, nscc->base_rtt_ns))
		return MRC_NSCC_NONE;
	nscc->last_decrease_ns = now_ns;
	cut_q16 = parameters->gamma_q16 * (nscc->avg_delay_q8 - target_q8) / nscc->avg_delay_q8;
	left_q16 = nscc_larger(NSCC_ONE - cut_q16, parameters->max_md_jump_q16);
	cwnd = nscc->cwnd_bytes * left_q16 >> MRC_NSCC_RATIO_SHIFT;
	return nscc_set_cwnd(nscc, nscc_larger(cwnd, parameters->mtu_bytes),
			     MRC_NSCC_MULTIPLICATIVE_DECREASE);
}

/* `received` bytes without a mark: at once if in fast increase, else summed up. */
static __always_inline __u32 nscc_increase(struct mrc_nscc *nscc,
					   const struct mrc_nscc_parameters *parameters,
					   __u64 received, __u64 delay_ns)
{
	__u64 target_ns = parameters->target_delay_ns, gain_bytes = parameters->fi_bytes, cwnd;

	if (delay_ns > parameters->no_delay_ns) {
		nscc->is_increasing = 0;
		nscc->fi_count_bytes = 0;
	} else {
		nscc->fi_count_bytes += received;
		if (nscc->fi_count_bytes > nscc->cwnd_bytes)
			nscc->is_increasing = 1;
	}
	if (nscc->is_increasing) {
		cwnd = nscc->cwnd_bytes +
		       (received * parameters->fi_scale_q16 >> MRC_NSCC_RATIO_SHIFT);
		return nscc_set_cwnd(nscc, nscc_smaller(cwnd, nscc->max_wnd_bytes),
				     MRC_NSCC_FAST_INCREASE);
	}
	nscc->increase_reason = MRC_NSCC_FAIR_INCREASE;
	if (delay_ns < target_ns) {
		gain_bytes = parameters->pi_bytes * (target_ns - delay_ns) / target_ns;
		nscc->increase_reason = MRC_NSCC_PROPORTIONAL_INCREASE;
	}
	nscc->increase_square_bytes += gain_bytes * received;
	return MRC_NSCC_NONE;
}

/* Gives the window what has been summed up, when it is time. */
static __always_inline __u32 nscc_fulfil(struct mrc_nscc *nscc,
					 const struct mrc_nscc_parameters *parameters, __u64 now_ns)
{
	int is_period_over =
	    nscc_has_passed(now_ns, nscc->last_adjust_ns, parameters->adjust_period_threshold_ns);
	__u64 gain_bytes, cwnd;
	__u32 reason;

	if (!is_period_over && nscc->received_bytes <= parameters->adjust_bytes_threshold)
		return MRC_NSCC_NONE;
	gain_bytes = nscc->increase_square_bytes / nscc->cwnd_bytes;
	reason = gain_bytes ? nscc->increase_reason : MRC_NSCC_PERIODIC_INCREASE;
	cwnd = nscc->cwnd_bytes + gain_bytes;
	nscc->increase_square_bytes = 0;
	nscc->received_bytes = 0;
	if (is_period_over) {
		nscc->last_adjust_ns = now_ns;
		cwnd += parameters->eta_bytes;
	}
	return nscc_set_cwnd(nscc, nscc_smaller(cwnd, nscc->max_wnd_bytes), reason);
}

/*
 * Bytes received that no SACK had told of before. A SACK that a newer one has overtaken brings
 * none, but its mark and its delay are news.
 */
static __always_inline __u64 nscc_newly_received(struct mrc_nscc *nscc, __u32 received_units)
{
	const __u32 mask = (1U << MRC_NSCC_UNIT_BITS) - 1;
	__u32 difference = (received_units - nscc->received_units) & mask;

	if (difference >> (MRC_NSCC_UNIT_BITS - 1))
		return 0;
	nscc->received_units = received_units & mask;
	return (__u64)difference << MRC_NSCC_UNIT_SHIFT;
}

/* The receiver asks for less, by penalty / 128 of what it received, or takes that back. */
static __always_inline __u32 nscc_penalise(struct mrc_nscc *nscc,
					   const struct mrc_nscc_parameters *parameters,
					   const struct nscc_sack *sack, __u64 received)
{
	__s64 cwnd = nscc->cwnd_bytes, mtu = parameters->mtu_bytes;
	__u32 saved = nscc->saved_cwnd_bytes;

	if (sack->is_penalty_over) {
		nscc->saved_cwnd_bytes = 0;
		return nscc_set_cwnd(nscc, nscc_smaller(saved ? saved : cwnd, nscc->max_wnd_bytes),
				     MRC_NSCC_RESTORE);
	}
	if (!sack->penalty)
		return MRC_NSCC_NONE;
	nscc->saved_cwnd_bytes = saved ? saved : cwnd;
	cwnd = nscc->inflight_bytes < cwnd ? nscc->inflight_bytes : cwnd;
	cwnd -= (__s64)(sack->penalty * received >> MRC_NSCC_PENALTY_SHIFT);
	return nscc_set_cwnd(nscc, cwnd < mtu ? mtu : cwnd, MRC_NSCC_PENALTY);
}

/* A SACK of this QP, whether it acknowledges anything new or not. */
static __always_inline __u32 nscc_on_sack(struct mrc_nscc *nscc,
					  const struct mrc_nscc_parameters *parameters,
					  const struct nscc_sack *sack)
{
	__u64 received = nscc_newly_received(nscc, sack->received_units), delay_ns, cwnd;
	int is_penalised = sack->penalty && !sack->is_penalty_over;
	__u32 reason, step = MRC_NSCC_NONE;

	nscc->inflight_bytes -= received;
	nscc->bytes_ignored += received;
	nscc->received_bytes += received;
	nscc->achieved_bytes += received;
	delay_ns = nscc_sample(nscc, parameters, sack->rtt_ns);
	if (parameters->is_fixed)
		return MRC_NSCC_NONE;
	cwnd = nscc_smaller(nscc->cwnd_bytes, nscc->max_wnd_bytes);
	reason = nscc_set_cwnd(nscc, cwnd, MRC_NSCC_BASE_RTT);
	reason = nscc_larger(reason, nscc_penalise(nscc, parameters, sack, received));
	if (nscc_quick_adapt(nscc, parameters, sack->now_ns, 0, sack->is_marked, delay_ns, &reason))
		return nscc_conclude(nscc, reason);
	if (sack->is_marked && delay_ns >= parameters->target_delay_ns)
		step = nscc_decrease(nscc, parameters, sack->now_ns);
	else if (!sack->is_marked && !is_penalised)
		step = nscc_increase(nscc, parameters, received, delay_ns);
	reason = nscc_larger(reason, step);
	if (!is_penalised)
		reason = nscc_larger(reason, nscc_fulfil(nscc, parameters, sack->now_ns));
	return nscc_conclude(nscc, reason);
}

/* The window without one packet. */
static __always_inline __u32 nscc_shrink(struct mrc_nscc *nscc,
					 const struct mrc_nscc_parameters *parameters,
					 __u32 nominal_bytes, __u32 reason)
{
	__s64 cwnd = (__s64)nscc->cwnd_bytes - nominal_bytes, mtu = parameters->mtu_bytes;

	return nscc_set_cwnd(nscc, cwnd < mtu ? mtu : cwnd, reason);
}

/*
 * A NACK for a packet that was under way. A trimmed one met a full queue: that is a mark, a loss
 * and a delay of a whole base RTT.
 */
static __always_inline __u32 nscc_on_nack(struct mrc_nscc *nscc,
					  const struct mrc_nscc_parameters *parameters,
					  __u64 now_ns, __u32 nominal_bytes, int is_trimmed)
{
	__u32 reason = MRC_NSCC_NONE;

	nscc->inflight_bytes -= nominal_bytes;
	if (!is_trimmed || parameters->is_fixed)
		return MRC_NSCC_NONE;
	nscc->bytes_ignored += nominal_bytes;
	nscc_average(nscc, parameters, nscc->base_rtt_ns);
	nscc->is_qa_triggered = 1;
	if (!nscc_quick_adapt(nscc, parameters, now_ns, 1, 1, 0, &reason))
		reason = nscc_shrink(nscc, parameters, nominal_bytes, MRC_NSCC_TRIM);
	return nscc_conclude(nscc, reason);
}

/* A packet that was under way is declared lost: by a gap, or by its time-out. */
static __always_inline __u32 nscc_on_inferred_loss(struct mrc_nscc *nscc,
						   const struct mrc_nscc_parameters *parameters,
						   __u32 nominal_bytes)
{
	nscc->inflight_bytes -= nominal_bytes;
	if (parameters->is_fixed)
		return MRC_NSCC_NONE;
	nscc->bytes_ignored += nominal_bytes;
	return nscc_conclude(nscc, nscc_shrink(nscc, parameters, nominal_bytes, MRC_NSCC_LOSS));
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * NSCC, in fixed point (docs/reference/protocol.md, "Congestion control").
 *
 *                  delay below target             delay at target or above
 *    no mark       proportional, fast increase    fair increase
 *    mark          nothing: that path is full     multiplicative decrease: most paths are
 *
 * tests/reference/nscc.py is the twin; a test compares the two state by state.
 *
 * Quotients are rounded down, towards the smaller window. An increase is bytes per window, but
 * SACKs bring parts of a window, so it is first summed as increase x bytes received and divided by
 * the window when it is fulfilled. Worked, 100 Gbit/s, 12 us, MTU 4096, trimming:
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

#include <mrc/cc_algorithm.h>

#define NSCC_ONE (1U << MRC_CC_RATIO_SHIFT)

/* The state of NSCC beside that of every algorithm. */
struct mrc_nscc {
	__u64 increase_square_bytes; /* text: inc_bytes. Increase per window x bytes received */
	__u64 fi_count_bytes;	     /* received without delay, in a row */
	__u64 received_bytes;	     /* since the last fulfil */
	__u64 achieved_bytes;	     /* in this window of quick adapt */
	__u64 bytes_to_ignore;	     /* under way at the last quick adapt */
	__u64 bytes_ignored;	     /* fed back since */
	__u64 qa_end_ns;	     /* end of the window of quick adapt; 0: none has begun */
	__u64 last_adjust_ns;
	__u64 last_decrease_ns;
	__u32 saved_cwnd_bytes; /* of before a receiver penalty; 0: none */
	__u8 is_increasing;	/* text: increase_mode */
	__u8 is_qa_triggered;	/* text: trigger_qa */
	__u8 increase_reason;	/* enum mrc_cc_reason: what increase_square_bytes came from last */
	__u8 pad0;
};

static __always_inline struct mrc_nscc *nscc_of(struct mrc_cc *cc)
{
	return cc_own(cc, struct mrc_nscc);
}

/* True if `period_ns` or more have passed; model time may step back, so as signed numbers. */
static __always_inline int nscc_has_passed(__u64 now_ns, __u64 since_ns, __u64 period_ns)
{
	return (__s64)(now_ns - since_ns) >= (__s64)period_ns;
}

/* A window of quick adapt that began before the pause would measure the pause. */
static __always_inline void nscc_on_idle(struct mrc_cc *cc)
{
	struct mrc_nscc *nscc = nscc_of(cc);

	nscc->achieved_bytes = 0;
	nscc->qa_end_ns = 0;
	nscc->is_qa_triggered = 0;
}

/*
 * After a big loss: straight to what arrived in the last round trip. Returns whether this feedback
 * is dealt with: the window was set, or the feedback is from before it was.
 */
static __always_inline int nscc_quick_adapt(struct mrc_cc *cc,
					    const struct mrc_cc_parameters *parameters,
					    __u64 now_ns, int is_loss, int is_marked,
					    __u64 delay_ns, __u32 *reason)
{
	struct mrc_nscc *nscc = nscc_of(cc);
	int is_handled = 0;
	__u64 cwnd;

	if (parameters->disable_qa)
		return 0;
	if (is_marked && nscc->bytes_ignored < nscc->bytes_to_ignore) {
		is_handled = 1;
	} else if (nscc_has_passed(now_ns, nscc->qa_end_ns, 0)) {
		if (nscc->qa_end_ns &&
		    (is_loss || nscc->is_qa_triggered || delay_ns > parameters->qa_threshold_ns) &&
		    nscc->achieved_bytes < cc->max_wnd_bytes >> parameters->qa_gate) {
			cwnd = cc_larger(nscc->achieved_bytes, parameters->mtu_bytes);
			*reason =
			    cc_larger(*reason, cc_replace_window(cc, cwnd, MRC_CC_QUICK_ADAPT));
			nscc->bytes_to_ignore = cc->inflight_bytes > 0 ? cc->inflight_bytes : 0;
			nscc->bytes_ignored = 0;
			nscc->is_qa_triggered = 0;
			is_handled = 1;
		}
		nscc->achieved_bytes = 0;
		nscc->qa_end_ns = now_ns + cc->base_rtt_ns + parameters->target_delay_ns;
	}
	if (is_handled) {
		nscc->increase_square_bytes = 0;
		nscc->received_bytes = 0;
	}
	return is_handled;
}

/* A mark, and delay with it. */
static __always_inline __u32 nscc_decrease(struct mrc_cc *cc,
					   const struct mrc_cc_parameters *parameters, __u64 now_ns)
{
	struct mrc_nscc *nscc = nscc_of(cc);
	__u64 target_q8 = (__u64)parameters->target_delay_ns << MRC_CC_DELAY_SHIFT;
	__u64 cut_q16, left_q16, cwnd;

	nscc->is_increasing = 0;
	nscc->fi_count_bytes = 0;
	if (cc->avg_delay_q8 <= target_q8 ||
	    !nscc_has_passed(now_ns, nscc->last_decrease_ns, cc->base_rtt_ns))
		return MRC_CC_NONE;
	nscc->last_decrease_ns = now_ns;
	cut_q16 = parameters->gamma_q16 * (cc->avg_delay_q8 - target_q8) / cc->avg_delay_q8;
	left_q16 = cc_larger(NSCC_ONE - cut_q16, parameters->max_md_jump_q16);
	cwnd = cc->cwnd_bytes * left_q16 >> MRC_CC_RATIO_SHIFT;
	return cc_replace_window(cc, cc_larger(cwnd, parameters->mtu_bytes),
				 MRC_CC_MULTIPLICATIVE_DECREASE);
}

/* `received` bytes without a mark: at once if in fast increase, else summed up. */
static __always_inline __u32 nscc_increase(struct mrc_cc *cc,
					   const struct mrc_cc_parameters *parameters,
					   __u64 received, __u64 delay_ns)
{
	struct mrc_nscc *nscc = nscc_of(cc);
	__u64 target_ns = parameters->target_delay_ns, gain_bytes = parameters->fi_bytes, cwnd;

	if (delay_ns > parameters->no_delay_ns) {
		nscc->is_increasing = 0;
		nscc->fi_count_bytes = 0;
	} else {
		nscc->fi_count_bytes += received;
		if (nscc->fi_count_bytes > cc->cwnd_bytes)
			nscc->is_increasing = 1;
	}
	if (nscc->is_increasing) {
		cwnd = cc->cwnd_bytes + (received * parameters->fi_scale_q16 >> MRC_CC_RATIO_SHIFT);
		return cc_replace_window(cc, cc_smaller(cwnd, cc->max_wnd_bytes),
					 MRC_CC_FAST_INCREASE);
	}
	nscc->increase_reason = MRC_CC_FAIR_INCREASE;
	if (delay_ns < target_ns) {
		gain_bytes = parameters->pi_bytes * (target_ns - delay_ns) / target_ns;
		nscc->increase_reason = MRC_CC_PROPORTIONAL_INCREASE;
	}
	nscc->increase_square_bytes += gain_bytes * received;
	return MRC_CC_NONE;
}

/* Applies the summed increases to the window, when it is time. */
static __always_inline __u32 nscc_fulfil(struct mrc_cc *cc,
					 const struct mrc_cc_parameters *parameters, __u64 now_ns)
{
	struct mrc_nscc *nscc = nscc_of(cc);
	int is_period_over =
	    nscc_has_passed(now_ns, nscc->last_adjust_ns, parameters->adjust_period_threshold_ns);
	__u64 gain_bytes, cwnd;
	__u32 reason;

	if (!is_period_over && nscc->received_bytes <= parameters->adjust_bytes_threshold)
		return MRC_CC_NONE;
	gain_bytes = nscc->increase_square_bytes / cc->cwnd_bytes;
	reason = gain_bytes ? nscc->increase_reason : MRC_CC_PERIODIC_INCREASE;
	cwnd = cc->cwnd_bytes + gain_bytes;
	nscc->increase_square_bytes = 0;
	nscc->received_bytes = 0;
	if (is_period_over) {
		nscc->last_adjust_ns = now_ns;
		cwnd += parameters->eta_bytes;
	}
	return cc_replace_window(cc, cc_smaller(cwnd, cc->max_wnd_bytes), reason);
}

/* The receiver requests less, by penalty / 128 of what it received, or ends the penalty. */
static __always_inline __u32 nscc_penalise(struct mrc_cc *cc,
					   const struct mrc_cc_parameters *parameters,
					   const struct cc_ack *ack, __u64 received)
{
	struct mrc_nscc *nscc = nscc_of(cc);
	__s64 cwnd = cc->cwnd_bytes, mtu = parameters->mtu_bytes;
	__u32 saved = nscc->saved_cwnd_bytes, penalty = ack->word & CC_NSCC_PENALTY;

	if (ack->word & CC_NSCC_PENALTY_ENDS) {
		nscc->saved_cwnd_bytes = 0;
		return cc_replace_window(cc, cc_smaller(saved ? saved : cwnd, cc->max_wnd_bytes),
					 MRC_CC_RESTORE);
	}
	if (!penalty)
		return MRC_CC_NONE;
	nscc->saved_cwnd_bytes = saved ? saved : cwnd;
	cwnd = cc->inflight_bytes < cwnd ? cc->inflight_bytes : cwnd;
	cwnd -= (__s64)(penalty * received >> MRC_CC_PENALTY_SHIFT);
	return cc_replace_window(cc, cwnd < mtu ? mtu : cwnd, MRC_CC_PENALTY);
}

static __always_inline __u32 nscc_on_ack(struct mrc_cc *cc,
					 const struct mrc_cc_parameters *parameters,
					 const struct cc_ack *ack)
{
	struct mrc_nscc *nscc = nscc_of(cc);
	__u64 received = ack->received_bytes, cwnd = cc_smaller(cc->cwnd_bytes, cc->max_wnd_bytes);
	int is_penalised = (ack->word & CC_NSCC_PENALTY) && !(ack->word & CC_NSCC_PENALTY_ENDS);
	__u32 reason, step = MRC_CC_NONE;

	nscc->bytes_ignored += received;
	nscc->received_bytes += received;
	nscc->achieved_bytes += received;
	reason = cc_replace_window(cc, cwnd, MRC_CC_BASE_RTT);
	reason = cc_larger(reason, nscc_penalise(cc, parameters, ack, received));
	if (nscc_quick_adapt(cc, parameters, ack->now_ns, 0, ack->is_marked, ack->delay_ns,
			     &reason))
		return reason;
	if (ack->is_marked && ack->delay_ns >= parameters->target_delay_ns)
		step = nscc_decrease(cc, parameters, ack->now_ns);
	else if (!ack->is_marked && !is_penalised)
		step = nscc_increase(cc, parameters, received, ack->delay_ns);
	reason = cc_larger(reason, step);
	if (!is_penalised)
		reason = cc_larger(reason, nscc_fulfil(cc, parameters, ack->now_ns));
	return reason;
}

/* The window without one packet. */
static __always_inline __u32 nscc_shrink(struct mrc_cc *cc,
					 const struct mrc_cc_parameters *parameters,
					 __u32 packet_bytes, __u32 reason)
{
	__s64 cwnd = (__s64)cc->cwnd_bytes - packet_bytes, mtu = parameters->mtu_bytes;

	return cc_replace_window(cc, cwnd < mtu ? mtu : cwnd, reason);
}

/* A trimmed packet met a full queue: that is a mark, a loss and a delay of a whole base RTT. */
static __always_inline __u32 nscc_on_trim(struct mrc_cc *cc,
					  const struct mrc_cc_parameters *parameters, __u64 now_ns,
					  __u32 packet_bytes)
{
	struct mrc_nscc *nscc = nscc_of(cc);
	__u32 reason = MRC_CC_NONE;

	nscc->bytes_ignored += packet_bytes;
	cc_average(cc, parameters, cc->base_rtt_ns);
	nscc->is_qa_triggered = 1;
	if (!nscc_quick_adapt(cc, parameters, now_ns, 1, 1, 0, &reason))
		reason = nscc_shrink(cc, parameters, packet_bytes, MRC_CC_TRIM);
	return reason;
}

static __always_inline __u32 nscc_on_loss(struct mrc_cc *cc,
					  const struct mrc_cc_parameters *parameters,
					  __u32 packet_bytes)
{
	nscc_of(cc)->bytes_ignored += packet_bytes;
	return nscc_shrink(cc, parameters, packet_bytes, MRC_CC_LOSS);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * DCQCN, the reaction point, in fixed point (docs/explanation/transports.md, "DCQCN").
 *
 *    CNP         target = rate, rate -= rate * alpha / 2, alpha += (1 - alpha) * g, stages = 0
 *    no CNP      alpha -= alpha * g, every alpha_ns
 *    increase    by a timer and by a byte counter, each with a stage of its own:
 *                both below recovery_stages   rate = (rate + target) / 2
 *                one of them beyond           target += ai, then the same
 *                both beyond                  target += hai * stages beyond, then the same
 *
 * A NIC paces by its rate. Here frames leave only when an acknowledgement came, so the rate is held
 * as a window: rate x measured RTT. As the RTT includes all queueing, the flow still sends at its
 * rate, and like a paced one does not slow down by itself when a queue grows.
 *
 * All under the QP's lock: no call, bounded loops. Every function returns the enum mrc_dcqcn_reason
 * to count, 0 for no change. tests/reference/dcqcn.py is the twin; a test compares the two.
 */
#ifndef MRC_DCQCN_H
#define MRC_DCQCN_H

#include <mrc/dcqcn_abi.h>

#define DCQCN_ONE (1U << MRC_DCQCN_RATIO_SHIFT)

static __always_inline void dcqcn_start(struct mrc_dcqcn *dcqcn,
					const struct mrc_dcqcn_parameters *parameters, __u64 now_ns)
{
	dcqcn->rate_kbps = parameters->line_kbps;
	dcqcn->target_kbps = parameters->line_kbps;
	dcqcn->alpha_q16 = DCQCN_ONE;
	dcqcn->alpha_updated_ns = now_ns;
	dcqcn->rate_updated_ns = now_ns;
}

/* Bytes that may be under way; always a packet's worth. */
static __always_inline __u64 dcqcn_window_bytes(const struct mrc_dcqcn *dcqcn,
						const struct mrc_dcqcn_parameters *parameters)
{
	__u64 rate_kbps = dcqcn->rate_kbps;
	__u64 bytes = dcqcn->srtt_q3_ns
			  ? rate_kbps * dcqcn->srtt_q3_ns / (8000000 << MRC_DCQCN_SRTT_SHIFT)
			  : rate_kbps * parameters->base_rtt_ns / 8000000;

	return bytes > parameters->mtu_bytes ? bytes : parameters->mtu_bytes;
}

/* A congestion notification packet came. */
static __always_inline __u32 dcqcn_on_cnp(struct mrc_dcqcn *dcqcn,
					  const struct mrc_dcqcn_parameters *parameters,
					  __u64 now_ns)
{
	__u32 cut;

	if (parameters->is_fixed)
		return MRC_DCQCN_NONE;
	cut = (__u64)dcqcn->rate_kbps * dcqcn->alpha_q16 >> (MRC_DCQCN_RATIO_SHIFT + 1);
	dcqcn->target_kbps = dcqcn->rate_kbps;
	dcqcn->rate_kbps -= cut;
	if (dcqcn->rate_kbps < parameters->min_kbps)
		dcqcn->rate_kbps = parameters->min_kbps;
	dcqcn->alpha_q16 +=
	    (__u64)(DCQCN_ONE - dcqcn->alpha_q16) * parameters->g_q16 >> MRC_DCQCN_RATIO_SHIFT;
	dcqcn->alpha_updated_ns = now_ns;
	dcqcn->rate_updated_ns = now_ns;
	dcqcn->counted_bytes = 0;
	dcqcn->timer_stage = 0;
	dcqcn->byte_stage = 0;
	dcqcn->reason = MRC_DCQCN_CNP;
	return MRC_DCQCN_CNP;
}

/* One step of increase; at line rate there is none. */
static __always_inline __u32 dcqcn_increase(struct mrc_dcqcn *dcqcn,
					    const struct mrc_dcqcn_parameters *parameters)
{
	__u32 last = parameters->recovery_stages, timer = dcqcn->timer_stage;
	__u32 bytes = dcqcn->byte_stage, lower = timer < bytes ? timer : bytes;
	__u32 reason = MRC_DCQCN_FAST_RECOVERY;
	__u64 target = dcqcn->target_kbps;

	if (dcqcn->rate_kbps >= parameters->line_kbps)
		return MRC_DCQCN_NONE;
	if (lower > last) {
		target += (__u64)parameters->hai_kbps * (lower - last);
		reason = MRC_DCQCN_HYPER_INCREASE;
	} else if (timer > last || bytes > last) {
		target += parameters->ai_kbps;
		reason = MRC_DCQCN_ADDITIVE_INCREASE;
	}
	if (target > parameters->line_kbps)
		target = parameters->line_kbps;
	dcqcn->target_kbps = target;
	/* rounded up, or the last kbit/s would never be reached */
	dcqcn->rate_kbps = (dcqcn->rate_kbps + target + 1) / 2;
	dcqcn->reason = reason;
	return reason;
}

/* `bytes` were acknowledged, by a packet whose RTT is known unless rtt_ns is 0. */
static __always_inline __u32 dcqcn_on_ack(struct mrc_dcqcn *dcqcn,
					  const struct mrc_dcqcn_parameters *parameters,
					  __u64 now_ns, __u32 bytes, __u32 rtt_ns)
{
	__u32 reason = MRC_DCQCN_NONE, step;

	if (rtt_ns >> MRC_DCQCN_RTT_BITS)
		rtt_ns = (1U << MRC_DCQCN_RTT_BITS) - 1;
	if (rtt_ns && !dcqcn->srtt_q3_ns)
		dcqcn->srtt_q3_ns = rtt_ns << MRC_DCQCN_SRTT_SHIFT;
	else if (rtt_ns)
		dcqcn->srtt_q3_ns += rtt_ns - (dcqcn->srtt_q3_ns >> MRC_DCQCN_SRTT_SHIFT);
	if (parameters->is_fixed)
		return MRC_DCQCN_NONE;
	for (int i = 0; i < MRC_DCQCN_STEPS_MAX; i++) {
		if ((__s64)(now_ns - dcqcn->alpha_updated_ns) < (__s64)parameters->alpha_ns)
			break;
		dcqcn->alpha_updated_ns += parameters->alpha_ns;
		dcqcn->alpha_q16 -=
		    (__u64)dcqcn->alpha_q16 * parameters->g_q16 >> MRC_DCQCN_RATIO_SHIFT;
	}
	dcqcn->counted_bytes += bytes;
	if (dcqcn->counted_bytes >= parameters->counter_bytes) {
		dcqcn->counted_bytes = 0;
		dcqcn->byte_stage++;
		reason = dcqcn_increase(dcqcn, parameters);
	}
	for (int i = 0; i < MRC_DCQCN_STEPS_MAX; i++) {
		if ((__s64)(now_ns - dcqcn->rate_updated_ns) < (__s64)parameters->rate_ns)
			break;
		dcqcn->rate_updated_ns += parameters->rate_ns;
		dcqcn->timer_stage++;
		step = dcqcn_increase(dcqcn, parameters);
		if (step)
			reason = step;
	}
	return reason;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Additive increase, multiplicative decrease, the example of
 * docs/guide/your-own-congestion-control.md: a packet more per window received, half of the window
 * at a mark, a trimmed or a lost packet. tests/reference/aimd.py is the twin.
 */
#ifndef MRC_AIMD_H
#define MRC_AIMD_H

#include <mrc/cc_algorithm.h>

struct aimd {
	__u64 increase_square_bytes; /* increase per window x bytes received, not yet granted */
	__u64 hold_bytes;	     /* to be received before the window is cut again */
};

static __always_inline void aimd_received(struct aimd *aimd, __u64 bytes)
{
	aimd->hold_bytes -= cc_smaller(aimd->hold_bytes, bytes);
}

/* Half the window, but once for all that is under way: it left before the sender knew. */
static __always_inline __u32 aimd_cut(struct mrc_cc *cc, const struct mrc_cc_parameters *parameters,
				      __u32 reason)
{
	struct aimd *aimd = cc_own(cc, struct aimd);

	if (aimd->hold_bytes)
		return MRC_CC_NONE;
	aimd->hold_bytes = cc->inflight_bytes > 0 ? cc->inflight_bytes : 0;
	aimd->increase_square_bytes = 0;
	return cc_set_window(cc, parameters, cc->cwnd_bytes / 2, reason);
}

static __always_inline __u32 aimd_on_ack(struct mrc_cc *cc,
					 const struct mrc_cc_parameters *parameters,
					 const struct cc_ack *ack)
{
	struct aimd *aimd = cc_own(cc, struct aimd);
	__u64 gain_bytes;

	aimd_received(aimd, ack->received_bytes);
	aimd->increase_square_bytes += parameters->mtu_bytes * ack->received_bytes;
	gain_bytes = aimd->increase_square_bytes / cc->cwnd_bytes;
	aimd->increase_square_bytes -= gain_bytes * cc->cwnd_bytes;
	return cc_set_window(cc, parameters, cc->cwnd_bytes + gain_bytes, MRC_CC_FAIR_INCREASE);
}

static __always_inline __u32 aimd_on_mark(struct mrc_cc *cc,
					  const struct mrc_cc_parameters *parameters,
					  const struct cc_ack *ack)
{
	aimd_received(cc_own(cc, struct aimd), ack->received_bytes);
	return aimd_cut(cc, parameters, MRC_CC_MULTIPLICATIVE_DECREASE);
}

static __always_inline __u32 aimd_on_trim(struct mrc_cc *cc,
					  const struct mrc_cc_parameters *parameters, __u64 now_ns,
					  __u32 packet_bytes)
{
	return aimd_cut(cc, parameters, MRC_CC_TRIM);
}

static __always_inline __u32 aimd_on_loss(struct mrc_cc *cc,
					  const struct mrc_cc_parameters *parameters,
					  __u32 packet_bytes)
{
	return aimd_cut(cc, parameters, MRC_CC_LOSS);
}

#endif

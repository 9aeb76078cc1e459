/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* One event of a QP's congestion control, for the twins: in the kernel and as a shared library. */
#ifndef NSCC_STEP_H
#define NSCC_STEP_H

#include <mrc/cc_events.h>

enum mrc_step_kind {
	MRC_STEP_START = 0,
	MRC_STEP_SEND = 1,
	MRC_STEP_SACK = 2,
	MRC_STEP_NACK = 3,
	MRC_STEP_INFERRED_LOSS = 4,
	MRC_STEP_FALSE_LOSS = 5,
	MRC_STEP_DRAINED = 6,
	MRC_STEP_IDLE = 7,
};

struct mrc_step {
	__u64 now_ns;
	__s64 rtt_ns;
	__u64 cc_state; /* without its timestamp */
	__u32 kind;
	__u32 nominal_bytes;
	__u8 is_marked;
	__u8 is_trimmed;
	__u8 pad0[6];
};

enum mrc_step_result {
	MRC_STEP_RESULT_REASON = 0, /* bits 7:0 */
	MRC_STEP_RESULT_MAY_SEND = 8,
	MRC_STEP_RESULT_REQUESTS_SACK = 9,
	MRC_STEP_RESULT_PACKETS = 10, /* and above, 21 bits */
	MRC_STEP_RESULT_PACKETS_MASK = 0x1fffff,
};

static __always_inline __u32 cc_step(struct mrc_cc *cc, const struct mrc_cc_parameters *parameters,
				     const struct mrc_step *step)
{
	struct cc_sack sack = {
	    .ack.now_ns = step->now_ns,
	    .rtt_ns = step->rtt_ns,
	    .ack.is_marked = step->is_marked,
	};
	__u32 reason = 0, packets;

	cc_state_take(&sack, 0, step->cc_state);
	switch (step->kind) {
	case MRC_STEP_START:
		cc_start(cc, parameters);
		break;
	case MRC_STEP_SEND:
		cc_on_send(cc, step->nominal_bytes);
		break;
	case MRC_STEP_SACK:
		reason = cc_on_sack(cc, parameters, &sack);
		break;
	case MRC_STEP_NACK:
		reason =
		    cc_on_nack(cc, parameters, step->now_ns, step->nominal_bytes, step->is_trimmed);
		break;
	case MRC_STEP_INFERRED_LOSS:
		reason = cc_on_inferred_loss(cc, parameters, step->nominal_bytes);
		break;
	case MRC_STEP_FALSE_LOSS:
		cc_on_false_loss(cc, step->nominal_bytes);
		break;
	case MRC_STEP_DRAINED:
		cc_on_drained(cc);
		break;
	case MRC_STEP_IDLE:
		cc_algorithm_on_idle(cc);
		break;
	}
	packets =
	    cc_packets_allowed(cc_credit_bytes(cc), cc_nominal_bytes(parameters->mtu_bytes + 48));
	return reason << MRC_STEP_RESULT_REASON | (__u32)cc_may_send(cc) << MRC_STEP_RESULT_MAY_SEND |
	       (__u32)cc_requests_sack(cc, parameters) << MRC_STEP_RESULT_REQUESTS_SACK |
	       (packets & MRC_STEP_RESULT_PACKETS_MASK) << MRC_STEP_RESULT_PACKETS;
}

#endif

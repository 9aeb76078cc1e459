/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interface of congestion control algorithms. One is a header in nic/bpf/cc, or in the
 * folder cc of $ALGORITHMS; NAME.h defines, as static __always_inline functions:
 *
 *    __u32 NAME_on_ack(cc, parameters, ack)                   a SACK or ACK
 *    __u32 NAME_on_mark(cc, parameters, ack)                  may be left out: the same, marked;
 *                                                             on_ack gets the others
 *    __u32 NAME_on_trim(cc, parameters, now_ns, packet_bytes) a switch has trimmed a packet
 *    __u32 NAME_on_loss(cc, parameters, packet_bytes)         a packet is declared lost
 *    void NAME_on_idle(cc)                                    may be left out: nothing is under way
 *    __u32 NAME_window(parameters)                            may be left out: the first window,
 *                                                             max_cwnd_bytes
 *    __u32 NAME_word(responder, received)                     may be left out: 24 bits of a SACK
 *
 *    with struct mrc_cc *cc, const struct mrc_cc_parameters *parameters, const struct cc_ack *ack,
 *    __u64 now_ns, __u32 packet_bytes, struct mrc_cc_responder *responder and
 *    const struct cc_received *received
 *
 * The word is filled in at the receiver, for each SACK; the sender's on_ack gets it as ack->word. It
 * comes with NAME_CC_TYPE, the SETH.cc_type of these SACKs: a number from 1 to 15.
 * Algorithms without it send and get the word of NSCC, cc_type 0 (cc_state.h).
 *
 * The window is cc->cwnd_bytes; cc_set_window() sets it. The NIC counts inflight_bytes and measures
 * base_rtt_ns and avg_delay_q8. A hook returns the enum mrc_cc_reason to count, 0 for no change. It
 * runs under the QP's lock in the kernel: no loop without bound, no call of a function that is not
 * inline, no signed division. docs/guide/your-own-congestion-control.md walks through one.
 */
#ifndef MRC_CC_ALGORITHM_H
#define MRC_CC_ALGORITHM_H

#include <linux/stddef.h>
#include <mrc/cc_abi.h>
#include <mrc/cc_state.h>

/* The input of an algorithm from a SACK or ACK. */
struct cc_ack {
	__u64 now_ns;
	__u64 received_bytes; /* that no earlier one reported */
	__u64 delay_ns;	      /* of its packet in queues; without a valid sample the average */
	__u32 word;	      /* of CC_STATE, 24 bits */
	__u8 has_word;	      /* 0: an ACK, or a SACK of another cc_type; word is 0 */
	__u8 is_marked;
};

/* State of the algorithm's own, a `type`; 0 as a QP begins. */
#define cc_own(cc, type)                                                                           \
	({                                                                                         \
		_Static_assert(sizeof(type) <= sizeof((cc)->own),                                  \
			       #type " is larger than the state that an algorithm may have");      \
		(type *)(cc)->own;                                                                 \
	})

static __always_inline __u64 cc_larger(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 cc_smaller(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* Sets the window; returns `reason` if that changes it, else 0. */
static __always_inline __u32 cc_replace_window(struct mrc_cc *cc, __u64 cwnd_bytes, __u32 reason)
{
	int is_change = cc->cwnd_bytes != cwnd_bytes;

	cc->cwnd_bytes = cwnd_bytes;
	return is_change ? reason : MRC_CC_NONE;
}

/* Sets the window, no larger than max_wnd and no smaller than a packet; returns likewise. */
static __always_inline __u32 cc_set_window(struct mrc_cc *cc,
					   const struct mrc_cc_parameters *parameters,
					   __u64 cwnd_bytes, __u32 reason)
{
	cwnd_bytes = cc_smaller(cwnd_bytes, cc->max_wnd_bytes);
	return cc_replace_window(cc, cc_larger(cwnd_bytes, parameters->mtu_bytes), reason);
}

/*
 * avg_delay += gain * (delay - avg_delay). The shift of a negative product rounds down, so the
 * average can rest up to 1 / gain units of 2^-8 ns (0.3 ns) below a constant delay.
 */
static __always_inline void cc_average(struct mrc_cc *cc,
				       const struct mrc_cc_parameters *parameters, __u64 delay_ns)
{
	__s64 difference = (delay_ns << MRC_CC_DELAY_SHIFT) - cc->avg_delay_q8;

	cc->avg_delay_q8 += difference * (__s64)parameters->delay_gain_q16 >> MRC_CC_RATIO_SHIFT;
}

#endif

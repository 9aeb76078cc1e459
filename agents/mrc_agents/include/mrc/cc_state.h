/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CC_STATE, which a SACK carries from the receiver to the congestion control of the sender
 * (docs/reference/protocol.md, "CC_STATE"): the bytes received, which every NIC reads, and a word
 * that only the algorithm reads which SETH.cc_type names. The one of NSCC is here: algorithms
 * without a word of their own send and get it as well.
 */
#ifndef MRC_CC_STATE_H
#define MRC_CC_STATE_H

#include <mrc/cc_abi.h>

enum {
	CC_UNIT_MASK = (1 << MRC_CC_UNIT_BITS) - 1,
	CC_WORD_MASK = (1 << 24) - 1,
	CC_NSCC_ABOVE_SHIFT = 8,       /* ooo_count, 15 bits */
	CC_NSCC_PENALTY_ENDS = 1 << 7, /* r_c */
	CC_NSCC_PENALTY = 0x7f,	       /* rcv_cwnd_pen */
};

/* The state of the receiver when it sends a SACK. */
struct cc_received {
	__u64 bytes;  /* nominal, of each packet once */
	__u32 above;  /* packets above cack_psn */
	__u8 penalty; /* that the receiver requests, 0 .. 127 */
	__u8 is_penalty_over;
	__u8 is_marked; /* the packet that caused the SACK */
};

/* CC_STATE.rcvd_bytes of so many bytes. */
static __always_inline __u32 cc_received_units(__u64 bytes)
{
	return (bytes + (1 << MRC_CC_UNIT_SHIFT) - 1) >> MRC_CC_UNIT_SHIFT & CC_UNIT_MASK;
}

static __always_inline __u32 cc_nscc_word(const struct cc_received *received)
{
	return (received->above & 0x7fff) << CC_NSCC_ABOVE_SHIFT |
	       (received->is_penalty_over ? CC_NSCC_PENALTY_ENDS : 0) | received->penalty;
}

#endif

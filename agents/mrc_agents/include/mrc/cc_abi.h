/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * State and parameters of a QP's congestion control (docs/reference/protocol.md, "Congestion
 * control"). The algorithms are in mrc_agents/nic/bpf/cc; what they have in common is in
 * cc_events.h and cc_window.h.
 *
 * Sizes are nominal bytes, times CLOCK_MONOTONIC or model nanoseconds, one of them throughout a QP.
 */
#ifndef MRC_CC_ABI_H
#define MRC_CC_ABI_H

#include <linux/types.h>

enum mrc_cc_format {
	MRC_CC_RATIO_SHIFT = 16,   /* fields named _q16: units of 2^-16 */
	MRC_CC_DELAY_SHIFT = 8,	   /* avg_delay_q8: units of 2^-8 ns */
	MRC_CC_UNIT_SHIFT = 8,	   /* CC_STATE.rcvd_bytes: units of 256 bytes */
	MRC_CC_UNIT_BITS = 24,	   /* its width */
	MRC_CC_PENALTY_SHIFT = 7,  /* CC_STATE.rcv_cwnd_pen: units of 1/128 */
	MRC_CC_NOMINAL_EXTRA = 40, /* nominal size of a packet = UDP length + this */
};

/*
 * The reason of the last window change. Of several steps of one event that did, the one that is
 * further down here counts.
 */
enum mrc_cc_reason {
	MRC_CC_NONE = 0,	      /* nothing yet */
	MRC_CC_PERIODIC_INCREASE = 1, /* eta alone */
	MRC_CC_PROPORTIONAL_INCREASE = 2,
	MRC_CC_FAIR_INCREASE = 3,
	MRC_CC_FAST_INCREASE = 4,
	MRC_CC_MULTIPLICATIVE_DECREASE = 5,
	MRC_CC_QUICK_ADAPT = 6,
	MRC_CC_TRIM = 7,
	MRC_CC_LOSS = 8,
	MRC_CC_PENALTY = 9,
	MRC_CC_RESTORE = 10,  /* a penalty has ended */
	MRC_CC_BASE_RTT = 11, /* a shorter base RTT has lowered max_wnd */
	MRC_CC_REASON_COUNT = 12,
};

/* Parameters of a QP, constant while it sends; ranges: mrc_agents/protocol/cc_profile.py. */
struct mrc_cc_parameters {
	__u32 mtu_bytes;       /* 256 .. 2^16; the window never falls below it */
	__u32 base_rtt_ns;     /* until a shorter one is measured */
	__u32 target_delay_ns; /* queueing delay aimed at; at least 1 */
	__u32 no_delay_ns;     /* a delay up to this counts as none */
	__u32 qa_threshold_ns; /* a delay above it triggers quick adapt; 2^32 - 1: none */
	__u32 adjust_period_threshold_ns; /* between additions of eta */
	__u32 adjust_bytes_threshold; /* received bytes that fulfil an increase early; <= 2^30 */
	__u32 max_cwnd_bytes;	      /* mtu_bytes .. 2^30; the window to start with */
	__u32 fi_bytes;		      /* fair increase per window; <= 2^30 */
	__u32 pi_bytes; /* proportional increase per window without delay: alpha x target_delay */
	__u32 eta_bytes;
	__u32 fi_scale_q16;	    /* fast increase per byte received; below 2^26 */
	__u32 gamma_q16;	    /* <= 2^16, as the next two */
	__u32 max_md_jump_q16;	    /* share of the window that a decrease leaves at least */
	__u32 delay_gain_q16;	    /* weight of a sample in avg_delay */
	__u32 sack_threshold_bytes; /* bytes after which the responder sends a SACK unasked */
	__u8 qa_gate;		    /* quick adapt below max_wnd >> qa_gate; 0 .. 31 */
	__u8 disable_qa;
	__u8 is_fixed; /* no algorithm: the window stays max_cwnd */
	__u8 pad0;
};

enum mrc_cc_limit {
	MRC_CC_OWN_WORDS = 12,	    /* of 8 bytes, that an algorithm has for itself */
	MRC_CC_RESPONDER_WORDS = 2, /* likewise, at the receiver */
};

/* State of a QP, under its lock. User space sets window and base RTT, all else begins as 0. */
struct mrc_cc {
	__s64 inflight_bytes; /* may be negative by less than 256 */
	__u64 avg_delay_q8;
	__u32 cwnd_bytes;
	__u32 max_wnd_bytes;
	__u32 base_rtt_ns;
	__u32 received_units; /* newest CC_STATE.rcvd_bytes */
	__u32 reason;	      /* enum mrc_cc_reason: of the last change */
	__u32 pad0;
	__u64 own[MRC_CC_OWN_WORDS]; /* the algorithm's: cc_own() */
};

/* State of a QP's algorithm where it receives, under its lock; 0 as the QP begins. */
struct mrc_cc_responder {
	__u64 own[MRC_CC_RESPONDER_WORDS]; /* cc_own() */
};

_Static_assert(sizeof(struct mrc_cc_parameters) == 68, "written by user space");
_Static_assert(sizeof(struct mrc_cc) == 40 + 8 * MRC_CC_OWN_WORDS, "no hidden padding");

#endif

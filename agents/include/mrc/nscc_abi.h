/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * State and parameters of NSCC, the congestion control of a QP (docs/reference/protocol.md,
 * "Congestion control"). The arithmetic is in nscc.h and nscc_inflight.h; tests/reference/nscc.py
 * has the same names.
 *
 * Sizes are nominal bytes, times CLOCK_MONOTONIC or model nanoseconds, one of them throughout a QP.
 */
#ifndef MRC_NSCC_ABI_H
#define MRC_NSCC_ABI_H

#include <linux/types.h>

enum mrc_nscc_format {
	MRC_NSCC_RATIO_SHIFT = 16,   /* fields named _q16: units of 2^-16 */
	MRC_NSCC_DELAY_SHIFT = 8,    /* avg_delay_q8: units of 2^-8 ns */
	MRC_NSCC_UNIT_SHIFT = 8,     /* CC_STATE.rcvd_bytes: units of 256 bytes */
	MRC_NSCC_UNIT_BITS = 24,     /* its width */
	MRC_NSCC_PENALTY_SHIFT = 7,  /* CC_STATE.rcv_cwnd_pen: units of 1/128 */
	MRC_NSCC_NOMINAL_EXTRA = 40, /* nominal size of a packet = UDP length + this */
};

/*
 * What changed the window last. Of several steps of one event that did, the one that is further
 * down here counts.
 */
enum mrc_nscc_reason {
	MRC_NSCC_NONE = 0,		/* nothing yet */
	MRC_NSCC_PERIODIC_INCREASE = 1, /* eta alone */
	MRC_NSCC_PROPORTIONAL_INCREASE = 2,
	MRC_NSCC_FAIR_INCREASE = 3,
	MRC_NSCC_FAST_INCREASE = 4,
	MRC_NSCC_MULTIPLICATIVE_DECREASE = 5,
	MRC_NSCC_QUICK_ADAPT = 6,
	MRC_NSCC_TRIM = 7,
	MRC_NSCC_LOSS = 8,
	MRC_NSCC_PENALTY = 9,
	MRC_NSCC_RESTORE = 10,	/* a penalty has ended */
	MRC_NSCC_BASE_RTT = 11, /* a shorter base RTT has lowered max_wnd */
	MRC_NSCC_REASON_COUNT = 12,
};

/* Parameters of a QP, constant while it sends; ranges: agents/protocol/cc_profile.py. */
struct mrc_nscc_parameters {
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
	__u32 sack_threshold_bytes; /* after so many bytes the responder answers unasked */
	__u8 qa_gate;		    /* quick adapt below max_wnd >> qa_gate; 0 .. 31 */
	__u8 disable_qa;
	__u8 is_fixed; /* the window stays max_cwnd, bytes under way are counted */
	__u8 pad0;
};

/* State of a QP, under its lock. */
struct mrc_nscc {
	__s64 inflight_bytes;	     /* may be negative by less than 256 */
	__u64 increase_square_bytes; /* text: inc_bytes. Increase per window x bytes received */
	__u64 avg_delay_q8;
	__u64 fi_count_bytes;  /* received without delay, in a row */
	__u64 received_bytes;  /* since the last fulfil */
	__u64 achieved_bytes;  /* in this window of quick adapt */
	__u64 bytes_to_ignore; /* under way at the last quick adapt */
	__u64 bytes_ignored;   /* fed back since */
	__u64 qa_end_ns;       /* end of the window of quick adapt; 0: none has begun */
	__u64 last_adjust_ns;
	__u64 last_decrease_ns;
	__u32 cwnd_bytes;
	__u32 max_wnd_bytes;
	__u32 saved_cwnd_bytes; /* of before a receiver penalty; 0: none */
	__u32 base_rtt_ns;
	__u32 received_units; /* newest CC_STATE.rcvd_bytes */
	__u8 is_increasing;   /* text: increase_mode */
	__u8 is_qa_triggered; /* text: trigger_qa */
	__u8 increase_reason; /* enum mrc_nscc_reason: what increase_square_bytes came from last */
	__u8 reason;	      /* enum mrc_nscc_reason: of the last change */
};

_Static_assert(sizeof(struct mrc_nscc_parameters) == 68, "written by user space");
_Static_assert(sizeof(struct mrc_nscc) == 112, "no hidden padding");

#endif

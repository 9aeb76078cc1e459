/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * State and parameters of DCQCN, the rate control of a reliable connection
 * (docs/explanation/transports.md, "DCQCN"). The arithmetic is in dcqcn.h; tests/reference/dcqcn.py
 * has the same names.
 */
#ifndef MRC_DCQCN_ABI_H
#define MRC_DCQCN_ABI_H

#include <linux/types.h>

enum mrc_dcqcn_format {
	MRC_DCQCN_RATIO_SHIFT = 16, /* fields named _q16: units of 2^-16 */
	MRC_DCQCN_STEPS_MAX = 8,    /* periods of a timer made up for in one event */
	MRC_DCQCN_SRTT_SHIFT = 3,   /* a sample weighs 1/8; srtt_q3_ns: units of 1/8 ns */
	MRC_DCQCN_RTT_BITS = 29,    /* longer RTTs count as 537 ms, which fits srtt_q3_ns */
};

/* Reason of the last rate change. */
enum mrc_dcqcn_reason {
	MRC_DCQCN_NONE = 0,
	MRC_DCQCN_CNP = 1,
	MRC_DCQCN_FAST_RECOVERY = 2,
	MRC_DCQCN_ADDITIVE_INCREASE = 3,
	MRC_DCQCN_HYPER_INCREASE = 4,
	MRC_DCQCN_REASON_COUNT = 5,
};

/* Parameters of a QP, constant while it sends. Rates up to 2^32 kbit/s, times up to 2^32 ns. */
struct mrc_dcqcn_parameters {
	__u32 line_kbps;     /* the rate to start with, and the highest */
	__u32 min_kbps;	     /* the lowest, at least 1 */
	__u32 ai_kbps;	     /* additive increase of the target */
	__u32 hai_kbps;	     /* hyper increase, per stage */
	__u32 g_q16;	     /* weight of a CNP in alpha; <= 2^16 */
	__u32 alpha_ns;	     /* without a CNP for so long, alpha falls; at least 1 */
	__u32 rate_ns;	     /* period of the increase timer; at least 1 */
	__u32 counter_bytes; /* bytes that count as one period too; at least 1 */
	__u32 base_rtt_ns;   /* until one is measured */
	__u32 recovery_stages;
	__u32 mtu_bytes;
	__u32 is_fixed; /* the rate does not change: the window alone limits */
};

/* State of a QP, under its lock. */
struct mrc_dcqcn {
	__u64 alpha_updated_ns;
	__u64 rate_updated_ns;
	__u32 rate_kbps;
	__u32 target_kbps;
	__u32 alpha_q16;
	__u32 srtt_q3_ns; /* 0: none measured */
	__u32 counted_bytes;
	__u32 timer_stage;
	__u32 byte_stage;
	__u32 reason; /* enum mrc_dcqcn_reason: of the last change */
};

_Static_assert(sizeof(struct mrc_dcqcn_parameters) == 48, "written by user space");
_Static_assert(sizeof(struct mrc_dcqcn) == 48, "no hidden padding");

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sending half of congestion control, whatever the algorithm: the nominal bytes under way, and
 * what the window lets go beyond them.
 */
#ifndef MRC_CC_WINDOW_H
#define MRC_CC_WINDOW_H

#include <mrc/cc_abi.h>

/* Nominal bytes of a packet, from its UDP length. */
static __always_inline __u32 cc_nominal_bytes(__u32 udp_bytes)
{
	return udp_bytes + MRC_CC_NOMINAL_EXTRA;
}

/* Credit left; what the last packet took beyond it is negative. */
static __always_inline __s64 cc_credit_bytes(const struct mrc_cc *cc)
{
	return (__s64)cc->cwnd_bytes - cc->inflight_bytes;
}

static __always_inline int cc_may_send(const struct mrc_cc *cc)
{
	return cc_credit_bytes(cc) > 0;
}

/* Packets of a nominal size that the credit lets go: any credit is enough for one. */
static __always_inline __u32 cc_packets_allowed(__s64 credit_bytes, __u32 nominal_bytes)
{
	return credit_bytes > 0 ? ((__u64)credit_bytes + nominal_bytes - 1) / nominal_bytes : 0;
}

/* True if the packet just counted by cc_on_send() is to carry BTH.a. */
static __always_inline int cc_requests_sack(const struct mrc_cc *cc,
					    const struct mrc_cc_parameters *parameters)
{
	return cc_credit_bytes(cc) < (__s64)parameters->mtu_bytes ||
	       cc->cwnd_bytes < parameters->sack_threshold_bytes;
}

/* A packet leaves, for the first time or again. */
static __always_inline void cc_on_send(struct mrc_cc *cc, __u32 nominal_bytes)
{
	cc->inflight_bytes += nominal_bytes;
}

/*
 * A packet declared lost arrives after all, before it was sent again: the SACK takes it out of
 * inflight_bytes, as the loss already had.
 */
static __always_inline void cc_on_false_loss(struct mrc_cc *cc, __u32 nominal_bytes)
{
	cc->inflight_bytes += nominal_bytes;
}

/*
 * No packet is under way: what rounding, or bytes that were never reported, left in inflight_bytes
 * goes. Before cc_may_send(), which could else wait for feedback that cannot come.
 */
static __always_inline void cc_on_drained(struct mrc_cc *cc)
{
	cc->inflight_bytes = 0;
}

#endif

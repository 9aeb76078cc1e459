/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sending half of NSCC: the nominal bytes under way, and what the window lets go beyond them.
 * How feedback changes the window is in nscc.h.
 */
#ifndef MRC_NSCC_INFLIGHT_H
#define MRC_NSCC_INFLIGHT_H

#include <mrc/nscc_abi.h>

/* What a packet counts for, from its UDP length. */
static __always_inline __u32 nscc_nominal_bytes(__u32 udp_bytes)
{
	return udp_bytes + MRC_NSCC_NOMINAL_EXTRA;
}

/* Credit left; what the last packet took beyond it is negative. */
static __always_inline __s64 nscc_credit_bytes(const struct mrc_nscc *nscc)
{
	return (__s64)nscc->cwnd_bytes - nscc->inflight_bytes;
}

static __always_inline int nscc_may_send(const struct mrc_nscc *nscc)
{
	return nscc_credit_bytes(nscc) > 0;
}

/* How many packets of a nominal size so much credit lets go: any is enough for one. */
static __always_inline __u32 nscc_packets_allowed(__s64 credit_bytes, __u32 nominal_bytes)
{
	return credit_bytes > 0 ? ((__u64)credit_bytes + nominal_bytes - 1) / nominal_bytes : 0;
}

/* Whether the packet just counted by nscc_on_send() is to carry BTH.a. */
static __always_inline int nscc_asks_sack(const struct mrc_nscc *nscc,
					  const struct mrc_nscc_parameters *parameters)
{
	return nscc_credit_bytes(nscc) < (__s64)parameters->mtu_bytes ||
	       nscc->cwnd_bytes < parameters->sack_threshold_bytes;
}

/* A packet leaves, for the first time or again. */
static __always_inline void nscc_on_send(struct mrc_nscc *nscc, __u32 nominal_bytes)
{
	nscc->inflight_bytes += nominal_bytes;
}

/*
 * A packet declared lost arrives after all, before it was sent again: the SACK takes it out of
 * inflight_bytes, as the loss already had.
 */
static __always_inline void nscc_on_false_loss(struct mrc_nscc *nscc, __u32 nominal_bytes)
{
	nscc->inflight_bytes += nominal_bytes;
}

/*
 * No packet is under way: what rounding, or bytes that were never reported, left in inflight_bytes
 * goes. Before nscc_may_send(), which could else wait for feedback that cannot come.
 */
static __always_inline void nscc_on_drained(struct mrc_nscc *nscc)
{
	nscc->inflight_bytes = 0;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The RTT estimate of a QP and the times that follow from it (docs/reference/protocol.md,
 * "Timers"). All under the QP's lock, all times by the clock: a late machine shows in them.
 *
 *    srtt, rttvar     RFC 6298, section 2, of every valid sample
 *    RTO              RFC 6298: srtt + 4 rttvar, at least rto_min_ns and RTO_MIN_RTTS srtt
 *    PTO              RFC 9002, section 6.2: srtt + 4 rttvar, at least srtt and a half
 *    reo_wnd          RFC 8985, section 6.2: a quarter of srtt, or the same
 */
#ifndef MRC_RTT_H
#define MRC_RTT_H

#include <mrc/abi.h>
#include <mrc/verifier.h>

enum {
	SRTT_GAIN_SHIFT = 3,	/* alpha = 1/8 */
	RTTVAR_GAIN_SHIFT = 2,	/* beta = 1/4, and downwards */
	RTTVAR_DECAY_SHIFT = 6, /* so slowly that the next burst finds what the last one had */
	RTO_RTTVARS = 4,	/* K */
	RTO_MIN_RTTS = 8,
	PTO_RTT_SHARE = 2,
	REO_WND_RTT_SHARE = 4,
	REO_WND_STEPS_MAX = 8,
	REO_WND_PERSIST = 16, /* losses */
	TLP_EV_NONE = 0xffffffff,
	PS_PER_NS = 1000,
	RTT_FRACTION_BITS = 32,
};

#define RTT_MAX_NS 0x3fffffff

/* When a packet left the NIC's own port: RTTs are those of the fabric. */
static __always_inline __u64 slot_departed_ns(const struct mrc_tx_slot *slot)
{
	return slot->sent_ns + slot->port_wait_ns;
}

/* By how much the RTT of a full packet is longer: each link takes longer to pass it on. */
static __always_inline __u64 rtt_to_full_ns(const struct mrc_qp *qp, const struct mrc_tx_slot *slot)
{
	return (__u64)(qp->head.pmtu_bytes - slot->length) * qp->comp.byte_time_ps / PS_PER_NS;
}

/*
 * A valid sample: of a packet that was sent once, and acknowledged now. Estimates keep fractions of
 * a ns: rounded down, rttvar would lose one with every sample, and be 0 where RTTs are about 1 us.
 */
static __always_inline void rtt_update(struct mrc_qp *qp, const struct mrc_tx_slot *slot,
				       __u64 now_ns)
{
	__s64 rtt_ns = now_ns - slot_departed_ns(slot);
	__u64 full_rtt_ns = (rtt_ns > 0 ? rtt_ns : 1) + rtt_to_full_ns(qp, slot);
	__s64 rtt = full_rtt_ns < RTT_MAX_NS ? full_rtt_ns : RTT_MAX_NS;
	__s64 srtt = (__s64)qp->comp.srtt_ns << RTT_FRACTION_BITS | qp->comp.srtt_fraction;
	__s64 rttvar = (__s64)qp->comp.rttvar_ns << RTT_FRACTION_BITS | qp->comp.rttvar_fraction;
	__s64 more = (rtt << RTT_FRACTION_BITS) - srtt, deviation;

	qp->evs.ev[slot->ev_index & (MRC_EV_MAX - 1)].rtt_ns = full_rtt_ns;
	if (!srtt) {
		qp->comp.srtt_ns = rtt;
		qp->comp.rttvar_ns = rtt / 2;
		return;
	}
	deviation = (more > 0 ? more : -more) - rttvar;
	rttvar += deviation >> (deviation > 0 ? RTTVAR_GAIN_SHIFT : RTTVAR_DECAY_SHIFT);
	srtt += more >> SRTT_GAIN_SHIFT;
	qp->comp.srtt_ns = srtt >> RTT_FRACTION_BITS;
	qp->comp.srtt_fraction = srtt;
	qp->comp.rttvar_ns = rttvar >> RTT_FRACTION_BITS;
	qp->comp.rttvar_fraction = rttvar;
}

/*
 * The larger of two times, signed or not, that are less than 2^63 apart. Without a branch: each
 * doubles the paths that the verifier walks from there on.
 */
static __always_inline __u64 rtt_larger(__u64 a, __u64 b)
{
	__u64 is_less = (__s64)(a - b) >> 63;

	barrier_var(is_less);
	return a - ((a - b) & is_less);
}

static __always_inline __u64 rtt_smaller(__u64 a, __u64 b)
{
	return a + b - rtt_larger(a, b);
}

/* Before any doubling; rto_ns until there is a sample, and never more. */
static __always_inline __u64 rtt_rto_ns(const struct mrc_qp *qp)
{
	__u64 rto_ns = qp->comp.srtt_ns + (__u64)RTO_RTTVARS * qp->comp.rttvar_ns;

	rto_ns = rtt_larger(rto_ns, (__u64)RTO_MIN_RTTS * qp->comp.srtt_ns);
	rto_ns = rtt_larger(rto_ns, qp->comp.rto_min_ns);
	return qp->comp.srtt_ns ? rtt_smaller(rto_ns, qp->head.rto_ns) : qp->head.rto_ns;
}

/* That of a packet, as far as is known. */
static __always_inline __u64 rtt_expected_ns(const struct mrc_qp *qp,
					     const struct mrc_tx_slot *slot)
{
	__u64 shorter_ns = rtt_to_full_ns(qp, slot);

	return rtt_larger(qp->comp.srtt_ns, shorter_ns) - shorter_ns;
}

/* Time without an acknowledgement after which a tail loss probe is sent; without a sample half the
 * RTO. */
static __always_inline __u64 tlp_calc_pto_ns(const struct mrc_qp *qp,
					     const struct mrc_tx_slot *slot)
{
	__u64 rtt_ns = rtt_expected_ns(qp, slot);

	if (!qp->comp.srtt_ns)
		return qp->head.rto_ns / 2;
	rtt_ns += rtt_larger(rtt_ns / PTO_RTT_SHARE, (__u64)RTO_RTTVARS * qp->comp.rttvar_ns);
	return rtt_larger(rtt_ns, qp->comp.pto_min_ns);
}

/*
 * RACK.reo_wnd: how much later than one that was sent after it a packet may arrive on another path;
 * more after each spurious retransmission.
 */
static __always_inline __u64 rack_reo_wnd_ns(const struct mrc_qp *qp)
{
	__u64 reo_wnd_ns = qp->comp.rttvar_ns + (__u64)(qp->comp.srtt_ns / REO_WND_RTT_SHARE) *
						    (1 + qp->comp.reo_wnd_steps);

	return rtt_larger(reo_wnd_ns, qp->comp.reo_wnd_min_ns);
}

/*
 * RFC 8985, section 6.2, step 4: a spurious retransmission widens the reordering window, and
 * REO_WND_PERSIST losses by RACK without another one reset it.
 */
static __always_inline void rack_update_reo_wnd(struct mrc_qp *qp, int is_spurious)
{
	if (is_spurious) {
		if (qp->comp.reo_wnd_steps < REO_WND_STEPS_MAX)
			qp->comp.reo_wnd_steps++;
		qp->comp.reo_wnd_losses = REO_WND_PERSIST;
		qp->comp.tlp_ev = TLP_EV_NONE;
	} else if (qp->comp.reo_wnd_losses && !--qp->comp.reo_wnd_losses) {
		qp->comp.reo_wnd_steps = 0;
	}
}

/*
 * RFC 8985, section 6.2, step 2: keeps the order of the acknowledged packet that was sent last, of
 * the whole QP. That of a retransmission is ambiguous.
 */
static __always_inline void rack_update(struct mrc_qp *qp, const struct mrc_tx_slot *slot)
{
	if ((__s16)(slot->order - qp->comp.rack_order) > 0 && !slot->retransmissions)
		qp->comp.rack_order = slot->order;
}

/* True if a packet of the QP that was sent later, on any path, has been acknowledged. */
static __always_inline int rack_sent_after(const struct mrc_qp *qp, const struct mrc_tx_slot *slot)
{
	return (__s16)(qp->comp.rack_order - slot->order) > 0;
}

/* When a packet with rack_sent_after() is lost. Its EV may be of a plane that is slower. */
static __always_inline __u64 rack_deadline_ns(const struct mrc_qp *qp,
					      const struct mrc_tx_slot *slot)
{
	__u32 ev_rtt_ns = qp->evs.ev[slot->ev_index & (MRC_EV_MAX - 1)].rtt_ns;

	return slot_departed_ns(slot) + rtt_larger(qp->comp.srtt_ns, ev_rtt_ns) -
	       rtt_to_full_ns(qp, slot) + rack_reo_wnd_ns(qp);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The input of congestion control: nominal sizes of packets, and what a transport ACK implies,
 * which has no CC_STATE (docs/reference/protocol.md, "Congestion control").
 */
#ifndef MRC_CC_H
#define MRC_CC_H

#include <mrc/cc_events.h>
#include <mrc/wire.h>
#include "nic_maps.h"
#include "packet.h"
#include "rtt.h"

/* Nominal bytes of a data packet with a timestamp, as the responder adds them to CC_STATE. */
static __always_inline __u32 nominal_bytes(__u32 payload_bytes, __u32 opcode)
{
	return cc_nominal_bytes(write_header_bytes(opcode) - offsetof(struct wire_stack, udp) +
				((payload_bytes + 3) & ~3U) + WIRE_ICRC_BYTES);
}

static __always_inline __u32 slot_nominal_bytes(const struct mrc_tx_slot *slot)
{
	return nominal_bytes(slot->length, slot->opcode);
}

/*
 * The RTT that a full packet and its SACK would have had, from that of a packet and its
 * response: shorter frames pass each link in less time, and base RTT is that of full ones. Not
 * positive: still no sample.
 */
static __always_inline __s64 full_packet_rtt_ns(const struct mrc_qp *qp,
						const struct mrc_tx_slot *slot,
						__u32 response_bytes, __s64 rtt_ns)
{
	__u64 response_ns =
	    (sizeof(struct wire_sack) - response_bytes) * qp->comp.byte_time_ps / PS_PER_NS;

	return rtt_ns > 0 ? rtt_ns + rtt_to_full_ns(qp, slot) + response_ns : rtt_ns;
}

/* Full packets that so much credit of the congestion window allows. */
static __always_inline __u32 packets_for_credit(const struct mrc_qp *qp, __s64 credit_bytes)
{
	__u32 packets =
	    cc_packets_allowed(credit_bytes, nominal_bytes(qp->head.pmtu_bytes, WIRE_WRITE_MIDDLE));

	return packets < MRC_PSN_RING ? packets : MRC_PSN_RING;
}

/* Full packets that the congestion window allows. */
static __always_inline __u32 packets_allowed(const struct mrc_qp *qp)
{
	return packets_for_credit(qp, cc_credit_bytes(&qp->cc));
}

/* Counts a change of a window. Called without the lock; 0 is none. */
static __always_inline void cwnd_count_change(__u32 reason)
{
	if (reason)
		nic_count(MRC_NC_CWND_PERIODIC_INCREASE + reason - MRC_CC_PERIODIC_INCREASE, 1);
}

/* CC_STATE's count of all bytes acknowledged so far; the responder may have received more. */
static __always_inline __u32 acknowledged_units(const struct mrc_qp *qp)
{
	return (qp->comp.acked_nominal_bytes + (1 << MRC_CC_UNIT_SHIFT) - 1) >> MRC_CC_UNIT_SHIFT &
	       ((1U << MRC_CC_UNIT_BITS) - 1);
}

/*
 * Under the lock, with no packet in flight: what was counted as such goes. Returns whether that was
 * more than rounding, which it never is unless something has been counted wrongly. Bytes of a
 * transport ACK that another CPU is still busy with are taken here, and not by it once more.
 */
static __always_inline int requester_drained(struct mrc_qp *qp)
{
	const __s64 rounding = 1 << MRC_CC_UNIT_SHIFT;
	__s64 left = qp->cc.inflight_bytes - cc_newly_received(&qp->cc, acknowledged_units(qp));

	cc_on_drained(&qp->cc);
	if (qp->req.lost_count || qp->req.held_count)
		return 0;
	cc_on_idle(&qp->cc);
	return left >= rounding || left <= -rounding;
}

/*
 * A transport ACK, once all that it acknowledges is accounted for. The responder had received at
 * least that; whatever more it had, the next SACK counts.
 */
static __noinline int cc_on_transport_ack(__u32 qp_index, __u64 now_ns, __s64 rtt_ns)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct cc_sack sack = {.now_ns = now_ns, .rtt_ns = rtt_ns};
	__u32 reason;

	if (!qp)
		return 0;
	bpf_spin_lock(&qp->lock);
	sack.received_units = acknowledged_units(qp);
	reason = cc_on_sack(&qp->cc, &qp->cc_parameters, &sack);
	bpf_spin_unlock(&qp->lock);
	cwnd_count_change(reason);
	return 0;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A data packet at the responder of a reliable connection, whether it comes in order or not: what
 * it says, where it goes, and what it is responded to with. Functions that return an int return 0
 * or, if the packet is not taken, the stage that follows.
 */
#ifndef MRC_RC_WRITE_H
#define MRC_RC_WRITE_H

#include <mrc/psn.h>
#include "../mr.h"
#include "../packet.h"
#include "../stage.h"
#include "../work.h"
#include "maps.h"
#include "wire.h"

/* Decides the response. */
static __always_inline int rc_respond(struct rc_response *response, __u32 syndrome, __u32 psn,
				      __u32 msn)
{
	response->syndrome = syndrome;
	response->psn = psn;
	response->msn = msn;
	return MRC_STAGE_SEND_RESPONSE;
}

/* A packet that was taken before. */
static __always_inline int rc_on_duplicate(const struct mrc_rc_qp *qp, struct rc_response *response)
{
	nic_count(MRC_NC_RX_DATA, 1);
	nic_count(MRC_NC_RX_DUPLICATE, 1);
	return rc_respond(response, WIRE_AETH_ACK, qp->expected_psn - 1, qp->completed_messages);
}

static __always_inline int rc_load_reth(struct xdp_md *ctx, struct rc_packet *packet)
{
	struct rc_reth reth;

	if (bpf_xdp_load_bytes(ctx, sizeof(struct wire_stack), &reth, sizeof(reth)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	packet->va = bpf_be64_to_cpu(reth.va);
	packet->r_key = bpf_ntohl(reth.r_key);
	packet->message_bytes = bpf_ntohl(reth.dmalen);
	return 0;
}

/* A packet with immediate is taken if a receive waits for it; `psn` is that of an RNR NAK. */
static __always_inline int rc_load_immediate(struct xdp_md *ctx, const struct mrc_rc_qp *qp,
					     struct rc_response *response, __u32 psn)
{
	__u32 qp_index = response->qp_index, opcode = response->packet.opcode;
	struct mrc_work_ring *ring;
	__be32 immediate;

	if (!rc_has_immediate(opcode))
		return 0;
	ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	if (!ring || (__s32)(ring->receive_tail - qp->delivered - qp->waiting_immediates) <= 0) {
		nic_count(MRC_NC_DROP_NO_RECEIVE, 1);
		return rc_respond(response, RC_RNR_TIMER, psn, qp->completed_messages);
	}
	if (bpf_xdp_load_bytes(ctx, rc_header_bytes(opcode) - sizeof(immediate), &immediate,
			       sizeof(immediate)))
		return nic_drop(MRC_NC_DROP_LENGTH);
	response->packet.immediate = bpf_ntohl(immediate);
	return 0;
}

static __always_inline int rc_place(struct xdp_md *ctx, struct mrc_rc_qp *qp,
				    struct rc_response *response)
{
	const struct rc_packet *packet = &response->packet;
	__s64 place = mr_of_qp(response->qp_index, qp->is_writable, qp->pd, packet->r_key,
			       packet->va, packet->length);
	int result;

	if (place < 0)
		return rc_respond(response, RC_NAK_REMOTE_ACCESS, packet->psn,
				  qp->completed_messages);
	result = place_payload(ctx, qp->placings, packet->psn - qp->first_expected,
			       rc_header_bytes(packet->opcode), place, packet->length);
	if (result)
		return XDP_DROP;
	nic_count(MRC_NC_RX_DATA, 1);
	nic_count(MRC_NC_RX_PLACED_BYTES, packet->length);
	return 0;
}

/* Under the lock: acknowledges what is there now, by a CNP if the packet is marked and one is due. */
static __always_inline void rc_acknowledge(struct mrc_rc_qp *qp, struct rc_response *response,
					   __u64 now_ns)
{
	response->is_cnp =
	    response->is_marked && (__s64)(now_ns - qp->cnp_ns) >= (__s64)qp->cnp_interval_ns;
	if (response->is_cnp)
		qp->cnp_ns = now_ns;
	rc_respond(response, WIRE_AETH_ACK, qp->expected_psn - 1, qp->completed_messages);
}

#endif

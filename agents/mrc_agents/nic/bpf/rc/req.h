/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The requester of a reliable connection: packets in order on the QP's path or, when it has several
 * EVs, on each in turn; after a loss, everything from the lost packet on again (go-back-N).
 */
#ifndef MRC_RC_REQ_H
#define MRC_RC_REQ_H

#include <mrc/fabric_config.h>
#include "../work.h"
#include "../xmit.h"
#include "maps.h"
#include "rto_timer.h"
#include "wire.h"

#define RC_SLOT(qp, psn) (&(qp)->req.tx[(psn) & (MRC_PSN_RING - 1)])

enum {
	RC_IDLE_SHARE = 8,	/* part of the window that may lie idle until the timer fires */
	RC_DOORBELL_NS = 50000, /* paced: after a doorbell others of its frames come */
};

/* Fills the slot of a new packet, and moves on in the work request. */
static __always_inline void rc_fill_slot(struct mrc_rc_qp *qp, const struct mrc_work *work,
					 struct mrc_rc_slot *slot, __u64 now_ns)
{
	struct work_segment segment = work_next_segment(&qp->req.work, work, qp->head.pmtu_bytes);

	slot->local_offset = segment.local_offset;
	slot->remote_offset = segment.remote_offset;
	slot->message_bytes = work->length;
	slot->length = segment.length;
	slot->work_index = segment.work_index;
	slot->is_resent = 0;
	if (segment.is_last)
		slot->opcode =
		    (segment.is_first ? RC_WRITE_ONLY : RC_WRITE_LAST) + !!work->has_immediate;
	else
		slot->opcode = segment.is_first ? RC_WRITE_FIRST : RC_WRITE_MIDDLE;
	work_advance(&qp->req.work, work, &segment, now_ns);
}

/* The EV of the next packet: the only one, or the next in turn whose port works. */
static __always_inline __u32 rc_next_ev(struct mrc_rc_qp *qp, __u32 port_up_mask)
{
	__u32 entropy = qp->req.evs[0];

	if (qp->req.ev_count <= 1)
		return entropy;
	for (int i = 0; i < MRC_PLANE_MAX; i++) {
		if (++qp->req.next_ev >= qp->req.ev_count)
			qp->req.next_ev = 0;
		entropy = qp->req.evs[qp->req.next_ev & (MRC_EV_MAX - 1)];
		if (port_up_mask >> (entropy >> MRC_EV_PLANE_SHIFT) & 1)
			break;
	}
	return entropy;
}

/* True if what may be sent needs frames that nobody has provided yet. */
static __always_inline int rc_needs_frames(const struct mrc_rc_qp *qp, struct mrc_work_ring *ring,
					   __u64 now_ns)
{
	if (qp->head.is_kick_pending)
		return 0;
	return qp->req.next_psn != qp->req.max_psn ||
	       (work_ready(&qp->req.work, ring) &&
		(!qp->req.doorbell_ns ||
		 (__s64)(now_ns - qp->req.doorbell_ns) > (__s64)paced_ns(RC_DOORBELL_NS)));
}

/* Under the lock: decides the next packet and writes it into `desc`; whether there is one. */
static __always_inline int rc_next_packet_locked(struct mrc_rc_qp *qp, struct mrc_work_ring *ring,
						 __u32 port_up_mask, struct tx_desc *desc)
{
	struct tx_deferred *deferred = &desc->deferred;
	__u32 room, window, is_again, has_packet = 0;

	__builtin_memset(deferred, 0, sizeof(*deferred));
	if (qp->state != MRC_QP_RTS)
		return 0;
	work_next(&qp->req.work, ring);
	is_again = qp->req.next_psn != qp->req.max_psn;
	room = rc_packets_allowed(qp);
	if (room && (is_again || work_ready(&qp->req.work, ring))) {
		struct mrc_rc_slot *slot = RC_SLOT(qp, qp->req.next_psn);
		struct mrc_work *work = work_current(&qp->req.work, ring);

		desc->loss = is_again ? qp->req.loss : MRC_LOSS_NONE;
		if (is_again)
			slot->is_resent = 1;
		else
			rc_fill_slot(qp, work, slot, desc->now_ns);
		if (qp->req.acked_psn == qp->req.max_psn)
			qp->head.progress_ns = desc->now_ns;
		desc->psn = qp->req.next_psn++;
		if (!is_again)
			qp->req.max_psn = qp->req.next_psn;
		desc->entropy = rc_next_ev(qp, port_up_mask);
		desc->plane = desc->entropy >> MRC_EV_PLANE_SHIFT;
		slot->sent_ns = desc->model_ns;
		slot->plane = desc->plane;
		work = &ring->entries[slot->work_index & (MRC_WORK_RING - 1)];
		desc->local_offset = slot->local_offset;
		desc->remote_offset = work_address(work, slot->remote_offset);
		desc->dmalen = slot->message_bytes;
		desc->length = slot->length;
		desc->opcode = qp->is_any_order ? rc_only_opcode(slot->opcode) : slot->opcode;
		desc->r_key = work->r_key;
		desc->immediate = work->immediate;
		has_packet = 1;
		room--;
	}
	work_next(&qp->req.work, ring);
	work_reap(&qp->req.work, &deferred->reaped);
	/* A little credit is only an acknowledgement overtaken by a later one. */
	window = qp->req.next_psn - qp->req.acked_psn + room;
	if (room > window / RC_IDLE_SHARE && rc_needs_frames(qp, ring, desc->now_ns)) {
		qp->head.is_kick_pending = 1;
		deferred->tx_budget = room;
	}
	if (!qp->head.is_timer_armed && qp->req.acked_psn != qp->req.max_psn) {
		qp->head.is_timer_armed = 1;
		deferred->is_timer_due = 1;
	}
	return has_packet;
}

__noinline int rc_next_packet(__u32 qp_index)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct tx_desc *desc = lookup0(&tx_descs);
	int has_packet;

	if (!qp || !ring || !control || !desc)
		return 0;
	bpf_spin_lock(&qp->lock);
	has_packet = rc_next_packet_locked(qp, ring, control->port_up_mask, desc);
	bpf_spin_unlock(&qp->lock);
	if (desc->deferred.is_timer_due)
		rc_rto_timer_start(qp_index);
	if (desc->deferred.tx_budget)
		nic_event(MRC_EVENT_KICK, qp_index, desc->deferred.tx_budget, 0, 0);
	if (desc->deferred.reaped.is_finished)
		report_completion(qp_index, desc->deferred.reaped.index,
				  desc->deferred.reaped.iterations);
	return has_packet;
}

/* Makes the frame, whatever it held, the packet that was decided. */
__noinline int rc_xmit_data(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct tx_desc *desc = lookup0(&tx_descs);
	struct tx_format format = {.stack_bytes = sizeof(struct wire_stack), .dscp = MRC_DSCP_RC};
	struct mrc_rc_qp *qp;
	struct rc_reth reth;

	if (!desc || !config)
		return XDP_DROP;
	qp = rc_find(desc->qp_index);
	if (!qp)
		return XDP_DROP;
	format.to = qp_av(&qp->head, config, desc->plane, desc->entropy);
	format.head_bytes = rc_header_bytes(desc->opcode);
	format.flags_psn = (__u32)WIRE_BTH_ACK_REQUEST << 24 | (desc->psn & WIRE_PSN_MASK);
	if (!tx_data_begin(ctx, config, desc, &format))
		return nic_drop(MRC_NC_DROP_LENGTH);
	if (rc_has_reth(desc->opcode)) {
		reth.va = bpf_cpu_to_be64(desc->remote_offset);
		reth.r_key = bpf_htonl(desc->r_key);
		reth.dmalen = bpf_htonl(desc->dmalen);
		if (bpf_xdp_store_bytes(ctx, sizeof(struct wire_stack), &reth, sizeof(reth)))
			return nic_drop(MRC_NC_DROP_BOUNDS);
	}
	return tx_data_end(ctx, desc, format.head_bytes, rc_has_immediate(desc->opcode));
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The requester: turns work requests into packets and feedback into the next packet
 * (docs/reference/protocol.md, "Requester").
 *
 * Everything about a packet that is in flight is in tx[psn % MRC_PSN_RING]; two rings of bits say
 * whether it has been acknowledged or declared lost.
 */
#ifndef MRC_REQ_H
#define MRC_REQ_H

#include <mrc/fabric_config.h>
#include <mrc/psn.h>
#include "cc.h"
#include "ev.h"
#include "nic_maps.h"
#include "packet.h"
#include "qp.h"
#include "req_state.h"
#include "rto_timer.h"
#include "work.h"
#include "xmit.h"

enum {
	COMPLETIONS_PER_SACK = 64, /* message ends one SACK can uncover */
	LOSSES_PER_SACK = 16,
	IDLE_WINDOW_SHARE = 8,	 /* part of the window that may lie idle until the timer expires */
	IDLE_WINDOW_NS = 100000, /* paced; more than that too while nothing is lost ... */
	IDLE_WINDOW_RTT_SHARE = 2, /* ... and, unshaped, for that part of a round trip */
	NEW_BITS_PER_SACK = 16,	   /* the rest is in the next SACK's bitmap as well */
};

/* Fills the slot of a new packet, and moves on in the work request. */
static __always_inline void fill_tx_slot(struct mrc_qp *qp, const struct mrc_work *work,
					 struct mrc_tx_slot *slot, __u64 now_ns)
{
	struct work_segment segment = work_next_segment(&qp->req.work, work, qp->head.pmtu_bytes);

	if (segment.is_first)
		TRACE_QP(MRC_TRACE_BEGUN, qp, .psn = segment.msn, .time_ns = now_ns,
			 .entropy = qp->head.peer_qpn);
	if (segment.is_first && work->has_immediate) {
		qp->req.next_rqmsn++;
		qp->req.outstanding_wimm++;
		qp->req.wimm_messages |= 1ULL << (segment.msn & 63);
	}
	slot->local_offset = segment.local_offset;
	slot->remote_offset = segment.remote_offset;
	slot->length = segment.length;
	slot->msn = segment.msn;
	slot->rqmsn = qp->req.next_rqmsn;
	slot->work_index = segment.work_index;
	slot->retransmissions = 0;
	slot->loss = MRC_LOSS_NONE;
	slot->has_lost_ev = 0;
	if (segment.is_last)
		slot->opcode =
		    (segment.is_first ? WIRE_WRITE_ONLY : WIRE_WRITE_LAST) + !!work->has_immediate;
	else
		slot->opcode = segment.is_first ? WIRE_WRITE_FIRST : WIRE_WRITE_MIDDLE;
	work_advance(&qp->req.work, work, &segment, now_ns);
}

/* PSN of the oldest packet that waits for retransmission; only with lost_count > 0. */
static __always_inline __u32 oldest_lost(struct mrc_qp *qp)
{
	__u32 una = qp->comp.una_psn;

	for (__u32 i = 0; i < MRC_PSN_WORDS; i++) {
		__u64 bits = ring_window(qp->req.lost_bits, una + i * 64);

		if (bits)
			return una + i * 64 + trailing_zeros(bits);
	}
	return una;
}

/* Full packets that the window lets go, about. */
static __always_inline __u16 window_packets(const struct mrc_qp *qp)
{
	__u32 packets = qp->cc.cwnd_bytes >> (qp->req.pmtu_shift & 31);

	return packets < MRC_PSN_RING ? packets : MRC_PSN_RING;
}

/*
 * Under the lock, after a frame that could be used was: whether there is credit beyond it that no
 * frame will come for. A little is that of a SACK overtaken by a later one, and much of it, for a
 * moment, that of a burst of them on another plane: their own frames come at once, and every one
 * of a TX kick costs a system call and a pool of pages. It is the credit that has to lie
 * idle for a while, whether there was anything to send or not: as a PSN window opens again, little
 * is in flight that could bring frames. What does stay unused the timer will notice.
 *
 * An unshaped lab is as fast as its CPUs, so a round trip is what they make it, and what they spend
 * on kicks is taken from the traffic. In a shaped one they have time, and a small window that
 * grows must not wait: its rivals would not.
 */
static __always_inline int is_window_idle(struct mrc_qp *qp, struct mrc_work_ring *ring,
					  __u64 now_ns)
{
	__s64 idle_bytes = cc_credit_bytes(&qp->cc);
	__u64 wait_ns = paced_ns(IDLE_WINDOW_NS);

	if (idle_bytes < qp->req.idle_min_bytes)
		qp->req.idle_min_bytes = idle_bytes;
	if (idle_bytes <= (__s64)(qp->cc.cwnd_bytes / IDLE_WINDOW_SHARE)) {
		qp->req.idle_since_ns = 0;
		return 0;
	}
	if (!qp->req.idle_since_ns)
		qp->req.idle_since_ns = now_ns;
	if (!fabric_config.is_shaped && qp->comp.rtt_ns / IDLE_WINDOW_RTT_SHARE > wait_ns)
		wait_ns = qp->comp.rtt_ns / IDLE_WINDOW_RTT_SHARE;
	return qp->req.lost_count ||
	       (has_packet_to_send(qp, ring) && now_ns - qp->req.idle_since_ns > wait_ns);
}

/* Under the lock: the packet of a PSN is new, lost, or sent again to request an ACK. */
static __always_inline void tx_take_packet(struct mrc_qp *qp, struct mrc_work_ring *ring, __u32 psn,
					   int is_ack_request, __u64 now_ns)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, psn);

	if (is_ack_request) {
		slot->loss = MRC_LOSS_ACK;
		qp->req.is_ack_requested = 1;
	} else if (qp->req.lost_count) {
		ring_clear(qp->req.lost_bits, psn);
		qp->req.lost_count--;
		qp->req.rto_retx_left -= !!qp->req.rto_retx_left;
		if (slot->retransmissions < 255)
			slot->retransmissions++;
	} else {
		fill_tx_slot(qp, work_current(&qp->req.work, ring), slot, now_ns);
		qp->req.next_psn++;
		qp->req.is_ack_requested = 0;
	}
}

/* Under the lock: the packet leaves on an EV, and is in flight. */
static __always_inline void tx_account(struct mrc_qp *qp, const struct mrc_nic_paths *paths,
				       __u32 psn, __u32 ev_index, const struct tx_desc *desc)
{
	struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
	struct mrc_ev *ev = EV(qp, ev_index);

	qp->req.inflight++;
	cc_on_send(&qp->cc, slot_nominal_bytes(slot));
	slot->sent_ns = desc->model_ns;
	slot->port_wait_ns = port_wait_ns(paths, ev->plane, desc->model_ns);
	qp->req.last_sent_ns = rtt_larger(qp->req.last_sent_ns, desc->now_ns + slot->port_wait_ns);
	slot->acked_at_send = qp->comp.acked_total;
	slot->window_packets = window_packets(qp);
	slot->order = qp->req.sent_order++;
	slot->ev_index = ev_index;
	ev_packet_sent(qp, ev);
	slot->path = ev->path;
	path_sent(qp, slot->path, psn);
}

/* Under the lock: writes into `desc` what the packet says. */
static __always_inline void tx_describe(struct mrc_qp *qp, struct mrc_work_ring *ring, __u32 psn,
					__u32 ev_index, struct tx_desc *desc)
{
	const struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
	const struct mrc_ev *ev = EV(qp, ev_index);
	const struct mrc_work *work = &ring->entries[slot->work_index & (MRC_WORK_RING - 1)];

	TRACE_QP(MRC_TRACE_SENT, qp, .psn = psn, .time_ns = desc->model_ns, .entropy = ev->entropy,
		 .what = slot->loss);
	desc->psn = psn;
	desc->entropy = ev->entropy;
	desc->plane = ev->plane;
	desc->local_offset = slot->local_offset;
	desc->remote_offset = work_address(work, slot->remote_offset);
	desc->length = slot->length;
	desc->msn = slot->msn;
	desc->rqmsn = slot->rqmsn;
	desc->opcode = slot->opcode;
	desc->loss = slot->loss;
	desc->immediate = work->immediate;
	desc->requests_sack =
	    qp->req.requests_sack &&
	    (cc_requests_sack(&qp->cc, &qp->cc_parameters) || slot->opcode >= WIRE_WRITE_LAST);
	desc->r_key = work->r_key;
	desc->dmalen = work->length;
}

/* Under the lock: the next packet leaves, if there is an EV for it; returns whether there is. */
static __always_inline int tx_send(struct mrc_qp *qp, struct mrc_work_ring *ring,
				   const struct mrc_nic_control *control,
				   struct mrc_nic_paths *paths, int is_ack_request,
				   struct tx_desc *desc)
{
	__u32 psn = qp->req.lost_count ? oldest_lost(qp) : qp->req.next_psn - is_ack_request;
	struct mrc_tx_slot *slot = TX_SLOT(qp, psn);
	int ev;

	/* Stagger the first plane over QPs, or many single-packet QPs would share one. */
	if (!qp->req.inflight)
		qp->req.next_plane = paths->next_plane;
	ev = ev_select(qp, paths, usable_planes(control, qp), qp->req.lost_count ? slot->path : -1,
		       desc->now_ns, &desc->deferred.restored_ev);
	desc->deferred.is_blocked = ev < 0;
	if (ev < 0)
		return 0;
	if (!qp->req.inflight)
		paths->next_plane = qp->req.next_plane;
	tx_take_packet(qp, ring, psn, is_ack_request, desc->now_ns);
	/* A tail loss probe does not begin the RTO again, or it would never end. */
	if (!qp->req.inflight && slot->loss != MRC_LOSS_TLP)
		qp->head.progress_ns = desc->now_ns;
	if (!is_ack_request)
		tx_account(qp, paths, psn, ev, desc);
	tx_describe(qp, ring, psn, ev, desc);
	return 1;
}

/*
 * Under the lock: decides the next packet of a QP, a retransmission first, and writes it into
 * `desc`, whose times the caller has set. Returns whether there is one. Also decides whether more
 * packets could leave than this one, and whether the QP's timer must be started.
 */
static __always_inline int build_next_packet_locked(struct mrc_qp *qp, struct mrc_work_ring *ring,
						    const struct mrc_nic_control *control,
						    struct mrc_nic_paths *paths,
						    struct tx_desc *desc)
{
	int has_packet = 0, is_ready, is_ack_request;

	__builtin_memset(&desc->deferred, 0, sizeof(desc->deferred));
	desc->deferred.restored_ev = -1;
	if (qp->state != MRC_QP_RTS)
		return 0;
	if (!qp->req.inflight)
		desc->deferred.is_drifted = requester_drained(qp);
	work_next(&qp->req.work, ring); /* a request that was stopped makes way for the next */
	is_ready = qp->req.lost_count || has_packet_to_send(qp, ring);
	is_ack_request = !is_ready && !qp->req.is_ack_requested && is_ack_missing(qp);
	if (is_ack_request || (is_ready && window_is_open(qp)))
		has_packet = tx_send(qp, ring, control, paths, is_ack_request, desc);
	work_next(&qp->req.work, ring);
	work_reap(&qp->req.work, &desc->deferred.reaped);
	if (is_window_idle(qp, ring, desc->now_ns) && !desc->deferred.is_blocked &&
	    !qp->head.is_kick_pending) {
		qp->head.is_kick_pending = 1;
		desc->deferred.tx_budget = packets_allowed(qp);
	}
	if (!qp->head.is_timer_armed &&
	    (qp->req.inflight || qp->req.is_ack_requested || desc->deferred.is_blocked)) {
		qp->head.is_timer_armed = 1;
		desc->deferred.is_timer_due = 1;
	}
	return has_packet;
}

static __always_inline void run_deferred(__u32 qp_index, const struct tx_deferred *deferred)
{
	if (deferred->is_blocked)
		nic_count(MRC_NC_DROP_NO_EV, 1);
	if (deferred->is_drifted)
		nic_count(MRC_NC_CC_DRIFT, 1);
	if (deferred->is_timer_due)
		rto_timer_start(qp_index);
	if (deferred->restored_ev >= 0)
		ev_count_transition(qp_index, deferred->restored_ev, MRC_EV_SKIP, MRC_EV_GOOD,
				    MRC_REASON_TURN);
	if (deferred->tx_budget)
		nic_event(MRC_EVENT_KICK, qp_index, deferred->tx_budget, 0, 0);
	if (deferred->reaped.is_finished)
		report_completion(qp_index, deferred->reaped.index, deferred->reaped.iterations);
}

/* build_next_packet_locked() for a caller that does not hold the lock. */
__noinline int build_next_packet(__u32 qp_index)
{
	struct mrc_qp *qp = qp_find(qp_index);
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	struct mrc_nic_control *control = lookup0(&nic_control);
	struct mrc_nic_paths *paths = lookup0(&nic_paths);
	struct tx_desc *desc = lookup0(&tx_descs);
	int has_packet;

	if (!qp || !ring || !control || !paths || !desc)
		return 0;
	bpf_spin_lock(&qp->lock);
	has_packet = build_next_packet_locked(qp, ring, control, paths, desc);
	bpf_spin_unlock(&qp->lock);
	run_deferred(qp_index, &desc->deferred);
	return has_packet;
}

/*
 * Makes the frame, whatever it held, the packet that was decided. Called by the program itself and
 * not by the handlers, whose stack it would share.
 */
__noinline int xmit_data(struct xdp_md *ctx)
{
	struct mrc_nic_config *config = lookup0(&nic_config);
	struct tx_desc *desc = lookup0(&tx_descs);
	struct tx_format format = {.stack_bytes = sizeof(struct wire_write)};
	struct wire_write *head;
	struct mrc_qp *qp;

	if (!desc || !config)
		return XDP_DROP;
	qp = qp_find(desc->qp_index);
	if (!qp)
		return XDP_DROP;
	format.to = qp_av(&qp->head, config, desc->plane, desc->entropy);
	format.head_bytes = write_header_bytes(desc->opcode);
	format.dscp = desc->loss ? MRC_DSCP_TRIMMABLE_RETX : MRC_DSCP_TRIMMABLE;
	format.flags_psn = (__u32)WIRE_BTH_TIMESTAMP << 24 | (desc->psn & WIRE_PSN_MASK);
	if (desc->loss)
		format.flags_psn |= (__u32)WIRE_BTH_RETRANSMISSION << 24;
	if (desc->requests_sack)
		format.flags_psn |= (__u32)WIRE_BTH_ACK_REQUEST << 24;
	head = tx_data_begin(ctx, config, desc, &format);
	if (!head)
		return nic_drop(MRC_NC_DROP_LENGTH);
	head->rqmsn = bpf_htons(desc->rqmsn);
	head->msn = bpf_htons(desc->msn);
	head->tx_timestamp = bpf_htons(desc->now_ns >> 7);
	head->timestamp_type = bpf_htons(WIRE_TIMESTAMP_128NS);
	head->va = bpf_cpu_to_be64(desc->remote_offset);
	head->r_key = bpf_htonl(desc->r_key);
	head->dmalen = bpf_htonl(desc->dmalen);
	return tx_data_end(ctx, desc, format.head_bytes, format.head_bytes > sizeof(*head));
}

#endif

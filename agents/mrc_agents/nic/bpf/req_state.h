/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* State of the requester: whether a QP has a packet to send, and may. All under the QP's lock. */
#ifndef MRC_REQ_STATE_H
#define MRC_REQ_STATE_H

#include <mrc/cc_window.h>
#include "nic_maps.h"
#include "work.h"

/* True if a new packet could be sent now, credit and EVs apart. */
static __always_inline int has_packet_to_send(struct mrc_qp *qp, struct mrc_work_ring *ring)
{
	if (qp->req.next_psn - qp->comp.una_psn >= qp->req.mpr_psns ||
	    !work_ready(&qp->req.work, ring))
		return 0;
	return qp->req.work.sent_bytes || !work_current(&qp->req.work, ring)->has_immediate ||
	       qp->req.outstanding_wimm < qp->req.max_wimm;
}

/*
 * True if all that was sent has arrived and nothing more can be sent, but messages still wait for
 * their transport ACK: then none is on its way, or a packet would not be acknowledged yet.
 */
static __always_inline int is_ack_missing(struct mrc_qp *qp)
{
	return !qp->req.inflight && !qp->req.lost_count && qp->comp.una_psn == qp->req.next_psn &&
	       qp->req.work.done_msn != qp->req.work.next_msn;
}

/*
 * Under the lock: whether congestion control lets a packet go. What a time-out or a tail loss probe
 * retransmits goes in any case: no ACK comes for what fills the window, so nothing else would
 * open it.
 */
static __always_inline int window_is_open(const struct mrc_qp *qp)
{
	return cc_may_send(&qp->cc) || (qp->req.rto_retx_left && qp->req.lost_count);
}

#endif

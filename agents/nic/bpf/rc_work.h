/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * From work requests to packets of a reliable connection, and back to completions. All functions
 * run under the QP's lock but rc_report().
 */
#ifndef MRC_RC_WORK_H
#define MRC_RC_WORK_H

#include "rc_maps.h"
#include "rc_wire.h"

#define RC_SLOT(qp, psn) (&(qp)->tx[(psn) & (MRC_PSN_RING - 1)])

/* Whether a packet that was never sent could be. */
static __always_inline int rc_work_ready(struct mrc_rc_qp *qp, struct mrc_work_ring *ring)
{
	struct mrc_work *work = &ring->entries[qp->work_next & (MRC_WORK_RING - 1)];

	if (qp->work_next == ring->tail)
		return 0;
	if (qp->work_sent_bytes)
		return 1;
	if (work->stop || qp->outstanding_messages >= MRC_WORK_RING)
		return 0;
	return !qp->work_iteration || qp->outstanding_messages < work->depth;
}

/* Fills the slot of a new packet, and moves on in the work request. */
static __always_inline void rc_work_take(struct mrc_rc_qp *qp, struct mrc_work *work,
					 struct mrc_rc_slot *slot, __u64 now_ns)
{
	__u32 offset = qp->work_sent_bytes, rest = work->length - offset;
	__u32 length = rest < qp->pmtu_bytes ? rest : qp->pmtu_bytes;

	if (!offset) {
		qp->message_start_ns[qp->next_msn & (MRC_WORK_RING - 1)] = now_ns;
		qp->outstanding_messages++;
	}
	slot->local_offset = work->local_offset + qp->work_local_slot * work->length + offset;
	slot->remote_offset = work->remote_offset + qp->work_remote_slot * work->length + offset;
	slot->message_bytes = work->length;
	slot->length = length;
	slot->work_index = qp->work_next & (MRC_WORK_RING - 1);
	slot->is_resent = 0;
	if (length == rest)
		slot->opcode = (offset ? RC_WRITE_LAST : RC_WRITE_ONLY) + !!work->has_immediate;
	else
		slot->opcode = offset ? RC_WRITE_MIDDLE : RC_WRITE_FIRST;
	qp->work_sent_bytes = offset + length;
	if (length != rest)
		return;
	qp->work_sent_bytes = 0;
	qp->next_msn++;
	qp->work_iteration++;
	if (++qp->work_local_slot >= work->local_slots)
		qp->work_local_slot = 0;
	if (++qp->work_remote_slot >= work->remote_slots)
		qp->work_remote_slot = 0;
}

/* Moves on to the next work request when the current one is sent whole, or told to stop. */
static __always_inline void rc_work_settle(struct mrc_rc_qp *qp, struct mrc_work_ring *ring)
{
	__u32 index = qp->work_next & (MRC_WORK_RING - 1);
	struct mrc_work *work = &ring->entries[index];

	if (qp->work_next == ring->tail || qp->work_sent_bytes)
		return;
	if (qp->work_iteration < work->iterations && !work->stop)
		return;
	qp->work_started[index] = qp->work_iteration;
	qp->work_iteration = 0;
	qp->work_local_slot = 0;
	qp->work_remote_slot = 0;
	qp->work_next++;
}

/* A work request that has nothing left to wait for. */
struct rc_finished {
	__u32 is_finished;
	__u32 index;
	__u32 iterations;
};

static __always_inline void rc_work_finish(struct mrc_rc_qp *qp, struct rc_finished *finished)
{
	finished->index = qp->work_head & (MRC_WORK_RING - 1);
	finished->is_finished = qp->work_head != qp->work_next &&
				qp->completed_iterations == qp->work_started[finished->index];
	if (!finished->is_finished)
		return;
	finished->iterations = qp->completed_iterations;
	qp->completed_iterations = 0;
	qp->work_head++;
}

static __always_inline void rc_report(__u32 qp_index, struct mrc_work_ring *ring,
				      const struct rc_finished *finished)
{
	struct mrc_work *work = &ring->entries[finished->index & (MRC_WORK_RING - 1)];

	if (finished->is_finished)
		nic_event(MRC_EVENT_COMPLETION, qp_index, work->id, finished->iterations,
			  (__u64)MRC_STATUS_SUCCESS << 32 | work->length);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The paths of a QP (docs/reference/protocol.md, "Loss"). Several EVs may name one; packets on it
 * stay in the order they were sent in, which those on different paths do not. All under the QP's
 * lock.
 *
 * A path chains its packets in flight through tx[], the oldest at its head. Paths that have any
 * form a list by their last acknowledgement:
 *
 *    path_oldest --newer--> ... --newer--> path_newest
 */
#ifndef MRC_PATH_H
#define MRC_PATH_H

#include <mrc/abi.h>
#include <mrc/fabric_config.h>
#include <mrc/psn.h>
#include <mrc/verifier.h>
#include "nic_maps.h"
#include "packet.h"

#define PATH(qp, i)    (&(qp)->paths.path[(i) & (MRC_EV_MAX - 1)])
#define TX_SLOT(qp, i) (&(qp)->req.tx[(i) & (MRC_PSN_RING - 1)])

enum {
	LOSS_ROUND_TRIPS = 3, /* of acknowledgements that prove a packet lost, where windows are */
	LOSS_ACKS_MIN = 8,    /* small; with these on top */
	LOSS_PATHS = 8,	      /* looked at for a packet that RACK or a time-out declares lost */
};

static __always_inline void path_dequeue(struct mrc_qp *qp, __u32 index)
{
	__u16 older = PATH(qp, index)->older, newer = PATH(qp, index)->newer;

	if (qp->paths.oldest == index)
		qp->paths.oldest = newer;
	else
		PATH(qp, older)->newer = newer;
	if (qp->paths.newest == index)
		qp->paths.newest = older;
	else
		PATH(qp, newer)->older = older;
	qp->paths.busy--;
}

static __always_inline void path_enqueue(struct mrc_qp *qp, __u32 index)
{
	if (qp->paths.busy) {
		PATH(qp, qp->paths.newest)->newer = index;
		PATH(qp, index)->older = qp->paths.newest;
	} else {
		qp->paths.oldest = index;
	}
	qp->paths.newest = index;
	qp->paths.busy++;
}

/* A packet leaves on a path. */
static __always_inline void path_sent(struct mrc_qp *qp, __u32 index, __u32 psn)
{
	struct mrc_path *path = PATH(qp, index);
	__u16 slot = psn & (MRC_PSN_RING - 1);

	if (path->outstanding) {
		TX_SLOT(qp, path->tail)->path_next = slot;
		TX_SLOT(qp, slot)->path_prev = path->tail;
	} else {
		path->head = slot;
		path->last_ack = qp->comp.acked_total;
		path->passed = 0;
		path_enqueue(qp, index);
	}
	path->tail = slot;
	path->outstanding++;
}

/* A packet is no longer in flight on its path: acknowledged, refused, or given up. */
static __always_inline void path_unlink(struct mrc_qp *qp, __u32 index, __u32 psn)
{
	struct mrc_path *path = PATH(qp, index);
	__u16 slot = psn & (MRC_PSN_RING - 1);
	__u16 prev = TX_SLOT(qp, slot)->path_prev, next = TX_SLOT(qp, slot)->path_next;

	if (path->head == slot) {
		path->head = next;
		path->passed = 0;
	} else {
		TX_SLOT(qp, prev)->path_next = next;
	}
	if (path->tail == slot)
		path->tail = prev;
	else
		TX_SLOT(qp, next)->path_prev = prev;
	if (!--path->outstanding)
		path_dequeue(qp, index);
}

/* Something that was sent on a path has been acknowledged. */
static __always_inline void path_acked(struct mrc_qp *qp, __u32 index)
{
	struct mrc_path *path = PATH(qp, index);

	path->last_ack = qp->comp.acked_total;
	path->is_dead = 0;
	if (!path->outstanding || qp->paths.newest == index)
		return;
	path_dequeue(qp, index);
	path_enqueue(qp, index);
}

/* The PSN in a slot that is in flight. */
static __always_inline __u32 slot_psn(const struct mrc_qp *qp, __u32 slot)
{
	return qp->comp.una_psn + ((slot - qp->comp.una_psn) & (MRC_PSN_RING - 1));
}

/*
 * True if a path loses its turns: it was found dead, or its oldest packet is late, more than a
 * window, and a quarter, of acknowledgements having come since it left. Nothing is proven by that,
 * but so a dead path takes few packets, and a slow one no more than it carries.
 */
static __always_inline int path_is_late(const struct mrc_qp *qp, __u32 index)
{
	const struct mrc_path *path = PATH(qp, index);
	const struct mrc_tx_slot *slot = TX_SLOT(qp, path->head);

	if (path->is_dead)
		return 1;
	return path->outstanding && qp->comp.acked_total - slot->acked_at_send >
					slot->window_packets + slot->window_packets / 4;
}

/*
 * True if a path is dead: so many acknowledgements have come that not only its oldest packet is
 * long due, but nothing at all was acknowledged on the path for as long.
 */
static __always_inline int path_is_idle(const struct mrc_qp *qp, __u32 index)
{
	const struct mrc_path *path = PATH(qp, index);
	const struct mrc_tx_slot *slot = TX_SLOT(qp, path->head);
	__u32 limit = LOSS_ROUND_TRIPS * slot->window_packets + LOSS_ACKS_MIN;

	if (limit > qp->comp.loss_threshold_acks)
		limit = qp->comp.loss_threshold_acks;
	return (__s32)(qp->comp.acked_total - slot->acked_at_send) > (__s32)limit &&
	       (__s32)(qp->comp.acked_total - path->last_ack) > (__s32)limit;
}

/*
 * The paths of the NIC, which QPs to hosts of the same T0 share: when one of them loses a packet on
 * a path, the others avoid it too, until enough probes have been acknowledged
 * (docs/reference/protocol.md, "Shared paths").
 */

/* Paced. A suspicion that nothing confirms for so long ends: the QP that would probe is gone. */
#define SUSPICION_NS 2000000000ULL

static __always_inline __u32 nic_path(const struct mrc_qp *qp, __u32 entropy)
{
	__u32 plane = entropy >> MRC_EV_PLANE_SHIFT, way = entropy_uplink(entropy);
	__u32 place = qp->paths.nic_base + plane * qp->paths.way_count;

	place += way % qp->paths.way_count; /* to a near host an EV's lower choices count */

	return index_within(place, MRC_NIC_PATHS);
}

/* True if another path is to be taken if there is one. */
static __always_inline int is_suspected(const struct mrc_qp *qp, const struct mrc_nic_paths *paths,
					__u32 entropy, __u64 now_ns)
{
	__u64 since_ns;

	if (!qp->paths.is_shared)
		return 0;
	since_ns = paths->path[nic_path(qp, entropy)].suspected_ns;
	return since_ns && now_ns - since_ns < paced_ns(SUSPICION_NS);
}

/* An EV has become ASSUMED_BAD, or a probe on it gets no response. */
static __always_inline void path_suspect(const struct mrc_qp *qp, __u32 entropy)
{
	struct mrc_nic_paths *paths = lookup0(&nic_paths);
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_nic_path *path;

	if (!paths || !qp->paths.is_shared)
		return;
	path = &paths->path[nic_path(qp, entropy)];
	if (!path->suspected_ns || now_ns - path->suspected_ns >= paced_ns(SUSPICION_NS))
		path->falls++;
	path->suspected_ns = now_ns;
}

/* An EV on it has come back. */
static __always_inline void path_trust(const struct mrc_qp *qp, __u32 entropy)
{
	struct mrc_nic_paths *paths = lookup0(&nic_paths);

	if (paths && qp->paths.is_shared)
		paths->path[nic_path(qp, entropy)].suspected_ns = 0;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interface of EV selectors. One is a header in mrc_agents/nic/bpf/ev, or in the folder ev of
 * $ALGORITHMS; NAME.h defines, as static __always_inline functions:
 *
 *    __u32 NAME_next(qp, usable_planes, now_ns)   index of the EV that the next packet should have
 *    void NAME_on_ack(qp, ev, is_marked)          may be left out: a packet on it was acknowledged
 *
 *    with struct mrc_qp *qp, __u32 usable_planes, __u64 now_ns, __u32 ev and int is_marked
 *
 * Bit i of usable_planes is plane i, which has active EVs; one is set. ev_select() calls it again,
 * a few times, where the EV has lost its turn, or its path is dead or late. Both run under the QP's
 * lock in the kernel: no loop without bound, no call of a function that is not inline.
 *
 * The EVs of plane p occupy one slice of order[], in three stretches; an EV's own `position` says
 * where it stands, counted from the start of the slice:
 *
 *    [ active ........ | backup .... | ASSUMED_BAD, DENIED ]
 *      0               active_count  active_count + backup_count
 *
 * Every change is a swap with an element at the border of a stretch.
 */
#ifndef MRC_EV_SELECTOR_H
#define MRC_EV_SELECTOR_H

#include <mrc/abi.h>
#include <mrc/psn.h>
#include <mrc/verifier.h>

#define EV_INDEX(i)    index_within(i, MRC_EV_MAX)
#define EV(qp, i)      (&(qp)->evs.ev[EV_INDEX(i)])
#define PLANE_INDEX(i) index_within(i, MRC_PLANE_MAX)

/* State of the selector's own, a `type`; 0 as a QP begins. */
#define ev_own(qp, type)                                                                           \
	({                                                                                         \
		_Static_assert(sizeof(type) <= sizeof((qp)->evs.own),                              \
			       #type " is larger than the state that a selector may have");        \
		(type *)(qp)->evs.own;                                                             \
	})

static __always_inline void ev_swap(struct mrc_qp *qp, __u32 slice, __u32 i, __u32 j)
{
	__u8 at_i = qp->evs.order[EV_INDEX(slice + i)];
	__u8 at_j = qp->evs.order[EV_INDEX(slice + j)];

	qp->evs.order[EV_INDEX(slice + i)] = at_j;
	qp->evs.order[EV_INDEX(slice + j)] = at_i;
	EV(qp, at_j)->position = i;
	EV(qp, at_i)->position = j;
}

/*
 * The plane whose turn it is: planes take turns, so that they carry equal load whatever their
 * number of EVs.
 */
static __always_inline __u32 ev_next_plane(struct mrc_qp *qp, __u32 usable_planes)
{
	__u32 from_next = usable_planes & ~0U << PLANE_INDEX(qp->req.next_plane);
	__u32 plane = PLANE_INDEX(trailing_zeros(from_next ? from_next : usable_planes));

	qp->req.next_plane = plane + 1;
	return plane;
}

/* The active EVs of a plane, one after the other, again and again. */
static __always_inline __u32 ev_next_of_plane(struct mrc_qp *qp, __u32 plane)
{
	struct mrc_ev_plane *set = &qp->evs.planes[PLANE_INDEX(plane)];
	__u32 cursor = set->cursor < set->active_count ? set->cursor : 0;

	set->cursor = cursor + 1;
	return qp->evs.order[EV_INDEX(plane * qp->evs.per_plane + cursor)];
}

/* True if an EV is active on one of these planes. */
static __always_inline int ev_is_usable(const struct mrc_qp *qp, __u32 ev, __u32 usable_planes)
{
	__u32 plane = PLANE_INDEX(EV(qp, ev)->plane);

	return usable_planes >> plane & 1 &&
	       EV(qp, ev)->position < qp->evs.planes[plane].active_count;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Planes take turns; within a plane the active EVs are walked in an order that each pass shuffles a
 * little: an EV just used changes places with one of the few used before it, so each is used once
 * per pass, and never waits for much more than a pass.
 */
#ifndef MRC_SHUFFLE_H
#define MRC_SHUFFLE_H

#include <mrc/ev_selector.h>

enum {
	SHUFFLE_REACH = 4, /* a power of two */
};

/* Two bits for a shuffle from the clock: nothing that is random enough for it costs less. */
static __always_inline __u32 shuffle_bits(__u64 now_ns)
{
	return (now_ns * 0x9e3779b97f4a7c15ULL) >> 32 & (SHUFFLE_REACH - 1);
}

static __always_inline __u32 shuffle_next(struct mrc_qp *qp, __u32 usable_planes, __u64 now_ns)
{
	__u32 plane = ev_next_plane(qp, usable_planes), back = shuffle_bits(now_ns);
	struct mrc_ev_plane *set = &qp->evs.planes[plane];
	__u32 slice = plane * qp->evs.per_plane;
	__u32 cursor = set->cursor < set->active_count ? set->cursor : 0;
	__u8 ev = qp->evs.order[EV_INDEX(slice + cursor)];

	ev_swap(qp, slice, cursor, back < cursor ? cursor - back : 0);
	set->cursor = cursor + 1;
	return ev;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Recycled entropies, after REPS (Bonato et al., 2024): an EV whose SACK came back without a mark
 * is kept, and used once more, the oldest first; where none is kept, the next in turn is tried.
 */
#ifndef MRC_REPS_H
#define MRC_REPS_H

#include <mrc/ev_selector.h>

enum {
	REPS_KEPT = 32, /* a power of two */
};

struct reps {
	__u8 kept[REPS_KEPT];
	__u32 taken; /* EVs that were kept and used, and all that were kept; free-running */
	__u32 put;
};

static __always_inline __u32 reps_next(struct mrc_qp *qp, __u32 usable_planes, __u64 now_ns)
{
	struct reps *reps = ev_own(qp, struct reps);
	__u32 ev;

	if (reps->taken != reps->put) {
		ev = reps->kept[index_within(reps->taken++, REPS_KEPT)];
		if (ev_is_usable(qp, ev, usable_planes))
			return ev;
	}
	return ev_next_of_plane(qp, ev_next_plane(qp, usable_planes));
}

static __always_inline void reps_on_ack(struct mrc_qp *qp, __u32 ev, int is_marked)
{
	struct reps *reps = ev_own(qp, struct reps);

	if (!is_marked && reps->put - reps->taken < REPS_KEPT)
		reps->kept[index_within(reps->put++, REPS_KEPT)] = ev;
}

#endif

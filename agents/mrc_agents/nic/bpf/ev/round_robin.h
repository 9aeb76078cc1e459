/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Planes take turns, and within a plane its active EVs, always in the same order. */
#ifndef MRC_ROUND_ROBIN_H
#define MRC_ROUND_ROBIN_H

#include <mrc/ev_selector.h>

static __always_inline __u32 round_robin_next(struct mrc_qp *qp, __u32 usable_planes, __u64 now_ns)
{
	return ev_next_of_plane(qp, ev_next_plane(qp, usable_planes));
}

#endif

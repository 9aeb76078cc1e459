/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Changes of EV states, counted and told. */
#ifndef MRC_EV_REPORT_H
#define MRC_EV_REPORT_H

#include "ev_set.h"
#include "nic_maps.h"

/* Counts a change of an EV's state. Called without the QP's lock, as is ev_changed(). */
static __noinline int ev_counted(__u32 qp_index, __u32 ev_index, __u32 from, __u32 to, __u32 reason)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_ev_transitions *counts;
	__u32 plane, place;

	if (!qp)
		return 0;
	plane = qp->evs[EV_INDEX(ev_index)].plane;
	counts = bpf_map_lookup_elem(&ev_transitions, &plane);
	place = (from * MRC_EV_STATE_COUNT + to) * MRC_REASON_COUNT + reason;
	if (counts && place < sizeof(*counts) / sizeof(counts->value[0]))
		counts->value[place]++;
	return 0;
}

/* Counts a change that the controller is to know of, and tells the agent: all but those of SKIP. */
static __noinline int ev_changed(__u32 qp_index, __u32 ev_index, __u32 from, __u32 to, __u32 reason)
{
	ev_counted(qp_index, ev_index, from, to, reason);
	return nic_event(MRC_EVENT_EV_STATE, qp_index, ev_index, from, (__u64)to << 32 | reason);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What an answer to a probe does to its EV (docs/protocol.md, "EV probes"). */
#ifndef MRC_PROBE_ANSWER_H
#define MRC_PROBE_ANSWER_H

#include "ev_set.h"
#include "nic_maps.h"

enum {
	PROBE_ID_MASK = 0xffff,
};

/*
 * An answer to a probe. An EV probe is one success of several that an EV needs to return; a
 * reliability probe, which went the way of data, brings it back at once, to SKIP if it was marked.
 * Returns 0 when there is no such probe; `entropy` is that of a SACK alone.
 */
__noinline int probe_answered(__u32 id, __u32 kind, __u32 qp_index, __u32 entropy, __u32 is_marked)
{
	__u32 slot = id & (MRC_PROBE_RING - 1), ev_index, to, has_returned = 0, mask;
	struct mrc_probe *probe = bpf_map_lookup_elem(&probes, &slot);
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_qp *qp;
	struct mrc_ev *ev;

	if (!probe || probe->probe_id != id)
		return 0;
	if (kind == MRC_PROBE_RELIABILITY
		? probe->kind != MRC_PROBE_RELIABILITY || probe->qp_index != qp_index
		: probe->kind == MRC_PROBE_RELIABILITY)
		return 0;
	qp_index = probe->qp_index;
	ev_index = EV_INDEX(probe->ev_index);
	kind = probe->kind;
	mask = probe->port_status_mask;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	/* The QP, or the EV at its place, may be another one by now. */
	if (!qp || qp->qpn != probe->qpn || qp->evs[ev_index].entropy != probe->entropy ||
	    (kind == MRC_PROBE_RELIABILITY && probe->entropy != entropy) ||
	    !__sync_lock_test_and_set(&probe->is_pending, 0))
		return 0;
	ev = &qp->evs[ev_index];
	to = kind == MRC_PROBE_RELIABILITY && is_marked ? MRC_EV_SKIP : MRC_EV_GOOD;
	bpf_spin_lock(&qp->lock);
	ev->is_probe_pending = 0;
	ev->rtt_ns = now_ns - probe->sent_ns;
	if (ev->state == MRC_EV_ASSUMED_BAD) {
		if (ev->probe_successes < 255)
			ev->probe_successes++;
		if (kind == MRC_PROBE_RELIABILITY ||
		    ev->probe_successes >= qp->probe_success_target)
			has_returned = ev_return(qp, ev_index, MRC_EV_ASSUMED_BAD, to,
						 MRC_REASON_PROBE, now_ns);
	}
	bpf_spin_unlock(&qp->lock);
	nic_count(MRC_NC_RX_PROBE_ANSWER, 1);
	if (has_returned) {
		path_trust(qp, qp->evs[ev_index].entropy);
		ev_changed(qp_index, ev_index, MRC_EV_ASSUMED_BAD, to, MRC_REASON_PROBE);
	}
	if (kind == MRC_PROBE_PORT_STATUS)
		nic_event(MRC_EVENT_PORT_STATUS, qp_index, mask, 0, 0);
	return 1;
}

#endif

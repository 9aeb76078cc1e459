/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The ACK-path EVs of a QP: for each plane one on which a packet of ours is known to have reached
 * the peer lately, so that responses take it (docs/reference/protocol.md, "ACK-path EVs"). A QP
 * that sends learns them from the SACKs for its own data. One that only receives turns one frame in
 * so many into an EV probe instead of a SACK, and the probe's response into the SACK that was left
 * out.
 */
#ifndef MRC_ACK_PATH_H
#define MRC_ACK_PATH_H

#include <mrc/psn.h>
#include "ev.h"
#include "nic_maps.h"
#include "packet.h"

enum {
	ACK_PATH_PROBE_OUTSTANDING = 1 << 16, /* in mrc_ack_path_ev.probe, beside the id */
};

/*
 * Where the response to a packet goes: on the plane it came by, unless that has lost a port, and
 * there on the ACK-path EV. As long as none is known, on the packet's own EV, whose path works at
 * least in the other direction.
 */
static __always_inline void ack_path_av(const struct mrc_nic_config *config,
					const struct mrc_nic_control *control, struct mrc_qp *qp,
					__u32 rx_plane, __u32 entropy, struct packet_av *to)
{
	__u32 usable = usable_planes(control, qp), plane = PLANE_INDEX(rx_plane);
	const struct mrc_ack_path_ev *known;

	if (usable && !(usable >> plane & 1)) {
		plane = PLANE_INDEX(trailing_zeros(usable));
		entropy = EV(qp, qp->evs.order[EV_INDEX(plane * qp->evs.per_plane)])->entropy;
	}
	known = &qp->resp.ack_path[plane];
	if (known->is_good)
		entropy = known->entropy;
	*to = qp_av(&qp->head, config, plane, entropy);
}

/* Under the lock: a packet on one of the QP's own EVs has arrived. */
static __always_inline void ack_path_learn(struct mrc_qp *qp, const struct mrc_ev *ev)
{
	struct mrc_ack_path_ev *known = &qp->resp.ack_path[PLANE_INDEX(ev->plane)];

	known->entropy = ev->entropy;
	known->is_good = 1;
	qp->resp.since_ack_path_probe = 0;
}

/* Under the lock: what is known is of another time. */
static __always_inline void ack_path_forget(struct mrc_qp *qp)
{
	for (int plane = 0; plane < MRC_PLANE_MAX; plane++)
		qp->resp.ack_path[plane].is_good = 0;
}

/*
 * Under the lock: a packet on `plane` was retransmitted, so responses may be lost on that plane's
 * ACK-path EV. It is not left to the next probe: a sender whose ACKs are all lost sends too
 * little for one.
 */
static __always_inline void ack_path_invalidate(struct mrc_qp *qp, __u32 plane)
{
	qp->resp.ack_path[PLANE_INDEX(plane)].is_good = 0;
}

/*
 * Under the lock: whether a probe is to take the place of a SACK that may wait. `now_ns` is 0 until
 * the packets since the last probe are MRC_ACK_PATH_SPACING.
 *
 * A sender that has only a packet or two in flight would wait for that very SACK: it is recognised
 * by how long so many packets took, and gets its responses on the EVs that its packets came by.
 */
static __always_inline int is_ack_path_probe_due(struct mrc_qp *qp, __u64 now_ns)
{
	__u64 since_ns = now_ns - qp->resp.ack_path_probe_ns;

	if (++qp->resp.since_ack_path_probe < MRC_ACK_PATH_SPACING || !now_ns)
		return 0;
	qp->resp.since_ack_path_probe = 0;
	qp->resp.ack_path_probe_ns = now_ns;
	if (qp->resp.ack_path_rtt_ns &&
	    since_ns > (__u64)qp->resp.ack_path_rtt_ns * (MRC_ACK_PATH_SPACING / 2)) {
		ack_path_forget(qp);
		return 0;
	}
	return 1;
}

/*
 * Under the lock: the EV to be probed next, of the plane whose turn it is; the planes of `usable`,
 * which is not 0, take turns. Any EV in use or in reserve, at random; but if the last one did not
 * respond, the ACK-path EV itself, which then stands or falls.
 */
static __always_inline __u32 ack_path_probe_ev(struct mrc_qp *qp, __u32 usable, __u32 random)
{
	__u32 from_turn = usable & ~0U << PLANE_INDEX(qp->resp.ack_path_next_plane);
	__u32 plane = PLANE_INDEX(trailing_zeros(from_turn ? from_turn : usable));
	const struct mrc_ack_path_ev *known = &qp->resp.ack_path[plane];
	struct mrc_ev_plane *set = &qp->evs.planes[plane];
	__u32 count = set->active_count + set->backup_count;
	__u8 chosen;

	qp->resp.ack_path_next_plane = plane + 1;
	if (known->probe && known->is_good)
		return known->entropy;
	chosen = qp->evs.order[EV_INDEX(plane * qp->evs.per_plane + random % (count ? count : 1))];
	return EV(qp, chosen)->entropy;
}

/* Under the lock: a probe on `entropy` leaves, and the last one of its plane is given up. */
static __always_inline void ack_path_probe_sent(struct mrc_qp *qp, __u32 entropy, __u32 id)
{
	struct mrc_ack_path_ev *known =
	    &qp->resp.ack_path[PLANE_INDEX(entropy >> MRC_EV_PLANE_SHIFT)];

	if (known->probe && known->probed == known->entropy)
		known->is_good = 0;
	known->probe = id | ACK_PATH_PROBE_OUTSTANDING;
	known->probed = entropy;
}

/* Under the lock: the response to probe `id` has come; only the last one of a plane counts. */
static __always_inline void ack_path_probe_acked(struct mrc_qp *qp, __u32 entropy, __u32 id,
						 __u64 rtt_ns)
{
	__u32 plane = PLANE_INDEX(entropy >> MRC_EV_PLANE_SHIFT);
	struct mrc_ack_path_ev *known = &qp->resp.ack_path[plane];

	qp->resp.ack_path_rtt_ns = rtt_ns < ~0U ? rtt_ns : ~0U;
	if (known->probe != (id | ACK_PATH_PROBE_OUTSTANDING))
		return;
	known->probe = 0;
	known->entropy = entropy;
	known->is_good = 1;
}

#endif

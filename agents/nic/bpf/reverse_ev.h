/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The reverse EVs of a QP: for each plane one on which a packet of ours is known to have reached
 * the peer lately, so that answers take it (docs/protocol.md, "Reverse EVs"). A QP that sends
 * learns them from the SACKs for its own data. One that only receives turns one frame in so many
 * into an EV probe instead of a SACK, and the probe's answer into the SACK that was left out.
 */
#ifndef MRC_REVERSE_EV_H
#define MRC_REVERSE_EV_H

#include <mrc/psn.h>
#include "answer.h"
#include "ev_set.h"
#include "frame.h"
#include "nic_maps.h"

enum {
	REVERSE_IS_UNDER_WAY = 1 << 16, /* in mrc_reverse_ev.probe, beside the id */
	REVERSE_ROUND_TRIPS = 4,	/* from one probe to the next, about */
	REVERSE_SLOW_SPACING = 512,	/* packets, for a sender that waits for each SACK */
};

/*
 * Where the answer to a packet goes: on the plane it came by, unless that has lost a port, and
 * there on the reverse EV. As long as none is known, on the packet's own EV, whose path works at
 * least in the other direction.
 */
static __always_inline void reverse_target(const struct mrc_nic_config *config, struct mrc_qp *qp,
					   const struct received *packet, struct frame_target *to)
{
	__u32 usable = usable_planes(config, qp), plane = PLANE_INDEX(packet->plane);
	const struct mrc_reverse_ev *known;
	__u32 entropy = packet->entropy;

	if (usable && !(usable >> plane & 1)) {
		plane = PLANE_INDEX(trailing_zeros(usable));
		entropy = qp->evs[EV_INDEX(qp->order[EV_INDEX(plane * qp->evs_per_plane)])].entropy;
	}
	known = &qp->reverse[plane];
	if (known->is_good)
		entropy = known->entropy;
	to->to = carrier_fill(qp->template_hi, qp->template_lo, qp->is_local, plane,
			      entropy_uplink(entropy), config->uplinks_per_pair);
	to->peer_host = qp->peer_host;
	to->peer_qpn = qp->peer_qpn;
	to->plane = plane;
	to->entropy = entropy;
}

/* Under the lock: a packet on one of the QP's own EVs has arrived. */
static __always_inline void reverse_heard(struct mrc_qp *qp, const struct mrc_ev *ev)
{
	struct mrc_reverse_ev *known = &qp->reverse[PLANE_INDEX(ev->plane)];

	known->entropy = ev->entropy;
	known->is_good = 1;
	qp->reverse_doubts &= ~(1U << PLANE_INDEX(ev->plane));
	qp->since_reverse_probe = 0;
}

/* Under the lock: what is known is of another time. */
static __always_inline void reverse_forget(struct mrc_qp *qp)
{
	for (int plane = 0; plane < MRC_PLANE_MAX; plane++)
		qp->reverse[plane].is_good = 0;
	qp->reverse_doubts = 0;
}

/*
 * Under the lock: answers may have been lost on a plane's reverse EV: a probe of it was not
 * answered, or a packet on `plane` was sent again. That is not left to the next probe: a sender
 * whose answers are all lost sends too little for one.
 */
static __always_inline void reverse_doubt(struct mrc_qp *qp, __u32 plane)
{
	struct mrc_reverse_ev *known = &qp->reverse[PLANE_INDEX(plane)];

	qp->reverse_doubts |= known->is_good << PLANE_INDEX(plane);
	known->is_good = 0;
}

/* Under the lock: whether a probe is to take the place of a SACK that may wait. */
static __always_inline int reverse_is_due(struct mrc_qp *qp)
{
	__u32 spacing = qp->reverse_doubts ? 0 : qp->reverse_spacing;

	qp->reverse_packets++;
	if (++qp->since_reverse_probe <
	    (spacing > MRC_REVERSE_SPACING ? spacing : MRC_REVERSE_SPACING))
		return 0;
	qp->since_reverse_probe = 0;
	return 1;
}

/*
 * Under the lock: the EV to be probed next, of the plane whose turn it is; the planes of `usable`,
 * which is not 0, take turns. Any EV in use or in reserve, at random; but if the last one did not
 * answer, the reverse EV itself, which then stands or falls.
 */
static __always_inline __u32 reverse_candidate(struct mrc_qp *qp, __u32 usable, __u32 random)
{
	__u32 from_turn = usable & ~0U << PLANE_INDEX(qp->reverse_turn);
	__u32 plane = PLANE_INDEX(trailing_zeros(from_turn ? from_turn : usable));
	const struct mrc_reverse_ev *known = &qp->reverse[plane];
	struct mrc_ev_plane *set = &qp->planes[plane];
	__u32 count = set->active_count + set->backup_count;
	__u8 chosen;

	qp->reverse_turn = plane + 1;
	if (known->probe && known->is_good)
		return known->entropy;
	chosen = qp->order[EV_INDEX(plane * qp->evs_per_plane + random % (count ? count : 1))];
	return qp->evs[EV_INDEX(chosen)].entropy;
}

/* Under the lock: a probe on `entropy` leaves, and the last one of its plane is given up. */
static __always_inline void reverse_asked(struct mrc_qp *qp, __u32 entropy, __u32 id)
{
	__u32 plane = PLANE_INDEX(entropy >> MRC_EV_PLANE_SHIFT);
	struct mrc_reverse_ev *known = &qp->reverse[plane];

	if (known->probe && known->probed == known->entropy)
		reverse_doubt(qp, plane);
	known->probe = id | REVERSE_IS_UNDER_WAY;
	known->probed = entropy;
	known->asked_packets = qp->reverse_packets;
}

/*
 * Under the lock: the probe `id` has been answered; only the last one of a plane counts. The
 * packets that came meanwhile tell how many the sender has under way, and so when the next probe is
 * due. One with a packet or two has waited for the SACK that the probe displaced: it is seldom kept
 * waiting again, and gets its answers on the EVs that its packets come by.
 */
static __always_inline void reverse_answered(struct mrc_qp *qp, __u32 entropy, __u32 id)
{
	__u32 plane = PLANE_INDEX(entropy >> MRC_EV_PLANE_SHIFT), window;
	struct mrc_reverse_ev *known = &qp->reverse[plane];

	if (known->probe != (id | REVERSE_IS_UNDER_WAY))
		return;
	known->probe = 0;
	window = qp->reverse_packets - known->asked_packets;
	if (window < 2) {
		qp->reverse_spacing = REVERSE_SLOW_SPACING;
		reverse_forget(qp);
		return;
	}
	qp->reverse_spacing = REVERSE_ROUND_TRIPS * (window < MRC_PSN_RING ? window : MRC_PSN_RING);
	known->entropy = entropy;
	known->is_good = 1;
	qp->reverse_doubts &= ~(1U << plane);
}

#endif

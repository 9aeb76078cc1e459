/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The EV set of a QP: which EV carries the next packet, and which EVs may
 * (docs/reference/protocol.md, "EV states"). All functions run under the QP's lock.
 *
 * The EVs of plane p occupy one slice of order[], in three stretches; an EV's own `position` says
 * where it stands, counted from the start of the slice:
 *
 *    [ active ........ | backup .... | ASSUMED_BAD, DENIED ]
 *      0               active_count  active_count + backup_count
 *
 * Every change is a swap with an element at the border of a stretch.
 */
#ifndef MRC_EV_H
#define MRC_EV_H

#include <linux/types.h>
#include <mrc/abi.h>
#include <mrc/fabric_config.h>
#include <mrc/psn.h>
#include <mrc/verifier.h>
#include "nic_maps.h"
#include "path.h"

#define EV_INDEX(i)    index_within(i, MRC_EV_MAX)
#define PLANE_INDEX(i) index_within(i, MRC_PLANE_MAX)

static __always_inline void ev_swap(struct mrc_qp *qp, __u32 slice, __u32 i, __u32 j)
{
	__u8 at_i = qp->order[EV_INDEX(slice + i)];
	__u8 at_j = qp->order[EV_INDEX(slice + j)];

	qp->order[EV_INDEX(slice + i)] = at_j;
	qp->order[EV_INDEX(slice + j)] = at_i;
	qp->evs[EV_INDEX(at_j)].position = i;
	qp->evs[EV_INDEX(at_i)].position = j;
}

enum {
	EV_ATTEMPTS = 6,
	EV_SHUFFLE_REACH = 4, /* a power of two */
	PLANE_SLACK = 2,      /* packets that a plane may have beyond its limit */
};

/* Two bits for a shuffle from the clock: nothing that is random enough for it costs less. */
static __always_inline __u32 ev_shuffle(__u64 now_ns)
{
	return (now_ns * 0x9e3779b97f4a7c15ULL) >> 32 & (EV_SHUFFLE_REACH - 1);
}

/*
 * The EV whose turn it is: planes take turns, so that they carry equal load whatever their number
 * of EVs; within a plane the active EVs are walked in an order that each pass shuffles a little (an
 * EV just used changes places with one of the few used before it, so each is used once per pass,
 * and never waits for much more than a pass). `back`: with which of those few.
 */
static __always_inline __u32 ev_round_robin(struct mrc_qp *qp, __u32 usable_planes, __u32 back)
{
	__u32 from_next = usable_planes & ~0U << PLANE_INDEX(qp->next_plane);
	__u32 plane = PLANE_INDEX(trailing_zeros(from_next ? from_next : usable_planes));
	struct mrc_ev_plane *set = &qp->planes[plane];
	__u32 slice = plane * qp->evs_per_plane;
	__u32 cursor = set->cursor < set->active_count ? set->cursor : 0;
	__u8 ev = qp->order[EV_INDEX(slice + cursor)];

	qp->next_plane = plane + 1;
	ev_swap(qp, slice, cursor, back < cursor ? cursor - back : 0);
	set->cursor = cursor + 1;
	return ev;
}

/* A packet leaves on an EV. */
static __always_inline void ev_packet_sent(struct mrc_qp *qp, struct mrc_ev *ev)
{
	ev->outstanding++;
	ev->tx_packets++;
	qp->planes[PLANE_INDEX(ev->plane)].outstanding++;
}

/* A packet is no longer in flight on its EV: acknowledged, refused, or given up. */
static __always_inline void ev_packet_done(struct mrc_qp *qp, struct mrc_ev *ev)
{
	ev->outstanding--;
	qp->planes[PLANE_INDEX(ev->plane)].outstanding--;
}

/*
 * Packets in flight that a plane may have before it loses its turns: its share of all, and a
 * quarter. Turns alone would keep what a plane has more or less than others, for as many
 * acknowledgements come back from each: one that has just come up would never fill.
 */
static __always_inline __u32 plane_limit(const struct mrc_qp *qp, __u32 usable_planes)
{
	__u32 planes = __builtin_popcount(usable_planes);

	return (qp->inflight + qp->inflight / 4) / planes + PLANE_SLACK;
}

static __always_inline void ev_set_state(struct mrc_ev *ev, __u32 state, __u32 reason, __u64 now_ns)
{
	ev->state = state;
	ev->reason = reason;
	ev->changed_ns = now_ns;
}

/*
 * The EV of the next packet, not on path `avoid` where that can be helped (-1: none to avoid).
 * Returns -1 when no plane of port_mask has an active EV.
 *
 * An EV in SKIP loses its turn and is GOOD again, but only one for each packet; it is left in
 * *restored. When nothing better comes along, the last one carries the packet all the same, one on
 * a dead path, or on that to be avoided, only if there was no other.
 */
static __always_inline int ev_select(struct mrc_qp *qp, const struct mrc_nic_paths *paths,
				     __u32 port_mask, int avoid, __u64 now_ns, int *restored)
{
	__u32 usable_planes = port_mask & qp->active_planes, back = ev_shuffle(now_ns);
	__u32 limit;
	int chosen = -1;

	if (!usable_planes)
		return -1;
	limit = plane_limit(qp, usable_planes);
	for (int i = 0; i < EV_ATTEMPTS; i++) {
		int ev = ev_round_robin(qp, usable_planes, back);
		struct mrc_ev *candidate = &qp->evs[EV_INDEX(ev)];

		int is_dead = (int)candidate->path == avoid || PATH(qp, candidate->path)->is_dead ||
			      is_suspected(qp, paths, candidate->entropy, now_ns);

		if (chosen < 0 || !is_dead)
			chosen = ev;
		if (candidate->state == MRC_EV_SKIP) {
			if (*restored < 0) {
				ev_set_state(candidate, MRC_EV_GOOD, MRC_REASON_TURN, now_ns);
				*restored = ev;
			}
		} else if (!is_dead && !path_is_late(qp, candidate->path) &&
			   qp->planes[PLANE_INDEX(candidate->plane)].outstanding <= limit) {
			break;
		}
		/* Its port is not to blame: another path of the plane, if there is one. */
		if (is_dead && i < EV_ATTEMPTS / 2)
			qp->next_plane = candidate->plane;
		LOOP_ENDS(i);
	}
	return chosen;
}

/* In ECMP an endpoint cannot know which EVs share a link. */
static __always_inline __u64 uplink_bit(__u32 entropy)
{
	if (fabric_config.forwarding == MRC_FORWARDING_ECMP)
		return 0;
	return 1ULL << ((entropy >> MRC_EV_UPLINK_SHIFT) & 63);
}

/*
 * Brings a backup that can stand in for an EV that fell to the end of the backups; returns whether
 * there is one among the last few. It must not be on a path that is itself in doubt: in a small
 * fabric several EVs share one, and what fails one of them fails its twins. Hosts of the same T0
 * have one path per plane.
 */
static __always_inline int ev_find_backup(struct mrc_qp *qp, const struct mrc_ev_plane *set,
					  __u32 slice)
{
	__u32 last = set->active_count + set->backup_count - 1;

	if (qp->is_local)
		return set->backup_count;
	for (__u32 i = 0; i < EV_ATTEMPTS && i < set->backup_count; i++) {
		__u8 candidate = qp->order[EV_INDEX(slice + last - i)];

		if (!(set->suspect_uplinks & uplink_bit(qp->evs[EV_INDEX(candidate)].entropy))) {
			ev_swap(qp, slice, last - i, last);
			return 1;
		}
	}
	return 0;
}

/* Feedback marks an EV: it loses its next turn. Returns whether it was GOOD. */
static __always_inline int ev_skip(struct mrc_ev *ev, __u32 reason, __u64 now_ns)
{
	if (ev->state != MRC_EV_GOOD)
		return 0;
	ev_set_state(ev, MRC_EV_SKIP, reason, now_ns);
	return 1;
}

/*
 * Takes an EV out of use, and a backup of its plane takes its place. Returns the state it was in,
 * or 0 when it stays: an active EV stays when the QP would fall below `floor` active ones.
 */
static __always_inline int ev_remove(struct mrc_qp *qp, __u32 index, __u32 floor, __u32 to,
				     __u32 reason, __u64 now_ns)
{
	struct mrc_ev *ev = &qp->evs[EV_INDEX(index)];
	struct mrc_ev_plane *set = &qp->planes[PLANE_INDEX(ev->plane)];
	__u32 slice = ev->plane * qp->evs_per_plane;
	__u32 active = set->active_count, backup = set->backup_count;
	__u32 from = ev->state;

	if (from != MRC_EV_GOOD && from != MRC_EV_SKIP)
		return 0;
	set->suspect_uplinks |= uplink_bit(ev->entropy);
	if (ev->position < active) {
		int has_substitute = ev_find_backup(qp, set, slice);

		if (!has_substitute && qp->active_total <= floor)
			return 0;
		ev_swap(qp, slice, ev->position, active - 1);
		/* To the far side of the backups: the last of them takes its place. */
		if (backup)
			ev_swap(qp, slice, active - 1, active + backup - 1);
		if (has_substitute) {
			set->backup_count = backup - 1;
		} else {
			set->active_count = active - 1;
			qp->active_total--;
			if (active == 1)
				qp->active_planes &= ~(1U << ev->plane);
		}
	} else {
		ev_swap(qp, slice, ev->position, active + backup - 1);
		set->backup_count = backup - 1;
	}
	ev->probe_successes = 0;
	ev_set_state(ev, to, reason, now_ns);
	return from;
}

/* A packet on an EV was lost, or the peer advises against it: ev_remove() to ASSUMED_BAD. */
static __always_inline int ev_mark_bad(struct mrc_qp *qp, __u32 index, __u32 reason, __u64 now_ns)
{
	int from = ev_remove(qp, index, qp->min_active, MRC_EV_ASSUMED_BAD, reason, now_ns);

	if (from)
		qp->evs[EV_INDEX(index)].bad_count++;
	return from;
}

/* Puts an EV that was out of use back into it: active when its plane is short, else a backup. */
static __always_inline int ev_restore(struct mrc_qp *qp, __u32 index, __u32 from, __u32 to,
				      __u32 reason, __u64 now_ns)
{
	struct mrc_ev *ev = &qp->evs[EV_INDEX(index)];
	struct mrc_ev_plane *set = &qp->planes[PLANE_INDEX(ev->plane)];
	__u32 slice = ev->plane * qp->evs_per_plane;

	if (ev->state != from)
		return 0;
	set->suspect_uplinks &= ~uplink_bit(ev->entropy);
	PATH(qp, ev->path)->is_dead = 0;
	ev_swap(qp, slice, ev->position, set->active_count + set->backup_count);
	if (set->active_count < set->target_active) {
		ev_swap(qp, slice, ev->position, set->active_count);
		set->active_count++;
		qp->active_total++;
		qp->active_planes |= 1U << ev->plane;
	} else {
		set->backup_count++;
	}
	ev_set_state(ev, to, reason, now_ns);
	return 1;
}

/* Counts a change of an EV's state. Called without the QP's lock, as is ev_report_transition(). */
static __noinline int ev_count_transition(__u32 qp_index, __u32 ev_index, __u32 from, __u32 to,
					  __u32 reason)
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

/* Counts a change for the controller, and reports it to the agent: all but those of SKIP. */
static __noinline int ev_report_transition(__u32 qp_index, __u32 ev_index, __u32 from, __u32 to,
					   __u32 reason)
{
	ev_count_transition(qp_index, ev_index, from, to, reason);
	return nic_event(MRC_EVENT_EV_STATE, qp_index, ev_index, from, (__u64)to << 32 | reason);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Service of a port whose data class flow control may hold (docs/explanation/queue-engine.md,
 * "Lossless modes"): as port_serve() does it, but nothing begins early, and updates of the far end
 * take effect in between, each at its time.
 *
 * What else has to happen at an exact time is the start of a transmission: it frees the buffer that
 * the frame waited in, and with that may set another port going. So such a port sits in the wheel
 * twice, for its next arrival and, where that comes first, for its next start.
 */
#ifndef MRC_QUEUE_LOSSLESS_H
#define MRC_QUEUE_LOSSLESS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/map.h>
#include <queue/credit.h>
#include <queue/pfc.h>
#include <queue/view.h>

enum {
	LOSSLESS_STEPS_MAX = 4, /* transmissions begun and updates applied per look */
};

#define NEVER_NS (~0ULL)

/* A frame has left, or never entered, the buffer behind the link that `upstream` sends into. */
struct lossless_release {
	__u64 time_ns;
	__u32 upstream; /* id of the port */
	__u32 bytes;
};

/* Collected under one port's lock, sent to other ports after it is released. */
struct lossless_releases {
	__u32 count;
	__u32 pad0;
	struct lossless_release entry[LOSSLESS_STEPS_MAX];
};

/* Programs of one CPU do not interrupt each other. */
INDEX_MAP(PERCPU_ARRAY, lossless_scratch, struct lossless_releases, 1);

/* True if the far end does not let a data frame of that length begin. */
static __always_inline int lossless_forbids(const struct port_view *view, __u32 length_bytes)
{
	const struct mrc_lossless_link *link = view->link;

	if (link->is_forced)
		return 1;
	if (view->flow->flow_control == MRC_FLOW_PFC)
		return link->is_paused;
	return credit_is_short(view->flow, link, length_bytes);
}

/* The same for the oldest data frame that waits; there is one. */
static __always_inline int lossless_holds(const struct port_view *view)
{
	__u32 id = view->queue->head[MRC_CLASS_DATA];

	return lossless_forbids(view, descriptor_of(view->descriptors, id)->length_bytes);
}

/*
 * True if a frame has reached the far end before time_ns that the drainer has not sent yet: then
 * nobody can know what the far end allows at time_ns, and it is too early to decide. The port is
 * looked at again when that frame is sent.
 */
static __always_inline int lossless_is_ahead(const struct port_view *view, __u64 time_ns)
{
	__u32 id = view->queue->wire_head;

	return id && descriptor_of(view->descriptors, id)->time_ns < time_ns;
}

static __always_inline void lossless_update(const struct port_view *view)
{
	struct mrc_lossless_link *link = view->link;
	const struct mrc_lossless_update *update = update_at(link, link->update_head++);

	if (view->flow->flow_control == MRC_FLOW_PFC)
		link->is_paused = update->value;
	else /* a frame that a fault duplicated brings its credit back twice */
		link->used_bytes -=
		    update->value < link->used_bytes ? update->value : link->used_bytes;
	link->open_ns = update->time_ns;
}

/* Sees whether the far end is forced to hold this port; a change takes effect now. */
static __always_inline void lossless_look_at_force(const struct port_view *view, __u64 now_ns)
{
	struct mrc_lossless_link *link = view->link;
	int is_pfc = view->flow->flow_control == MRC_FLOW_PFC;

	if (!view->flow->is_forced && !link->is_forced)
		return;
	if (!view->flow->is_forced) {
		link->is_forced = 0;
		link->open_ns = now_ns;
		link->resume_frames += is_pfc;
		pfc_note_resumed(link, now_ns);
	} else if (!link->is_forced || now_ns >= link->refresh_ns + MRC_LOSSLESS_REFRESH_NS) {
		link->is_forced = 1;
		link->refresh_ns = now_ns;
		link->pause_frames += is_pfc;
		if (is_pfc)
			pfc_note_paused(link, now_ns);
	}
}

static __always_inline void lossless_note_blocked(struct mrc_lossless_link *link, __u64 now_ns)
{
	if (link->blocked_since_ns)
		return;
	link->blocked_since_ns = now_ns;
	link->blocks++;
}

/* A data frame begins at start_ns. */
static __always_inline void lossless_begin(const struct port_view *view,
					   const struct mrc_queue_descriptor *frame, __u64 start_ns)
{
	struct mrc_lossless_link *link = view->link;

	if (link->blocked_since_ns) {
		TRACE_FRAME(MRC_TRACE_HELD, view->port, 0, .time_ns = link->blocked_since_ns,
			    .end_ns = start_ns);
		if (start_ns > link->blocked_since_ns)
			link->blocked_ns += start_ns - link->blocked_since_ns;
		link->blocked_since_ns = 0;
	}
	if (view->flow->flow_control == MRC_FLOW_CREDITS)
		link->used_bytes += frame->length_bytes;
}

/* Notes that a frame is out of the buffer behind the port that sent it here. */
static __always_inline void lossless_collect(struct lossless_releases *releases,
					     const struct mrc_queue_descriptor *frame,
					     __u64 time_ns)
{
	__u32 place = releases->count;

	if (!frame->upstream || place >= LOSSLESS_STEPS_MAX)
		return;
	releases->entry[place].time_ns = time_ns;
	releases->entry[place].upstream = frame->upstream;
	releases->entry[place].bytes = frame->length_bytes;
	releases->count = place + 1;
}

/* When the oldest frame of a class could begin, were it not held; NEVER_NS when none waits. */
static __always_inline __u64 lossless_ready_ns(const struct port_view *view, __u32 traffic_class)
{
	__u32 id = view->queue->head[traffic_class];
	__u64 ready_ns;

	if (!id)
		return NEVER_NS;
	ready_ns = descriptor_of(view->descriptors, id)->time_ns;
	if (ready_ns < view->queue->free_at_ns)
		ready_ns = view->queue->free_at_ns;
	if (traffic_class == MRC_CLASS_DATA && ready_ns < view->link->open_ns)
		ready_ns = view->link->open_ns;
	return ready_ns;
}

/*
 * When the next transmission begins or, of a port that is held, what may change that takes effect;
 * NEVER_NS when nothing waits, or until there are updates. Under the lock.
 */
static __always_inline __u64 lossless_next_ns(const struct port_view *view, __u64 now_ns)
{
	__u64 control_ns = lossless_ready_ns(view, MRC_CLASS_CONTROL);
	__u64 next_ns = lossless_ready_ns(view, MRC_CLASS_DATA);
	__u64 refresh_ns = view->link->refresh_ns + MRC_LOSSLESS_REFRESH_NS;

	if (next_ns <= now_ns && lossless_holds(view)) {
		next_ns = update_time_ns(view->link);
		if (view->link->is_forced && refresh_ns < next_ns)
			next_ns = refresh_ns;
	}
	return control_ns < next_ns ? control_ns : next_ns;
}

/*
 * Begins the transmissions that begin by until_ns. Returns 1 when there may be more of them than it
 * could begin in one go. Under the lock.
 */
static __always_inline int lossless_serve(const struct port_view *view,
					  struct lossless_releases *releases, __u64 until_ns)
{
	lossless_look_at_force(view, until_ns);
	for (int i = 0; i < LOSSLESS_STEPS_MAX; i++) {
		__u64 control_ns = lossless_ready_ns(view, MRC_CLASS_CONTROL);
		__u64 data_ns = lossless_ready_ns(view, MRC_CLASS_DATA);
		__u64 first_ns = control_ns < data_ns ? control_ns : data_ns;
		__u64 update_ns = update_time_ns(view->link);
		struct mrc_queue_descriptor *frame;

		if (update_ns > until_ns)
			update_ns = NEVER_NS;
		if (data_ns < control_ns && data_ns < update_ns && data_ns <= until_ns &&
		    lossless_holds(view)) {
			lossless_note_blocked(view->link, data_ns);
			first_ns = control_ns;
			data_ns = NEVER_NS;
		}
		if (update_ns <= first_ns && update_ns != NEVER_NS) {
			lossless_update(view);
			continue;
		}
		if (first_ns > until_ns)
			return 0;
		if (data_ns < control_ns) {
			if (lossless_is_ahead(view, first_ns))
				return 0;
			frame = descriptor_of(view->descriptors, view->queue->head[MRC_CLASS_DATA]);
			lossless_begin(view, frame, first_ns);
			lossless_collect(releases, frame, first_ns);
			port_begin(view, MRC_CLASS_DATA, first_ns);
		} else {
			port_begin(view, MRC_CLASS_CONTROL, first_ns);
		}
	}
	return 1;
}

#endif

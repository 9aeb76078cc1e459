/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Admission of a frame that cannot be sent at once: it waits, waits with a mark, waits as
 * nothing but its headers, or is dropped (docs/explanation/queue-engine.md, "ECN and trimming").
 */
#ifndef MRC_QUEUE_ADMISSION_H
#define MRC_QUEUE_ADMISSION_H

#include <linux/types.h>
#include <mrc/draw.h>
#include <mrc/port_abi.h>
#include <mrc/queue_abi.h>

enum queue_verdict {
	QUEUE_SENT, /* at once */
	QUEUE_WAITS,
	QUEUE_WAITS_MARKED,
	QUEUE_WAITS_TRIMMED,
	QUEUE_DROPS_DATA,    /* no room in the data buffer */
	QUEUE_DROPS_CONTROL, /* none in the control buffer, for a control frame or a trimmed one */
};

/* A frame to be admitted. */
struct queue_arrival {
	__u64 time_ns;
	__u32 length_bytes;
	__u32 trimmed_bytes; /* its length once trimmed; 0: not to be trimmed */
	__u32 is_data;
	__u32 is_ect;
	__u32 has_room; /* in the buffer of the port it came in by, where flow control keeps one */
	__u32 port_id;	/* egress */
	__u32 id;	/* in the pool */
	__u32 outcome;	/* returned by queue_admit() */
};

/* True if a data frame that makes the backlog depth_bytes is to be marked; draws is counted up. */
static __always_inline int queue_marks(const struct mrc_queue_settings *settings, __u32 depth_bytes,
				       __u32 *draws)
{
	__u64 above_bytes, span_bytes;

	if (!settings->ecn_max_bytes || depth_bytes <= settings->ecn_min_bytes)
		return 0;
	if (depth_bytes >= settings->ecn_max_bytes)
		return 1;
	above_bytes = depth_bytes - settings->ecn_min_bytes;
	span_bytes = settings->ecn_max_bytes - settings->ecn_min_bytes;
	return seeded_draw(settings->seed, (*draws)++) <
	       settings->ecn_probability_q32 * above_bytes / span_bytes;
}

static __always_inline int queue_trims(const struct mrc_queue_settings *settings, __u32 depth_bytes)
{
	return settings->trim_bytes &&
	       (depth_bytes > settings->trim_bytes || depth_bytes > settings->data_buffer_bytes);
}

/* Decides on a frame by the true backlog of both classes at its arrival. Under the port's lock. */
static __always_inline enum queue_verdict queue_decide(const struct mrc_queue_settings *settings,
						       const struct mrc_queue_state *state,
						       const struct queue_arrival *arrival,
						       __u32 *draws)
{
	__u32 data_bytes = state->depth_bytes[MRC_CLASS_DATA] + arrival->length_bytes;
	__u32 control_bytes = state->depth_bytes[MRC_CLASS_CONTROL];
	enum queue_verdict verdict = QUEUE_WAITS;

	if (!arrival->is_data) {
		control_bytes += arrival->length_bytes;
	} else if (arrival->trimmed_bytes && queue_trims(settings, data_bytes)) {
		control_bytes += arrival->trimmed_bytes;
		verdict = QUEUE_WAITS_TRIMMED;
	} else {
		if (data_bytes > settings->data_buffer_bytes)
			return QUEUE_DROPS_DATA;
		return arrival->is_ect && queue_marks(settings, data_bytes, draws)
			   ? QUEUE_WAITS_MARKED
			   : QUEUE_WAITS;
	}
	return control_bytes <= settings->control_buffer_bytes ? verdict : QUEUE_DROPS_CONTROL;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Model time is metadata of an XDP frame (docs/explanation/queue-engine.md, "Model time"). */
#ifndef MRC_QUEUE_TIME_H
#define MRC_QUEUE_TIME_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/queue_abi.h>

#define FRAME_TIME_MAGIC 0x6d726374 /* "mrct" */

/* The drainer's metadata of the frame, or NULL: it crossed no shaped link. */
static __always_inline struct mrc_frame_time *frame_time(struct xdp_md *ctx)
{
	struct mrc_frame_time *time = (void *)(long)ctx->data_meta;

	if ((void *)(time + 1) <= (void *)(long)ctx->data && time->magic == FRAME_TIME_MAGIC)
		return time;
	return (void *)0;
}

/* When the frame arrived in the model, or 0: it crossed no shaped link. */
static __always_inline __u64 frame_model_ns(struct xdp_md *ctx)
{
	struct mrc_frame_time *time = frame_time(ctx);

	return time ? time->arrival_ns : 0;
}

/* When the frame arrived: in the model, or by the clock where no model is. */
static __always_inline __u64 frame_time_ns(struct xdp_md *ctx)
{
	return frame_model_ns(ctx) ?: bpf_ktime_get_ns();
}

#endif

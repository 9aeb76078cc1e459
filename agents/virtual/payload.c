// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Payload by reference: a frame carries the address of its payload in the sender's memory, the pool
 * keeps its headers alone, and the receiver copies from memory to memory. That is exact as long as
 * an application leaves a buffer alone until its message has completed, and no link and no iCRC
 * looks at the bytes on their way.
 */
#include "api.h"

enum {
	HEAD_BYTES = 192, /* of a frame that is kept in the pool: all its headers */
	HEAD_STRIDE = 256,
};

struct reference {
	const __u8 *payload;
	__u32 offset; /* from the beginning of the frame */
	__u32 bytes;
};

static struct reference *references; /* by frame of the pool; none: payload is copied */
static const struct virtual_map *pool;

__u32 virtual_frame_stride(__u32 stride, enum mrc_virtual_payload mode)
{
	return mode == MRC_VIRTUAL_PAYLOAD_REFERENCE ? HEAD_STRIDE : stride;
}

void virtual_begin_payload(enum mrc_virtual_payload mode)
{
	references = 0;
	pool = virtual_find_map("queue_frames")->map;
	if (mode == MRC_VIRTUAL_PAYLOAD_REFERENCE)
		references = virtual_allocate((__u64)pool->count * sizeof(*references));
}

void virtual_end_payload(void)
{
	if (references)
		virtual_release(references, (__u64)pool->count * sizeof(*references));
	references = 0;
}

static struct reference *reference_of(const void *frame)
{
	__u64 offset = (const __u8 *)frame - pool->base;

	return (const __u8 *)frame >= pool->base && offset < (__u64)pool->count * HEAD_STRIDE
		   ? &references[offset / HEAD_STRIDE]
		   : 0;
}

void virtual_store_large(struct xdp_md *ctx, __u32 offset, const void *from, __u32 bytes)
{
	const struct reference *kept;

	if (!references) {
		memcpy((void *)(ctx->data + offset), from, bytes);
		return;
	}
	kept = reference_of(from);
	if (kept) {
		memcpy((void *)(ctx->data + offset), from, HEAD_BYTES);
		ctx->payload = kept->payload;
		ctx->payload_at = ctx->data + kept->offset;
		ctx->payload_bytes = kept->bytes;
		return;
	}
	ctx->payload = from;
	ctx->payload_at = ctx->data + offset;
	ctx->payload_bytes = bytes;
}

void virtual_load_large(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes)
{
	__u64 from = ctx->data + offset, end = from + bytes;
	struct reference *kept;

	if (!references) {
		memcpy(to, (void *)from, bytes);
		return;
	}
	kept = reference_of(to);
	if (kept) {
		memcpy(to, (void *)from, HEAD_BYTES);
		kept->payload = ctx->payload;
		kept->offset = ctx->payload_at - ctx->data;
		kept->bytes = ctx->payload_bytes;
		return;
	}
	if (ctx->payload_bytes && from >= ctx->payload_at &&
	    end <= ctx->payload_at + ctx->payload_bytes)
		memcpy(to, ctx->payload + (from - ctx->payload_at), bytes);
	else
		memcpy(to, (void *)from, bytes);
}

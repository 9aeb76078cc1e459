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

struct virtual_range virtual_memory, virtual_pool;

__u32 virtual_frame_stride(__u32 stride, enum mrc_virtual_payload mode)
{
	return mode == MRC_VIRTUAL_PAYLOAD_REFERENCE ? HEAD_STRIDE : stride;
}

static struct virtual_range range_of(const char *map)
{
	const struct virtual_map_entry *entry = virtual_find_map(map);

	return (struct virtual_range){entry->base, virtual_bytes_of(entry)};
}

int virtual_begin_payload(enum mrc_virtual_payload mode)
{
	if (mode != MRC_VIRTUAL_PAYLOAD_REFERENCE)
		return 0;
	virtual_memory = range_of("memory");
	virtual_pool = range_of("queue_frames");
	references = virtual_allocate(virtual_pool.bytes / HEAD_STRIDE * sizeof(*references));
	return references ? 0 : -1;
}

void virtual_end_payload(void)
{
	if (references)
		virtual_release(references, virtual_pool.bytes / HEAD_STRIDE * sizeof(*references));
	references = 0;
	virtual_memory.bytes = virtual_pool.bytes = 0;
}

static struct reference *reference_of(const void *frame)
{
	return &references[((const __u8 *)frame - virtual_pool.base) / HEAD_STRIDE];
}

static __u32 head_bytes(__u32 frame_bytes)
{
	return frame_bytes < HEAD_BYTES ? frame_bytes : HEAD_BYTES;
}

/* A packet comes in several pieces where a segment of the memory ends: they lie side by side. */
void virtual_store_payload(struct xdp_md *ctx, __u32 offset, const void *from, __u32 bytes)
{
	if (ctx->payload_bytes && ctx->payload + ctx->payload_bytes == from &&
	    ctx->payload_at + ctx->payload_bytes == ctx->data + offset) {
		ctx->payload_bytes += bytes;
		return;
	}
	ctx->payload = from;
	ctx->payload_at = ctx->data + offset;
	ctx->payload_bytes = bytes;
}

void virtual_load_payload(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes)
{
	__u64 from = ctx->data + offset;

	if (from >= ctx->payload_at && from + bytes <= ctx->payload_at + ctx->payload_bytes)
		memcpy(to, ctx->payload + (from - ctx->payload_at), bytes);
	else
		memcpy(to, (void *)from, bytes); /* of a frame that no NIC sent */
}

void virtual_store_frame(struct xdp_md *ctx, __u32 offset, const void *from, __u32 bytes)
{
	const struct reference *kept = reference_of(from);

	memcpy((void *)(ctx->data + offset), from, head_bytes(bytes));
	ctx->payload = kept->payload;
	ctx->payload_at = ctx->data + kept->offset;
	ctx->payload_bytes = kept->bytes;
}

void virtual_load_frame(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes)
{
	struct reference *kept = reference_of(to);

	memcpy(to, (void *)(ctx->data + offset), head_bytes(bytes));
	kept->payload = ctx->payload;
	kept->offset = ctx->payload_at - ctx->data;
	kept->bytes = ctx->payload_bytes;
}

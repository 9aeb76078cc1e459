/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The invariant CRC at the end of every frame (docs/reference/protocol.md, "iCRC"). */
#ifndef MRC_ICRC_H
#define MRC_ICRC_H

#include <stddef.h>
#include <mrc/crc32.h>
#include <mrc/verifier.h>
#include "nic_maps.h"
#include "packet.h"

enum {
	ICRC_START = offsetof(struct wire_stack, inner),
	ICRC_MASKED_WORDS = 8, /* inner IPv6 .. BTH, and the four bytes that follow in any packet */
	ICRC_REST = ICRC_START + ICRC_MASKED_WORDS * 8,
	ICRC_CHUNK_BYTES = 4 * CRC32_STEP_BYTES,
	ICRC_CHUNKS_MAX = MRC_FRAME_BYTES_MAX / ICRC_CHUNK_BYTES,
	ICRC_OFFSET_MASK = 2 * MRC_PMTU_MAX - 1, /* no frame is that long */
};

/* Bits that count as ones, by 64-bit word from the inner IPv6 header on, little endian. */
#define ICRC_MASK_CLASS_FLOW_HOPS 0xff000000ffffff0fULL /* word 0 */
#define ICRC_MASK_UDP_CHECKSUM	  0xffff000000000000ULL /* word 5 */
#define ICRC_MASK_BTH_RESERVED	  0x000000ff00000000ULL /* word 6 */

/* Adds `bytes` of the frame at *offset, if so many are left in front of the iCRC. */
static __always_inline __u32 icrc_add(struct xdp_md *ctx, __u32 crc, __u32 *offset, __u32 bytes)
{
	__u32 at = *offset & ICRC_OFFSET_MASK;
	const __u8 *rest = (void *)(long)ctx->data + at;

	if ((void *)(rest + bytes + WIRE_ICRC_BYTES) > (void *)(long)ctx->data_end)
		return crc;
	*offset = at + bytes;
	if (bytes == 4)
		return crc32_add_4(crc, *(const __u32 *)rest);
	if (bytes == 8)
		return crc32_add_8(crc, *(const __u64 *)rest);
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < bytes; i += CRC32_STEP_BYTES)
		crc = step_done(crc32_add_16(crc, rest + i));
	return crc;
}

/*
 * The iCRC that belongs at the end of the frame, as a little-endian word. `offset` is ICRC_REST: a
 * number that the verifier does not know spares it from telling the turns of the loop apart.
 */
__noinline int icrc_of(struct xdp_md *ctx, __u32 offset)
{
	const __u64 *words = (void *)(long)ctx->data + ICRC_START;
	__u32 crc = CRC32_ALL_ONES_8;

	if ((void *)(words + ICRC_MASKED_WORDS) + WIRE_ICRC_BYTES > (void *)(long)ctx->data_end)
		return 0;
	crc = step_done(crc32_add_8(crc, words[0] | ICRC_MASK_CLASS_FLOW_HOPS));
	crc = step_done(crc32_add_8(crc, words[1]));
	crc = step_done(crc32_add_8(crc, words[2]));
	crc = step_done(crc32_add_8(crc, words[3]));
	crc = step_done(crc32_add_8(crc, words[4]));
	crc = step_done(crc32_add_8(crc, words[5] | ICRC_MASK_UDP_CHECKSUM));
	crc = step_done(crc32_add_8(crc, words[6] | ICRC_MASK_BTH_RESERVED));
	crc = step_done(crc32_add_8(crc, words[7]));
	for (int i = 0; i < ICRC_CHUNKS_MAX; i++) {
		__u32 before = offset;

		crc = icrc_add(ctx, crc, &offset, ICRC_CHUNK_BYTES);
		if (offset == before)
			break;
	}
	crc = icrc_add(ctx, crc, &offset, 32);
	crc = icrc_add(ctx, crc, &offset, 16);
	crc = icrc_add(ctx, crc, &offset, 8);
	crc = icrc_add(ctx, crc, &offset, 4);
	return ~crc;
}

/* Ends the frame with its iCRC, or with zeros where that is off. */
static __always_inline int write_icrc(struct xdp_md *ctx, const struct mrc_nic_control *control)
{
	__u32 value = control->icrc_mode == MRC_ICRC_OFF ? 0 : icrc_of(ctx, ICRC_REST);
	__u32 end = frame_bytes(ctx) - WIRE_ICRC_BYTES;
	__u32 *icrc = (void *)(long)ctx->data + (end & ICRC_OFFSET_MASK);

	if ((void *)(icrc + 1) > (void *)(long)ctx->data_end)
		return -1;
	*icrc = value;
	return 0;
}

/* True if a frame that has come in ends with the right iCRC, where that is asked. */
static __always_inline int has_right_icrc(struct xdp_md *ctx, const struct mrc_nic_control *control)
{
	__u32 value, end = frame_bytes(ctx) - WIRE_ICRC_BYTES;

	if (control->icrc_mode != MRC_ICRC_ON)
		return 1;
	return !bpf_xdp_load_bytes(ctx, end, &value, sizeof(value)) &&
	       value == (__u32)icrc_of(ctx, ICRC_REST);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Fields of a frame that a queue reads or changes: the class in the outermost IPv6 header, and the
 * length of a data packet's headers (docs/reference/protocol.md, "Traffic classes", "Trimming").
 */
#ifndef MRC_QUEUE_FRAME_H
#define MRC_QUEUE_FRAME_H

#include <linux/types.h>
#include <mrc/abi.h>
#include <mrc/queue_abi.h>
#include <mrc/wire.h>

enum {
	FRAME_TRAFFIC_CLASS = 14, /* version 4 bits, DSCP 6, ECN 2, flow label: the first 16 bits */
	FRAME_ECN_SHIFT = 4,
	FRAME_DSCP_SHIFT = 6,
	FRAME_BTH_FLAGS = 8, /* offsets within the BTH */
	FRAME_METH_BYTES = 4,
	FRAME_TSETH_BYTES = 4,
	FRAME_RETH_BYTES = 16,
	FRAME_IMMEDIATE_BYTES = 4,
};

static __always_inline __u32 frame_class_bits(const struct mrc_queue_frame *frame)
{
	return frame->bytes[FRAME_TRAFFIC_CLASS] << 8 | frame->bytes[FRAME_TRAFFIC_CLASS + 1];
}

static __always_inline __u32 frame_dscp(const struct mrc_queue_frame *frame)
{
	return frame_class_bits(frame) >> FRAME_DSCP_SHIFT & 0x3f;
}

/* True if ECN may mark it: its ends understand. */
static __always_inline int frame_is_ect(const struct mrc_queue_frame *frame)
{
	return (frame_class_bits(frame) >> FRAME_ECN_SHIFT & WIRE_CE) != 0;
}

static __always_inline void frame_mark(struct mrc_queue_frame *frame)
{
	frame->bytes[FRAME_TRAFFIC_CLASS + 1] |= WIRE_CE << FRAME_ECN_SHIFT;
}

static __always_inline void frame_set_dscp(struct mrc_queue_frame *frame, __u32 dscp)
{
	__u32 bits =
	    (frame_class_bits(frame) & ~(0x3fU << FRAME_DSCP_SHIFT)) | dscp << FRAME_DSCP_SHIFT;

	frame->bytes[FRAME_TRAFFIC_CLASS] = bits >> 8;
	frame->bytes[FRAME_TRAFFIC_CLASS + 1] = bits;
}

/*
 * Bytes that a switch keeps when it trims the frame: up to RETH, or the immediate behind it. 0 when
 * the frame is not to be trimmed: of another class, or nothing but headers.
 */
static __always_inline __u32 frame_trimmed_bytes(const struct mrc_queue_frame *frame,
						 __u32 length_bytes)
{
	const __u32 udp_at = sizeof(struct wire_eth) + sizeof(struct wire_ipv6);
	const struct wire_ipv6 *outer = (const void *)(frame->bytes + sizeof(struct wire_eth));
	__u32 dscp = frame_dscp(frame), opcode, kept_bytes;
	const __u8 *bth = frame->bytes + udp_at + sizeof(struct wire_udp);

	if (dscp != MRC_DSCP_TRIMMABLE && dscp != MRC_DSCP_TRIMMABLE_RETX)
		return 0;
	kept_bytes = udp_at + sizeof(struct wire_udp) + sizeof(struct wire_bth) + FRAME_METH_BYTES +
		     FRAME_RETH_BYTES;
	if (outer->next_header == WIRE_NEXT_HEADER_IPV6) {
		bth += sizeof(struct wire_ipv6);
		kept_bytes += sizeof(struct wire_ipv6);
	}
	opcode = bth[0];
	if (opcode == WIRE_WRITE_LAST_IMMEDIATE || opcode == WIRE_WRITE_ONLY_IMMEDIATE)
		kept_bytes += FRAME_IMMEDIATE_BYTES;
	if (bth[FRAME_BTH_FLAGS] & WIRE_BTH_TIMESTAMP)
		kept_bytes += FRAME_TSETH_BYTES;
	return kept_bytes < length_bytes ? kept_bytes : 0;
}

#endif

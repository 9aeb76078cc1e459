/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Copies between a frame and the NIC's registered memory, which the application has mapped. The
 * memory is made of 1 MiB segments (kernels of 6.1 allow array values of 4 MiB at most) in chunks,
 * end to end in user space's mapping; a stretch that crosses from one into the next takes the slow
 * way.
 */
#ifndef MRC_MR_H
#define MRC_MR_H

#include <mrc/verifier.h>
#include "nic_maps.h"

enum mr_direction {
	MR_TO_FRAME = 0,
	MR_FROM_FRAME = 1,
};

/*
 * A place in the NIC's memory: the offset of the first byte in the lower half. In the upper half,
 * where the bytes go on elsewhere at the end of the page: MR_TWO_PAGES and the number of that page.
 */
enum mr_place {
	MR_TWO_PAGES = 1 << 20, /* page numbers are smaller */
};

/* The segment with the byte at an offset; NULL: the NIC has no memory there. */
static __always_inline struct memory_segment *memory_at(__u32 offset)
{
	__u32 index = offset / MRC_MEMORY_SEGMENT;
#ifdef MRC_VIRTUAL
	return bpf_map_lookup_elem(&memory, &index);
#else
	__u32 place = offset / MRC_MEMORY_CHUNK;
	void *chunk = bpf_map_lookup_elem(&memory, &place);

	if (!chunk)
		return NULL;
	index &= MRC_MEMORY_CHUNK / MRC_MEMORY_SEGMENT - 1;
	return bpf_map_lookup_elem(chunk, &index);
#endif
}

/* An entry of a list of pages; -1 where the list, or the page it names, is not in the memory. */
static __always_inline __s64 mr_page(__u64 list_offset)
{
	struct memory_segment *segment;
	__u32 page;

	if (list_offset >> 32)
		return -1;
	segment = memory_at(list_offset);
	if (!segment)
		return -1;
	/* Once: user space may write to it meanwhile. */
	page = *(volatile __u32 *)(segment->bytes +
				   (index_within(list_offset, MRC_MEMORY_SEGMENT) & ~3U));
	if (page >= MR_TWO_PAGES)
		return -1;
	return memory_at(page * MRC_PAGE_BYTES) ? (__s64)page : -1;
}

/* The place of the byte `start` of listed pages, of which `length` bytes, two pages' at most, are
 * wanted; -1: it is not in the memory. */
__noinline __s64 mr_listed(__u32 page_list, __u64 start, __u32 length)
{
	__u64 list_offset = page_list + start / MRC_PAGE_BYTES * sizeof(__u32);
	__u32 within = start & (MRC_PAGE_BYTES - 1);
	__s64 page = mr_page(list_offset), next;

	if (page < 0 || within + length <= MRC_PAGE_BYTES)
		return page < 0 ? -1 : page * MRC_PAGE_BYTES + within;
	next = mr_page(list_offset + sizeof(__u32));
	return next < 0 ? -1 : (next | MR_TWO_PAGES) << 32 | (page * MRC_PAGE_BYTES + within);
}

/*
 * The place of the payload, or -1 when key, protection domain or bounds forbid it.
 */
static __always_inline __s64 mr_check(__u32 r_key, __u32 pd, __u64 va, __u32 length)
{
	__u32 index = r_key & (MRC_REGION_MAX - 1);
	struct mrc_region *region = bpf_map_lookup_elem(&regions, &index);
	__s64 place;

	if (!region || !r_key || region->r_key != r_key || !region->is_remote_writable ||
	    region->pd != pd) {
		nic_count(MRC_NC_DROP_R_KEY, 1);
		return -1;
	}
	va -= region->base;
	if (va > region->length || length > region->length - va) {
		nic_count(MRC_NC_DROP_BOUNDS, 1);
		return -1;
	}
	if (region->page_list == MRC_NO_PAGE_LIST)
		return region->offset + va;
	place = mr_listed(region->page_list, (region->base & (MRC_PAGE_BYTES - 1)) + va, length);
	if (place < 0)
		nic_count(MRC_NC_DROP_BOUNDS, 1);
	return place;
}

/* Where a part of a SEND goes, in the mailbox of a QP; likewise. */
static __noinline __s64 mr_mailbox(__u32 qp_index, __u64 va, __u32 length)
{
	struct mrc_work_ring *ring = bpf_map_lookup_elem(&work_ring, &qp_index);
	__u32 mailbox = ring ? ring->mailbox : 0;

	if (mailbox - 1 >= MR_TWO_PAGES) {
		nic_count(MRC_NC_DROP_R_KEY, 1);
		return -1;
	}
	if (va > MRC_MAILBOX_BYTES || length > MRC_MAILBOX_BYTES - va) {
		nic_count(MRC_NC_DROP_BOUNDS, 1);
		return -1;
	}
	return (__u64)(mailbox - 1) * MRC_PAGE_BYTES + va;
}

/* The same for a QP whose peer may write or not. Nothing may be anywhere. */
static __always_inline __s64 mr_of_qp(__u32 qp_index, const struct mrc_qp_head *head, __u32 r_key,
				      __u64 va, __u32 length)
{
	if (r_key - 1 < MRC_KEY_SEND_LAST_IMMEDIATE)
		return length ? mr_mailbox(qp_index, va, length) : 0;
	if (r_key == MRC_KEY_WRITE_END && !length)
		return 0;
	if (!head->is_writable) {
		nic_count(MRC_NC_DROP_R_KEY, 1);
		return -1;
	}
	return length ? mr_check(r_key, head->pd, va, length) : 0;
}

static __always_inline long mr_copy_bytes(struct xdp_md *ctx, __u32 frame_offset,
					  __u8 *memory_bytes, __u64 length, int direction)
{
	return direction == MR_TO_FRAME
		   ? bpf_xdp_store_bytes(ctx, frame_offset, memory_bytes, length)
		   : bpf_xdp_load_bytes(ctx, frame_offset, memory_bytes, length);
}

/*
 * A stretch that lies in one segment, in pieces of constant size: the verifier does not relate a
 * variable length to a variable offset, but it can check each power of two against the offset.
 */
__noinline int mr_copy_pieces(struct xdp_md *ctx, __u32 frame_offset, __u32 offset, __u32 length,
			      int direction)
{
	struct memory_segment *segment = memory_at(offset);

	if (!segment || length > MRC_PMTU_MAX)
		return -1;
#pragma clang loop unroll(full)
	for (__u32 size = MRC_PMTU_MAX; size; size >>= 1) {
		__u32 start = offset & (MRC_MEMORY_SEGMENT - 1);

		if (!(length & size))
			continue;
		if (start > MRC_MEMORY_SEGMENT - size ||
		    mr_copy_bytes(ctx, frame_offset, segment->bytes + start, size, direction))
			return -1;
		frame_offset += size;
		offset += size;
	}
	return 0;
}

/* Copies `length` (at most the largest PMTU) bytes from or to a place; 0 on success. */
static __always_inline int mr_copy(struct xdp_md *ctx, __u32 frame_offset, __u64 place,
				   __u32 length, int direction)
{
	__u32 offset = place;
	struct memory_segment *segment = memory_at(offset);
	__u64 copied_bytes = length;
	__u32 start, first, rest;

	if (!length)
		return 0;
	if (!segment || !length_within(&copied_bytes, MRC_PMTU_MAX))
		return -1;
	start = index_within(offset, MRC_MEMORY_SEGMENT);
	if (place >> 32) {
		first = MRC_PAGE_BYTES - (offset & (MRC_PAGE_BYTES - 1));
		rest = (place >> 32 & (MR_TWO_PAGES - 1)) * MRC_PAGE_BYTES;
	} else if (start <= MRC_MEMORY_SEGMENT - MRC_PMTU_MAX) {
		return mr_copy_bytes(ctx, frame_offset, segment->bytes + start, copied_bytes,
				     direction);
	} else {
		first = MRC_MEMORY_SEGMENT - start;
		rest = offset + first;
	}
	if (first >= length)
		return mr_copy_pieces(ctx, frame_offset, offset, length, direction);
	if (mr_copy_pieces(ctx, frame_offset, offset, first, direction))
		return -1;
	return mr_copy_pieces(ctx, frame_offset + first, rest, length - first, direction);
}

/* Bytes of the message that a packet with immediate ends. */
static __always_inline __u32 mr_message_bytes(__u32 r_key, __u64 va, __u32 dmalen)
{
	return r_key == MRC_KEY_WRITE_END ? (__u32)va : dmalen;
}

enum {
	PLACE_TURN_MASK = 0xffffffff / MRC_PSN_RING,
};

/*
 * True if this CPU is to place a packet, the `ordinal`th of its QP by PSN. Of two copies that two
 * CPUs have in hand one is placed: the slower CPU might write when the message is complete and its
 * memory holds something newer. An entry counts, modulo 2^22, the packets that were placed by it.
 */
static __always_inline int place_begin(__u32 *placings, __u32 ordinal)
{
	__u32 *entry = &placings[ordinal & (MRC_PSN_RING - 1)];
	__u32 turn = ordinal / MRC_PSN_RING;

	return __sync_val_compare_and_swap(entry, turn, (turn + 1) & PLACE_TURN_MASK) == turn;
}

/* No response: the packet is received once the CPU that places it says so. */
static __always_inline int drop_concurrent_copy(void)
{
	nic_count(MRC_NC_RX_DATA, 1);
	return nic_drop(MRC_NC_RX_DUPLICATE);
}

/*
 * Places the payload behind `head_bytes` of headers. Returns 0, the verdict on a copy that another
 * CPU has in hand, or a negative number if its bytes cannot be written: the next copy will be.
 */
static __always_inline int place_payload(struct xdp_md *ctx, __u32 *placings, __u32 ordinal,
					 __u32 head_bytes, __u64 place, __u32 length)
{
	if (!place_begin(placings, ordinal))
		return drop_concurrent_copy();
	if (!mr_copy(ctx, head_bytes, place, length, MR_FROM_FRAME))
		return 0;
	placings[ordinal & (MRC_PSN_RING - 1)] = ordinal / MRC_PSN_RING;
	nic_count(MRC_NC_DROP_BOUNDS, 1);
	return -1;
}

#endif

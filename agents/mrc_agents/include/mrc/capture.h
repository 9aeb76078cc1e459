/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Copies of frames for `mrc-testbed capture`. A frame that XDP redirects never becomes an skb, so
 * no packet socket sees it: the data plane itself hands out copies, where a frame leaves a port or
 * is lost there.
 *
 * A port that is not captured costs one test of mrc_port.capture_bytes. The ring belongs to the
 * command that captures: it exists only while one does.
 */
#ifndef MRC_CAPTURE_H
#define MRC_CAPTURE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/fabric_maps.h>
#include <mrc/map.h>
#include <mrc/verifier.h>

struct capture_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* The ring of the running capture, or nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct capture_ring);
} capture_rings SEC(".maps");

/* Frames that found the ring full; mmapable, zeroed by the command that captures. */
MMAPABLE_ARRAY(capture_state, struct mrc_capture_state, 1);

/* Where a record is put together; programs of one CPU do not interrupt each other. */
INDEX_MAP(PERCPU_ARRAY, capture_scratch, struct mrc_capture_record, 1);

/*
 * Copies the frame, as it leaves port_id, into the ring. `verdict` is MRC_PC_TX_PACKETS, or the
 * MRC_PC_DROP_* counter that it was counted in. Global, so that the verifier looks at it once.
 */
__noinline int capture_frame(struct xdp_md *ctx, __u32 port_id, __u64 time_ns, __u32 verdict)
{
	__u32 zero = 0;
	void *ring = bpf_map_lookup_elem(&capture_rings, &zero);
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	struct mrc_capture_record *record = bpf_map_lookup_elem(&capture_scratch, &zero);
	struct mrc_capture_state *state = bpf_map_lookup_elem(&capture_state, &zero);
	__u64 kept_bytes;

	if (!ring || !port || !record || !state)
		return 0;
	record->time_ns = time_ns;
	record->port_id = port_id;
	record->verdict = verdict;
	record->frame_bytes = ctx->data_end - ctx->data;
	kept_bytes = port->capture_bytes;
	if (kept_bytes > record->frame_bytes)
		kept_bytes = record->frame_bytes;
	if (!length_within(&kept_bytes, sizeof(record->octets)))
		return 0;
	record->kept_bytes = kept_bytes;
	if (bpf_xdp_load_bytes(ctx, 0, record->octets, kept_bytes) ||
	    bpf_ringbuf_output(ring, record,
			       offsetof(struct mrc_capture_record, octets) + kept_bytes, 0))
		__sync_fetch_and_add(&state->lost_frames, 1);
	return 0;
}

#endif

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Frames on their way. A frame lives in the queue engine's pool; it gets a buffer of its own only
 * while the program of a node looks at it, one at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <mrc/trace.h>
#include "api.h"

enum {
	BUFFER_BYTES = 8192,
	/* in front of a frame that arrives: a SACK becomes a data packet, whose head is longer */
	BUFFER_HEADROOM = 2560,
	LOOPBACK = 1, /* ifindex that frames of BPF_PROG_TEST_RUN come from */
	LIVE_FRAME_BYTES = 64,
};

__u32 virtual_due_entry;

static __u8 buffer[BUFFER_BYTES] __attribute__((aligned(64)));
static __u32 *nic_of_port; /* VIRTUAL_NO_NIC: a switch's */
static __u8 *is_dark;	   /* by port */
static __u32 redirected_to;

void virtual_begin_frames(const __u32 *nics, __u32 port_count)
{
	nic_of_port = malloc(port_count * sizeof(*nic_of_port));
	is_dark = calloc(port_count, sizeof(*is_dark));
	if (!nic_of_port || !is_dark) {
		perror("virtual time: ports");
		abort();
	}
	memcpy(nic_of_port, nics, port_count * sizeof(*nic_of_port));
}

void virtual_end_frames(void)
{
	free(nic_of_port);
	free(is_dark);
	nic_of_port = 0;
	is_dark = 0;
}

static inline void make_frame(struct xdp_md *ctx, __u32 bytes, __u32 ingress_ifindex)
{
	ctx->begin = buffer;
	ctx->end = buffer + sizeof(buffer);
	ctx->data = (__u64)buffer + BUFFER_HEADROOM;
	ctx->data_meta = ctx->data;
	ctx->data_end = ctx->data + bytes;
	ctx->ingress_ifindex = ingress_ifindex;
	ctx->payload = 0;
	ctx->payload_bytes = 0;
	ctx->payload_at = 0;
}

long bpf_redirect_map(void *map, __u32 key, __u64 flags)
{
	(void)map;
	(void)flags;
	redirected_to = key;
	return XDP_REDIRECT;
}

/*
 * A frame has crossed the link of a port: the program at its far end runs. What a dark link loses a
 * switch will never see, so its credit goes back here.
 */
static void arrive(struct xdp_md *ctx, __u32 port_id)
{
	__u32 far_id = virtual_port(port_id)->peer_port, nic_index = nic_of_port[far_id];

	ctx->ingress_ifindex = MRC_IFINDEX_BASE + far_id;
	if (is_dark[port_id] || is_dark[far_id]) {
		TRACE_FRAME(MRC_TRACE_LOST, virtual_port(port_id), (const void *)ctx->data,
			    .time_ns = virtual_now_ns, .what = MRC_PC_DROP_LINK_DOWN);
		if (nic_index == VIRTUAL_NO_NIC)
			upstream_post_process(ctx);
		return;
	}
	if (nic_index == VIRTUAL_NO_NIC) {
		forward(ctx);
		return;
	}
	TRACE_FRAME(MRC_TRACE_TAKEN, virtual_port(port_id), (const void *)ctx->data,
		    .time_ns = virtual_now_ns);
	virtual_enter_nic(nic_index);
	nic(ctx);
}

void virtual_run_port(__u32 entry)
{
	struct xdp_md ctx;

	virtual_due_entry = entry;
	virtual_show_arrival(entry);
	make_frame(&ctx, LIVE_FRAME_BYTES, 0);
	if (forward(&ctx) == XDP_REDIRECT)
		arrive(&ctx, redirected_to);
}

void virtual_run_frames(__u32 nic_index, __u32 frames)
{
	struct xdp_md ctx;

	virtual_enter_nic(nic_index);
	while (frames--) {
		make_frame(&ctx, MRC_FRAME_BYTES_MAX, LOOPBACK);
		nic(&ctx);
	}
}

void mrc_virtual_run_nic(__u32 nic_index, __u32 frames)
{
	virtual_run_frames(nic_index, frames);
}

void mrc_virtual_load(__u32 port_id, const void *frame, __u32 bytes)
{
	struct xdp_md ctx;

	make_frame(&ctx, bytes, LOOPBACK);
	memcpy((void *)ctx.data, frame, bytes);
	ctx.data_meta -= 2 * sizeof(__u32); /* struct load_target */
	((__u32 *)ctx.data_meta)[0] = port_id;
	((__u32 *)ctx.data_meta)[1] = 0;
	load(&ctx);
}

void mrc_virtual_set_carrier(__u32 port_id, int is_up)
{
	is_dark[port_id] = !is_up;
}

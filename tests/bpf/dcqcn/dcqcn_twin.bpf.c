// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* DCQCN in the kernel, as in a NIC: under a spin lock, on state in a map, one event per frame. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/dcqcn.h>

enum mrc_step_kind {
	MRC_STEP_START = 0,
	MRC_STEP_CNP = 1,
	MRC_STEP_ACK = 2,
};

struct mrc_step {
	__u64 now_ns;
	__u32 kind;
	__u32 bytes;
	__u32 rtt_ns;
	__u32 pad0;
};

struct mrc_locked {
	struct bpf_spin_lock lock;
	__u32 window_bytes;
	struct mrc_dcqcn dcqcn;
	struct mrc_dcqcn_parameters parameters;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mrc_locked);
} states SEC(".maps");

const enum mrc_step_kind *keep_kind __attribute__((unused));
const struct mrc_step *keep_step __attribute__((unused));

/* Applies the event that the frame consists of; returns its reason. */
SEC("xdp")
int step(struct xdp_md *ctx)
{
	struct mrc_step *event = (void *)(long)ctx->data;
	__u32 key = 0, reason = 0, kind, bytes, rtt_ns;
	struct mrc_locked *state;
	__u64 now_ns;

	state = bpf_map_lookup_elem(&states, &key);
	if (!state || (void *)(event + 1) > (void *)(long)ctx->data_end)
		return -1;
	now_ns = event->now_ns;
	kind = event->kind;
	bytes = event->bytes;
	rtt_ns = event->rtt_ns;
	bpf_spin_lock(&state->lock);
	if (kind == MRC_STEP_START)
		dcqcn_start(&state->dcqcn, &state->parameters, now_ns);
	else if (kind == MRC_STEP_CNP)
		reason = dcqcn_on_cnp(&state->dcqcn, &state->parameters, now_ns);
	else
		reason = dcqcn_on_ack(&state->dcqcn, &state->parameters, now_ns, bytes, rtt_ns);
	state->window_bytes = dcqcn_window_bytes(&state->dcqcn, &state->parameters);
	bpf_spin_unlock(&state->lock);
	return reason;
}

char _license[] SEC("license") = "Dual BSD/GPL";

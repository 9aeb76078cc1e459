// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* NSCC in the kernel, as in a NIC: under a spin lock, on state in a map. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "nscc_step.h"

struct locked_cc {
	struct bpf_spin_lock lock;
	__u32 pad0;
	struct mrc_cc cc;
	struct mrc_cc_parameters parameters;
	__u32 pad1;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct locked_cc);
} states SEC(".maps");

const enum mrc_cc_format *keep_format __attribute__((unused));
const enum mrc_cc_reason *keep_reason __attribute__((unused));
const enum mrc_step_kind *keep_kind __attribute__((unused));
const enum mrc_step_result *keep_result __attribute__((unused));
const struct mrc_nscc *keep_nscc __attribute__((unused));
const struct mrc_step *keep_step __attribute__((unused));

enum {
	REFUSED = 0xffffffff,
};

/* Applies the event that the frame consists of; returns the result of cc_step(). */
SEC("xdp")
int step(struct xdp_md *ctx)
{
	struct mrc_step *event = (void *)(long)ctx->data;
	struct locked_cc *state;
	__u32 key = 0, result;

	if ((void *)(event + 1) > (void *)(long)ctx->data_end)
		return REFUSED;
	state = bpf_map_lookup_elem(&states, &key);
	if (!state)
		return REFUSED;
	bpf_spin_lock(&state->lock);
	result = cc_step(&state->cc, &state->parameters, event);
	bpf_spin_unlock(&state->lock);
	return result;
}

char _license[] SEC("license") = "Dual BSD/GPL";

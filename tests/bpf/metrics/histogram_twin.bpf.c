// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Adds the time in the frame's first eight bytes to the histogram named by the next four. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/histogram.h>

struct request {
	__u64 value_ns;
	__u32 key;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mrc_histogram);
} times SEC(".maps");

enum {
	REFUSED = 0xffffffff,
};

/* Returns the index of the bucket. */
SEC("xdp")
int add_time(struct xdp_md *ctx)
{
	struct request *request = (void *)(long)ctx->data;
	struct mrc_histogram *histogram;

	if ((void *)(request + 1) > (void *)(long)ctx->data_end)
		return REFUSED;
	histogram = bpf_map_lookup_elem(&times, &request->key);
	if (!histogram)
		return REFUSED;
	histogram_add(histogram, request->value_ns);
	return histogram_index(request->value_ns);
}

char _license[] SEC("license") = "Dual BSD/GPL";

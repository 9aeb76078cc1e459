// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The two ends of a line of shaped links, for measuring the queue engine without a transport: the
 * near end sends data frames, the far end responds to each with a short control frame, and each
 * response becomes the next data frame. So the number of frames in flight never changes.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <mrc/abi.h>
#include <mrc/wire.h>
#include <mrc/emit_port.h>
#include <mrc/histogram.h>

/* Written before the first frame. */
struct ping_settings {
	__u32 ports_per_line; /* the near end's is a line's first, the far end's its last */
	__u32 data_bytes;
	__u32 response_bytes;
	__u32 pad0;
	__u64 to_far; /* first line's, first half of the carrier, host order */
	__u64 to_near;
	__u64 theory_ns; /* round trip in an exact network */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ping_settings);
} ping_settings SEC(".maps");

struct ping {
	struct wire_eth eth;
	struct wire_ipv6 outer;
	__u64 sent_ns;	     /* model time */
	__u64 sent_clock_ns; /* when the CPU came to it */
	__u64 line;	     /* of a frame that the process sends */
} __attribute__((packed));

enum round_trip {
	ERROR_BY_CLOCK = 0, /* what a stop-watch at the near end says, off theory */
	ERROR_IN_MODEL = 1, /* what model time says */
	ROUND_TRIP_COUNT = 2,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ROUND_TRIP_COUNT);
	__type(key, __u32);
	__type(value, struct mrc_histogram);
} round_trip SEC(".maps");

struct ping_counters {
	__u64 responses;
	__u64 wrong_length;
	__u64 is_stopped; /* set by user space: no response becomes a data frame any more */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ping_counters);
} ping_counters SEC(".maps");

static __always_inline int send(struct xdp_md *ctx, __u32 port_id, __u32 length, __u64 carrier,
				__u32 dscp, __u64 sent_ns, __u64 sent_clock_ns)
{
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &port_id);
	struct ping *ping;

	if (!port || bpf_xdp_adjust_tail(ctx, (int)length - (int)bpf_xdp_get_buff_len(ctx)))
		return XDP_ABORTED;
	ping = (void *)(long)ctx->data;
	if ((void *)(ping + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(ping->eth.destination, port->peer_mac, 6);
	__builtin_memcpy(ping->eth.source, port->mac, 6);
	ping->eth.ethertype = bpf_htons(WIRE_ETH_P_IPV6);
	ping->outer.version_class_flow = bpf_htonl(6 << 28 | dscp << 22);
	ping->outer.hop_limit = WIRE_HOP_LIMIT;
	ping->outer.destination[0] = bpf_cpu_to_be64(carrier);
	ping->outer.destination[1] = 0;
	ping->sent_ns = sent_ns;
	ping->sent_clock_ns = sent_clock_ns;
	return port_emit(ctx, port_id, port,
			 dscp == MRC_DSCP_CONTROL ? MRC_CLASS_CONTROL : MRC_CLASS_DATA);
}

static __always_inline __u64 carrier_of(__u64 first, __u64 line)
{
	return first + (line * 2 << 16);
}

static __always_inline void record_error(__u32 which, __u64 round_trip_ns, __u64 theory_ns)
{
	struct mrc_histogram *histogram = bpf_map_lookup_elem(&round_trip, &which);
	__s64 error_ns = round_trip_ns - theory_ns;

	if (histogram)
		histogram_add(histogram, error_ns < 0 ? -error_ns : error_ns);
}

SEC("xdp")
int ping(struct xdp_md *ctx)
{
	__u32 ingress_id = ctx->ingress_ifindex - MRC_IFINDEX_BASE, zero = 0;
	__u64 length = bpf_xdp_get_buff_len(ctx);
	__u64 now_ns = frame_time_ns(ctx), clock_ns = bpf_ktime_get_ns();
	struct ping_settings *own = bpf_map_lookup_elem(&ping_settings, &zero);
	struct ping_counters *counters = bpf_map_lookup_elem(&ping_counters, &zero);
	struct ping *ping = (void *)(long)ctx->data;
	__u32 line, place;

	if (!own || !own->ports_per_line || !counters ||
	    (void *)(ping + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	line = ingress_id / own->ports_per_line;
	place = ingress_id % own->ports_per_line;
	if (ctx->ingress_ifindex < MRC_IFINDEX_BASE)
		return send(ctx, ping->line * own->ports_per_line, own->data_bytes,
			    carrier_of(own->to_far, ping->line), 0, clock_ns, clock_ns);
	if (ping->eth.ethertype != bpf_htons(WIRE_ETH_P_IPV6) ||
	    bpf_be64_to_cpu(ping->outer.destination[0]) >> 32 != own->to_far >> 32)
		return XDP_PASS;
	if (place == own->ports_per_line - 1) {
		counters->wrong_length += length != own->data_bytes;
		return send(ctx, ingress_id, own->response_bytes, carrier_of(own->to_near, line),
			    MRC_DSCP_CONTROL, ping->sent_ns, ping->sent_clock_ns);
	}
	counters->responses++;
	counters->wrong_length += length != own->response_bytes;
	record_error(ERROR_IN_MODEL, now_ns - ping->sent_ns, own->theory_ns);
	record_error(ERROR_BY_CLOCK, clock_ns - ping->sent_clock_ns, own->theory_ns);
	if (counters->is_stopped)
		return XDP_DROP;
	return send(ctx, ingress_id, own->data_bytes, carrier_of(own->to_far, line), 0, now_ns,
		    clock_ns);
}

char _license[] SEC("license") = "Dual BSD/GPL";

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps of one NIC. Sizes marked "at load" come from the topology. */
#ifndef MRC_NIC_MAPS_H
#define MRC_NIC_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/abi.h>
#include <mrc/histogram.h>

#define MMAPABLE_ARRAY(name, value_type, entries)                                                  \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, value_type);                                                         \
	} name SEC(".maps")

MMAPABLE_ARRAY(nic_config, struct mrc_nic_config, 1);
MMAPABLE_ARRAY(regions, struct mrc_region, 64);
MMAPABLE_ARRAY(kick, struct mrc_kick, 1);
MMAPABLE_ARRAY(work_ring, struct mrc_work_ring, 1); /* at load: QPs */

struct memory_segment {
	__u8 bytes[MRC_MEMORY_SEGMENT];
};
MMAPABLE_ARRAY(memory, struct memory_segment, 1); /* at load */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* at load */
	__type(key, __u32);
	__type(value, struct mrc_qp);
} qps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MRC_PROBE_RING);
	__type(key, __u32);
	__type(value, struct mrc_probe);
} probes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} nic_events SEC(".maps");

/* Events lost since the last one that found room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} event_losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mrc_nic_counters);
} nic_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MRC_PLANE_MAX);
	__type(key, __u32);
	__type(value, struct mrc_ev_transitions);
} ev_transitions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* at load: planes */
	__type(key, __u32);
	__type(value, struct mrc_histogram);
} rtt_histogram SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mrc_histogram);
} message_histogram SEC(".maps");

/*
 * What the functions of one program run tell each other about the packet to build; too large for
 * the stack that they share.
 */
struct tx_plan {
	__u64 now_ns;
	__u64 model_ns; /* the same in the time of a shaped fabric, which lags when its drainer is
			 * late; a packet leaves in it, but an RTT ends by the clock: lateness shows
			 */
	__u64 template_hi;
	__u64 template_lo;
	__u32 is_local;
	__u32 peer_host;
	__u32 peer_qpn;
	__u32 psn;
	__u32 entropy;
	__u32 plane;
	__u32 local_offset;
	__u32 remote_offset;
	__u32 r_key;
	__u32 dmalen;
	__u32 length;
	__u32 msn;
	__u32 opcode;
	__u32 rqmsn;
	__u32 immediate; /* of a packet whose opcode has one */
	__u32 loss;	 /* enum mrc_loss: why it is sent again, if it is */
	__u32 asks_sack;
	__u32 qp_index; /* that settle() is to look at */
	__u32 is_loss_due;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tx_plan);
} tx_plans SEC(".maps");

static __always_inline void *lookup0(void *map)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

static __always_inline void nic_count(__u32 counter, __u64 amount)
{
	struct mrc_nic_counters *counters = lookup0(&nic_counters);

	if (counters && counter < MRC_NC_COUNT)
		counters->value[counter] += amount;
}

static __always_inline int nic_drop(__u32 reason)
{
	nic_count(reason, 1);
	return XDP_DROP;
}

static __noinline int nic_event(__u32 kind, __u32 qp_index, __u32 a, __u32 b, __u64 cd)
{
	struct mrc_event *event = bpf_ringbuf_reserve(&nic_events, sizeof(*event), 0);
	__u64 *losses = lookup0(&event_losses);

	if (!event) {
		nic_count(MRC_NC_EVENT_LOST, 1);
		if (losses)
			__sync_fetch_and_add(losses, 1);
		return 0;
	}
	event->drop_count = losses && *losses ? __sync_lock_test_and_set(losses, 0) : 0;
	event->pad0 = 0;
	event->time_ns = bpf_ktime_get_ns();
	event->kind = kind;
	event->qp_index = qp_index;
	event->a = a;
	event->b = b;
	event->c = cd >> 32;
	event->d = (__u32)cd;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* Counts a change of an EV's state. Called without the QP's lock, as is ev_changed(). */
static __noinline int ev_counted(__u32 qp_index, __u32 ev_index, __u32 from, __u32 to, __u32 reason)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);
	struct mrc_ev_transitions *counts;
	__u32 plane, place;

	if (!qp)
		return 0;
	plane = qp->evs[ev_index & (MRC_EV_MAX - 1)].plane;
	counts = bpf_map_lookup_elem(&ev_transitions, &plane);
	place = (from * MRC_EV_STATE_COUNT + to) * MRC_REASON_COUNT + reason;
	if (counts && place < sizeof(*counts) / sizeof(counts->value[0]))
		counts->value[place]++;
	return 0;
}

/* Counts a change that the controller is to know of, and tells the agent: all but those of SKIP. */
static __noinline int ev_changed(__u32 qp_index, __u32 ev_index, __u32 from, __u32 to, __u32 reason)
{
	ev_counted(qp_index, ev_index, from, to, reason);
	return nic_event(MRC_EVENT_EV_STATE, qp_index, ev_index, from, (__u64)to << 32 | reason);
}

#endif

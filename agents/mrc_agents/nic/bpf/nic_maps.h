/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps of one NIC. Sizes marked "at load" come from the topology. */
#ifndef MRC_NIC_MAPS_H
#define MRC_NIC_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/trace.h>
#include <mrc/abi.h>
#include <mrc/histogram.h>
#include <mrc/cc_events.h>
#include <mrc/map.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mrc_nic_config);
} nic_config SEC(".maps");

MMAPABLE_ARRAY(nic_control, struct mrc_nic_control, 1);
MMAPABLE_ARRAY(regions, struct mrc_region, MRC_REGION_MAX);
MMAPABLE_ARRAY(kick, struct mrc_kick, 1);
MMAPABLE_ARRAY(nic_paths, struct mrc_nic_paths, 1);
MMAPABLE_ARRAY(work_ring, struct mrc_work_ring, 1); /* at load: QPs */

struct memory_segment {
	__u8 bytes[MRC_MEMORY_SEGMENT];
};
#ifdef MRC_VIRTUAL
MMAPABLE_ARRAY(memory, struct memory_segment, 1); /* at load */
#else
/*
 * The memory comes in chunks, so that it can grow. They may have different sizes: a NIC with little
 * memory takes no more. This one is the pattern of all, made while an object is loaded.
 */
struct memory_chunk {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct memory_segment));
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MRC_MEMORY_CHUNKS);
	__type(key, __u32);
	__array(values, struct memory_chunk);
} memory SEC(".maps");
#endif

INDEX_MAP(ARRAY, qps, struct mrc_qp, 1); /* at load */
INDEX_MAP(ARRAY, probes, struct mrc_probe, MRC_PROBE_RING);

/* Programs of other transports, by enum nic_transport; filled at load. */
INDEX_MAP(PROG_ARRAY, nic_transports, __u32, 1);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} nic_events SEC(".maps");

#ifndef MRC_VIRTUAL
/* Rings of completion channels, on which programs sleep; filled by the agent. */
struct channel_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, MRC_PAGE_BYTES);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MRC_CHANNELS);
	__type(key, __u32);
	__array(values, struct channel_ring);
} channels SEC(".maps");
#endif

/* Events lost since the last one that found room. */
INDEX_MAP(ARRAY, event_losses, __u64, 1);

INDEX_MAP(PERCPU_ARRAY, nic_counters, struct mrc_nic_counters, 1);
INDEX_MAP(PERCPU_ARRAY, ev_transitions, struct mrc_ev_transitions, MRC_PLANE_MAX);
INDEX_MAP(PERCPU_ARRAY, rtt_histogram, struct mrc_histogram, 1); /* at load: planes */
INDEX_MAP(PERCPU_ARRAY, message_histogram, struct mrc_histogram, 1);

/* A work request that has nothing left to wait for. */
struct reaped_work {
	__u32 is_finished;
	__u32 index;
	__u32 iterations;
};

/* Work deferred until the lock is released. */
struct tx_deferred {
	__u32 tx_budget;
	__u32 is_timer_due;
	__u32 is_blocked; /* no EV on a port that is up: only the timer will retry */
	__u32 is_drifted;
	int restored_ev; /* that lost a turn; -1: none */
	struct reaped_work reaped;
};

/* The acknowledgement that is being processed. */
enum ack_kind {
	ACK_KIND_SACK,
	ACK_KIND_ACK,
	ACK_KIND_NACK,
};

/*
 * The packet to build, and what is to be done besides. Functions of one run share it: too large for
 * the stack that they share.
 */
struct tx_desc {
	__u64 now_ns;
	__u64 model_ns; /* the same in the time of a shaped fabric, which lags when its drainer is
			 * late; a packet leaves in it, an RTT ends by the clock: lateness shows */
	__u32 psn;
	__u32 entropy;
	__u32 plane;
	__u32 local_offset;
	__u64 remote_offset;
	__u32 r_key;
	__u32 dmalen;
	__u32 length;
	__u32 msn;
	__u32 opcode;
	__u32 rqmsn;
	__u32 immediate; /* of a packet whose opcode has one */
	__u32 loss;	 /* enum mrc_loss: why it is sent again, if it is */
	__u32 requests_sack;
	struct tx_deferred deferred;
	__u32 qp_index;		 /* this and all below: for MRC_STAGE_COMPLETE and later ones */
	__u32 cause;		 /* enum ack_kind */
	__u32 is_packet_decided; /* nothing to complete, and the next packet has been decided */
	__u32 has_packet;	 /* if is_packet_decided: whether there is one */
	__u32 is_loss_due;
	__s64 ack_rtt_ns; /* sampled by an ACK, in model time; 0 or less: no valid sample */
};

INDEX_MAP(PERCPU_ARRAY, tx_descs, struct tx_desc, 1);

/* The SACK that is being processed: what it says, and what has become of that. */
struct sack_ctx {
	struct cc_sack congestion; /* what it says to congestion control */
	__u64 bitmap;
	__u32 cack;
	__u32 ack; /* first an offset from cack, then the PSN that caused it; base likewise */
	__u32 base;
	__u32 entropy;
	__u32 advice;
	__u32 probe_id;
	__u32 is_probe;
	__u32 is_retransmission;
	__u32 mpr;	  /* in units; 0: no change */
	__u32 ports_down; /* bit i: the peer's port to plane i */
	__u32 packets;	  /* newly acknowledged, and their payload */
	__u32 plane;	  /* of the sample */
	__u64 bytes;
	__u64 rtt_ns;	       /* 0: no sample */
	__u64 trigger_sent_ns; /* when the packet that caused it left, in model time */
	__u64 new_bits;	       /* bits of the bitmap, arrivals whose own SACK has not come */
	__u32 marked_ev;
	__u32 is_marked;
	__u32 late_ev; /* on which the packet that caused it had been declared lost */
	__u32 is_late;
	__u32 cwnd_change;
	__u32 is_overtaken;   /* it overtook packets: this and all below */
	__u32 overtaken_path; /* the path of the packet that caused it */
	__u16 trigger_order;
	__u16 is_tlp_ack; /* of an ACK, too: its packet was a tail loss probe */
};

INDEX_MAP(PERCPU_ARRAY, sack_ctxs, struct sack_ctx, 1);

static __always_inline void *lookup0(void *map)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

/* Adds a time to histogram `key` of a map. */
static __always_inline void nic_record(void *map, __u32 key, __u64 ns)
{
	struct mrc_histogram *histogram = bpf_map_lookup_elem(map, &key);

	if (histogram)
		histogram_add(histogram, ns);
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

static __noinline __attribute__((unused)) int nic_event(__u32 kind, __u32 qp_index, __u32 a,
							__u32 b, __u64 cd)
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

#endif

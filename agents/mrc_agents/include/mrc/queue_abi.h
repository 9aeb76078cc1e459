/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * State of the queue engine, shared by the BPF programs, the drainer process and Python. How the
 * parts play together is in docs/explanation/queue-engine.md.
 *
 * Everything starts as zeros: an id of a frame or a port in a list is its index + 1, 0 ends a list.
 */
#ifndef MRC_QUEUE_ABI_H
#define MRC_QUEUE_ABI_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <mrc/limit_abi.h>

enum mrc_queue_limit {
#ifdef MRC_VIRTUAL
	MRC_QUEUE_FRAME_BYTES = 4608,
	MRC_QUEUE_FRAMES_MAX = MRC_VIRTUAL_FRAMES_MAX,
#else
	MRC_QUEUE_FRAME_BYTES = 3072, /* room per frame: MTU 3000 and an Ethernet header fit */
	MRC_QUEUE_FRAMES_MAX = 32768, /* most frames one lab can hold; a power of two */
#endif
	MRC_QUEUE_BUCKETS = 4096,      /* of the timing wheel: 64 words of 64 bits */
	MRC_QUEUE_BUCKET_SHIFT = 10,   /* a bucket spans 1.024 us */
	MRC_QUEUE_LOOK_BEHIND = 1024,  /* buckets searched again for a push that raced */
	MRC_QUEUE_FAR_BEHIND = 131072, /* buckets; order is given up where the model is that late */
	MRC_QUEUE_LOOK_AHEAD = 3000,   /* buckets; what is due later is pushed again there */
	MRC_QUEUE_LINK_PENDING = 0x7fffffff, /* a push is about to store its link */
	MRC_QUEUE_DRAINERS_MAX = 8,
	MRC_QUEUE_CPUS_MAX = 1024,
	MRC_QUEUE_DELAY_BUCKETS = 176, /* see queue/delay.h */
};

/* queue_frames[frame index], array: the bytes, with headers rewritten for the next link. */
struct mrc_queue_frame {
	__u8 bytes[MRC_QUEUE_FRAME_BYTES];
};

struct mrc_queue_descriptor {
	__u64 time_ns; /* arrival at the port; once on the wire, arrival at the far end */
	__u32 next;
	__u16 length_bytes;
	__u16 traffic_class;
	__u32 upstream; /* id of the port that sent it here, if flow control may hold that one */
	__u32 pad0;
};

/* queue_descriptors[0], one element so that links can be followed under a port's lock. */
struct mrc_queue_descriptors {
	struct mrc_queue_descriptor entry[MRC_QUEUE_FRAMES_MAX];
};

/* queue_pool[0]: ids above `fresh` were never used, returned ones hang off `free`. */
struct mrc_queue_pool {
	struct bpf_spin_lock lock;
	__u32 free;
	__u32 fresh;
	__u32 limit; /* elements of queue_frames, 0 until the pool was empty once */
	__u32 used;
	__u32 used_peak;
};

/* queue_ports[port id]. All but wheel_next changes only under the lock. */
struct mrc_queue_port {
	struct bpf_spin_lock lock;
	__u32 is_scheduled; /* it sits in the wheel, or the drainer is about to look at it */
	__u32 head[2];	    /* waiting frames, by traffic class */
	__u32 tail[2];
	__u32 wire_head; /* frames whose transmission has begun, in order of arrival */
	__u32 wire_tail;
	__u64 free_at_ns; /* end of the last transmission begun */
	__u64 wire_end_ns;
	__u32 wheel_next; /* next port of the same bucket */
	__u32 draws;	  /* random numbers that marking has used */
	__u64 carry;	  /* by which free_at_ns is too early, in 1 / rate of a nanosecond */
};

/*
 * queue_settings[port id], mmapable array, written by the control plane only. A backlog is that of
 * the data class, counted with the frame that arrives. Rate and delay are in mrc_port.
 */
struct mrc_queue_settings {
	__u32 data_buffer_bytes;
	__u32 control_buffer_bytes;
	__u32 trim_bytes;	   /* a larger backlog trims what may be trimmed; 0: no trimming */
	__u32 ecn_min_bytes;	   /* a larger backlog marks, with a probability that grows ... */
	__u32 ecn_max_bytes;	   /* ... up to here; from here on all. 0: no marking */
	__u32 seed;		   /* of the marks */
	__u64 ecn_probability_q32; /* just below ecn_max_bytes, times 2^32 */
	__u32 drainer;		   /* which of them sends; not to be changed while frames wait */
	__u32 pad0;
};

/* queue_delays[port id], mmapable array, written by BPF only, under the port's lock. */
struct mrc_queue_delay {
	__u64 buckets[MRC_QUEUE_DELAY_BUCKETS];
	__u64 sum_ns;
	__u64 max_ns;
};

struct mrc_queue_delays {
	struct mrc_queue_delay of_class[2]; /* from arrival at the port to start of transmission */
};

/* The way a drainer waits for work. */
enum mrc_drainer_mode {
	MRC_DRAINER_AUTO = 0,	 /* looks for a while, then sleeps until something is due */
	MRC_DRAINER_PRECISE = 1, /* looks all the time: a core is busy */
	MRC_DRAINER_ECO = 2,	 /* wakes every 100 us at most: frames leave up to that late */
};

/* queue_state[port id], mmapable array, written by BPF only, under the port's lock. */
struct mrc_queue_state {
	__u32 depth_bytes[2]; /* waiting, by traffic class: transmission not yet begun */
	__u32 depth_peak_bytes[2];
};

/*
 * queue_drainer[drainer], mmapable array. BPF writes all but mode, which the control plane sets,
 * wake_at_ns, which belongs to the drainer process (a push sets it back to 0 when it wakes the
 * drainer), and scan when that process starts.
 */
struct mrc_queue_drainer {
	__u64 scan;	  /* next bucket to look at, counted from the start of the clock */
	__u64 limit_ns;	  /* end of the bucket being emptied: nothing due later leaves yet */
	__u64 wake_at_ns; /* what the drainer sleeps for; 0 while it is awake */
	__u64 taken;	  /* frames that were due and left, or met a fault of their link */
	__u32 current;	  /* ports of the bucket being emptied */
	__u32 mode;	  /* enum mrc_drainer_mode */
	__u64 summary;	  /* bit w: words[w] has a bit set */
	__u64 words[64];
	__u32 buckets[MRC_QUEUE_BUCKETS];
};

/* XDP metadata in front of a frame that crossed a shaped link. */
struct mrc_frame_time {
	__u64 arrival_ns; /* when it arrived in the model, not when the drainer came to send it */
	__u32 magic;
	__u32 credit_bytes; /* to be given back to its sender */
};

_Static_assert(sizeof(struct mrc_queue_descriptor) == 24, "eight in three cache lines");
_Static_assert(sizeof(struct mrc_queue_port) == 64, "one cache line");
#ifndef MRC_VIRTUAL
_Static_assert(sizeof(struct mrc_queue_descriptors) <= 4 << 20, "kernel 6.1 takes no larger value");
#endif
_Static_assert(MRC_QUEUE_LOOK_BEHIND + MRC_QUEUE_LOOK_AHEAD < MRC_QUEUE_BUCKETS, "wheel aliases");

#endif

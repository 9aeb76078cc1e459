/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Work requests, and how far a QP has got with them. */
#ifndef MRC_WORK_ABI_H
#define MRC_WORK_ABI_H

#include <linux/types.h>
#include <mrc/limit_abi.h>

/*
 * A work request: an RDMA WRITE carried out `iterations` times. Iteration i reads local_offset +
 * (i % local_slots) * length and writes remote_offset + (i % remote_slots) * length, so that
 * coprime slot counts give each pass over the target other bytes. At most `depth` iterations are
 * outstanding at once.
 */
struct mrc_work {
	__u32 id;
	__u32 length;
	__u32 iterations;
	__u32 local_offset;
	__u32 local_slots;
	__u32 remote_offset;
	__u32 remote_slots;
	__u32 r_key;
	__u32 depth;
	__u32 stop; /* user space sets it to end the request before its last iteration */
	__u32 has_immediate;
	__u32 immediate;
	__u32 is_completed; /* set by BPF */
	__u32 remote_high;  /* high half of remote_offset, where that is an address */
	__u32 is_silent;    /* no event is made when it is completed */
};

/* Use of events for completions and arrivals of a QP; BPF also writes both into its ring. */
enum mrc_notify {
	MRC_NOTIFY_ALWAYS = 0,
	MRC_NOTIFY_NEVER = 1,
	MRC_NOTIFY_ARMED = 2, /* the next one only: BPF makes it NEVER */
};

/* The sides of a QP, each with its own use of events. */
enum mrc_work_side {
	MRC_SIDE_SENDS = 0,
	MRC_SIDE_RECEIVES = 1,
	MRC_SIDE_COUNT = 2,
};

/* A WRITE with immediate that has been delivered. */
struct mrc_arrival {
	__u32 number; /* from 1; stored last */
	__u32 immediate;
	__u32 length;
	__u32 r_key; /* by which its last packet was placed: enum mrc_reserved_key, or a region's */
};

/* work_ring[qp index], mmapable array: user space fills entries, then stores the new tail. */
struct mrc_work_ring {
	__u32 tail;	    /* free-running */
	__u32 receive_tail; /* receives posted for WRITEs with immediate; free-running */
	__u32 turn;	    /* of the last QP here: it outlives the agent, as packets do */
	__u32 notify[MRC_SIDE_COUNT]; /* enum mrc_notify */
	__u32 failure; /* 1 + enum mrc_status of a QP in ERROR, written by the agent; 0 */
	__u32 mailbox; /* 1 + page in the NIC's memory where SENDs go; 0: nowhere */
	__u32 channels[MRC_SIDE_COUNT];		   /* numbers of those that events wake; 0 */
	struct mrc_arrival arrivals[MRC_WIMM_MAX]; /* by number % MRC_WIMM_MAX */
	struct mrc_work entries[MRC_WORK_RING];
};

/* Where a QP of any transport is in its work ring, under its lock. Every iteration is a message. */
struct mrc_work_cursor {
	__u32 head;		      /* first work request not yet completed; free-running */
	__u32 next;		      /* work request whose packets are being sent; free-running */
	__u32 iteration;	      /* iteration of `next` being sent */
	__u32 local_slot;	      /* iteration % local_slots */
	__u32 remote_slot;	      /* iteration % remote_slots */
	__u32 sent_bytes;	      /* bytes of that iteration already sent */
	__u32 completed_iterations;   /* of `head` */
	__u32 outstanding_messages;   /* begun and not completed */
	__u32 next_msn;		      /* messages sent whole; free-running */
	__u32 done_msn;		      /* messages completed; free-running */
	__u32 started[MRC_WORK_RING]; /* iterations of a request, once it is sent whole */
	__u64 message_start_ns[MRC_WORK_RING]; /* by msn */
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flow control of a link, hop by hop: PFC or credits (docs/explanation/queue-engine.md, "Lossless
 * modes").
 *
 * Both maps are indexed by the port that sends into the link. What they say of "the far end" is the
 * ingress buffer of the switch there: data frames that came in by this link and wait in that
 * switch, at whatever port they are to leave.
 */
#ifndef MRC_LOSSLESS_ABI_H
#define MRC_LOSSLESS_ABI_H

#include <linux/types.h>

enum mrc_flow_control {
	MRC_FLOW_NONE = 0,
	MRC_FLOW_PFC = 1,
	MRC_FLOW_CREDITS = 2,
};

enum mrc_lossless_limit {
	MRC_LOSSLESS_UPDATES_MAX = 16,	  /* under way to the sender at once; a power of two */
	MRC_LOSSLESS_TRANSIT_MAX = 16,	  /* frames sent that the far end has not looked at yet */
	MRC_LOSSLESS_REFRESH_NS = 100000, /* a forced pause is repeated that often */
	MRC_LOSSLESS_TRANSIT_NS = 1000000000, /* frames unseen for so long are lost */
	MRC_LOSSLESS_NODE = 0x40000000, /* in the wheel: a transmission's start, not an arrival */
};

/* lossless_settings[port id], mmapable array, written by the control plane only. */
struct mrc_lossless_settings {
	__u32 flow_control; /* enum mrc_flow_control */
	__u32 is_forced;    /* the far end holds the data class back, full or not: a pause storm */
	__u32 xoff_bytes; /* PFC: the far end pauses this port when its buffer holds as much, ... */
	__u32 xon_bytes;  /* ... and lets it go on when it holds no more than this */
	__u32 buffer_bytes; /* room at the far end; with credits all of it is granted */
	__u32 pad0;
};

/* A signal of the far end to its sender, in force from time_ns on. */
struct mrc_lossless_update {
	__u64 time_ns;
	__u32 value; /* PFC: 1 pause, 0 go on; credits: bytes given back */
	__u32 pad0;
};

/* lossless_links[port id], mmapable array, written by BPF only, under queue_ports[port id].lock. */
struct mrc_lossless_link {
	/* the far end; a release may overtake its charge, so it is signed */
	__s32 buffered_bytes;
	__u32 buffered_peak_bytes;
	__u32 is_pause_sent;
	__u32 is_forced; /* as last seen in the settings */
	__u64 pause_frames;
	__u64 resume_frames;
	/* on its way back */
	__u32 update_head; /* number of the next one to take effect */
	__u32 update_tail;
	struct mrc_lossless_update updates[MRC_LOSSLESS_UPDATES_MAX];
	/* the sender */
	__u32 is_paused;
	__u32 used_bytes;      /* credits: of the far end's buffer, in flight or not given back */
	__u64 open_ns;	       /* no data frame begins before: when the last update took effect */
	__u64 refresh_ns;      /* when a forced pause was repeated last */
	__u64 paused_since_ns; /* 0: it is not */
	__u64 paused_ns;       /* altogether, pauses that are over */
	__u64
	    blocked_since_ns; /* data waits and could be sent, but for flow control; 0: none does */
	__u64 blocked_ns;     /* altogether, as above */
	__u64 blocks;
	/* between the two */
	__u64 drained; /* frames the drainer sent */
	__u64 seen;    /* of these, frames the far end has looked at; atomic */
	__u64 transit_since_ns;
	/* the entry of its next start in the wheel */
	__u64 start_due_ns;
	__u32 start_next;
	__u32 is_start_scheduled;
};

#endif

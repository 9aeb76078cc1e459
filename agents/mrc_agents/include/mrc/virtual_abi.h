/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Layouts that the library of virtual time (mrc_agents/virtual) and Python share, besides maps. */
#ifndef MRC_VIRTUAL_ABI_H
#define MRC_VIRTUAL_ABI_H

#include <mrc/nic_abi.h>
#include <mrc/qp_abi.h>

/* The parts of a lab. Addresses are this process's. */
struct mrc_virtual_lab {
	__u64 config;	   /* of a struct mrc_fabric_config */
	__u64 nic_of_port; /* of a __u32 by port id; ~0: a switch's */
	__u64 seed;
	__u32 config_bytes;
	__u32 port_count;
	__u32 nic_count;
	__u32 payload;	     /* enum mrc_virtual_payload */
	__u32 shuffles_ties; /* events at one time come in an order drawn from the seed */
	__u32 pad0;
};

/* Where the elements of a map are; `stride` bytes from one to the next. */
struct mrc_virtual_map {
	__u64 address;
	__u32 type; /* enum bpf_map_type */
	__u32 value_bytes;
	__u32 count;
	__u32 stride;
};

/* An event of a NIC that waits for its agent. */
struct mrc_virtual_report {
	__u32 nic;
	__u32 pad0;
	struct mrc_event event;
};

/* Counts of the simulation since it began. */
struct mrc_virtual_totals {
	__u64 events;
	__u64 arrivals;	    /* frames that crossed a link */
	__u64 queued_peak;  /* events that waited at once */
	__u64 early_frames; /* that crossed a link sooner than its port's rate allows */
};

/* A reading of all NICs together. The caller sets what is above the blank line. */
struct mrc_virtual_sums {
	__u64 counters; /* address for each NIC's, one after the other: struct mrc_nic_counters */
	__u64 seen;	/* address of a __u64 by NIC and QP, 0 at first: tail << 1 | is connected */
	__u32 plane_count;
	__u32 searches; /* looks at all QPs, else at those connected or given work since */

	struct mrc_histogram message_completion;
	struct mrc_histogram packet_rtt[MRC_PLANE_MAX];
	__u64 evs[MRC_PLANE_MAX * MRC_EV_STATE_COUNT]; /* of connected QPs, by plane and state */
};

/* The records of a trace. Of frames: `host` and `qp` are the receiver's, `place` is a port. */
enum mrc_trace_kind {
	MRC_TRACE_HOP = 0,     /* sent by a port: from start_ns on; at the far end at end_ns */
	MRC_TRACE_QUEUED = 1,  /* value = bytes ahead, extra = most of one flow, what: which */
	MRC_TRACE_LOST = 2,    /* what = enum mrc_port_counter */
	MRC_TRACE_TRIMMED = 3, /* value = bytes that it had */
	MRC_TRACE_TAKEN = 4,   /* by the receiver's NIC, from that port; what as of HOP */
	MRC_TRACE_HELD = 5,    /* by flow control, up to end_ns; of a port, of no frame */
	/* Of a QP at NIC `host`: value = window in bytes, extra = packets in flight. */
	MRC_TRACE_SENT = 6,	  /* what = enum mrc_loss: why it is sent again */
	MRC_TRACE_ACKED = 7,	  /* start_ns = when it was sent last, as of DECLARED */
	MRC_TRACE_DECLARED = 8,	  /* lost; what = enum mrc_loss_rule */
	MRC_TRACE_TIMER = 9,	  /* the RTO has expired */
	MRC_TRACE_EV = 10,	  /* what = from << 16 | to << 8 | enum mrc_ev_reason */
	MRC_TRACE_BEGUN = 11,	  /* a message: psn = its MSN, entropy = peer's QPN; as COMPLETED */
	MRC_TRACE_COMPLETED = 12, /* start_ns = when it had begun */
	/*
	 * Of messages of the schedule at start_ns, by transfer psn: source, qp, host and extra are
	 * NIC and QP of both ends, `place` is the connection and entropy the operation.
	 */
	MRC_TRACE_POSTED = 13, /* what = 1 + the transfer whose arrival let it, or 0 */
	MRC_TRACE_ARRIVED = 14,
	MRC_TRACE_KINDS = 15,
};

/* The rule that declares a packet lost: nic/bpf/recovery.h. */
enum mrc_loss_rule {
	MRC_RULE_RACK = 0,
	MRC_RULE_OVERTAKEN = 1,
	MRC_RULE_TLP = 2,
	MRC_RULE_IDLE_PATH = 3,
	MRC_RULE_RTO = 4,
	MRC_RULE_NACK = 5,
	MRC_RULE_PROBE = 6, /* not found lost: sent again as a tail loss probe */
};

struct mrc_trace_record {
	__u64 time_ns; /* of a frame: when it came to the port */
	__u64 start_ns;
	__u64 end_ns;
	__u32 kind; /* enum mrc_trace_kind */
	__u32 place;
	__u32 source; /* host that sent the frame, or peer of the QP */
	__u32 host;
	__u32 qp; /* index */
	__u32 psn;
	__u32 entropy;
	__u32 what; /* of HOP, TAKEN: opcode; of QUEUED: source << 16 | receiver */
	__u32 value;
	__u32 extra;
};

/* A selection of what is recorded of a run, by model time. */
struct mrc_trace_selection {
	__u64 from_ns, until_ns;
	__u64 window_first; /* address of a __u32 by NIC and QP, and one more; 0: all QPs */
	__u64 windows;	    /* address of pairs of __u64, from and until: those of a QP in a row */
	__u64 records_max;
	__u32 kinds; /* bit by enum mrc_trace_kind */
	__u32 port;  /* only frames there; ~0: anywhere */
};

/* The way payload travels. */
enum mrc_virtual_payload {
	MRC_VIRTUAL_PAYLOAD_COPY =
	    0, /* hop by hop, as live: for links that corrupt and for iCRCs */
	MRC_VIRTUAL_PAYLOAD_REFERENCE =
	    1, /* copied once, from memory to memory, where it arrives */
};

/* One message of an operation. Places are elements of a rank's region; -1: none. */
struct mrc_transfer {
	__s32 connection;
	__s32 source_start;
	__s32 target_start;
	__s32 count;
	__s32 reduce_start; /* where it is added up; -1: it is where it belongs */
	__s32 after;	    /* transfer that must have arrived at the source before; -1: none */
};

/* A connection of a schedule. Lists hold 1 + a transfer; 0: it is empty. */
struct mrc_schedule_connection {
	__u64 target_address; /* of the far region: of all NICs */
	__u32 source_nic;     /* ~0: Python posts; what follows, to in_flight, is unset */
	__u32 source_qp;      /* index, as target_qp */
	__u32 target_nic;
	__u32 target_qp;
	__u32 local_offset; /* of the near region in its NIC's memory */
	__u32 r_key;
	__u32 window_packets;
	__u32 pmtu_bytes;
	__u32 in_flight;  /* posted and not arrived */
	__u32 waiting[2]; /* first and last of those that are not posted before others arrive */
	__u32 pad0;
};

/*
 * Messages of operations, one operation after the other; addresses are this process's. Members of
 * group i, in order, are members[first[i]] and on, up to members[first[i + 1]]: the transfers that
 * connection i carries, and those that follow transfer i; before first[0] stand those that follow none.
 */
struct mrc_message_schedule {
	__u64 transfers;   /* of a struct mrc_transfer */
	__u64 connections; /* of a struct mrc_schedule_connection */
	__u64 carried_first, carried_members;
	__u64 follower_first, follower_members;
	__u64 next; /* of a __u32 by transfer: the one behind it in a list */
	__u32 transfer_count;
	__u32 connection_count;
	__u32 element;	 /* enum mrc_coll_type */
	__u32 reduction; /* enum mrc_coll_reduction */
	__u32 in_flight_max;
	__u32 operation;       /* of so many messages of a connection before, and their immediate */
	__u32 outstanding;     /* of its messages; 0: none is under way */
	__u32 last_connection; /* by which the latest one came */
	__u32 unposted[2];     /* first and last that the agent of their NIC has to post */
	__u64 end_ns;	       /* when the latest one had been reduced */
	__u64 reaction_ns;     /* from arrivals to the end of what they brought about, added up */
};

#endif

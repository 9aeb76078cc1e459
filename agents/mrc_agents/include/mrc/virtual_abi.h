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

/* The way payload travels. */
enum mrc_virtual_payload {
	MRC_VIRTUAL_PAYLOAD_COPY =
	    0, /* hop by hop, as live: for links that corrupt and for iCRCs */
	MRC_VIRTUAL_PAYLOAD_REFERENCE =
	    1, /* copied once, from memory to memory, where it arrives */
};

#endif

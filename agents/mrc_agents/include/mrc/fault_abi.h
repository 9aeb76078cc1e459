/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Faults of a link, as the data plane applies them to the frames that leave a port. Each fault has
 * one rule at each port it acts on; rules know nothing of one another, so they compose and are
 * taken back one by one. mrc_testbed/faults/rule.py is the same in Python.
 */
#ifndef MRC_FAULT_ABI_H
#define MRC_FAULT_ABI_H

#include <linux/types.h>

enum mrc_fault_limit {
	MRC_FAULT_RULES = 8,	     /* that can act at one port */
	MRC_FAULT_LINES = 10,	     /* of a port: see fault_line.h */
	MRC_FAULT_LINE = 0x20000000, /* in the wheel: a line, not a port */
	MRC_FAULT_FLIPPED_MAX = 32,  /* bits: the iCRC finds any burst of errors up to this long */
};

enum mrc_fault_action {
	MRC_FAULT_NONE = 0,
	MRC_FAULT_DOWN,	     /* lost, as the link is down */
	MRC_FAULT_LOSE,	     /* lost, though the link is up */
	MRC_FAULT_CORRUPT,   /* some neighbouring bits between BTH and iCRC are flipped */
	MRC_FAULT_DUPLICATE, /* sent twice; shaped ports only, as are the next two */
	MRC_FAULT_DELAY,     /* arrives later, in order */
	MRC_FAULT_REORDER,   /* held back, and overtaken by what follows */
};

/*
 * The n-th frame that matches the rule is hit if draw 4n of the seed is below the chance, which in
 * a burst is another one; draw 4n + 1 ends or begins a burst, draw 4n + 2 says where bits flip or
 * how long a delay is. Chances are times 2^32; 1 << 32 is certain.
 */
struct mrc_fault_rule {
	__u32 action; /* enum mrc_fault_action; stored last, cleared first */
	__u32 id;     /* of this application; an account with another id is reset */
	__u32 seed;
	__u32 classes;	/* bit per mrc_traffic_class: frames of other classes do not match */
	__u32 ev_value; /* likewise frames with (EV & ev_mask) != ev_value */
	__u32 ev_mask;
	__u64 chance_q32;
	__u64 burst_chance_q32;
	__u64 burst_begins_q32;
	__u64 burst_ends_q32;
	__u64 time_ns;	 /* DELAY, REORDER: how much later */
	__u64 jitter_ns; /* DELAY: and up to this much less or more */
	__u32 flipped_bits;
	__u32 flap_seed; /* the same at every port of a flap */
	__u64 end_ns;	 /* CLOCK_MONOTONIC from which the rule acts no more; 0: until cleared */
	__u64 begin_ns;	 /* of a flap: start of its first period */
	__u64 every_ns;	 /* of a flap: length of a period; 0: the rule acts all the time */
	__u64 down_ns;	 /* of a flap: length of the outage in each period */
	__u64 late_ns;	 /* of a flap: an outage begins up to this long after its period */
};

/*
 * port_fault[port id], mmapable array, written by the control plane only. A fault acts on the
 * egress port of its direction: link a~b down "both" has a rule at a's and at b's port. Nothing of
 * it is read unless mrc_port.is_faulted: set that last, clear it first.
 */
struct mrc_port_fault {
	struct mrc_fault_rule rule[MRC_FAULT_RULES];
};

struct mrc_fault_account {
	__u32 id; /* of the rule it is about */
	__u32 is_in_burst;
	__u64 matched_frames;
	__u64 hit_frames;
	__u64 hit_data_frames;
	__u64 first_hit_ns; /* of a data frame */
	__u64 last_hit_ns;  /* likewise */
};

/* fault_accounts[port id], mmapable array, written by BPF only: one account per rule. */
struct mrc_fault_accounts {
	struct mrc_fault_account rule[MRC_FAULT_RULES];
};

#endif

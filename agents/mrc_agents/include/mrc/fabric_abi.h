/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The configuration that every program of a lab gets at load, and how switches choose a route. */
#ifndef MRC_FABRIC_ABI_H
#define MRC_FABRIC_ABI_H

#include <linux/types.h>
#include <mrc/limit_abi.h>

/* docs/reference/protocol.md, "Forwarding modes" */
enum mrc_forwarding {
	MRC_FORWARDING_SRV6 = 0, /* the carrier in the outer header */
	MRC_FORWARDING_STEV = 1, /* fields of the EV, per tier; no outer header */
	MRC_FORWARDING_ECMP = 2, /* a hash per switch; no outer header */
};

/* Choice among equal links in a switch without source routes; needs ecmp. */
enum mrc_uplink_choice {
	MRC_UPLINK_CHOICE_HASH = 0,
	MRC_UPLINK_CHOICE_ADAPTIVE = 1, /* per packet, the one with the least to send */
};

/* Programs that those of a host tail-call: port_xmit_end(). */
enum mrc_fabric_program {
	MRC_FABRIC_PROGRAM_EMIT = 0,	/* faults and queue of the port */
	MRC_FABRIC_PROGRAM_FORWARD = 1, /* the switch at the far end */
	MRC_FABRIC_PROGRAM_COUNT,
};

/* A tier of switches: mrc_testbed/topology/numbering.py. */
struct mrc_tier {
	__u32 joins;   /* groups of the tier below; hosts at a T0 */
	__u32 lanes;   /* parallel links to a switch of the tier below */
	__u32 uplinks; /* of a switch; 0 in the highest tier */
};

/* fabric_config, read-only data of every object, the same in the whole lab. */
struct mrc_fabric_config {
	__u64 inner_prefix; /* first 64 bits of NIC addresses with plane 0; plane is added */
	__u32 srv6_block;   /* first 32 bits of every carrier */
	__u32 forwarding;   /* enum mrc_forwarding */
	__u32 host_count;
	struct mrc_tier tiers[MRC_TIER_MAX]; /* from T0 up; the rest joins nothing */
	__u32 hash_seed;     /* of the lab; a switch's own is made from it and the node id */
	__u32 is_shaped;     /* ports have rates, and with them queues */
	__u32 uplink_choice; /* enum mrc_uplink_choice */
	__u32 pace_ns;	     /* what the protocol's clocks go by: paced_ns() */
	__u32 pad0;
	__u16 cc_algorithm; /* of NICs: number in the generated cc_algorithms.h */
	__u16 ev_selector;  /* in ev_selectors.h, likewise */
};

#endif

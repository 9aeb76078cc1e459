/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sizes that everything else in the ABI is built from. */
#ifndef MRC_LIMIT_ABI_H
#define MRC_LIMIT_ABI_H

/* Limits of virtual time, where there is no veth and no verifier. */
enum mrc_virtual_limit {
	MRC_VIRTUAL_PMTU_MAX = 4096,
	MRC_VIRTUAL_FRAMES_MAX = 4194304,
};

/* In the place of a page list's offset: the bytes of the region lie in a row. */
enum mrc_page_list {
	MRC_NO_PAGE_LIST = 0xffffffff,
};

enum mrc_limit {
	MRC_PLANE_MAX = 16,	      /* 4 plane bits in every uSID */
	MRC_TIER_MAX = 3,	      /* tiers of switches: a carrier has room for six uSIDs */
	MRC_EV_MAX = 256,	      /* EVs per QP: the spec's typical 128-256 */
	MRC_EV_OWN_WORDS = 8,	      /* of 8 bytes, that an EV selector has for itself */
	MRC_PSN_RING = 1024,	      /* PSNs a QP tracks */
	MRC_MPR_UNIT = 128,	      /* PSNs in one unit of a maximum PSN range */
	MRC_MPR_MAX = 8,	      /* MRC_PSN_RING / MRC_MPR_UNIT */
	MRC_RNR_FOREVER = 7,	      /* IBTA's rnr_retry without end */
	MRC_WIMM_MAX = 128,	      /* WRITEs with immediate a responder can hold back */
	MRC_MAILBOX_BYTES = 262144,   /* MRC_WIMM_MAX parts of SENDs, a packet each */
	MRC_PSN_WORDS = 16,	      /* MRC_PSN_RING / 64 */
	MRC_ACK_PATH_SPACING = 64,    /* packets a responder takes between two ACK-path probes */
	MRC_RESTORE_SACKS = 64,	      /* SACKs that say that a receiver penalty has ended */
	MRC_PENALTY_MAX = 127,	      /* receiver penalty, in 1/128 of the bytes received */
	MRC_WORK_RING = 64,	      /* work requests a QP can hold */
	MRC_PROBE_RING = 1024,	      /* outstanding EV probes per NIC */
	MRC_NIC_PATHS = 4096,	      /* paths a NIC distinguishes; a power of two */
	MRC_KICK_PROBES = 64,	      /* EV probes one kick can send */
	MRC_LINK_PROBE_ROUNDS = 64,   /* whose responses are remembered; one bit each */
	MRC_MEMORY_SEGMENT = 1048576, /* bytes per element of a chunk of the NIC's memory */
	MRC_MEMORY_CHUNK = 16777216,  /* bytes by which the NIC's memory grows */
	MRC_MEMORY_CHUNKS = 256,      /* as far as offsets of 32 bits reach */
#ifdef MRC_VIRTUAL
	MRC_PMTU_MAX = MRC_VIRTUAL_PMTU_MAX,
	MRC_FRAME_BYTES_MAX = 4352,
#else
	MRC_PMTU_MAX = 2048, /* payload bytes per packet: native XDP on a veth takes no more */
	MRC_FRAME_BYTES_MAX = 2304, /* largest frame, with room to spare */
#endif
	MRC_HEADER_BYTES =
	    138, /* Ethernet .. RETH of a data packet over SRv6, before the payload */
	MRC_PORT_NONE = 0x7fffffff,   /* no port has this id */
	MRC_QP_INDEX_BITS = 10,	      /* QP number = turn << bits | index, turn > 0 */
	MRC_QP_TURNS = 16384,	      /* 1 << 24 - MRC_QP_INDEX_BITS */
	MRC_IFINDEX_BASE = 1000,      /* a port's ifindex = base + its lab-wide port id */
	MRC_DOORBELL_IFINDEX = 600,   /* in a host: each frame from there is a doorbell */
	MRC_FIB_STRIDE = 4096,	      /* FIB entries per switch: role 2 bits, index 10 bits */
	MRC_HISTOGRAM_BUCKETS = 1024, /* see histogram.h */
	MRC_KEY_INDEX_BITS = 14,      /* of an R_Key: where its region stands in the table */
	MRC_REGION_MAX = 16384,	      /* 1 << MRC_KEY_INDEX_BITS */
	MRC_CHANNELS = 256,	      /* completion channels that a host's programs number */
	MRC_PAGE_BYTES = 4096,	      /* in which the NIC's memory is given to applications */
	MRC_PACE_FULL_NS = 1000000,   /* the longest pace: see fabric_config.h */
};

#endif

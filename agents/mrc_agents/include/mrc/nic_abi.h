/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A NIC: configuration, memory regions, probes, events and counters. QPs are in qp_abi.h, their
 * work in work_abi.h.
 */
#ifndef MRC_NIC_ABI_H
#define MRC_NIC_ABI_H

#include <linux/types.h>
#include <mrc/fabric_abi.h>
#include <mrc/limit_abi.h>

enum mrc_icrc_mode {
	MRC_ICRC_OFF = 0, /* four zeros, not looked at */
	MRC_ICRC_FILL =
	    1,		 /* sent, not checked: on the way from off to on, so that nothing is lost */
	MRC_ICRC_ON = 2, /* sent and checked */
};

/*
 * nic_config[0]: who the NIC is. Filled and frozen before a program uses it, so user space, the
 * host's own included, can read it and nothing more.
 */
struct mrc_nic_config {
	__u32 host_index;
	__u32 plane_count;
	__u32 udp_port;	    /* 4791 */
	__u32 srv6_block;   /* first 32 bits of every carrier, host order */
	__u64 inner_prefix; /* first 64 bits of inner addresses with plane 0; plane is added */
	__u32 downlink;	    /* of its T0: the NIC's own uSID index */
	struct mrc_tier tiers[MRC_TIER_MAX];
	__u32 port_id[MRC_PLANE_MAX]; /* MRC_PORT_NONE where the NIC has no port */
	__u32 pmtu_max; /* payload bytes of a packet; 0: MRC_PMTU_MAX of a kernel. For its agent */
	__u32 pad0;
};

/* nic_control[0], mmapable array, written by user space while the NIC works. */
struct mrc_nic_control {
	__u32 port_up_mask; /* bit i: carrier of the port to plane i */
	__u32 icrc_mode;    /* enum mrc_icrc_mode */
	/*
	 * CLOCK_MONOTONIC of the agent's last sign of life; 0: there has been none. A QP whose
	 * agent has been silent for longer than the limit goes to ERROR, for nobody is left to end
	 * it. Limit 0: never.
	 */
	__u64 heartbeat_ns;
	__u64 heartbeat_limit_ns;
	__u64 silence_ns;   /* the kernel's: when the silence was last found too long */
	__u32 region_count; /* whose entries agents have used so far: those behind are zero */
	__u32 silences;	    /* the kernel's: times in a row that it was found so */
};

/*
 * regions[the lowest MRC_KEY_INDEX_BITS of the R_Key], mmapable array, written by user space; valid
 * when r_key matches.
 */
struct mrc_region {
	__u32 r_key; /* 0: none */
	__u32 is_remote_writable;
	__u32 offset; /* in the NIC's memory */
	__u32 length;
	__u64 base; /* 0: RETH.va counts from the region's start; else the virtual address there */
	__u32 pd;   /* protection domain: QPs of others may not write here */
	/*
	 * MRC_NO_PAGE_LIST: its bytes lie in a row from `offset`. Else where in the NIC's memory
	 * the numbers of its pages are, a __u32 each; the first byte is at `base` in its page.
	 */
	__u32 page_list;
};

/*
 * R_Keys that no region has. A part of a SEND goes to the mailbox of the QP that it is for: RETH.va
 * counts from there. The end of a WRITE with immediate that was sent in several pieces is empty:
 * RETH.va is the length of all of it (docs/reference/protocol.md, "SEND").
 */
enum mrc_reserved_key {
	MRC_KEY_SEND_PART = 1,
	MRC_KEY_SEND_LAST = 2,
	MRC_KEY_SEND_LAST_IMMEDIATE = 3, /* whose immediate is the program's */
	MRC_KEY_WRITE_END = 4,
};

/* A path of the NIC: what one QP finds out about it is known to all that share it. */
struct mrc_nic_path {
	__u64 suspected_ns; /* last loss of a packet or a probe on it; 0: not suspected */
	__u32 falls;	    /* times it came under suspicion */
	__u32 pad0;
};

/* nic_paths[0], mmapable array; the place of a path is nic_path()'s. */
struct mrc_nic_paths {
	struct mrc_nic_path path[MRC_NIC_PATHS];
	__u32 next_plane; /* where a QP that had nothing under way begins */
	__u32 pad0;
	/* By plane, in model time: when the NIC's port has sent the data packets that it was given.
	 * Estimated: CPUs write it without a lock. */
	__u64 port_idle_ns[MRC_PLANE_MAX];
	__u64 port_carry[MRC_PLANE_MAX]; /* by which that is too early: serialisation_ns() */
};

enum mrc_probe_kind {
	MRC_PROBE_EV = 0,	   /* EV probe: endpoint request, any EV */
	MRC_PROBE_RELIABILITY = 1, /* requests a SACK of the peer's QP */
	MRC_PROBE_PORT_STATUS = 2, /* endpoint request that reports which ports work */
	MRC_PROBE_PATH = 3,	   /* EV probe of no QP: kick names host and EV themselves */
	MRC_PROBE_ACK_PATH = 4,	   /* EV probe of a responder, for the path of its ACKs */
};

/* probes[probe id % MRC_PROBE_RING] */
struct mrc_probe {
	__u64 is_pending;
	__u64 sent_ns;
	__u32 probe_id;
	__u32 qp_index;
	__u32 ev_index;
	__u32 kind; /* enum mrc_probe_kind */
	__u32 port_status_mask;
	__u32 entropy; /* this and peer_host: of the response, exactly */
	__u32 peer_host;
	__u32 qpn; /* of the QP; its index may be another's when the response comes */
};

enum mrc_kick_mode {
	MRC_KICK_DATA = 0,  /* repeat = packets wanted from qp_index */
	MRC_KICK_PROBE = 1, /* repeat = probe_count */
	MRC_KICK_COMMAND =
	    2,		 /* repeat = 1: sends nothing, changes the QP qp_index under its lock */
	MRC_KICK_RC = 3, /* as DATA, for the reliable connection qp_index */
	MRC_KICK_LINK_PROBE = 4, /* repeat = probe_count: the paths from probe_cursor on */
	MRC_KICK_RC_COMMAND = 5, /* as COMMAND, for the reliable connection qp_index */
};

/*
 * A frame that begins so requests a packet of the QP it names, whatever `kick` says: applications
 * ring without waiting for each other, or for the agent. It comes by a live run or from the
 * interface MRC_DOORBELL_IFINDEX.
 */
enum mrc_doorbell_format {
	MRC_DOORBELL_MAGIC = 0x6c6c6562,    /* "bell": as a MAC address, no port has it */
	MRC_DOORBELL_RC_MAGIC = 0x63726562, /* "berc": of a reliable connection */
};

struct mrc_doorbell {
	__u32 magic;
	__u32 qp_index;
};

enum mrc_command {
	MRC_COMMAND_RTS = 0,   /* RTR to RTS; argument: mpr_psns, max_wimm, first PSN */
	MRC_COMMAND_ERROR = 1, /* any state to ERROR */
	MRC_COMMAND_DENY = 2,  /* argument: EV index */
	MRC_COMMAND_ALLOW = 3, /* argument: EV index */
	MRC_COMMAND_ARGUMENTS = 4,
	MRC_COMMAND_GOOD = 5,	     /* argument: EV index, DENIED or ASSUMED_BAD until now */
	MRC_COMMAND_ASSUMED_BAD = 6, /* argument: EV index */
	MRC_COMMAND_REPLACE = 7, /* arguments: EV index, the EV that is to stand there, its path */
	MRC_COMMAND_TRACK = 8,	 /* argument: PSNs above cack_psn that are tracked from now on */
	MRC_COMMAND_PENALTY = 9, /* argument: receiver penalty; 0 ends it */
	MRC_COMMAND_LIMITS = 10, /* arguments: give_up_us, rnr_timer_us, rnr_limit, is_writable */
	MRC_COMMAND_RC_RTS = 11, /* of a reliable connection: RTR to RTS; argument: first PSN */
};

/* kick[0], mmapable array: what the next BPF_PROG_TEST_RUN call is to send. */
struct mrc_kick {
	__u32 mode;
	__u32 qp_index;
	__u32 command;
	__u32 argument[MRC_COMMAND_ARGUMENTS];
	__u32 result;	   /* 1: the command was carried out */
	__u32 frames_left; /* of this call, counted down by BPF */
	__u32 probe_count;
	__u32 probe_cursor;		 /* advanced by BPF */
	__u32 next_probe_id;		 /* advanced by BPF; the wire carries the low 16 bits */
	__u32 probe_ev[MRC_KICK_PROBES]; /* index of the EV; MRC_PROBE_PATH: the EV itself */
	__u32
	    probe_qp[MRC_KICK_PROBES]; /* index of the QP; MRC_PROBE_PATH: the peer's host index */
	__u32 probe_id[MRC_KICK_PROBES]; /* filled in by BPF */
	__u32 probe_kind;		 /* of all of them */
};

enum mrc_event_kind {
	MRC_EVENT_COMPLETION = 1, /* a = work id, b = iterations done, c = status, d = its length */
	MRC_EVENT_EV_STATE = 2,	  /* a = EV index, b = from, c = to, d = reason */
	MRC_EVENT_KICK = 3,	  /* a = packets that may be sent */
	MRC_EVENT_QP_STATE = 4,	  /* a = from, b = to, c = status */
	MRC_EVENT_PORT_STATUS = 6, /* a = mask, which the peer of the QP now knows */
	MRC_EVENT_PEER_PORTS = 7,  /* a = peer host, b = its mask; of no QP */
	MRC_EVENT_PROBE =
	    8, /* a = request id, b = RTT in ns, c = EV, d = host that responded; of no QP */
	MRC_EVENT_RECEIVE = 5, /* a = its number, from 1, b = immediate, d = bytes */
};

enum mrc_status {
	MRC_STATUS_SUCCESS = 0,
	MRC_STATUS_REMOTE_ACCESS = 1,
	MRC_STATUS_RETRY_EXCEEDED = 2,
	MRC_STATUS_FLUSHED = 3,
	MRC_STATUS_REMOTE_OPERATION = 4,
	MRC_STATUS_REMOTE_INVALID_REQUEST = 5,
	MRC_STATUS_RNR_RETRY_EXCEEDED = 6,
};

/* A record of the nic_events ring buffer. */
struct mrc_event {
	__u64 time_ns;
	__u32 kind;
	__u32 qp_index;
	__u32 a, b, c, d;
	__u32 drop_count; /* events lost before this one for want of room */
	__u32 pad0;
};

enum mrc_nic_counter {
	MRC_NC_TX_DATA = 0,
	MRC_NC_TX_RETRANSMIT_SACK,
	MRC_NC_TX_RETRANSMIT_TIMEOUT,
	MRC_NC_TX_RETRANSMIT_NACK,
	MRC_NC_TX_RETRANSMIT_ACK,  /* to request a transport ACK */
	MRC_NC_TX_RETRANSMIT_TAIL, /* tail loss probe */
	MRC_NC_TX_SACK,
	MRC_NC_TX_ACK,
	MRC_NC_TX_NAK,
	MRC_NC_TX_NACK,
	MRC_NC_TX_CNP,	 /* reliable connections only, as RX_CNP and DROP_OUT_OF_ORDER */
	MRC_NC_TX_PROBE, /* EV probes and reliability probes */
	MRC_NC_TX_LINK_PROBE,
	MRC_NC_TX_PORT_STATUS,
	MRC_NC_TX_PROBE_RESPONSE,
	MRC_NC_RX_DATA,
	MRC_NC_RX_DUPLICATE,
	MRC_NC_RX_PLACED_BYTES, /* payload placed for the first time */
	MRC_NC_RX_SACK,
	MRC_NC_RX_ACK,
	MRC_NC_RX_NAK,
	MRC_NC_RX_NACK,
	MRC_NC_RX_CNP,
	MRC_NC_RX_TRIMMED,
	MRC_NC_RX_PROBE, /* reliability probes */
	MRC_NC_RX_PROBE_RESPONSE,
	MRC_NC_RX_LINK_PROBE,
	MRC_NC_RX_PORT_STATUS,
	MRC_NC_CWND_PERIODIC_INCREASE, /* windows changed, by enum mrc_cc_reason, in its order */
	MRC_NC_CWND_PROPORTIONAL_INCREASE,
	MRC_NC_CWND_FAIR_INCREASE,
	MRC_NC_CWND_FAST_INCREASE,
	MRC_NC_CWND_MULTIPLICATIVE_DECREASE,
	MRC_NC_CWND_QUICK_ADAPT,
	MRC_NC_CWND_TRIM,
	MRC_NC_CWND_LOSS,
	MRC_NC_CWND_PENALTY,
	MRC_NC_CWND_RESTORE,
	MRC_NC_CWND_BASE_RTT,
	MRC_NC_CC_DRIFT, /* bytes counted as under way where nothing was */
	MRC_NC_ACKED_PACKETS,
	MRC_NC_ACKED_BYTES, /* payload acknowledged for the first time: goodput of the sender */
	MRC_NC_MESSAGES,    /* messages completed by this requester */
	MRC_NC_QP_ERRORS,
	MRC_NC_KICK_PACKETS,
	MRC_NC_CLOCK_RESTARTS, /* clocks found to have stopped with packets under way */
	MRC_NC_EVENT_LOST,     /* ring buffer full */
	MRC_NC_DROP_MALFORMED,
	MRC_NC_DROP_NOT_OURS,
	MRC_NC_DROP_UNKNOWN_QP,
	MRC_NC_DROP_QP_STATE,
	MRC_NC_DROP_OUT_OF_WINDOW,
	MRC_NC_DROP_R_KEY,
	MRC_NC_DROP_BOUNDS,
	MRC_NC_DROP_LENGTH,
	MRC_NC_DROP_STALE_SACK,
	MRC_NC_DROP_STALE_ACK,
	MRC_NC_DROP_STALE_NACK,
	MRC_NC_DROP_NO_RECEIVE, /* WRITE with immediate that nobody waits for */
	MRC_NC_DROP_STALE_PROBE,
	MRC_NC_DROP_NO_EV,
	MRC_NC_DROP_OPCODE,
	MRC_NC_DROP_ICRC,
	MRC_NC_DROP_OUT_OF_ORDER,
	MRC_NC_COUNT,
};

/* nic_counters[0], per-CPU array. */
struct mrc_nic_counters {
	__u64 value[MRC_NC_COUNT];
};

/* Log-linear histogram, per-CPU array value; the bucket index is histogram.h's. */
struct mrc_histogram {
	__u64 sum_ns;
	__u64 max_ns;
	__u64 buckets[MRC_HISTOGRAM_BUCKETS];
};

#endif

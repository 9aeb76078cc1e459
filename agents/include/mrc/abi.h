/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The only declaration of what BPF programs and Python share: map keys and values, events, limits.
 * agents/wire_abi.py is generated from the BTF of abi.bpf.c (`make abi`); a test fails when they
 * drift.
 *
 * Conventions: host byte order unless the type is __be*; times are CLOCK_MONOTONIC nanoseconds;
 * padding is explicit. Constants are enums because preprocessor values never reach BTF.
 */
#ifndef MRC_ABI_H
#define MRC_ABI_H

#include <linux/types.h>
#include <linux/bpf.h>

/* ---- limits ------------------------------------------------------------------------------- */

enum mrc_limit {
	MRC_PLANE_MAX = 16,	      /* 4 plane bits in every uSID */
	MRC_EV_MAX = 256,	      /* EVs per QP: the spec's typical 128-256 */
	MRC_PSN_RING = 1024,	      /* PSNs a QP tracks */
	MRC_MPR_UNIT = 128,	      /* PSNs in one unit of a maximum PSN range */
	MRC_MPR_MAX = 8,	      /* MRC_PSN_RING / MRC_MPR_UNIT */
	MRC_WIMM_MAX = 128,	      /* WRITEs with immediate a responder can hold back */
	MRC_PSN_WORDS = 16,	      /* MRC_PSN_RING / 64 */
	MRC_WORK_RING = 64,	      /* work requests a QP can hold */
	MRC_PROBE_RING = 1024,	      /* outstanding EV probes per NIC */
	MRC_KICK_PROBES = 64,	      /* EV probes one kick can send */
	MRC_MEMORY_SEGMENT = 1048576, /* bytes per element of the memory map */
	MRC_PMTU_MAX = 2048,	      /* payload bytes per packet */
	MRC_HEADER_BYTES =
	    138, /* Ethernet .. RETH of a data packet over SRv6, before the payload */
	MRC_FRAME_BYTES_MAX = 2304,   /* largest frame, with room to spare */
	MRC_QPN_BASE = 256,	      /* QP number = base + index; 2 is the endpoint's */
	MRC_IFINDEX_BASE = 1000,      /* a port's ifindex = base + its lab-wide port id */
	MRC_FIB_STRIDE = 4096,	      /* FIB entries per switch: role 2 bits, index 10 bits */
	MRC_HISTOGRAM_BUCKETS = 1024, /* see histogram.h */
};

/* ---- ports, fabric wide ------------------------------------------------------------------- */

enum mrc_port_kind {
	MRC_PORT_NIC = 0,
	MRC_PORT_T0_DOWN = 1,
	MRC_PORT_T0_UP = 2,
	MRC_PORT_T1_DOWN = 3,
};

enum mrc_port_fault {
	MRC_FAULT_DOWN = 1, /* what leaves or reaches this port in its direction is lost */
};

/*
 * port_table[port id], mmapable array, written by the control plane only. A fault acts on the
 * egress port of its direction: link a~b down "both" sets the flag on a's and on b's port.
 */
struct mrc_port {
	__u32 node_id;	 /* lab-wide; a switch's FIB starts at node_id * MRC_FIB_STRIDE */
	__u32 peer_port; /* port id of the far end */
	__u16 plane;
	__u8 kind; /* enum mrc_port_kind */
	__u8 is_configured;
	__u16 capture_bytes; /* copied of each frame that leaves or is lost here; 0: no capture */
	__u16 pad0;
	__u8 peer_mac[6]; /* the two as they begin a frame, aligned so that they are copied whole */
	__u8 mac[6];
	__u32 fault_flags; /* enum mrc_port_fault bits */
	__u32 loss_seed;
	__u32 data_buffer_bytes;    /* tail drop of the data class, shaped ports only */
	__u64 loss_q32;		    /* drop probability * 2^32; 1 << 32 drops all */
	__u64 rate_bps;		    /* 0: unshaped, frames are redirected at once */
	__u64 delay_ns;		    /* propagation delay of the link, shaped ports only */
	__u32 control_buffer_bytes; /* as data_buffer_bytes, for the control class */
	__u32 pad1;
};

/* port_state[port id], mmapable array, written by BPF only. */
struct mrc_port_state {
	__u64 loss_sequence;	   /* packets that met the random loss; the seed's counter */
	__u64 first_fault_drop_ns; /* of a data packet, since the control plane last zeroed it */
	__u64 last_fault_drop_ns;  /* likewise */
	__u64 fault_data_drops;
	__u64 fault_drops; /* data and control */
};

enum mrc_port_counter {
	MRC_PC_TX_PACKETS = 0,
	MRC_PC_TX_BYTES,
	MRC_PC_DROP_LINK_DOWN,
	MRC_PC_DROP_LOSS,
	MRC_PC_DROP_QUEUE_FULL,
	MRC_PC_DROP_POOL_EMPTY,
	MRC_PC_DROP_MALFORMED, /* counted at the ingress port, as are the next three */
	MRC_PC_DROP_NO_ROUTE,
	MRC_PC_DROP_HOP_LIMIT,
	MRC_PC_DROP_END_OF_CARRIER,
	MRC_PC_PASSED_TO_STACK,
	MRC_PC_COUNT,
};

/* port_counters[port id], per-CPU array. */
struct mrc_port_counters {
	__u64 value[MRC_PC_COUNT];
};

/* A record of the ring in capture_rings[0]: kept_bytes of a frame, as it left port_id. */
struct mrc_capture_record {
	__u64 time_ns; /* when it arrived in the model, on a shaped port; else when it was sent */
	__u32 port_id;
	__u32 fate; /* enum mrc_port_counter: MRC_PC_TX_PACKETS, or the drop */
	__u32 frame_bytes;
	__u32 kept_bytes;
	__u8 octets[MRC_FRAME_BYTES_MAX];
};

/* capture_state[0], mmapable array. */
struct mrc_capture_state {
	__u64 lost_frames; /* the ring was full */
};

/*
 * fib[node_id * MRC_FIB_STRIDE + (role << 10 | index)], array: 0 no route, MRC_FIB_LOCAL own uSID
 * (uN: shift and look up again), else egress port id + 1. Plane bits are checked apart.
 */
enum mrc_fib {
	MRC_FIB_NONE = 0,
	MRC_FIB_LOCAL = 0x7fffffff,
};

/* uSID layout (docs/protocol.md): role 15:14, plane 13:10, index 9:0. Role 0 never occurs. */
enum mrc_usid {
	MRC_USID_ROLE_SHIFT = 14,
	MRC_USID_PLANE_SHIFT = 10,
	MRC_USID_INDEX_MASK = 1023,
	MRC_USID_T0 = 1,
	MRC_USID_T1 = 2,
	MRC_USID_DOWNLINK = 3,
};

/* EV layout: plane 31:28, uplink 27:16, copy 15:0 (several EVs may share one path). */
enum mrc_ev_layout {
	MRC_EV_PLANE_SHIFT = 28,
	MRC_EV_UPLINK_SHIFT = 16,
	MRC_EV_UPLINK_MASK = 4095,
};

enum mrc_traffic_class {
	MRC_CLASS_CONTROL = 0,
	MRC_CLASS_DATA = 1,
	MRC_CLASS_COUNT = 2,
};

enum mrc_dscp {
	MRC_DSCP_NO_TRIM = 0,
	MRC_DSCP_TRIMMABLE = 4,
	MRC_DSCP_TRIMMABLE_RETX = 8,
	MRC_DSCP_TRIMMED = 12,
	MRC_DSCP_TRIMMED_LASTHOP = 16,
	MRC_DSCP_CONTROL = 46,
};

/* ---- NIC ---------------------------------------------------------------------------------- */

/* nic_config[0], mmapable array, written by the control plane only. */
struct mrc_nic_config {
	__u32 host_index;
	__u32 plane_count;
	__u32 hosts_per_t0;
	__u32 uplinks_per_pair;
	__u32 udp_port;	    /* 4791 */
	__u32 srv6_block;   /* first 32 bits of every carrier, host order */
	__u64 inner_prefix; /* first 64 bits of inner addresses with plane 0; plane is added */
	__u32 port_up_mask; /* bit i: carrier of the port to plane i */
	__u32 downlink;	    /* host_index % hosts_per_t0: the NIC's own uSID index */
	__u32 port_id[MRC_PLANE_MAX];
};

enum mrc_qp_state {
	MRC_QP_RESET = 0,
	MRC_QP_INIT = 1,
	MRC_QP_RTR = 2,
	MRC_QP_RTS = 3,
	MRC_QP_ERROR = 4,
};

enum mrc_ev_state {
	MRC_EV_UNUSED = 0,
	MRC_EV_GOOD = 1,
	MRC_EV_SKIP = 2,
	MRC_EV_ASSUMED_BAD = 3,
	MRC_EV_DENIED = 4,
	MRC_EV_STATE_COUNT = 5,
};

enum mrc_ev_reason {
	MRC_REASON_NONE = 0,
	MRC_REASON_LOSS = 1,	/* later acknowledgements passed a packet on it */
	MRC_REASON_TIMEOUT = 2, /* retransmission time-out */
	MRC_REASON_PROBE = 3,	/* enough EV probes answered in a row */
	MRC_REASON_ECN = 4,
	MRC_REASON_TRIM = 5,
	MRC_REASON_ADMIN = 6,
	MRC_REASON_ADVICE = 7, /* SACK with ALWAYS_SKIP */
	MRC_REASON_TURN = 8,   /* its turn came: one turn lost */
	MRC_REASON_COUNT = 9,
};

struct mrc_ev {
	__u32 entropy;
	__u8 state; /* enum mrc_ev_state */
	__u8 reason;
	__u8 plane;
	__u8 probe_successes;
	__u32 position;	 /* where order[] holds this EV */
	__u32 bad_count; /* times it became ASSUMED_BAD */
	__u64 changed_ns;
	__u64 tx_packets;
	__u64 lost_packets;
	__u64 marks;
	__u32 rtt_ns;		/* last sample */
	__u32 is_probe_pending; /* the last EV probe on it has not been answered */
	__u32 outstanding;	/* packets on it neither acknowledged nor declared lost */
	__u32 heard_acks; /* qp.acked_total at its last acknowledgement, or first send since */
};

/*
 * ev_transitions[plane], per-CPU array: how often an EV went from one state to another for a
 * reason, at (from * MRC_EV_STATE_COUNT + to) * MRC_REASON_COUNT + reason.
 */
struct mrc_ev_transitions {
	__u64 value[MRC_EV_STATE_COUNT * MRC_EV_STATE_COUNT * MRC_REASON_COUNT];
};

/*
 * EVs of one plane occupy order[plane * evs_per_plane ...): first active_count active ones, then
 * backup_count GOOD spares, then the rest (ASSUMED_BAD, DENIED).
 */
struct mrc_ev_plane {
	__u16 active_count;
	__u16 backup_count;
	__u16 cursor;
	__u16 target_active;
	__u64 suspect_uplinks; /* bit uplink % 64: an EV on it fell and none has come back since */
};

/* One outstanding packet, tx[psn % MRC_PSN_RING]. */
struct mrc_tx_slot {
	__u64 sent_ns;
	__u32 acked_at_send; /* qp.acked_total when it left */
	__u32 local_offset;  /* in the NIC's memory */
	__u32 remote_offset; /* RETH.va */
	__u16 length;
	__u16 msn;
	__u8 work_index;
	__u8 ev_index;
	__u8 opcode;
	__u8 retransmissions;
	__u8 loss; /* enum mrc_loss: how the last loss was found */
	__u8 pad0;
	__u16 rqmsn;
};

/* Why a packet is sent again. */
enum mrc_loss {
	MRC_LOSS_NONE = 0,
	MRC_LOSS_SACK,	  /* later acknowledgements passed it */
	MRC_LOSS_TIMEOUT, /* nothing was acknowledged for too long */
	MRC_LOSS_NACK,	  /* the responder refused it */
	MRC_LOSS_ACK,	  /* not lost: it is sent again to ask for a transport ACK */
};

/* A WRITE with immediate that has arrived whole, by its number % MRC_WIMM_MAX. */
struct mrc_immediate {
	__u32 immediate;
	__u32 length;
};

/*
 * A QP, requestor and responder. Everything below `lock` changes only while it is held, but for the
 * fields that say otherwise; user space writes a QP only in RESET.
 */
struct mrc_qp {
	struct bpf_spin_lock lock;
	__u32 state;
	struct bpf_timer timer;

	/* identity and parameters, fixed from INIT on */
	__u32 qpn;
	__u32 peer_qpn;
	__u32 peer_host;
	__u32 is_local;	   /* both hosts on the same T0 */
	__u64 template_hi; /* carrier with plane and uplink 0; see carrier_fill() */
	__u64 template_lo;
	__u32 pmtu_bytes;
	__u32 window_packets;
	__u32 loss_threshold_acks; /* other acknowledgements that prove a packet lost */
	__u64 rto_ns;
	__u32 retry_limit;
	__u32 probe_success_target;
	__u32 evs_per_plane;
	__u32 plane_count;
	__u32 min_active; /* EVs never fall below this many active ones */
	__u32 active_total;
	__u32 active_planes; /* bit i: plane i has active EVs */
	__u32 mpr_psns;	     /* requestor: PSNs above the left edge that may be used */
	__u32 mpr_dest_psns; /* responder: PSNs above cack_psn that are tracked */
	__u32 pad1;
	__u32 max_wimm;		 /* requestor: WRITEs with immediate that may be outstanding */
	__u32 max_wimm_dest;	 /* responder: WRITEs with immediate that are held back */
	__u32 linear_count;	 /* time-outs in a row before the time-out doubles */
	__u32 exponential_count; /* times it doubles at most */
	__u32 sack_every;	 /* responder: packets per SACK */
	__u32 asks_sack;	 /* requestor: set BTH.a where it would run dry */
	__u32 peer_port_mask;	 /* bit i: the peer says that its port to plane i works */
	__u32 peer_port_update;	 /* request id of the update that said so, + 1 << 16; 0: none */

	/* requestor */
	__u32 next_psn; /* free-running; the wire carries the low 24 bits */
	__u32 una_psn;	/* oldest unacknowledged */
	__u32 scan_psn; /* next first transmission the loss scan looks at */
	__u32 inflight; /* packets sent, neither acknowledged nor declared lost */
	__u32 lost_count;
	__u32 acked_total;
	__u32 is_ack_asked;   /* a packet was sent again to ask for the ACK that is missing */
	__u32 peer_cack_next; /* one above the highest cumulative acknowledgement seen */
	__u32 retx_head;      /* retx_fifo, free-running */
	__u32 retx_tail;
	__u32 next_plane; /* may equal plane_count or more: wraps */
	__u32 retries;
	__u32 kick_asked; /* frames have been asked for, or are being lent right now */
	__u32 timer_armed;
	__u64 acked_bytes;	    /* payload */
	__u64 progress_ns;	    /* last acknowledgement of something new */
	__u32 work_head;	    /* first work request not yet completed; free-running */
	__u32 work_next;	    /* work request whose packets are being sent */
	__u32 work_iteration;	    /* iteration of work_next being sent */
	__u32 work_local_slot;	    /* work_iteration % local_slots */
	__u32 work_remote_slot;	    /* work_iteration % remote_slots */
	__u32 work_sent_bytes;	    /* bytes of that iteration already sent */
	__u32 completed_iterations; /* of work_head */
	__u32 outstanding_messages;
	__u32 next_msn;
	__u32 acked_msn;	/* messages acknowledged by a transport ACK, 16 bits */
	__u32 done_msn;		/* messages completed; free-running */
	__u32 next_rqmsn;	/* WRITEs with immediate begun; free-running */
	__u32 outstanding_wimm; /* of them, not yet acknowledged */
	__u32 pad0;
	__u64 wimm_messages;		       /* bit msn % 64: the message has an immediate */
	__u32 work_started[MRC_WORK_RING];     /* iterations of a request, once it is sent whole */
	__u64 message_start_ns[MRC_WORK_RING]; /* by msn */
	__u64 acked_bits[MRC_PSN_WORDS];       /* by psn % ring: acknowledged */
	__u64 lost_bits[MRC_PSN_WORDS];	       /* by psn % ring: to be retransmitted */
	__u32 retx_fifo[MRC_PSN_RING];	       /* slot | retransmissions << 16, in sending order */
	struct mrc_tx_slot tx[MRC_PSN_RING];

	/* EVs */
	struct mrc_ev_plane planes[MRC_PLANE_MAX];
	__u8 order[MRC_EV_MAX];
	struct mrc_ev evs[MRC_EV_MAX];

	/* responder */
	__u32 cack_next; /* first PSN not yet received; cack_psn = cack_next - 1 */
	__u32 max_received;
	__u64 received_bytes; /* nominal bytes */
	__u32 received_above; /* packets received above cack_psn */
	__u32 sack_count;
	__u32 unsacked;		  /* packets received since the last SACK */
	__u32 is_ack_owed;	  /* messages completed that no ACK has told of */
	__u32 completed_messages; /* in order, free-running */
	__u32 completed_psn;	  /* last PSN of the last of them */
	__u32 completed_wimm;	  /* of them, those with immediate; free-running */
	__u32 delivered_wimm;	  /* of those, told to the agent */
	__u64 refused_ns;	  /* when a PSN beyond the window was last refused */
	__u64 received_bits[MRC_PSN_WORDS];
	__u64 end_bits[MRC_PSN_WORDS];	/* by psn % ring: received, and the last of its message */
	__u64 wimm_bits[MRC_PSN_WORDS]; /* of these: with immediate */
	struct mrc_immediate immediates[MRC_WIMM_MAX];
};

/*
 * A work request: an RDMA WRITE carried out `iterations` times. Iteration i reads local_offset +
 * (i % local_slots) * length and writes remote_offset + (i % remote_slots) * length, so that
 * coprime slot counts give each lap over the target other bytes. At most `depth` iterations are
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
};

/* work_ring[qp index], mmapable array: user space fills entries, then stores the new tail. */
struct mrc_work_ring {
	__u32 tail;	    /* free-running */
	__u32 receive_tail; /* receives posted for WRITEs with immediate; free-running */
	struct mrc_work entries[MRC_WORK_RING];
};

/* regions[r_key & 63], mmapable array, written by user space; valid when r_key matches. */
struct mrc_region {
	__u32 r_key; /* 0: none */
	__u32 is_remote_writable;
	__u32 offset; /* in the NIC's memory */
	__u32 length;
};

enum mrc_probe_kind {
	MRC_PROBE_EV = 0,	   /* EV probe: endpoint request, any EV */
	MRC_PROBE_RELIABILITY = 1, /* asks the peer's QP for a SACK */
	MRC_PROBE_PORT_STATUS = 2, /* endpoint request that tells which ports work */
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
	__u32 pad0;
};

enum mrc_kick_mode {
	MRC_KICK_DATA = 0,  /* repeat = packets wanted from qp_index */
	MRC_KICK_PROBE = 1, /* repeat = probe_count */
	MRC_KICK_COMMAND =
	    2, /* repeat = 1: sends nothing, changes the QP qp_index under its lock */
};

enum mrc_command {
	MRC_COMMAND_RTS = 0,   /* RTR to RTS; argument: mpr_psns, max_wimm */
	MRC_COMMAND_ERROR = 1, /* any state to ERROR */
	MRC_COMMAND_DENY = 2,  /* argument: EV index */
	MRC_COMMAND_ALLOW = 3, /* argument: EV index */
	MRC_COMMAND_ARGUMENTS = 4,
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
	__u32 probe_cursor;  /* advanced by BPF */
	__u32 next_probe_id; /* advanced by BPF; the wire carries the low 16 bits */
	__u32 probe_ev[MRC_KICK_PROBES];
	__u32 probe_qp[MRC_KICK_PROBES];
	__u32 probe_kind; /* of all of them */
};

enum mrc_event_kind {
	MRC_EVENT_COMPLETION = 1, /* a = work id, b = iterations done, c = status, d = its length */
	MRC_EVENT_EV_STATE = 2,	  /* a = EV index, b = from, c = to, d = reason */
	MRC_EVENT_KICK = 3,	  /* a = packets that may be sent */
	MRC_EVENT_QP_STATE = 4,	  /* a = from, b = to, c = status */
	MRC_EVENT_PORT_STATUS = 6, /* a = mask, which the peer of the QP now knows */
	MRC_EVENT_PEER_PORTS = 7,  /* a = peer host, b = its mask; of no QP */
	MRC_EVENT_RECEIVE = 5,	   /* a = its number, from 1, b = immediate, d = bytes */
};

enum mrc_status {
	MRC_STATUS_SUCCESS = 0,
	MRC_STATUS_REMOTE_ACCESS = 1,
	MRC_STATUS_RETRY_EXCEEDED = 2,
	MRC_STATUS_FLUSHED = 3,
	MRC_STATUS_REMOTE_OPERATION = 4,
	MRC_STATUS_REMOTE_INVALID_REQUEST = 5,
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
	MRC_NC_TX_RETRANSMIT_ACK, /* to ask for a transport ACK */
	MRC_NC_TX_SACK,
	MRC_NC_TX_ACK,
	MRC_NC_TX_NAK,
	MRC_NC_TX_NACK,
	MRC_NC_TX_PROBE, /* EV probes and reliability probes */
	MRC_NC_TX_PORT_STATUS,
	MRC_NC_TX_PROBE_ANSWER,
	MRC_NC_RX_DATA,
	MRC_NC_RX_DUPLICATE,
	MRC_NC_RX_PLACED_BYTES, /* payload placed for the first time */
	MRC_NC_RX_SACK,
	MRC_NC_RX_ACK,
	MRC_NC_RX_NAK,
	MRC_NC_RX_NACK,
	MRC_NC_RX_TRIMMED,
	MRC_NC_RX_PROBE, /* reliability probes */
	MRC_NC_RX_PROBE_ANSWER,
	MRC_NC_RX_PORT_STATUS,
	MRC_NC_ACKED_PACKETS,
	MRC_NC_ACKED_BYTES, /* payload acknowledged for the first time: goodput of the sender */
	MRC_NC_MESSAGES,    /* messages completed by this requestor */
	MRC_NC_QP_ERRORS,
	MRC_NC_KICK_PACKETS,
	MRC_NC_EVENT_LOST, /* ring buffer full */
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

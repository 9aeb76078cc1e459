/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Ports, lab wide: what the control plane sets, what BPF counts, how a carrier is looked up. */
#ifndef MRC_PORT_ABI_H
#define MRC_PORT_ABI_H

#include <linux/types.h>
#include <mrc/limit_abi.h>

enum mrc_port_kind {
	MRC_PORT_NIC = 0,
	MRC_PORT_T0_DOWN = 1,
	MRC_PORT_T0_UP = 2,
	MRC_PORT_T1_DOWN = 3,
	MRC_PORT_T1_UP = 4,
	MRC_PORT_T2_DOWN = 5,
};

/* port_table[port id], mmapable array, written by the control plane only. */
struct mrc_port {
	__u32 node_id;	 /* lab-wide; a switch's FIB starts at node_id * MRC_FIB_STRIDE */
	__u32 peer_port; /* port id of the far end */
	__u16 plane;
	__u8 kind; /* enum mrc_port_kind */
	__u8 is_configured;
	__u16 capture_bytes; /* copied of each frame that leaves or is lost here; 0: no capture */
	__u8 is_faulted;     /* a rule of port_fault[port id] acts: all that a healthy port reads */
	__u8 is_direct;	     /* frames get to a switch at the far end without crossing the link */
	__u8 peer_mac[6]; /* the two as they begin a frame, aligned so that they are copied whole */
	__u8 mac[6];
	__u32 pad1;
	__u64 rate_bps; /* 0: unshaped, frames are redirected at once */
	__u64 delay_ns; /* propagation delay of the link, shaped ports only */
	__u64 pad2[2];
};

_Static_assert(sizeof(struct mrc_port) == 64, "a port is one cache line");

enum mrc_port_counter {
	MRC_PC_TX_PACKETS = 0,
	MRC_PC_TX_BYTES,
	MRC_PC_DROP_LINK_DOWN,
	MRC_PC_DROP_LOSS,
	MRC_PC_DROP_QUEUE_FULL, /* no room in the data buffer */
	MRC_PC_DROP_POOL_EMPTY,
	MRC_PC_DROP_MALFORMED, /* counted at the ingress port, as are the next three */
	MRC_PC_DROP_NO_ROUTE,
	MRC_PC_DROP_HOP_LIMIT,
	MRC_PC_DROP_END_OF_CARRIER,
	MRC_PC_PASSED_TO_STACK,
	MRC_PC_DROP_CONTROL_FULL, /* as DROP_QUEUE_FULL, for control and trimmed frames */
	MRC_PC_ECN_MARKS,
	MRC_PC_TRIMS, /* data frames queued as headers only */
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
	__u32 verdict; /* enum mrc_port_counter: MRC_PC_TX_PACKETS, or the drop */
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

/*
 * uSID layout (docs/reference/protocol.md): role 15:14, plane 13:10, index 9:0; no role is 0. A T0
 * reads the third role as a downlink, switches above it as a T2.
 */
enum mrc_usid {
	MRC_USID_ROLE_SHIFT = 14,
	MRC_USID_PLANE_SHIFT = 10,
	MRC_USID_INDEX_MASK = 1023,
	MRC_USID_T0 = 1,
	MRC_USID_T1 = 2,
	MRC_USID_DOWNLINK = 3,
	MRC_USID_T2 = 3,
};

/*
 * EV layout: plane 31:28, uplink 27:16, copy 15:0 (several EVs may share one path). With structured
 * EVs 15:8 is the lane that a T1 takes. In ECMP only the plane means anything. In three tiers uplink
 * is that of the T0, plus the uplinks of a T0 times that of the T1.
 */
enum mrc_ev_layout {
	MRC_EV_PLANE_SHIFT = 28,
	MRC_EV_UPLINK_SHIFT = 16,
	MRC_EV_UPLINK_MASK = 4095,
	MRC_EV_LANE_SHIFT = 8,
	MRC_EV_LANE_MASK = 255,
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

#endif

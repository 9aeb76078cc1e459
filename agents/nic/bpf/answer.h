/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which answer to a packet has been decided (docs/protocol.md, "Responder"). */
#ifndef MRC_ANSWER_H
#define MRC_ANSWER_H

#include "nic_maps.h"

/* What the answer needs to know of the packet that is answered. */
struct received {
	__u32 qp_index;
	__u32 plane;
	__u32 entropy;
	__u32 psn;
	__be16 tx_timestamp;
	__u16 msn;
	__u8 is_retransmission;
	__u8 is_marked;
	__u8 asks_sack;
	__u8 is_end;   /* the last packet of its message */
	__u8 is_probe; /* a reliability probe */
	__u32 wimm;    /* number of the message among those with immediate; 0: it has none */
	__u32 immediate;
	__u32 message_bytes;
	__u32 pad0;
};

/* What a handler returns when the frame is to become a reverse probe of the QP in rx_answers. */
#define NIC_TX_ACK_PATH_PROBE (-5)

enum answer_kind {
	ANSWER_NONE = 0, /* SACKs are coalesced, and nothing makes this one due */
	ANSWER_SACK,
	ANSWER_AETH, /* ACK or NAK */
	ANSWER_NACK,
	ANSWER_REVERSE_PROBE, /* an EV probe instead of a SACK */
};

/* What is answered, and to which packet; too large for the stack that functions share. */
struct rx_answer {
	struct received packet;
	__u32 kind;	  /* enum answer_kind */
	__u32 code;	  /* AETH: syndrome; NACK: reason */
	__u32 psn;	  /* BTH.psn */
	__u32 msn;	  /* AETH */
	__u32 receives;	  /* WRITEs with immediate that can be told to the agent */
	__u32 ack_offset; /* this and all below: SACK */
	__u32 base_offset;
	__u32 above;
	__u32 mpr;     /* in units; 0: as it was */
	__u32 penalty; /* r_c and rcv_cwnd_pen of CC_STATE */
	__u64 bitmap;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rx_answer);
} rx_answers SEC(".maps");

/* The packet is answered with its own PSN and MSN: refused. */
static __always_inline int refuse(struct rx_answer *answer, __u32 kind, __u32 code)
{
	answer->kind = kind;
	answer->code = code;
	answer->psn = answer->packet.psn;
	answer->msn = answer->packet.msn;
	return NIC_TX_RESPONSE;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * RoCEv2 packets of a reliable connection, behind the same Ethernet .. BTH as MRC's.
 * Source: InfiniBand Architecture Specification 1.4, volume 1, chapter 9 and annex A17.
 */
#ifndef MRC_RC_WIRE_H
#define MRC_RC_WIRE_H

#include <mrc/wire.h>

enum rc_opcode {
	RC_WRITE_FIRST = 0x06,
	RC_WRITE_MIDDLE = 0x07,
	RC_WRITE_LAST = 0x08,
	RC_WRITE_LAST_IMMEDIATE = 0x09,
	RC_WRITE_ONLY = 0x0a,
	RC_WRITE_ONLY_IMMEDIATE = 0x0b,
	RC_ACKNOWLEDGE = 0x11,
	RC_CNP = 0x81,
};

enum {
	RC_AETH_KIND_SHIFT = 29,
	RC_AETH_ACK = 0,
	RC_AETH_RNR_NAK = 1,
	RC_AETH_NAK = 3,
	RC_NAK_SEQUENCE = 0x60,
	RC_NAK_INVALID_REQUEST = 0x61,
	RC_NAK_REMOTE_ACCESS = 0x62,
	RC_RNR_TIMER = 0x2e, /* RNR NAK, "wait": the requester's own attribute says how long */
	RC_BECN = 0x40,	     /* in the first byte of BTH.destination_qp */
};

struct rc_reth {
	__be64 va;
	__be32 r_key;
	__be32 dmalen;
} __attribute__((packed, aligned(2)));

/* A CNP; BTH.psn and AETH acknowledge as well, see docs/explanation/transports.md. */
struct rc_cnp {
	struct wire_stack stack;
	__be32 syndrome_msn;
	__u8 reserved[12];
} __attribute__((packed, aligned(2)));

/* True if it is one of a reliable connection's. */
static __always_inline int rc_has_opcode(__u32 opcode)
{
	return (opcode >= RC_WRITE_FIRST && opcode <= RC_WRITE_ONLY_IMMEDIATE) ||
	       opcode == RC_ACKNOWLEDGE || opcode == RC_CNP;
}

static __always_inline int rc_has_reth(__u32 opcode)
{
	return opcode == RC_WRITE_FIRST || opcode == RC_WRITE_ONLY ||
	       opcode == RC_WRITE_ONLY_IMMEDIATE;
}

static __always_inline int rc_has_immediate(__u32 opcode)
{
	return opcode == RC_WRITE_LAST_IMMEDIATE || opcode == RC_WRITE_ONLY_IMMEDIATE;
}

static __always_inline int rc_ends_message(__u32 opcode)
{
	return opcode >= RC_WRITE_LAST && opcode <= RC_WRITE_ONLY_IMMEDIATE;
}

/* The opcode of a packet that says by itself where it goes. */
static __always_inline int rc_only_opcode(__u32 opcode)
{
	return rc_has_immediate(opcode) ? RC_WRITE_ONLY_IMMEDIATE : RC_WRITE_ONLY;
}

/* Bytes in front of the payload. */
static __always_inline __u32 rc_header_bytes(__u32 opcode)
{
	return sizeof(struct wire_stack) + (rc_has_reth(opcode) ? sizeof(struct rc_reth) : 0) +
	       (rc_has_immediate(opcode) ? sizeof(__be32) : 0);
}

#endif

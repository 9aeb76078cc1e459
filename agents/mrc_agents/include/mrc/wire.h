/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Headers as they lie in a frame, big endian. Sections are those of docs/reference/protocol.md.
 *
 * A header by itself has no padding and needs no attribute. Behind the 14 bytes of Ethernet
 * everything lies at an even address: saying so spares the compiler from handling packed fields
 * byte by byte.
 */
#ifndef MRC_WIRE_H
#define MRC_WIRE_H

#include <linux/types.h>
#include <bpf/bpf_endian.h>

enum {
	WIRE_ETH_P_IPV6 = 0x86dd,
	WIRE_NEXT_HEADER_IPV6 = 41,
	WIRE_NEXT_HEADER_UDP = 17,
	WIRE_ENDPOINT_QP = 2,
	WIRE_ICRC_BYTES = 4,
	WIRE_PSN_MASK = 0xffffff,
	WIRE_HOP_LIMIT = 64,
	WIRE_ECT0 = 2,
	WIRE_CE = 3,
};

/* "Opcodes" */
enum wire_opcode {
	WIRE_WRITE_FIRST = 0xc6,
	WIRE_WRITE_MIDDLE = 0xc7,
	WIRE_WRITE_LAST = 0xc8,
	WIRE_WRITE_LAST_IMMEDIATE = 0xc9,
	WIRE_WRITE_ONLY = 0xca,
	WIRE_WRITE_ONLY_IMMEDIATE = 0xcb,
	WIRE_ACKNOWLEDGE = 0xd1,
	WIRE_ENDPOINT_REQUEST = 0xd8,
	WIRE_ENDPOINT_RESPONSE = 0xd9,
	WIRE_SACK = 0xdc,
	WIRE_NACK = 0xdd,
	WIRE_PROBE = 0xde,
	WIRE_LINK_PROBE = 0xe0, /* of this lab, not of MRC */
};

enum {
	WIRE_P_KEY_DEFAULT = 0xffff,
	WIRE_BTH_ACK_REQUEST = 0x80,
	WIRE_BTH_RETRANSMISSION = 0x20,
	WIRE_BTH_TIMESTAMP = 0x10,
	WIRE_BTH_VERSION_MASK = 0x0f,
	WIRE_AETH_ACK = 0x1f,
	WIRE_AETH_KIND_MASK = 0x60,
	WIRE_AETH_NAK_INVALID_REQUEST = 0x61,
	WIRE_AETH_NAK_REMOTE_ACCESS = 0x62,
	WIRE_AETH_NAK_REMOTE_OPERATION = 0x63,
	WIRE_ERTH_PORT_STATUS = 0,
	WIRE_ERTH_EV_PROBE = 1,
	WIRE_SETH_SKIP_ONCE = 1 << 5,
	WIRE_SETH_ALWAYS_SKIP = 2 << 5,
	WIRE_SETH_ADVICE_MASK = 3 << 5,
	WIRE_SETH_PROBE_RESPONSE = 1 << 1,
	WIRE_NETH_CC_TYPE = 2 << 4,
	WIRE_TIMESTAMP_128NS = 1,      /* TSETH: tsr 0, ftype 1 */
	WIRE_ERTH_TIMESTAMP_128NS = 1, /* ERTH: the same bits */
};

/* "NETH" */
enum wire_nack_reason {
	WIRE_NACK_TRIMMED = 0x01,
	WIRE_NACK_TRIMMED_LASTHOP = 0x02,
	WIRE_NACK_NO_BITMAP = 0x06,
	WIRE_NACK_NO_PKT_BUFFER = 0x07,
	WIRE_NACK_NO_RESOURCE = 0x0a,
	WIRE_NACK_PSN_OOR_WINDOW = 0x0b,
	WIRE_NACK_UNEXP_EVENT = 0x19,
};

struct wire_eth {
	__u8 destination[6];
	__u8 source[6];
	__be16 ethertype;
};

struct wire_ipv6 {
	__be32 version_class_flow;
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__be64 source[2];
	__be64 destination[2];
};

struct wire_udp {
	__be16 source;
	__be16 destination;
	__be16 length;
	__be16 checksum;
};

struct wire_bth {
	__u8 opcode;
	__u8 pad_version; /* se 7, m 6, pad 5:4, tver 3:0 */
	__be16 p_key;
	__be32 destination_qp; /* 8 reserved bits, 24 bits of QP number */
	__be32 flags_psn;      /* a 31, rtx 29, ts 28, PSN 23:0 */
};

/* The headers that every MRC packet of this fabric starts with. */
struct wire_stack {
	struct wire_eth eth;
	struct wire_ipv6 outer;
	struct wire_ipv6 inner;
	struct wire_udp udp;
	struct wire_bth bth;
} __attribute__((packed, aligned(2)));

struct wire_write {
	struct wire_stack stack;
	__be16 rqmsn; /* METH */
	__be16 msn;
	__be16 tx_timestamp; /* TSETH */
	__be16 timestamp_type;
	__be64 va; /* RETH */
	__be32 r_key;
	__be32 dmalen;
} __attribute__((packed, aligned(2)));

struct wire_sack {
	struct wire_stack stack;
	__be16 advice; /* SETH: m 6:5, pr 1 */
	__be16 ack_psn_offset;
	__be32 entropy;
	__be16 spdcid;
	__be16 dpdcid;
	__be32 cack_psn; /* ports of planes 7:0 that are down 31:24, cack_psn 23:0 */
	__u8 cc_type;	 /* 7:4 */
	__u8 mpr;
	__be16 sack_offset;
	__be64 bitmap;
	__be64 cc_state; /* tx_timestamp 63:48, the algorithm's word 47:24, received bytes 23:0 */
} __attribute__((packed, aligned(2)));

/* The headers that are sure to be left of a data packet that a switch has trimmed. */
struct wire_trimmed {
	struct wire_stack stack;
	__be16 rqmsn; /* METH */
	__be16 msn;
	__be16 tx_timestamp; /* TSETH */
	__be16 timestamp_type;
} __attribute__((packed, aligned(2)));

struct wire_nack {
	struct wire_stack stack;
	__be16 reserved; /* NETH */
	__u8 reason;
	__u8 vendor;
	__be32 entropy;
	__be16 spdcid;
	__be16 dpdcid;
	__be32 psn;
	__u8 cc_type;
	__u8 reserved_tail;
	__be16 tx_timestamp;
} __attribute__((packed, aligned(2)));

struct wire_probe {
	struct wire_stack stack;
	__be32 reserved; /* PETH; the low byte is vendor_info */
	__be16 probe_id;
	__be16 reserved_id;
	__be16 spdcid;
	__be16 dpdcid;
	__be16 tx_timestamp;
	__be16 timestamp_type;
} __attribute__((packed, aligned(2)));

struct wire_acknowledge {
	struct wire_stack stack;
	__be32 syndrome_msn; /* AETH */
} __attribute__((packed, aligned(2)));

struct wire_endpoint_request {
	struct wire_stack stack;
	__be16 operation; /* ERTH: op 1:0 */
	__be16 vendor;
	__be32 port_status_mask;
	__be32 reserved;
	__be16 tx_timestamp;
	__be16 timestamp_type;
} __attribute__((packed, aligned(2)));

struct wire_endpoint_response {
	struct wire_stack stack;
	__be16 operation; /* EETH: op 3:2 */
	__u8 reserved[26];
	__be16 tx_timestamp;
	__u8 reserved_tail[6];
} __attribute__((packed, aligned(2)));

/* "Link probes" */
struct wire_link_probe {
	struct wire_stack stack;
	__be32 path;
	__be32 round;
	__be64 sent_ns;
} __attribute__((packed, aligned(2)));

_Static_assert(sizeof(struct wire_stack) == 114, "Ethernet .. BTH");
_Static_assert(sizeof(struct wire_write) == 138, "headers of a WRITE");
_Static_assert(sizeof(struct wire_sack) == 150, "SETH 28 and CC_STATE 8");
_Static_assert(sizeof(struct wire_nack) == 134, "NETH 20");
_Static_assert(sizeof(struct wire_probe) == 130, "PETH 16");
_Static_assert(sizeof(struct wire_endpoint_request) == 130, "ERTH 16");
_Static_assert(sizeof(struct wire_endpoint_response) == 150, "EETH 36");

#endif

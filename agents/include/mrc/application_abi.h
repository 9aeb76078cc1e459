/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Messages between an application's verbs library and the NIC agent of its host: packets of a
 * SOCK_SEQPACKET socket that the agent binds to an abstract name, which only the network namespace
 * of the host has. The agent speaks first; then every request has one reply.
 */
#ifndef MRC_APPLICATION_ABI_H
#define MRC_APPLICATION_ABI_H

#include <linux/types.h>

#define MRC_APPLICATION_SOCKET "mrc-testbed-nic"

enum mrc_application_limit {
	MRC_APPLICATION_VERSION = 3, /* of this file, and of the maps that are handed over */
	MRC_APPLICATION_TEXT = 160,
	MRC_APPLICATION_NOT_GIVEN = 0xff, /* an attribute that the program has not set */
};

/* The transport of a QP. */
enum mrc_application_transport {
	MRC_APPLICATION_MRC = 0,
	MRC_APPLICATION_ROCEV2 = 1, /* a reliable connection on one path */
};

enum mrc_application_verb {
	MRC_APPLICATION_HELLO = 0,	/* reply only; with program, memory and work rings */
	MRC_APPLICATION_REGISTER = 1,	/* address, length, r_key, is_writable, pd */
	MRC_APPLICATION_DEREGISTER = 2, /* r_key */
	MRC_APPLICATION_CREATE_QP = 3,	/* pd, transport */
	/*
	 * qpn, attributes from is_writable on; state, 0: it stays; to RTR peer_host, peer_qpn, psn;
	 * to RTS psn
	 */
	MRC_APPLICATION_MODIFY_QP = 4,
	MRC_APPLICATION_DESTROY_QP = 5,	    /* qpn */
	MRC_APPLICATION_CREATE_CHANNEL = 6, /* the reply comes with a socket: a byte per event */
	MRC_APPLICATION_REVOKE = 7,	    /* r_key: peers write there no more */
};

struct mrc_application_request {
	__u32 verb; /* enum mrc_application_verb */
	__u32 qpn;
	__u64 address;
	__u64 length;
	__u32 r_key; /* of a region whose pages hold all of this one; 0: new pages */
	__u32 pd;    /* number of a protection domain of the application, from 1 */
	__u32 state; /* enum mrc_qp_state */
	__u32 peer_host;
	__u32 peer_qpn;
	__u32 psn;
	__u32 is_writable; /* by peers: the region, or what a QP reaches */
	__u8 timeout;	   /* these as ibv_modify_qp has them */
	__u8 retry_count;
	__u8 rnr_retry;
	__u8 min_rnr_timer;
	__u32 transport; /* enum mrc_application_transport */
	__u32 pad0;
};

struct mrc_application_reply {
	__u32 error; /* errno, 0: none; `text` says more */
	__u32 version;
	__u32 host_index; /* this and all up to memory_bytes: of HELLO */
	__u32 qp_count;
	__u32 pmtu_bytes; /* of HELLO, and of a QP in RTR */
	__u32 ring_bytes; /* sizeof(struct mrc_work_ring) */
	__u64 inner_prefix;
	__u64 memory_bytes;
	__u32 qpn;
	__u32 r_key;
	__u32 offset;			 /* of the region's first byte, in the NIC's memory */
	__u32 window_packets;		 /* of a QP in RTR */
	__u8 text[MRC_APPLICATION_TEXT]; /* zero-terminated */
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Messages between an application's verbs library and the NIC agent of its host: packets of a
 * SOCK_SEQPACKET socket that the agent binds to an abstract name, which only the network namespace
 * of the host has. The agent speaks first; then every request has one reply.
 */
#ifndef MRC_APPLICATION_ABI_H
#define MRC_APPLICATION_ABI_H

#include <linux/types.h>
#include <mrc/limit_abi.h>

#define MRC_APPLICATION_SOCKET "mrc-testbed-nic"

enum mrc_application_limit {
	MRC_APPLICATION_VERSION = 7, /* of this file, and of the maps that are handed over */
	MRC_APPLICATION_TEXT = 160,
	MRC_APPLICATION_NOT_GIVEN = 0xff,      /* an attribute that the program has not set */
	MRC_APPLICATION_ANYWHERE = 0xffffffff, /* an offset that the agent chooses */
};

/* The transport of a QP. */
enum mrc_application_transport {
	MRC_APPLICATION_MRC = 0,
	MRC_APPLICATION_ROCEV2 = 1, /* a reliable connection on one path */
};

enum mrc_application_verb {
	MRC_APPLICATION_HELLO = 0, /* reply only; with program and work rings */
	/*
	 * address, length, is_writable, pd; page_list: MRC_NO_PAGE_LIST where the bytes lie in a
	 * row from `offset`. Else where the application keeps a list of NIC page numbers, a __u32
	 * for each page of MRC_PAGE_BYTES that the region touches; it may change while there is the
	 * region. What is named, the bytes or the list, has to lie in the application's
	 * allocations, of which several side by side are as one.
	 */
	MRC_APPLICATION_REGISTER = 1,
	MRC_APPLICATION_DEREGISTER = 2, /* r_key */
	MRC_APPLICATION_CREATE_QP = 3,	/* pd, transport */
	/*
	 * qpn, attributes from is_writable on; state, 0: it stays; to INIT profiles; to RTR
	 * peer_host, peer_qpn, psn; to RTS psn
	 */
	MRC_APPLICATION_MODIFY_QP = 4,
	MRC_APPLICATION_DESTROY_QP = 5, /* qpn */
	/*
	 * The reply comes with a socket, a byte per event, and has the channel's number for work
	 * rings; with has_ring BPF makes records in a ring, and the agent reports failures alone.
	 */
	MRC_APPLICATION_CREATE_CHANNEL = 6,
	/*
	 * length; offset: where the pages should be if there is room, or MRC_APPLICATION_ANYWHERE.
	 * The reply has the offset of whole pages with whatever an earlier owner left in them.
	 */
	MRC_APPLICATION_ALLOCATE = 7,
	MRC_APPLICATION_FREE = 8, /* offset: of an allocation over which there is no region */
	/* The reply has is_up, and comes with a socket: a byte per change from then on, its new
	 * value. */
	MRC_APPLICATION_WATCH_PORT = 9,
	MRC_APPLICATION_QUERY_PORT = 10, /* the reply has is_up */
	/*
	 * offset: number of a chunk of MRC_MEMORY_CHUNK bytes of the NIC's memory. The reply comes
	 * with its descriptor. Chunks within memory_bytes stay; one beyond is the same while the
	 * application has an allocation there.
	 */
	MRC_APPLICATION_CHUNK = 11,
	MRC_APPLICATION_CHANNEL_RING = 12, /* offset: of the reply's `channel`, whose ring comes */
	/*
	 * These two come with a socket that has SO_PREFER_BUSY_POLL, which the kernel lets nobody
	 * set but who has CAP_NET_ADMIN. A struct mrc_control follows the request and the reply;
	 * the reply comes with a socket of struct mrc_control_event.
	 */
	MRC_APPLICATION_CONTROL = 13,
	MRC_APPLICATION_WATCH_EVS = 14,
};

struct mrc_application_request {
	__u32 verb; /* enum mrc_application_verb */
	__u32 qpn;
	__u64 address;
	__u64 length;
	__u32 r_key;
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
	__u32 offset;	 /* in the NIC's memory */
	__u32 page_list; /* offset in the NIC's memory, or MRC_NO_PAGE_LIST */
	__u32 given;	 /* enum mrc_qp_attr_mask: which of those below are */
	__u32 ev_profile;
	__u32 cc_profile;
	__u16 max_wimm;
	__u16 max_wimm_dest;
	__u8 mpr; /* this and all below: as struct mrc_qp_attr has them */
	__u8 mpr_dest;
	__u8 mrc_timeout;
	__u8 linear_count;
	__u8 exponential_count;
	__u8 is_mpr_dynamic;
	__u16 pad0;
};

struct mrc_application_reply {
	__u32 error; /* errno, 0: none; `text` says more */
	__u32 version;
	__u32 host_index; /* this and all up to memory_bytes: of HELLO */
	__u32 qp_count;
	__u32 pmtu_bytes; /* of HELLO, and of a QP in RTR */
	__u32 ring_bytes; /* sizeof(struct mrc_work_ring) */
	__u64 inner_prefix;
	__u64 memory_bytes; /* at start; the NIC's memory grows */
	__u32 qpn;
	__u32 r_key;
	__u32 offset;	      /* of an allocation, in the NIC's memory */
	__u32 window_packets; /* of a QP in RTR */
	__u32 is_up;	      /* the port of a program: a plane or more has carrier */
	__u32 channel;
	__u32 has_ring; /* that channel */
	__u32 pad0;
	__u8 text[MRC_APPLICATION_TEXT]; /* zero-terminated */
};

#endif

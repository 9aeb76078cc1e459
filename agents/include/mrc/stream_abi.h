/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* State of the kernel's TCP and MPTCP connections that an agent drives; no program reads it. */
#ifndef MRC_STREAM_ABI_H
#define MRC_STREAM_ABI_H

#include <mrc/nic_abi.h>

/* streams[QP index] */
struct mrc_stream {
	__u64 acked_bytes; /* payload of messages that the peer has acknowledged */
};

/* stream_account[0]: all connections of a host together, since its NIC was loaded. */
struct mrc_stream_account {
	__u64 placed_bytes; /* payload received */
	__u64 acked_bytes;
	__u64 messages; /* sent, and there */
	__u64 errors;	/* connections that failed */
	__u64 retransmits;
	__u64 retransmits_timeout; /* those of them that began with a time-out */
	struct mrc_histogram completion;
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The kernel's header, but for struct xdp_md, whose pointers have 32 bits there. */
#ifndef VIRTUAL_LINUX_BPF_H
#define VIRTUAL_LINUX_BPF_H

#define xdp_md kernel_xdp_md
#include_next <linux/bpf.h>
#undef xdp_md

struct xdp_md {
	__u64 data;
	__u64 data_end;
	__u64 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
	__u32 payload_bytes; /* that travel by reference (payload.c); 0: none */
	__u64 payload_at;    /* where in the buffer they would be */
	const __u8 *payload; /* where they are */
	__u8 *begin, *end;   /* of the buffer */
};

#endif

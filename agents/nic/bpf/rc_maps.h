/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Queue pairs of the reliable connection, and what its functions tell one another. */
#ifndef MRC_RC_MAPS_H
#define MRC_RC_MAPS_H

#include <mrc/rc_abi.h>
#include "nic_maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* at load */
	__type(key, __u32);
	__type(value, struct mrc_rc_qp);
} rc_qps SEC(".maps");

/* The packet to build; too large for the stack that functions share. */
struct rc_plan {
	__u64 now_ns;
	__u64 model_ns;
	__u64 template_hi;
	__u64 template_lo;
	__u32 is_local;
	__u32 peer_host;
	__u32 peer_qpn;
	__u32 psn;
	__u32 entropy;
	__u32 local_offset;
	__u32 remote_offset;
	__u32 message_bytes;
	__u32 length;
	__u32 opcode;
	__u32 r_key;
	__u32 immediate;
	__u32 loss; /* enum mrc_loss: why it is sent again, if it is */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rc_plan);
} rc_plans SEC(".maps");

/* What goes back for a packet. */
struct rc_answer {
	__u32 qp_index;
	__u32 entropy;
	__u32 plane;
	__u32 psn;
	__u32 syndrome;
	__u32 msn;
	__u32 is_cnp;
	__u32 is_marked;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rc_answer);
} rc_answers SEC(".maps");

static __always_inline struct mrc_rc_qp *rc_find(__u32 qp_index)
{
	return bpf_map_lookup_elem(&rc_qps, &qp_index);
}

#endif

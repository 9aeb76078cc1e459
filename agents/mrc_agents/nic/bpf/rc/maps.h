/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Queue pairs of the reliable connection, and the response that is being built. */
#ifndef MRC_RC_MAPS_H
#define MRC_RC_MAPS_H

#include <mrc/rc_abi.h>
#include "../nic_maps.h"

INDEX_MAP(ARRAY, rc_qps, struct mrc_rc_qp, 1); /* at load */

/* The content of a data packet; without RETH, where its message goes on. */
struct rc_packet {
	__u64 va;
	__u32 r_key;
	__u32 message_bytes; /* of its message from here on */
	__u32 opcode;
	__u32 length;
	__u32 psn;
	__u32 immediate;
};

/* A packet, and the response to it. */
struct rc_response {
	struct rc_packet packet;
	__u32 qp_index;
	__u32 entropy;
	__u32 plane;
	__u32 psn;
	__u32 syndrome;
	__u32 msn;
	__u32 is_cnp;
	__u32 is_marked;
};

INDEX_MAP(PERCPU_ARRAY, rc_responses, struct rc_response, 1);

static __always_inline struct mrc_rc_qp *rc_find(__u32 qp_index)
{
	return bpf_map_lookup_elem(&rc_qps, &qp_index);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Link probes: packets of a host to itself through switches (docs/reference/protocol.md). */
#ifndef MRC_LINK_PROBE_ABI_H
#define MRC_LINK_PROBE_ABI_H

#include <linux/types.h>
#include <mrc/limit_abi.h>

/*
 * link_probe_paths[i], mmapable array. A round is one probe on every path. A probe has failed when
 * it is not back as that of lag_rounds rounds later is sent.
 */
struct mrc_link_probe_path {
	__u64 carrier_hi; /* these two and the plane: set at load */
	__u64 carrier_lo;
	__u32 plane;
	__u32 next_round; /* this and all below: written by BPF */
	__u64 responded;  /* bit round % 64: the probe is back */
	__u64 sent;
	__u64 passed;	     /* back in time */
	__u64 failed;	     /* not */
	__u64 late;	     /* back, but counted as failed */
	__u64 failed_in_row; /* of those judged last */
	__u64 last_pass_ns;  /* when a probe last came back */
	__u64 rtt_sum_ns;    /* of those that passed */
	__u64 rtt_max_ns;
};

/* link_probing[0], mmapable array. */
struct mrc_link_probing {
	__u32 path_count; /* set at load */
	__u32 lag_rounds; /* 1 to 63, set by the agent */
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Whether the agent, whose QPs these are, still lives (docs/protocol.md, "Requestor"). */
#ifndef MRC_HEARTBEAT_H
#define MRC_HEARTBEAT_H

#include "nic_maps.h"

enum {
	HEARTBEAT_PSN_MASK = 255, /* a responder has no clock: it looks once in so many PSNs */
};

static __always_inline int is_agent_gone(const struct mrc_nic_control *control, __u64 now_ns)
{
	return control->heartbeat_limit_ns && control->heartbeat_ns &&
	       (__s64)(now_ns - control->heartbeat_ns) > (__s64)control->heartbeat_limit_ns;
}

#endif

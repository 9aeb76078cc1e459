/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handler of a frame returns what comes next with it: an enum mrc_stage, or the XDP verdict once
 * the frame is done with. Verdicts are smaller than stages, so one value is never both.
 */
#ifndef MRC_STAGE_H
#define MRC_STAGE_H

#include <linux/bpf.h>
#include <mrc/abi.h>

enum {
	NIC_KICK_IFINDEX = 1, /* loopback: of a frame that the agent provides */
	STAGE_TRANSMIT_CLASS_SHIFT = 4,
};

_Static_assert((int)MRC_STAGE_CALL_RC > (int)XDP_REDIRECT, "a stage is no XDP verdict");

/* True if the frame is provided for something to send, and does not come from a port. */
static __always_inline int nic_is_kick(const struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;

	return ifindex == NIC_KICK_IFINDEX || ifindex == MRC_DOORBELL_IFINDEX;
}

/* The stage that transmits the frame out of the port to `plane`. */
static __always_inline int stage_transmit(__u32 plane, __u32 traffic_class)
{
	return MRC_STAGE_TRANSMIT | traffic_class << STAGE_TRANSMIT_CLASS_SHIFT |
	       (plane & (MRC_PLANE_MAX - 1));
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Values that a handler of a frame returns: what its program does with the frame. */
#ifndef MRC_NIC_ACTION_H
#define MRC_NIC_ACTION_H

#include <linux/bpf.h>
#include <mrc/abi.h>

/* XDP_ABORTED .. XDP_REDIRECT are actions, too: the frame is done with. */
enum nic_action {
	NIC_TX_ACK_PATH_PROBE = -5, /* it becomes an EV probe for the QP in rx_responses */
	NIC_CALL_RC = -4,	    /* it is for the program of reliable connections */
	NIC_TX_RESPONSE = -3,	    /* it becomes the response that was decided */
	NIC_POST_PROCESS = -2,	    /* an ACK: completions and losses first, then the next packet */
	NIC_TX_DATA = -1,	    /* it becomes the data packet that was decided */
	NIC_XMIT = 256, /* and above: it is complete but for its iCRC, see nic_xmit_on() */
};

enum {
	NIC_KICK_IFINDEX = 1, /* loopback: of a frame that the agent provides */
	NIC_XMIT_CLASS_SHIFT = 4,
};

/* True if the frame is provided for something to send, and does not come from a port. */
static __always_inline int nic_is_kick(const struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;

	return ifindex == NIC_KICK_IFINDEX || ifindex == MRC_DOORBELL_IFINDEX;
}

/* The action that sends the frame out of the port to `plane`. */
static __always_inline int nic_xmit_on(__u32 plane, __u32 traffic_class)
{
	return NIC_XMIT | traffic_class << NIC_XMIT_CLASS_SHIFT | (plane & (MRC_PLANE_MAX - 1));
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Constants that the control plane sets when it loads an object. The verifier knows these values:
 * of a mode that a lab does not use nothing is left in its programs.
 */
#ifndef MRC_FABRIC_CONFIG_H
#define MRC_FABRIC_CONFIG_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/fabric_abi.h>
#include <mrc/limit_abi.h>

volatile const struct mrc_fabric_config fabric_config SEC(".rodata.config") = {};

/* True if packets travel in a second IPv6 header, which names the path. */
static __always_inline int fabric_is_tunnelled(void)
{
	return fabric_config.forwarding == MRC_FORWARDING_SRV6;
}

/* True if switches choose among equal links by what waits there. */
static __always_inline int fabric_is_adaptive(void)
{
	return fabric_config.forwarding == MRC_FORWARDING_ECMP &&
	       fabric_config.uplink_choice == MRC_UPLINK_CHOICE_ADAPTIVE;
}

/*
 * A time of the protocol that no round trip is measured for. It is given for round trips of a
 * millisecond or more, what the machine is late among it, and is shorter in proportion where they
 * are.
 */
static __always_inline __u64 paced_ns(__u64 time_ns)
{
	return time_ns * fabric_config.pace_ns / MRC_PACE_FULL_NS;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps that the whole fabric shares: one set per lab, pinned, reused by every NIC object. */
#ifndef MRC_FABRIC_MAPS_H
#define MRC_FABRIC_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/abi.h>
#include <mrc/map.h>
#include <mrc/verifier.h>

/* max_entries of each is set at load, from the topology. */
MMAPABLE_ARRAY(port_table, struct mrc_port, 1);
MMAPABLE_ARRAY(port_fault, struct mrc_port_fault, 1);
MMAPABLE_ARRAY(fault_accounts, struct mrc_fault_accounts, 1);
INDEX_MAP(PERCPU_ARRAY, port_counters, struct mrc_port_counters, 1);

/* An entry is written from inside the port's network namespace; it may name a device of any. */
INDEX_MAP(DEVMAP, port_devmap, __u32, 1);

/* By enum mrc_fabric_program; filled at load. */
INDEX_MAP(PROG_ARRAY, fabric_programs, __u32, MRC_FABRIC_PROGRAM_COUNT);

/* The egress port and the class of a frame that another program transmits. */
struct emit_request {
	__u32 port_id;
	__u32 traffic_class;
};

INDEX_MAP(PERCPU_ARRAY, emit_requests, struct emit_request, 1);

static __always_inline void port_count(__u32 port_id, __u32 counter, __u64 amount)
{
	struct mrc_port_counters *counters = bpf_map_lookup_elem(&port_counters, &port_id);
	__u64 index = counter;

	barrier_var(index); /* else 6.1 takes it, negated by callers, for unbounded */
	if (counters && index < MRC_PC_COUNT)
		counters->value[index] += amount;
}

/*
 * Nanoseconds that a frame occupies the transmitter; rate 0 is a port that was unshaped meanwhile.
 * What whole nanoseconds leave over, in 1 / rate of one, is carried to the frame that follows back
 * to back, so that no port is faster than its rate.
 */
static __always_inline __u64 serialisation_ns(const struct mrc_port *port, __u64 length_bytes,
					      __u64 *carry)
{
	__u64 rate_bps = port->rate_bps, bits;

	if (!rate_bps)
		return 0;
	bits = length_bytes * 8000000000ULL;
	if (*carry < rate_bps) /* else it is of a higher rate */
		bits += *carry;
	*carry = bits % rate_bps;
	return bits / rate_bps;
}

#endif

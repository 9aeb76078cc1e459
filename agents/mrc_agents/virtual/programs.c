// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The programs of NIC and switch as they are, in one translation unit: the kernel keeps them apart
 * for its verifier's sake alone.
 */
#include <sys/mman.h>
#include <stdint.h>

#define _license nic_license
#include "../nic/bpf/nic.bpf.c"
#undef _license
#define _license rc_license
#include "../nic/bpf/rc/rc.bpf.c"
#undef _license
#define _license forward_license
#include "../switch/bpf/forward.bpf.c"
#undef _license
#define _license emit_license
#include "../switch/bpf/emit.bpf.c"
#undef _license
#define _license load_license
#include "../switch/bpf/load.bpf.c"
#undef _license

#include "virtual.h"

#define ENTRY(which, of_kind)                                                                      \
	{                                                                                          \
	    .name = #which,                                                                        \
	    .map = (void *)&which,                                                                 \
	    .kind = of_kind,                                                                       \
	    .type = sizeof(*which.type) / sizeof(int),                                             \
	    .value_bytes = sizeof(*which.value),                                                   \
	    .declared_count = sizeof(*which.max_entries) / sizeof(int),                            \
	},
#define FABRIC(which)  ENTRY(which, VIRTUAL_FABRIC)
#define NIC(which)     ENTRY(which, VIRTUAL_NIC)
#define SCRATCH(which) ENTRY(which, VIRTUAL_SCRATCH)
#define HANDLE(which)

struct virtual_map_entry virtual_maps[] = {
#include "maps.def"
};
const __u32 virtual_map_count = sizeof(virtual_maps) / sizeof(*virtual_maps);

/* The kernel sets read-only data when it loads an object; a page or two become writable here. */
void virtual_set_config(const void *config, __u32 bytes)
{
	uintptr_t page = 4096, first = (uintptr_t)&fabric_config & ~(page - 1);
	uintptr_t end = (uintptr_t)(&fabric_config + 1);
	void *to = (void *)&fabric_config;

	mprotect((void *)first, end - first, PROT_READ | PROT_WRITE);
	asm volatile(""
		     : "+r"(to)); /* or the compiler drops a store to what it takes for constant */
	memcpy(to, config, bytes < sizeof(fabric_config) ? bytes : sizeof(fabric_config));
}

const struct mrc_port *virtual_port(__u32 port_id)
{
	return bpf_map_lookup_elem(&port_table, &port_id);
}

void virtual_show_arrival(__u32 entry)
{
	__u32 zero = 0, port_id = entry - 1, id;
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);
	struct mrc_queue_port *port;

	if (entry & (MRC_LOSSLESS_NODE | MRC_FAULT_LINE)) /* nothing arrives, or not at its rate */
		return;
	port = bpf_map_lookup_elem(&queue_ports, &port_id);
	id = port->wire_head;
	if (id && descriptor_of(descriptors, id)->time_ns <= virtual_now_ns)
		virtual_observe(port_id, id, descriptor_of(descriptors, id));
}

void virtual_request_tx(__u32 qp_index, __u32 frames)
{
	struct mrc_kick *request = lookup0(&kick);
	struct mrc_rc_qp *other = rc_find(qp_index);

	request->mode = other && other->state != MRC_QP_RESET ? MRC_KICK_RC : MRC_KICK_DATA;
	request->qp_index = qp_index;
	request->frames_left = frames;
}

struct mrc_work_ring *virtual_work_ring(__u32 qp_index)
{
	return bpf_map_lookup_elem(&work_ring, &qp_index);
}

__u32 virtual_event_room(void)
{
	return sizeof(*nic_events.max_entries) / sizeof(int);
}

int virtual_is_event_ring(const void *ring)
{
	return ring == &nic_events;
}

int virtual_tail_call(struct xdp_md *ctx, const void *map, __u32 place, int *verdict)
{
	if (map == &nic_transports)
		*verdict = rc(ctx);
	else if (map == &fabric_programs)
		*verdict = place == MRC_FABRIC_PROGRAM_EMIT ? emit(ctx) : enter(ctx);
	else
		return 0;
	return 1;
}

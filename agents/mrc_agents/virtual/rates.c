// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * An observer of what leaves ports, which knows nothing of how they send: a frame that crosses a
 * link sooner after the one before it than the port's rate allows is early. No port of a lab whose
 * times are exact ever sends one.
 */
#include "api.h"

struct observed_port {
	__u64 rate_bps;
	__u64 delay_ns;
	__u64 trusted_ns; /* frames that arrive up to then may have left at another rate */
	__u64 end_ns;	  /* no frame may have arrived before */
	__u64 carry;	  /* by which that is too early, in 1 / rate of a nanosecond */
	__u32 frame;
	__u32 pad0;
};

static struct observed_port *ports;
static __u64 ports_bytes;

int virtual_begin_rates(__u32 port_count)
{
	ports_bytes = (port_count ?: 1) * sizeof(*ports);
	ports = virtual_allocate(ports_bytes);
	return ports ? 0 : -1;
}

void virtual_end_rates(void)
{
	virtual_release(ports, ports_bytes);
	ports = 0;
}

static void observe_from_now(struct observed_port *port, const struct mrc_port *now)
{
	__u64 delay_ns = port->delay_ns > now->delay_ns ? port->delay_ns : now->delay_ns;
	/* unknown before its first frame; one sent at a higher rate takes less than at this */
	__u64 rate_bps = port->rate_bps ?: now->rate_bps;

	port->trusted_ns = virtual_now_ns + delay_ns;
	if (rate_bps)
		port->trusted_ns += MRC_QUEUE_FRAME_BYTES * 8000000000ULL / rate_bps;
	port->rate_bps = now->rate_bps;
	port->delay_ns = now->delay_ns;
	port->end_ns = 0;
	port->carry = 0;
}

void virtual_observe(__u32 port_id, __u32 frame, const struct mrc_queue_descriptor *descriptor)
{
	struct observed_port *port = &ports[port_id];
	const struct mrc_port *now = virtual_port(port_id);
	__u64 arrival_ns = descriptor->time_ns, total, end_ns;

	if (port->frame == frame && port->end_ns == arrival_ns) /* its event came twice */
		return;
	if (port->rate_bps != now->rate_bps || port->delay_ns != now->delay_ns)
		observe_from_now(port, now);
	port->frame = frame;
	virtual_totals.arrivals++;
	if (!now->rate_bps)
		return;
	total = descriptor->length_bytes * 8000000000ULL + port->carry;
	end_ns = port->end_ns + total / now->rate_bps;
	virtual_totals.early_frames += arrival_ns < end_ns && arrival_ns > port->trusted_ns;
	port->carry = arrival_ns == end_ns ? total % now->rate_bps : 0;
	port->end_ns = arrival_ns;
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The loop: the next event, whatever it is. */
#include "api.h"

static void run_event(const struct virtual_event *event)
{
	switch (event->order & 3) {
	case VIRTUAL_EVENT_PORT:
		virtual_run_port(event->a);
		break;
	case VIRTUAL_EVENT_TIMER:
		virtual_run_timer(event);
		break;
	case VIRTUAL_EVENT_KICK:
		virtual_enter_nic(event->nic);
		virtual_request_tx(event->a, event->b);
		virtual_run_frames(event->nic, event->b);
		break;
	}
}

__u64 mrc_virtual_run(__u64 until_ns, __u64 events_max)
{
	struct virtual_event event;

	for (__u64 done = 0; done < events_max; done++) {
		if (virtual_has_reports())
			return virtual_now_ns;
		if (!virtual_pop(until_ns, &event)) {
			if (until_ns > virtual_now_ns)
				virtual_now_ns = until_ns;
			return virtual_now_ns;
		}
		virtual_now_ns = event.time_ns;
		run_event(&event);
		/* At the end of the time what Python has to do then may come first. */
		if (virtual_has_reports() && virtual_now_ns < until_ns)
			virtual_take_messages();
	}
	return virtual_now_ns;
}

__u64 mrc_virtual_now(void)
{
	return virtual_now_ns;
}

void mrc_virtual_read_totals(struct mrc_virtual_totals *totals)
{
	*totals = virtual_totals;
}

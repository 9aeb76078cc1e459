// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Timers of map elements. The 16 bytes that a value keeps for the kernel hold what is needed here:
 * a timer that is started again voids the event of its last start.
 */
#include "api.h"

struct timer_state {
	virtual_timer_callback callback;
	__u32 generation;
	__u32 map; /* index in virtual_maps */
};

_Static_assert(sizeof(struct timer_state) <= sizeof(struct bpf_timer), "it lies in a value");

long bpf_timer_init(struct bpf_timer *timer, void *map, __u64 flags)
{
	struct timer_state *state = (void *)timer;

	(void)flags;
	for (__u32 i = 0; i < virtual_map_count; i++)
		if (virtual_maps[i].map == map)
			state->map = i;
	return 0;
}

long virtual_timer_set_callback(struct bpf_timer *timer, virtual_timer_callback callback)
{
	((struct timer_state *)timer)->callback = callback;
	return 0;
}

long bpf_timer_start(struct bpf_timer *timer, __u64 delay_ns, __u64 flags)
{
	struct virtual_event event = {
	    .nic = virtual_entered_nic(),
	    .a = ++((struct timer_state *)timer)->generation,
	    .timer = timer,
	};

	(void)flags;
	virtual_push(virtual_now_ns + delay_ns, VIRTUAL_EVENT_TIMER, event);
	return 0;
}

void virtual_run_timer(const struct virtual_event *event)
{
	struct timer_state *state = (void *)event->timer;
	struct virtual_map *map;
	__u32 index;

	if (state->generation != event->a)
		return;
	virtual_enter_nic(event->nic);
	map = virtual_maps[state->map].map;
	index = ((__u8 *)state - map->base) / map->stride;
	state->callback(map, &index, map->base + (__u64)index * map->stride);
}

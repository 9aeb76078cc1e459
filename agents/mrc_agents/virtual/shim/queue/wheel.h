/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * In the place of the timing wheel: a port's next event goes into the queue of events, with its
 * exact time, and the drainer finds in its bucket the one entry whose time has come. The rest of
 * the drainer's code is as it is.
 */
#ifndef MRC_QUEUE_WHEEL_H
#define MRC_QUEUE_WHEEL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <queue/maps.h>

#define WHEEL_READ(lvalue) (*(volatile typeof(lvalue) *)&(lvalue))

extern __u32 virtual_due_entry;
void virtual_push_port(__u32 entry, __u64 due_ns);

static __always_inline int wheel_push(struct mrc_queue_drainer *drainer, __u32 *link, __u32 entry,
				      __u64 due_ns)
{
	(void)drainer;
	*link = 0;
	virtual_push_port(entry, due_ns);
	return 0;
}

static __always_inline int wheel_take_bucket(struct mrc_queue_drainer *drainer, __u64 last)
{
	(void)last;
	drainer->limit_ns = virtual_now_ns;
	drainer->current = virtual_due_entry;
	virtual_due_entry = 0;
	return drainer->current != 0;
}

#endif

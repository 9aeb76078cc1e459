/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Updates from the far end of a link to its sender, in force and still on their way. They
 * take effect in the order in which they were sent, each at its own time. Under the lock of the
 * sending port.
 */
#ifndef MRC_QUEUE_UPDATE_H
#define MRC_QUEUE_UPDATE_H

#include <linux/types.h>
#include <mrc/lossless_abi.h>

static __always_inline struct mrc_lossless_update *update_at(struct mrc_lossless_link *link,
							     __u32 number)
{
	return &link->updates[number & (MRC_LOSSLESS_UPDATES_MAX - 1)];
}

static __always_inline __u32 update_free(const struct mrc_lossless_link *link)
{
	return MRC_LOSSLESS_UPDATES_MAX - (link->update_tail - link->update_head);
}

/* There is room. */
static __always_inline void update_append(struct mrc_lossless_link *link, __u64 time_ns,
					  __u32 value)
{
	struct mrc_lossless_update *entry = update_at(link, link->update_tail);

	if (link->update_tail != link->update_head) {
		__u64 before_ns = update_at(link, link->update_tail - 1)->time_ns;

		if (time_ns < before_ns)
			time_ns = before_ns;
	}
	entry->time_ns = time_ns;
	entry->value = value;
	link->update_tail++;
}

/* When the next ones take effect, ~0 when none are under way. */
static __always_inline __u64 update_time_ns(struct mrc_lossless_link *link)
{
	return link->update_tail == link->update_head ? ~0ULL
						      : update_at(link, link->update_head)->time_ns;
}

#endif

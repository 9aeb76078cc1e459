/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Credits of one link, as InfiniBand has them: the sender begins a data frame only when the ingress
 * buffer of the far end has room for all of it. Credit comes back one propagation delay after the
 * frame began to leave that buffer, at once where it never entered it.
 * All under the lock of the sending port.
 */
#ifndef MRC_QUEUE_CREDIT_H
#define MRC_QUEUE_CREDIT_H

#include <linux/types.h>
#include <queue/update.h>

static __always_inline int credit_is_short(const struct mrc_lossless_settings *settings,
					   const struct mrc_lossless_link *link, __u32 bytes)
{
	return link->used_bytes + bytes > settings->buffer_bytes;
}

static __always_inline void credit_release(struct mrc_lossless_link *link, __u32 bytes,
					   __u64 update_ns)
{
	struct mrc_lossless_update *last;

	if (update_free(link)) {
		update_append(link, update_ns, bytes);
		return;
	}
	/* so much is under way that the latest takes this along */
	last = update_at(link, link->update_tail - 1);
	if (update_ns > last->time_ns)
		last->time_ns = update_ns;
	last->value += bytes;
}

#endif

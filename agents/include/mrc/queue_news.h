/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the far end of a link has told its sender and what is still on its way back. News take
 * effect in the order in which they were sent, each at its own time. Under the lock of the sending
 * port.
 */
#ifndef MRC_QUEUE_NEWS_H
#define MRC_QUEUE_NEWS_H

#include <linux/types.h>
#include <mrc/lossless_abi.h>

static __always_inline struct mrc_lossless_news *news_at(struct mrc_lossless_link *link,
							 __u32 number)
{
	return &link->news[number & (MRC_LOSSLESS_NEWS_MAX - 1)];
}

static __always_inline __u32 news_free(const struct mrc_lossless_link *link)
{
	return MRC_LOSSLESS_NEWS_MAX - (link->news_tail - link->news_head);
}

/* There is room. */
static __always_inline void news_append(struct mrc_lossless_link *link, __u64 time_ns, __u32 value)
{
	struct mrc_lossless_news *entry = news_at(link, link->news_tail);

	if (link->news_tail != link->news_head) {
		__u64 before_ns = news_at(link, link->news_tail - 1)->time_ns;

		if (time_ns < before_ns)
			time_ns = before_ns;
	}
	entry->time_ns = time_ns;
	entry->value = value;
	link->news_tail++;
}

/* When the next ones take effect, ~0 when none are under way. */
static __always_inline __u64 news_time_ns(struct mrc_lossless_link *link)
{
	return link->news_tail == link->news_head ? ~0ULL : news_at(link, link->news_head)->time_ns;
}

#endif

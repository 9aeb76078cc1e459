/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The frames of the whole lab. The one returned last is taken first: a lab with little in flight
 * stays in the cache, however large its pool.
 */
#ifndef MRC_QUEUE_POOL_H
#define MRC_QUEUE_POOL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <queue/maps.h>
#include <queue/port.h>

/* A free frame's id, or 0 when all are in use. */
static __always_inline __u32 pool_take(void)
{
	__u32 zero = 0, id = 0;
	struct mrc_queue_pool *pool = bpf_map_lookup_elem(&queue_pool, &zero);
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);

	if (!pool || !descriptors)
		return 0;
	bpf_spin_lock(&pool->lock);
	if (pool->free) {
		id = pool->free;
		pool->free = descriptor_of(descriptors, id)->next;
	} else if (pool->fresh < (pool->limit ?: MRC_QUEUE_FRAMES_MAX)) {
		id = ++pool->fresh;
	}
	if (id && ++pool->used > pool->used_peak)
		pool->used_peak = pool->used;
	bpf_spin_unlock(&pool->lock);
	return id;
}

static __always_inline void pool_return(__u32 id)
{
	__u32 zero = 0;
	struct mrc_queue_pool *pool = bpf_map_lookup_elem(&queue_pool, &zero);
	struct mrc_queue_descriptors *descriptors = bpf_map_lookup_elem(&queue_descriptors, &zero);

	if (!pool || !descriptors)
		return;
	bpf_spin_lock(&pool->lock);
	descriptor_of(descriptors, id)->next = pool->free;
	pool->free = id;
	pool->used--;
	bpf_spin_unlock(&pool->lock);
}

/*
 * Returns an id that names no frame, because queue_frames has fewer elements than there are
 * descriptors: the pool learns its size.
 */
static __always_inline void pool_reject(__u32 id)
{
	__u32 zero = 0;
	struct mrc_queue_pool *pool = bpf_map_lookup_elem(&queue_pool, &zero);

	if (!pool)
		return;
	bpf_spin_lock(&pool->lock);
	if (!pool->limit || pool->limit >= id)
		pool->limit = id - 1;
	if (pool->fresh > pool->limit)
		pool->fresh = pool->limit;
	if (pool->used_peak > pool->limit)
		pool->used_peak = pool->limit;
	pool->used--;
	bpf_spin_unlock(&pool->lock);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The helpers that BPF programs call, for one thread of user space. A helper that is missing here
 * fails the build: nothing declares it.
 */
#ifndef VIRTUAL_BPF_HELPERS_H
#define VIRTUAL_BPF_HELPERS_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>

#define barrier_var(variable) asm volatile("" : "+r"(variable))

#define SEC(name) __attribute__((section(name), used))
#undef __always_inline /* the C library has one without inline */
#define __always_inline inline __attribute__((always_inline))
#define __noinline	__attribute__((noinline))

#define __uint(name, value)  int(*name)[value]
#define __type(name, value)  typeof(value) *name
#define __array(name, value) typeof(value) *name[]

/*
 * A map is declared as a struct of pointers that exist for their types alone. The first two, which
 * every map has, hold where its elements are.
 */
struct virtual_map {
	__u8 *base;
	__u32 count;
	__u32 stride;
};

extern __u64 virtual_now_ns;

static __always_inline void *bpf_map_lookup_elem(const void *map, const void *key)
{
	const struct virtual_map *found = map;
	__u32 index = *(const __u32 *)key;

	return index < found->count ? found->base + (__u64)index * found->stride : (void *)0;
}

static __always_inline __u64 bpf_ktime_get_ns(void)
{
	return virtual_now_ns;
}

#define bpf_spin_lock(lock)	   ((void)(lock))
#define bpf_spin_unlock(lock)	   ((void)(lock))
#define bpf_get_smp_processor_id() 0U

#define bpf_loop(turns, callback, context, flags)                                                  \
	({                                                                                         \
		__u64 turn_ = 0;                                                                   \
		while (turn_ < (__u64)(turns) && !(callback)(turn_++, (context)))                  \
			;                                                                          \
		(long)turn_;                                                                       \
	})

#define bpf_for_each_map_elem(map, callback, context, flags)                                       \
	({                                                                                         \
		struct virtual_map *map_ = (void *)(map);                                          \
		__u32 key_ = 0, stops_ = 0;                                                        \
		for (; key_ < map_->count && !stops_; key_++)                                      \
			stops_ = (callback)((void *)(map), &key_,                                  \
					    (void *)(map_->base + (__u64)key_ * map_->stride),     \
					    (context));                                            \
		(long)key_;                                                                        \
	})

__u32 bpf_get_prandom_u32(void);

void *bpf_ringbuf_reserve(void *ring, __u64 bytes, __u64 flags);
void bpf_ringbuf_submit(void *record, __u64 flags);
void bpf_ringbuf_discard(void *record, __u64 flags);
long bpf_ringbuf_output(void *ring, void *data, __u64 bytes, __u64 flags);

long bpf_redirect_map(void *map, __u32 key, __u64 flags);

/* A tail call ends the caller: with the verdict of the program, if there is one in that place. */
int virtual_tail_call(struct xdp_md *ctx, const void *map, __u32 place, int *verdict);
#define bpf_tail_call_static(ctx, map, place)                                                      \
	do {                                                                                       \
		int verdict_;                                                                      \
		if (virtual_tail_call(ctx, map, place, &verdict_))                                 \
			return verdict_;                                                           \
	} while (0)

typedef int (*virtual_timer_callback)(void *map, __u32 *key, void *value);
long bpf_timer_init(struct bpf_timer *timer, void *map, __u64 flags);
long bpf_timer_start(struct bpf_timer *timer, __u64 delay_ns, __u64 flags);
long virtual_timer_set_callback(struct bpf_timer *timer, virtual_timer_callback callback);
#define bpf_timer_set_callback(timer, callback)                                                    \
	virtual_timer_set_callback(timer, (virtual_timer_callback)(void *)(callback))

enum {
	VIRTUAL_ETHERNET_BYTES = 14, /* what the kernel leaves of a frame at least */
};

static __always_inline long bpf_xdp_adjust_head(struct xdp_md *ctx, int delta)
{
	__u64 data = ctx->data + (__s64)delta;

	if (data < (__u64)ctx->begin || data + VIRTUAL_ETHERNET_BYTES > ctx->data_end)
		return -1;
	ctx->data = data;
	ctx->data_meta = data;
	return 0;
}

static __always_inline long bpf_xdp_adjust_tail(struct xdp_md *ctx, int delta)
{
	__u64 end = ctx->data_end + (__s64)delta;

	if (end > (__u64)ctx->end || end < ctx->data + VIRTUAL_ETHERNET_BYTES)
		return -1;
	ctx->data_end = end;
	return 0;
}

static __always_inline long bpf_xdp_adjust_meta(struct xdp_md *ctx, int delta)
{
	__u64 meta = ctx->data_meta + (__s64)delta;

	if (meta < (__u64)ctx->begin || meta > ctx->data)
		return -1;
	ctx->data_meta = meta;
	return 0;
}

static __always_inline __u64 bpf_xdp_get_buff_len(struct xdp_md *ctx)
{
	return ctx->data_end - ctx->data;
}

/* Where payload is by reference, NICs' memory and the pool of frames; else nothing: payload.c */
struct virtual_range {
	const __u8 *base;
	__u64 bytes;
};
extern struct virtual_range virtual_memory, virtual_pool;

void virtual_load_payload(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes);
void virtual_store_payload(struct xdp_md *ctx, __u32 offset, const void *from, __u32 bytes);
void virtual_load_frame(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes);
void virtual_store_frame(struct xdp_md *ctx, __u32 offset, const void *from, __u32 bytes);

static __always_inline int virtual_is_within(const struct virtual_range *range, const void *where)
{
	return (__u64)((const __u8 *)where - range->base) < range->bytes;
}

static __always_inline long bpf_xdp_load_bytes(struct xdp_md *ctx, __u32 offset, void *to,
					       __u32 bytes)
{
	if (ctx->data + offset + bytes > ctx->data_end)
		return -1;
	if (virtual_is_within(&virtual_memory, to))
		virtual_load_payload(ctx, offset, to, bytes);
	else if (virtual_is_within(&virtual_pool, to))
		virtual_load_frame(ctx, offset, to, bytes);
	else
		memcpy(to, (void *)(ctx->data + offset), bytes);
	return 0;
}

static __always_inline long bpf_xdp_store_bytes(struct xdp_md *ctx, __u32 offset, const void *from,
						__u32 bytes)
{
	if (ctx->data + offset + bytes > ctx->data_end)
		return -1;
	if (virtual_is_within(&virtual_memory, from))
		virtual_store_payload(ctx, offset, from, bytes);
	else if (virtual_is_within(&virtual_pool, from))
		virtual_store_frame(ctx, offset, from, bytes);
	else
		memcpy((void *)(ctx->data + offset), from, bytes);
	return 0;
}

#endif

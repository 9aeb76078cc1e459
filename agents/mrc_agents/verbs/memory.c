// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Memory regions. The pages of one that peers may write to are the NIC's (pages.c). One that they
 * may not write to stays as it is and costs nothing: what is sent from there is copied.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <mrc/nic_abi.h>
#include "verbs.h"

enum {
	BLOCK = 1024, /* regions */
	BLOCKS = 64,
	TURN_SHIFT = 16, /* of an L_Key: below is the place in the table */
};

/*
 * The regions of the process by L_Key. Posting looks them up without a lock: blocks are never
 * freed, and a program does not use a region while it ends it.
 */
static struct region **blocks[BLOCKS];
static uint32_t free_places[BLOCK * BLOCKS], free_count, place_count, turns;
pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

static struct region **place_of(uint32_t lkey)
{
	uint32_t place = lkey % (BLOCK * BLOCKS);
	struct region **block = __atomic_load_n(&blocks[place / BLOCK], __ATOMIC_ACQUIRE);

	return block ? &block[place % BLOCK] : NULL;
}

/* Enter a region into the table: it gets its L_Key; an errno value. */
static int enter(struct region *region)
{
	struct region **block;
	uint32_t place;
	int error = 0;

	pthread_mutex_lock(&registering);
	place = free_count ? free_places[--free_count] : place_count;
	if (place == BLOCK * BLOCKS) {
		error = ENOMEM;
	} else if (place == place_count) {
		block = blocks[place / BLOCK];
		if (!block)
			block = calloc(BLOCK, sizeof(*block));
		error = block ? 0 : ENOMEM;
		place_count += !error;
		__atomic_store_n(&blocks[place / BLOCK], block, __ATOMIC_RELEASE);
	}
	if (!error) {
		region->mr.lkey = ++turns << TURN_SHIFT | place;
		__atomic_store_n(place_of(place), region, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&registering);
	return error;
}

static void leave(struct region *region)
{
	pthread_mutex_lock(&registering);
	__atomic_store_n(place_of(region->mr.lkey), NULL, __ATOMIC_RELEASE);
	free_places[free_count++] = region->mr.lkey % (BLOCK * BLOCKS);
	pthread_mutex_unlock(&registering);
}

/*
 * Finds bytes of the program by their region; an errno value. *offset: where they lie in a row in
 * the NIC's memory, else NOT_THERE.
 */
int region_find(uint32_t lkey, uint64_t address, uint32_t length, uint32_t *offset)
{
	struct region **place = place_of(lkey);
	struct region *region = place ? __atomic_load_n(place, __ATOMIC_ACQUIRE) : NULL;
	uint64_t within;

	if (!region || region->mr.lkey != lkey)
		return EINVAL;
	within = address - (uintptr_t)region->mr.addr;
	if (within > region->mr.length || length > region->mr.length - within)
		return EINVAL;
	*offset = NOT_THERE;
	for (uint32_t i = 0; i < region->run_count; i++) {
		const struct run *run = &region->runs[i];

		if (run->start <= address && address + length <= run->start + run->bytes)
			*offset = run->offset + (address - run->start);
	}
	return 0;
}

/* Fills in the list of the pages that hold the region; an errno value. */
static int list_pages(struct device_context *device, struct region *region)
{
	uint32_t *number, count = 0;
	int error;

	for (uint32_t i = 0; i < region->run_count; i++)
		count += region->runs[i].bytes / PAGE_BYTES;
	error = own_allocate(&region->page_list, device->link, count * sizeof(*number));
	if (error)
		return error;
	number = (uint32_t *)region->page_list.bytes;
	for (uint32_t i = 0; i < region->run_count; i++)
		for (size_t at = 0; at < region->runs[i].bytes; at += PAGE_BYTES)
			*number++ = (region->runs[i].offset + at) / PAGE_BYTES;
	return 0;
}

/* Takes the region's pages, and a key for peers; an errno value. */
static int open_to_peers(struct device_context *device, struct region *region, uint32_t pd,
			 uintptr_t address, size_t length)
{
	uintptr_t start = address & -(uintptr_t)PAGE_BYTES;
	uintptr_t end = (address + length + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES;
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_REGISTER,
	    .address = address,
	    .length = length,
	    .page_list = MRC_NO_PAGE_LIST,
	    .pd = pd,
	    .is_writable = 1,
	};
	struct mrc_application_reply reply;
	int error = pages_take(device->link, start, end, &region->runs, &region->run_count);

	if (error)
		return error;
	request.offset = region->runs->offset + (address - start);
	if (region->run_count > 1) {
		error = list_pages(device, region);
		if (!error)
			request.page_list = region->page_list.offset;
	}
	if (!error)
		error = link_call(device->link, &request, &reply, NULL);
	if (!error)
		region->mr.rkey = reply.r_key;
	return error;
}

/* Frees what a region has but its key. */
static void end_region(struct region *region)
{
	own_free(&region->page_list);
	if (region->run_count)
		pages_let_go(device_of(region->mr.context)->link, region->runs, region->run_count);
	free(region->runs);
	free(region);
}

/* Checks that there is memory that can be read, which then is there; an errno value. */
static int check_readable(uintptr_t address, size_t length)
{
	uintptr_t start = address & -(uintptr_t)PAGE_BYTES;

	if (!syscall(SYS_madvise, start, address + length - start, MADV_POPULATE_READ))
		return 0;
	return errno == ENOMEM || errno == EFAULT ? EFAULT : 0;
}

static int check_access(void *address, size_t length, uint64_t iova, int access)
{
	const int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (!length || (uintptr_t)address + length < (uintptr_t)address ||
	    (access & remote && !(access & IBV_ACCESS_LOCAL_WRITE)))
		return EINVAL;
	if (iova != (uintptr_t)address ||
	    access & (IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND))
		return EOPNOTSUPP;
	return 0;
}

static struct ibv_mr *register_memory(struct ibv_pd *pd, void *address, size_t length,
				      uint64_t iova, int access)
{
	struct region *region = calloc(1, sizeof(*region));
	int error = region ? check_access(address, length, iova, access) : ENOMEM;

	if (error) {
		free(region);
		errno = error;
		return NULL;
	}
	region->mr.context = pd->context;
	region->mr.pd = pd;
	region->mr.addr = address;
	region->mr.length = length;
	if (access & IBV_ACCESS_REMOTE_WRITE)
		error = open_to_peers(device_of(pd->context), region, number_of(pd),
				      (uintptr_t)address, length);
	else
		error = check_readable((uintptr_t)address, length);
	if (!error)
		error = enter(region);
	if (error) {
		end_region(region);
		errno = error;
		return NULL;
	}
	return &region->mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return register_memory(pd, address, length, (uintptr_t)address, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length,
				      uint64_t iova, int access)
{
	return register_memory(pd, address, length, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length,
				       uint64_t iova, unsigned int access)
{
	return register_memory(pd, address, length, iova, access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct region *region = container_of(mr, struct region, mr);
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_DEREGISTER,
	    .r_key = mr->rkey,
	};
	struct mrc_application_reply reply;

	leave(region);
	/* Of an agent that is gone nothing is left to take back. */
	if (region->run_count && !device_of(mr->context)->link->is_dead)
		link_call(device_of(mr->context)->link, &request, &reply, NULL);
	end_region(region);
	return 0;
}

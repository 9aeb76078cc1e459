// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Memory regions. What a program registers becomes memory of the NIC where it lies: its pages are
 * copied there, and a mapping of the NIC's memory takes their place, so that the program sees what
 * arrives without a copy.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs.h"

static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;
static struct device_context *contexts;
static uint32_t stretches;

void region_begin(struct device_context *device)
{
	pthread_mutex_lock(&registering);
	device->next = contexts;
	contexts = device;
	pthread_mutex_unlock(&registering);
}

void region_end(struct device_context *device)
{
	struct device_context **link;

	pthread_mutex_lock(&registering);
	for (link = &contexts; *link != device;)
		link = &(*link)->next;
	*link = device->next;
	pthread_mutex_unlock(&registering);
}

/* True if the process has pages that are the NIC's; takes no lock. */
int region_has_stretches(void)
{
	return __atomic_load_n(&stretches, __ATOMIC_RELAXED) != 0;
}

/* True if a mapping is of work rings, whose offsets are in another map. */
static int is_of_rings(const struct mapping *mapping)
{
	struct device_context *each;

	for (each = contexts; each; each = each->next) {
		uintptr_t rings = (uintptr_t)each->rings;
		size_t bytes = each->ring_stride * each->link.hello.qp_count;

		if (rings <= mapping->start && mapping->start < rings + bytes)
			return 1;
	}
	return 0;
}

/* Bytes of [start, end) that show what the stretch has there: the program may have put other
 * memory in their place. */
static size_t bytes_in_place(const struct stretch *stretch, uintptr_t start, uintptr_t end)
{
	uintptr_t from = start;
	struct mapping mapping;
	size_t bytes = 0;

	while (from < end && mapping_next(from, &mapping) && mapping.start < end) {
		uintptr_t to = mapping.start + mapping.bytes;

		from = to < end ? to : end;
		if (mapping.offset == stretch->offset + (mapping.start - stretch->start) &&
		    !is_of_rings(&mapping))
			bytes += from - mapping.start;
	}
	return bytes;
}

/*
 * True if the pages can be replaced: all of them private and writable memory of the process, none
 * of them the stack that this function runs on. Returns an errno value.
 */
static int check_pages(uintptr_t start, uintptr_t end)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), from, to, covered = start;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], access[5];
	int error = 0;

	if (!maps)
		return errno;
	while (!error && covered < end && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, access) != 3)
			continue; /* the rest of a long line */
		if (to <= covered)
			continue;
		if (from > covered)
			break;
		if (access[3] != 'p') {
			complain("memory at %#" PRIxPTR " is shared with others: it cannot be "
				 "registered",
				 covered);
			error = EOPNOTSUPP;
		} else if (from <= here && here < to) {
			complain("memory at %#" PRIxPTR " is on the stack: it cannot be registered",
				 covered);
			error = EOPNOTSUPP;
		} else if (access[0] != 'r' || access[1] != 'w') {
			error = EFAULT;
		}
		covered = to;
	}
	fclose(maps);
	return error ? error : covered < end ? EFAULT : 0;
}

/*
 * Makes other threads that store into the pages wait until the descriptor is closed. -1 where the
 * kernel does not offer it: then what they store meanwhile may be lost.
 */
static int hold_writers(uintptr_t start, size_t bytes)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
	struct uffdio_register all = {
	    .range = {start, bytes},
	    .mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct uffdio_writeprotect protect = {
	    .range = {start, bytes},
	    .mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	int descriptor;

	/* A page that is not there yet would not be protected. */
	if (madvise((void *)start, bytes, MADV_POPULATE_WRITE))
		return -1;
	descriptor = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (descriptor < 0)
		return -1;
	if (ioctl(descriptor, UFFDIO_API, &api) || ioctl(descriptor, UFFDIO_REGISTER, &all) ||
	    ioctl(descriptor, UFFDIO_WRITEPROTECT, &protect)) {
		close(descriptor);
		return -1;
	}
	return descriptor;
}

/* Puts the pages at `there` in the place of those at `start`, with what these hold. */
static int replace_pages(uintptr_t start, void *there, size_t bytes)
{
	int held = hold_writers(start, bytes), error = 0;

	memcpy(there, (void *)start, bytes);
	if (mremap(there, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) ==
	    MAP_FAILED) {
		error = errno;
		munmap(there, bytes);
	}
	/* Before anything is written: this thread, too, would wait. */
	if (held >= 0)
		close(held);
	if (error)
		complain("memory at %#" PRIxPTR " cannot be replaced (%s): huge pages are "
			 "registered whole",
			 start, strerror(error));
	return error;
}

/* Replaces [start, start + bytes) by memory of the program's own, with what is there.
 */
static int restore_pages(uintptr_t start, size_t bytes, int protection)
{
	void *there = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int error = 0;

	if (there == MAP_FAILED)
		return errno;
	if (!(protection & PROT_READ) && mprotect((void *)start, bytes, PROT_READ))
		error = errno;
	if (!error) {
		memcpy(there, (void *)start, bytes);
		if (mprotect(there, bytes, protection) ||
		    mremap(there, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) ==
			MAP_FAILED)
			error = errno;
	}
	if (error)
		munmap(there, bytes);
	return error;
}

/*
 * The same for all pages of a stretch, wherever the program sees them now. What it has unmapped or
 * replaced is no longer the NIC's, and left alone.
 */
static int restore_stretch(const struct stretch *stretch)
{
	struct mapping mapping;
	uintptr_t next = 0;
	int error = 0;

	while (!error && mapping_next(next, &mapping)) {
		uint64_t from = mapping.offset, to = mapping.offset + mapping.bytes;

		next = mapping.start + mapping.bytes;
		if (from < stretch->offset)
			from = stretch->offset;
		if (to > stretch->offset + stretch->bytes)
			to = stretch->offset + stretch->bytes;
		if (from < to && !is_of_rings(&mapping))
			error = restore_pages(mapping.start + (from - mapping.offset), to - from,
					      mapping.protection);
	}
	return error;
}

static int allocate_pages(struct device_context *device, size_t bytes, uint32_t *offset)
{
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_ALLOCATE,
	    .length = bytes,
	    .offset = MRC_APPLICATION_ANYWHERE,
	};
	struct mrc_application_reply reply;
	int error = link_call(&device->link, &request, &reply, NULL);

	*offset = reply.offset;
	return error;
}

static void free_pages(struct device_context *device, uint32_t offset)
{
	struct mrc_application_request request = {.verb = MRC_APPLICATION_FREE, .offset = offset};
	struct mrc_application_reply reply;

	/* Of an agent that is gone nothing is left to take back. */
	link_call(&device->link, &request, &reply, NULL);
}

static int request_key(struct device_context *device, struct region *region, uint32_t pd,
		       uintptr_t address, size_t length, int access)
{
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_REGISTER,
	    .address = address,
	    .length = length,
	    .offset = region->offset,
	    .page_list = MRC_NO_PAGE_LIST,
	    .pd = pd,
	    .is_writable = !!(access & IBV_ACCESS_REMOTE_WRITE),
	};
	struct mrc_application_reply reply;
	int error = link_call(&device->link, &request, &reply, NULL);

	region->mr.lkey = region->mr.rkey = reply.r_key;
	return error;
}

static void give_back_key(struct device_context *device, uint32_t r_key)
{
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_DEREGISTER,
	    .r_key = r_key,
	};
	struct mrc_application_reply reply;

	link_call(&device->link, &request, &reply, NULL);
}

/* A region whose pages hold [start, end), or some of it: *is_inside says which. */
static struct region *find_neighbour(struct device_context *device, uintptr_t start, uintptr_t end,
				     int *is_inside)
{
	struct region *found = NULL;

	*is_inside = 0;
	for (int i = 0; i < MRC_REGION_MAX; i++) {
		struct region *region = device->regions[i];
		struct stretch *stretch = region ? region->stretch : NULL;
		uintptr_t from, to;
		size_t bytes;

		if (!stretch)
			continue;
		from = start > stretch->start ? start : stretch->start;
		to = stretch->start + stretch->bytes < end ? stretch->start + stretch->bytes : end;
		bytes = from < to ? bytes_in_place(stretch, from, to) : 0;
		if (!bytes)
			continue;
		found = region;
		*is_inside = bytes == end - start;
		if (*is_inside)
			break;
	}
	return found;
}

/* The NIC's pages in the place of those at [start, end); NULL with *error set. */
static struct stretch *make_stretch(struct device_context *device, uintptr_t start, uintptr_t end,
				    int *error)
{
	struct stretch *stretch = calloc(1, sizeof(*stretch));
	size_t bytes = end - start;
	void *there;

	*error = stretch ? check_pages(start, end) : ENOMEM;
	if (!*error)
		*error = allocate_pages(device, bytes, &stretch->offset);
	if (*error) {
		free(stretch);
		return NULL;
	}
	there = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, device->link.memory,
		     stretch->offset);
	*error = there == MAP_FAILED ? ENOMEM : replace_pages(start, there, bytes);
	if (*error) {
		free_pages(device, stretch->offset);
		free(stretch);
		return NULL;
	}
	stretch->start = start;
	stretch->bytes = bytes;
	__atomic_add_fetch(&stretches, 1, __ATOMIC_RELAXED);
	return stretch;
}

/* Puts memory of the program's own in the place of a stretch that has no regions. */
static int end_stretch(struct device_context *device, struct stretch *stretch)
{
	int error = restore_stretch(stretch);

	if (error)
		return error;
	free_pages(device, stretch->offset);
	__atomic_sub_fetch(&stretches, 1, __ATOMIC_RELAXED);
	free(stretch);
	return 0;
}

/* Registers, with the lock held; returns an errno value. */
static int register_locked(struct device_context *device, struct region *region, uint32_t pd,
			   uintptr_t address, size_t length, int access)
{
	uintptr_t start = address & -(uintptr_t)PAGE_BYTES;
	uintptr_t end = (address + length + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES;
	struct region *neighbour;
	int error = 0, is_inside;

	neighbour = find_neighbour(device, start, end, &is_inside);
	if (neighbour && !is_inside) {
		complain("memory at %#" PRIxPTR " shares some of its pages with a region: align "
			 "buffers to pages",
			 address);
		return ENOMEM;
	}
	region->stretch = neighbour ? neighbour->stretch : make_stretch(device, start, end, &error);
	if (error)
		return error;
	region->offset = region->stretch->offset + (address - region->stretch->start);
	error = request_key(device, region, pd, address, length, access);
	if (!error)
		region->stretch->users++;
	else if (!neighbour)
		end_stretch(device, region->stretch);
	return error;
}

static struct ibv_mr *register_memory(struct ibv_pd *pd, void *address, size_t length,
				      uint64_t iova, int access)
{
	struct device_context *device = device_of(pd->context);
	struct region *region;
	int error;

	if (!length || (uintptr_t)address + length < (uintptr_t)address ||
	    iova != (uintptr_t)address ||
	    access & (IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)) {
		errno = iova != (uintptr_t)address ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	pthread_mutex_lock(&registering);
	pthread_mutex_lock(&device->lock);
	error = register_locked(device, region, number_of(pd), (uintptr_t)address, length, access);
	if (!error)
		device->regions[region->mr.lkey % MRC_REGION_MAX] = region;
	pthread_mutex_unlock(&device->lock);
	pthread_mutex_unlock(&registering);
	if (error) {
		free(region);
		errno = error;
		return NULL;
	}
	region->mr.context = pd->context;
	region->mr.pd = pd;
	region->mr.addr = address;
	region->mr.length = length;
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
	struct device_context *device = device_of(mr->context);
	struct stretch *stretch = region->stretch;
	int error;

	pthread_mutex_lock(&registering);
	pthread_mutex_lock(&device->lock);
	/* First: what a peer wrote while the pages change would be lost. */
	give_back_key(device, mr->rkey);
	device->regions[mr->lkey % MRC_REGION_MAX] = NULL;
	error = --stretch->users ? 0 : end_stretch(device, stretch);
	free(region);
	pthread_mutex_unlock(&device->lock);
	pthread_mutex_unlock(&registering);
	return error;
}

/* NIC memory for the library's own use, mapped at *mapped; NULL with errno set. */
struct region *region_allocate(struct device_context *device, size_t bytes, char **mapped)
{
	size_t pages_bytes = (bytes + PAGE_BYTES - 1) & -(size_t)PAGE_BYTES;
	struct region *region = calloc(1, sizeof(*region));
	int error;

	if (!region)
		return NULL;
	error = allocate_pages(device, pages_bytes, &region->offset);
	if (!error) {
		*mapped = mmap(NULL, pages_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			       device->link.memory, region->offset);
		if (*mapped == MAP_FAILED) {
			error = errno;
			free_pages(device, region->offset);
		}
	}
	if (error) {
		free(region);
		errno = error;
		return NULL;
	}
	region->mr.context = &device->verbs.context;
	region->mr.length = pages_bytes;
	return region;
}

void region_free(struct region *region, char *mapped)
{
	munmap(mapped, region->mr.length);
	free_pages(device_of(region->mr.context), region->offset);
	free(region);
}

/*
 * Check that a region covers bytes of the program; an errno value. *offset: where they lie in a row
 * in the NIC's memory, else NOT_THERE.
 */
int region_find(struct device_context *device, uint32_t lkey, uint64_t address, uint32_t length,
		uint32_t *offset)
{
	struct region *region = device->regions[lkey % MRC_REGION_MAX];
	uint64_t within;

	if (!region || region->mr.lkey != lkey)
		return EINVAL;
	within = address - (uintptr_t)region->mr.addr;
	if (within > region->mr.length || length > region->mr.length - within)
		return EINVAL;
	*offset = region->offset + within;
	return 0;
}

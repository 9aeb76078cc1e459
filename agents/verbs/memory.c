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

static int request_region(struct device_context *device, uint32_t pd, uintptr_t address,
			  size_t length, int access, uint32_t shared_key,
			  struct mrc_application_reply *reply)
{
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_REGISTER,
	    .address = address,
	    .length = length,
	    .r_key = shared_key,
	    .pd = pd,
	    .is_writable = !!(access & IBV_ACCESS_REMOTE_WRITE),
	};

	return link_call(&device->link, &request, reply, NULL);
}

static void release(struct device_context *device, enum mrc_application_verb verb, uint32_t r_key)
{
	struct mrc_application_request request = {.verb = verb, .r_key = r_key};
	struct mrc_application_reply reply;

	/* Of an agent that is gone nothing is left to take back. */
	link_call(&device->link, &request, &reply, NULL);
}

static void give_back(struct device_context *device, uint32_t r_key)
{
	release(device, MRC_APPLICATION_DEREGISTER, r_key);
}

/* A region whose pages hold [start, end), or some of it: *is_inside says which. */
static struct region *find_neighbour(struct device_context *device, uintptr_t start, uintptr_t end,
				     int *is_inside)
{
	struct region *found = NULL;

	*is_inside = 0;
	for (int i = 0; i < REGIONS_MAX; i++) {
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

/* Registers, with the lock held; returns an errno value. */
static int register_locked(struct device_context *device, struct region *region, uint32_t pd,
			   uintptr_t address, size_t length, int access)
{
	uintptr_t start = address & -(uintptr_t)PAGE_BYTES;
	uintptr_t end = (address + length + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES;
	struct mrc_application_reply reply;
	struct region *neighbour;
	int error, is_inside;
	void *there;

	neighbour = find_neighbour(device, start, end, &is_inside);
	if (neighbour && !is_inside) {
		complain("memory at %#" PRIxPTR " shares some of its pages with a region: align "
			 "buffers to pages",
			 address);
		return ENOMEM;
	}
	error = neighbour ? 0 : check_pages(start, end);
	if (!error)
		error = request_region(device, pd, address, length, access,
				       neighbour ? neighbour->mr.rkey : 0, &reply);
	if (error)
		return error;
	if (neighbour) {
		region->stretch = neighbour->stretch;
	} else {
		region->stretch = calloc(1, sizeof(*region->stretch));
		there = region->stretch
			    ? mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_SHARED,
				   device->link.memory, reply.offset & -(uint32_t)PAGE_BYTES)
			    : MAP_FAILED;
		error = there == MAP_FAILED ? ENOMEM : replace_pages(start, there, end - start);
		if (error) {
			free(region->stretch);
			give_back(device, reply.r_key);
			return error;
		}
		region->stretch->start = start;
		region->stretch->bytes = end - start;
		region->stretch->offset = reply.offset & -(uint32_t)PAGE_BYTES;
		__atomic_add_fetch(&stretches, 1, __ATOMIC_RELAXED);
	}
	region->stretch->users++;
	region->offset = reply.offset;
	region->mr.lkey = region->mr.rkey = reply.r_key;
	return 0;
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
		device->regions[region->mr.lkey % REGIONS_MAX] = region;
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

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct region *region = container_of(mr, struct region, mr);
	struct device_context *device = device_of(mr->context);
	struct stretch *stretch = region->stretch;
	int error = 0;

	pthread_mutex_lock(&registering);
	pthread_mutex_lock(&device->lock);
	/* What a peer wrote while the pages change would be lost. */
	release(device, MRC_APPLICATION_REVOKE, mr->rkey);
	if (stretch->users == 1)
		error = restore_stretch(stretch);
	if (!error) {
		give_back(device, mr->rkey);
		device->regions[mr->lkey % REGIONS_MAX] = NULL;
		if (!--stretch->users) {
			__atomic_sub_fetch(&stretches, 1, __ATOMIC_RELAXED);
			free(stretch);
		}
		free(region);
	}
	pthread_mutex_unlock(&device->lock);
	pthread_mutex_unlock(&registering);
	return error;
}

/* NIC memory for the library's own use, mapped at *mapped; NULL with errno set. */
struct region *region_allocate(struct device_context *device, size_t bytes, char **mapped)
{
	size_t pages_bytes = (bytes + PAGE_BYTES - 1) & -(size_t)PAGE_BYTES;
	struct region *region = calloc(1, sizeof(*region));
	struct mrc_application_reply reply;
	int error;

	if (!region)
		return NULL;
	/* Nobody names it by its address. */
	error = request_region(device, 0, PAGE_BYTES, pages_bytes, 0, 0, &reply);
	if (!error) {
		*mapped = mmap(NULL, pages_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			       device->link.memory, reply.offset);
		if (*mapped == MAP_FAILED) {
			error = errno;
			give_back(device, reply.r_key);
		}
	}
	if (error) {
		free(region);
		errno = error;
		return NULL;
	}
	region->mr.context = &device->verbs.context;
	region->mr.length = pages_bytes;
	region->mr.rkey = reply.r_key;
	region->offset = reply.offset;
	return region;
}

void region_free(struct region *region, char *mapped)
{
	munmap(mapped, region->mr.length);
	give_back(device_of(region->mr.context), region->mr.rkey);
	free(region);
}

/*
 * Whether a region covers bytes of the program; an errno value. *offset: where they lie in a row in
 * the NIC's memory, else NOT_THERE.
 */
int region_find(struct device_context *device, uint32_t lkey, uint64_t address, uint32_t length,
		uint32_t *offset)
{
	struct region *region = device->regions[lkey % REGIONS_MAX];
	uint64_t within;

	if (!region || region->mr.lkey != lkey)
		return EINVAL;
	within = address - (uintptr_t)region->mr.addr;
	if (within > region->mr.length || length > region->mr.length - within)
		return EINVAL;
	*offset = region->offset + within;
	return 0;
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Replacing pages of the process by others while its threads go on. Nothing that a thread stores
 * may be lost, and a thread may not stand on what is being replaced.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs.h"

#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0)
#endif

enum { NEAR_BYTES = 1 << 16 }; /* of a frame */

/* ---- what can be replaced -------------------------------------------------------------------- */

/* True if a process has a mapping of the same shared memory. */
static int maps_it(const char *process, const struct vma *shared)
{
	char path[64];
	struct vmas vmas;
	struct vma vma;
	int is_there = 0;

	snprintf(path, sizeof(path), "/proc/%.32s/maps", process);
	vmas_open(&vmas, path, 0);
	vmas.is_shared_only = 1;
	while (!is_there && vmas_next(&vmas, &vma))
		is_there = vma.inode == shared->inode && vma.device == shared->device;
	vmas_close(&vmas);
	return is_there;
}

/* True if another process has a mapping of the same shared memory. */
static int is_mapped_elsewhere(const struct vma *shared)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	int is_there = 0;

	while (processes && !is_there && (entry = readdir(processes))) {
		long number = strtol(entry->d_name, NULL, 10);

		is_there = number > 0 && number != getpid() && maps_it(entry->d_name, shared);
	}
	if (processes)
		closedir(processes);
	return is_there;
}

/* Checks shared memory: the NIC's pages would be this process's alone; an errno value. */
static int check_shared(const struct vma *vma)
{
	const char *reason = NULL;

	if (!strstr(vma->name, "(deleted)"))
		reason = "is a file's";
	else if (is_mapped_elsewhere(vma))
		reason = "is mapped by another process too";
	if (!reason)
		return 0;
	complain("memory at %#" PRIxPTR " %s: it cannot be registered for peers to write to",
		 vma->start, reason);
	return EOPNOTSUPP;
}

/* Checks that pages may be replaced, and whether others may share them; an errno value. */
int pages_check(uintptr_t start, uintptr_t end, int *is_shared)
{
	uintptr_t covered = start;
	struct vmas vmas;
	struct vma vma;
	int error = 0;

	*is_shared = 0;
	vmas_open(&vmas, "/proc/self/maps", start);
	while (!error && covered < end && vmas_next(&vmas, &vma) && vma.start <= covered) {
		if ((vma.protection & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE)) {
			error = EFAULT;
		} else if (vma.is_shared) {
			error = check_shared(&vma);
			*is_shared = 1;
		}
		covered = vma.end;
	}
	vmas_close(&vmas);
	return error ? error : covered < end ? EFAULT : 0;
}

/* ---- replacing ------------------------------------------------------------------------------- */

/*
 * A descriptor that holds threads up. Without a privilege and /dev/userfaultfd it does not hold
 * those that are in the kernel: read(2) into the pages fails with EFAULT.
 */
static int open_holder(void)
{
	int descriptor = syscall(SYS_userfaultfd, O_CLOEXEC), device;

	if (descriptor >= 0)
		return descriptor;
	device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (device >= 0) {
		descriptor = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
		close(device);
	}
	return descriptor >= 0 ? descriptor
			       : syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
}

/*
 * Makes threads that store into the pages wait until the descriptor is closed. -1 where the kernel
 * does not offer it: then what they store meanwhile may be lost.
 */
static int hold_writers(uintptr_t start, size_t bytes)
{
	struct uffdio_api api = {
	    .api = UFFD_API,
	    .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
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
	if (syscall(SYS_madvise, start, bytes, MADV_POPULATE_WRITE))
		return -1;
	descriptor = open_holder();
	if (descriptor < 0)
		return -1;
	if (ioctl(descriptor, UFFDIO_API, &api) || ioctl(descriptor, UFFDIO_REGISTER, &all) ||
	    ioctl(descriptor, UFFDIO_WRITEPROTECT, &protect)) {
		close(descriptor);
		return -1;
	}
	return descriptor;
}

/* Work of one thread for another that waits, and would stand in its own way. */
struct job {
	int (*run)(struct job *job);
	uintptr_t start;
	void *there;
	size_t bytes;
	uint32_t offset; /* of what is there, in the NIC's memory */
	size_t done;	 /* bytes that have been replaced */
	int protection;
	int may_begin, is_done, error;
};

/*
 * Each chunk is a mapping of its own, and a call moves one. Who stores into what has been replaced
 * goes on; the others are held up until all is.
 */
static int replace(struct job *job)
{
	int held = hold_writers(job->start, job->bytes), error = 0;

	memcpy(job->there, (void *)job->start, job->bytes);
	while (!error && job->done < job->bytes) {
		size_t bytes = job->bytes - job->done;
		size_t left = MRC_MEMORY_CHUNK - (job->offset + job->done) % MRC_MEMORY_CHUNK;

		if (bytes > left)
			bytes = left;
		if (move_memory((char *)job->there + job->done, bytes,
				(void *)(job->start + job->done)))
			error = errno;
		else
			job->done += bytes;
	}
	/* Before anything is written: this thread, too, would wait. */
	if (held >= 0)
		close(held);
	return error;
}

static int restore(struct job *job)
{
	void *place = (void *)job->start;
	size_t bytes = job->bytes;

	if (!(job->protection & PROT_READ) && mprotect(place, bytes, PROT_READ))
		return errno;
	memcpy(job->there, place, bytes);
	if (mprotect(job->there, bytes, job->protection) || move_memory(job->there, bytes, place))
		return errno;
	job->done = bytes;
	return 0;
}

static void *run_job(void *argument)
{
	struct job *job = argument;

	while (!__atomic_load_n(&job->may_begin, __ATOMIC_ACQUIRE))
		;
	job->error = job->run(job);
	__atomic_store_n(&job->is_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Waits without touching the stack, between two stores to the job. */
static __attribute__((noinline)) void stand_still(struct job *job)
{
	__atomic_store_n(&job->may_begin, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&job->is_done, __ATOMIC_ACQUIRE))
		;
}

/* Has another thread do it while this one, whose stack it is, takes no signals. */
static int run_elsewhere(struct job *wanted)
{
	struct job *job = malloc(sizeof(*job));
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (!job)
		return ENOMEM;
	*job = *wanted;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, run_job, job);
	if (!error) {
		stand_still(job);
		pthread_join(thread, NULL);
		error = job->error;
		wanted->done = job->done;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(job);
	return error;
}

/* The pages of the calling thread's stack, or some around its frame. */
static void own_stack(uintptr_t *start, uintptr_t *end)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) & -(uintptr_t)PAGE_BYTES;
	pthread_attr_t attr;
	void *lowest;
	size_t size;

	*start = here - NEAR_BYTES;
	*end = here + NEAR_BYTES;
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	/* A coroutine's frame is elsewhere. */
	if (!pthread_attr_getstack(&attr, &lowest, &size) && here - (uintptr_t)lowest < size) {
		*start = (uintptr_t)lowest;
		*end = (uintptr_t)lowest + size;
	}
	pthread_attr_destroy(&attr);
}

static int is_own_stack(uintptr_t start, size_t bytes)
{
	uintptr_t stack, end;

	own_stack(&stack, &end);
	return start < end && stack < start + bytes;
}

static int carry_out(struct job *job)
{
	int error = is_own_stack(job->start, job->bytes) ? run_elsewhere(job) : job->run(job);

	/* Where it was moved from, another thread may have mapped something. */
	if (error)
		unmap_memory((char *)job->there + job->done, job->bytes - job->done);
	return error;
}

/*
 * Puts a mapping of the NIC's memory from `offset` on in the place of pages, with what they hold;
 * an errno value. *done: how many bytes have been replaced, all of them unless it fails.
 */
int pages_replace(uintptr_t start, void *there, size_t bytes, uint32_t offset, size_t *done)
{
	struct job job = {
	    .run = replace,
	    .start = start,
	    .there = there,
	    .bytes = bytes,
	    .offset = offset,
	};
	int error = carry_out(&job);

	*done = job.done;
	if (error)
		complain("memory at %#" PRIxPTR " cannot be replaced (%s): huge pages are "
			 "registered whole",
			 start, strerror(error));
	return error;
}

/*
 * Puts private memory in the place of pages of the NIC, with what they hold; an errno value. What
 * other threads store meanwhile is lost.
 */
int pages_restore(uintptr_t start, size_t bytes, int protection)
{
	struct job job = {.run = restore, .start = start, .bytes = bytes, .protection = protection};

	job.there = map_memory(NULL, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return job.there ? carry_out(&job) : errno;
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Where the NIC's memory is mapped in this process. The kernel's list of mappings is asked, since a
 * program may unmap, replace and move what it has registered: on hardware its pages are pinned, and
 * its addresses are its own.
 *
 * Nothing here allocates memory or takes a lock: allocators call madvise with locks of theirs held.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/*
 * Mappings of the library's own, by system calls: UCX puts functions of its own in the place of the
 * C library's, which call it back, and it deregisters memory then. Its mremap takes no place.
 */
void *map_memory(void *place, size_t bytes, int flags, int file, uint64_t offset)
{
	long memory = syscall(SYS_mmap, place, bytes, PROT_READ | PROT_WRITE, flags, file, offset);

	return memory == -1 ? NULL : (void *)memory;
}

void unmap_memory(void *memory, size_t bytes)
{
	syscall(SYS_munmap, memory, bytes);
}

/* Moves a mapping to a place, over what is there; -1 with errno set. */
int move_memory(void *memory, size_t bytes, void *place)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;

	return syscall(SYS_mremap, memory, bytes, bytes, flags, place) == -1 ? -1 : 0;
}

/* Part of linux/fs.h since 6.11, for the headers of older kernels. */
struct procmap_query {
	uint64_t size, flags, address;
	uint64_t start, end, vma_flags, page_bytes, offset, inode;
	uint32_t major, minor, name_bytes, build_id_bytes;
	uint64_t name, build_id;
};

#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)
enum {
	PROCMAP_READABLE = 0x1,
	PROCMAP_WRITABLE = 0x2,
	PROCMAP_EXECUTABLE = 0x4,
	PROCMAP_SHARED = 0x8,
	PROCMAP_COVERING_OR_NEXT = 0x10,
	PROCMAP_FILE_BACKED = 0x20,
};

/* Opens a list /proc/PID/maps, from the mapping on that ends behind `from`. */
void vmas_open(struct vmas *vmas, const char *path, uintptr_t from)
{
	vmas->file = open(path, O_RDONLY | O_CLOEXEC);
	vmas->used = vmas->at = vmas->is_text = vmas->is_shared_only = 0;
	vmas->from = from;
}

void vmas_close(const struct vmas *vmas)
{
	if (vmas->file >= 0)
		close(vmas->file);
}

/* The next one by a query of the kernel; 0: there is none; -1: it takes no queries. */
static int query_next(struct vmas *vmas, struct vma *found)
{
	struct procmap_query query = {
	    .size = sizeof(query),
	    .flags = PROCMAP_COVERING_OR_NEXT |
		     (vmas->is_shared_only ? PROCMAP_SHARED | PROCMAP_FILE_BACKED : 0),
	    .address = vmas->from,
	    .name_bytes = sizeof(found->name),
	    .name = (uintptr_t)found->name,
	};

	if (ioctl(vmas->file, PROCMAP_QUERY, &query))
		return errno == ENOENT ? 0 : -1;
	if (!query.name_bytes)
		found->name[0] = 0;
	found->start = query.start;
	found->end = query.end;
	found->offset = query.offset;
	found->inode = query.inode;
	found->device = (uint64_t)query.major << 32 | query.minor;
	found->is_shared = !!(query.vma_flags & PROCMAP_SHARED);
	found->protection = (query.vma_flags & PROCMAP_READABLE ? PROT_READ : 0) |
			    (query.vma_flags & PROCMAP_WRITABLE ? PROT_WRITE : 0) |
			    (query.vma_flags & PROCMAP_EXECUTABLE ? PROT_EXEC : 0);
	return 1;
}

/* The next line, without what is beyond `bytes` of it; 0 at the end. */
static int next_line(struct vmas *vmas, char *line, size_t bytes)
{
	size_t length = 0;

	for (;;) {
		if (vmas->at == vmas->used) {
			ssize_t count = read(vmas->file, vmas->bytes, sizeof(vmas->bytes));

			if (count <= 0)
				return 0;
			vmas->at = 0;
			vmas->used = count;
		}
		if (vmas->bytes[vmas->at] == '\n')
			break;
		if (length < bytes - 1)
			line[length++] = vmas->bytes[vmas->at];
		vmas->at++;
	}
	vmas->at++;
	line[length] = 0;
	return 1;
}

/* START-END rwxp OFFSET MAJOR:MINOR INODE NAME */
static void parse_line(const char *line, struct vma *found)
{
	char *rest;

	found->start = strtoull(line, &rest, 16);
	found->end = strtoull(rest + 1, &rest, 16);
	found->protection = (rest[1] == 'r' ? PROT_READ : 0) | (rest[2] == 'w' ? PROT_WRITE : 0) |
			    (rest[3] == 'x' ? PROT_EXEC : 0);
	found->is_shared = rest[4] == 's';
	found->offset = strtoull(rest + 5, &rest, 16);
	found->device = strtoull(rest, &rest, 16) << 32;
	found->device |= strtoull(rest + 1, &rest, 16);
	found->inode = strtoull(rest, &rest, 10);
	rest += strspn(rest, " ");
	strncpy(found->name, rest, sizeof(found->name) - 1);
	found->name[sizeof(found->name) - 1] = 0;
}

/* The next mapping in the order of addresses; 0: there is none. */
int vmas_next(struct vmas *vmas, struct vma *found)
{
	char line[LINE_MAX_BYTES];
	int result = vmas->is_text ? -1 : query_next(vmas, found);

	while (result < 0) {
		vmas->is_text = 1;
		if (vmas->file < 0 || !next_line(vmas, line, sizeof(line)))
			return 0;
		parse_line(line, found);
		if (found->end > vmas->from && (found->is_shared || !vmas->is_shared_only))
			result = 1;
	}
	vmas->from = found->end;
	return result;
}

/* The next mapping of BPF memory, without what is before `from`; 0: there is none. */
int mappings_next(struct vmas *vmas, uintptr_t from, struct mapping *found)
{
	struct vma vma;

	vmas->is_shared_only = 1;
	do
		if (!vmas_next(vmas, &vma))
			return 0;
	while (!strstr(vma.name, "bpf-map"));
	found->start = vma.start > from ? vma.start : from;
	found->bytes = vma.end - found->start;
	found->offset = vma.offset + (found->start - vma.start);
	found->protection = vma.protection;
	return 1;
}

/* The first mapping of BPF memory that ends behind `from`, without what is before it; 0: none. */
int mapping_next(uintptr_t from, struct mapping *found)
{
	struct vmas vmas;
	int is_found;

	vmas_open(&vmas, "/proc/self/maps", from);
	is_found = mappings_next(&vmas, from, found);
	vmas_close(&vmas);
	return is_found;
}

static int advise(uintptr_t start, uintptr_t end, int advice)
{
	return start < end ? syscall(SYS_madvise, start, end - start, advice) : 0;
}

/* Makes a program's pages zero that are the NIC's: the kernel would take them away for good. */
static void clear(const struct mapping *mapping, size_t bytes)
{
	int is_writable = mapping->protection & PROT_WRITE;

	if (!is_writable && mprotect((void *)mapping->start, bytes, PROT_READ | PROT_WRITE))
		return;
	memset((void *)mapping->start, 0, bytes);
	if (!is_writable)
		mprotect((void *)mapping->start, bytes, mapping->protection);
}

/*
 * In the place of the C library's: memory that a program has registered, and that its allocator
 * then gives up, reads zeros. MADV_FREE may leave what is there, and does.
 */
EXPORT int madvise(void *address, size_t length, int advice)
{
	uintptr_t from = (uintptr_t)address;
	uintptr_t end = from + ((length + PAGE_BYTES - 1) & -(size_t)PAGE_BYTES);
	int is_zeroing = advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED, error = 0;
	struct mapping mapping;

	if ((!is_zeroing && advice != MADV_FREE) || !pages_are_there())
		return syscall(SYS_madvise, address, length, advice);
	while (from < end && mapping_next(from, &mapping) && mapping.start < end) {
		if (advise(from, mapping.start, advice))
			error = errno;
		from = mapping.start + mapping.bytes < end ? mapping.start + mapping.bytes : end;
		if (is_zeroing)
			clear(&mapping, from - mapping.start);
	}
	if (advise(from, end, advice))
		error = errno;
	errno = error ? error : errno;
	return error ? -1 : 0;
}

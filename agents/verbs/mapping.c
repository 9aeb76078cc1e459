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
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

enum { LINE_MAX_BYTES = 256 };

/* A reader of /proc/self/maps, line by line. */
struct maps {
	int file;
	size_t used, at;
	char bytes[2048];
};

/* The next line, without what is beyond `bytes` of it; 0 at the end. */
static int next_line(struct maps *maps, char *line, size_t bytes)
{
	size_t length = 0;

	for (;;) {
		if (maps->at == maps->used) {
			ssize_t count = read(maps->file, maps->bytes, sizeof(maps->bytes));

			if (count <= 0)
				return 0;
			maps->at = 0;
			maps->used = count;
		}
		if (maps->bytes[maps->at] == '\n')
			break;
		if (length < bytes - 1)
			line[length++] = maps->bytes[maps->at];
		maps->at++;
	}
	maps->at++;
	line[length] = 0;
	return 1;
}

/* A mapping of BPF memory from a line of the list; 0: the line is of another. */
static int parse_line(const char *line, struct mapping *found)
{
	char *rest;

	if (!strstr(line, "bpf-map"))
		return 0;
	found->start = strtoull(line, &rest, 16);
	found->bytes = strtoull(rest + 1, &rest, 16) - found->start;
	found->protection = (rest[1] == 'r' ? PROT_READ : 0) | (rest[2] == 'w' ? PROT_WRITE : 0) |
			    (rest[3] == 'x' ? PROT_EXEC : 0);
	found->offset = strtoull(rest + 5, NULL, 16);
	return 1;
}

/* The first mapping of BPF memory that ends behind `from`, without what is before it; 0: none. */
int mapping_next(uintptr_t from, struct mapping *found)
{
	struct maps maps = {.file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
	char line[LINE_MAX_BYTES];
	int is_found = 0;

	if (maps.file < 0)
		return 0;
	while (!is_found && next_line(&maps, line, sizeof(line)))
		is_found = parse_line(line, found) && found->start + found->bytes > from;
	close(maps.file);
	if (is_found && found->start < from) {
		found->offset += from - found->start;
		found->bytes -= from - found->start;
		found->start = from;
	}
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

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Pages of the process that are memory of the NIC. What a program registers for peers to write to
 * becomes such where it lies: its pages are copied there, and a mapping of the NIC's memory takes
 * their place, so that the program sees what arrives without a copy.
 *
 * When the last region over them ends, a program without threads gets them back. With threads they
 * stay the NIC's until the program has unmapped them, for what a thread stores into them meanwhile
 * would be lost. The kernel's list of mappings says which pages are still the NIC's: what the
 * program has put in their place is its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <unistd.h>
#include "verbs.h"

/* Pages in a row that became the NIC's at once. */
struct stretch {
	struct stretch *next;
	struct agent_link *link;
	uintptr_t start;
	size_t bytes;
	uint32_t offset; /* in the NIC's memory */
	uint32_t users;	 /* regions over it */
	int was_shared;	 /* children of fork() share it */
	int is_mapped;
};

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static struct stretch *stretches; /* the newest first */

/* True if some pages of the process may be the NIC's; takes no lock. */
int pages_are_there(void)
{
	return __atomic_load_n(&stretches, __ATOMIC_RELAXED) != NULL;
}

int pages_allocate(struct agent_link *link, size_t bytes, uint32_t wanted, uint32_t *offset)
{
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_ALLOCATE,
	    .length = bytes,
	    .offset = wanted,
	};
	struct mrc_application_reply reply;
	int error = link_call(link, &request, &reply, NULL);

	*offset = reply.offset;
	return error;
}

void pages_free(struct agent_link *link, uint32_t offset)
{
	struct mrc_application_request request = {.verb = MRC_APPLICATION_FREE, .offset = offset};
	struct mrc_application_reply reply;

	/* Of an agent that is gone nothing is left to take back. */
	if (!link->is_dead)
		link_call(link, &request, &reply, NULL);
}

/* Maps memory of the NIC; NULL with errno set. */
void *pages_map(struct agent_link *link, size_t bytes, uint32_t offset)
{
	return map_memory(bytes, MAP_SHARED, link->memory, offset);
}

static int shows(const struct mapping *mapping, const struct stretch *stretch)
{
	return mapping->offset < (uint64_t)stretch->offset + stretch->bytes &&
	       stretch->offset < mapping->offset + mapping->bytes;
}

/* The stretch that the first page of a mapping is of; NULL: it is of something else. */
static struct stretch *stretch_of(const struct mapping *mapping)
{
	struct mapping page = {mapping->start, PAGE_BYTES, mapping->offset, 0};
	struct stretch *stretch = stretches;

	while (stretch && !shows(&page, stretch))
		stretch = stretch->next;
	return stretch && !link_has_ring_at(mapping->start) ? stretch : NULL;
}

/* Sees which stretches the program still has pages of; 0: none without a region are left. */
static int find_mapped(void)
{
	struct stretch *each;
	struct mapping mapping;
	struct vmas vmas;
	int has_idle = 0;

	for (each = stretches; each; each = each->next) {
		has_idle |= !each->users;
		each->is_mapped = 0;
	}
	if (!has_idle)
		return 0;
	vmas_open(&vmas, "/proc/self/maps", 0);
	while (mappings_next(&vmas, 0, &mapping))
		for (each = stretches; each; each = each->next)
			each->is_mapped |=
			    shows(&mapping, each) && !link_has_ring_at(mapping.start);
	vmas_close(&vmas);
	return 1;
}

/* Puts private memory where the program sees pages of a stretch; an errno value. */
static int restore_stretch(const struct stretch *stretch)
{
	struct mapping mapping;
	uintptr_t at = 0;
	int error = 0;

	while (!error && mapping_next(at, &mapping)) {
		uint64_t from = mapping.offset, to = mapping.offset + mapping.bytes;

		at = mapping.start + mapping.bytes;
		if (!shows(&mapping, stretch) || link_has_ring_at(mapping.start))
			continue;
		if (from < stretch->offset)
			from = stretch->offset;
		if (to > (uint64_t)stretch->offset + stretch->bytes)
			to = (uint64_t)stretch->offset + stretch->bytes;
		error = pages_restore(mapping.start + (from - mapping.offset), to - from,
				      mapping.protection);
	}
	return error;
}

/* Ends stretches that have no region, as far as the program has or gets its pages back. */
static void sweep(void)
{
	struct stretch *each, **link = &stretches;

	if (!find_mapped())
		return;
	while ((each = *link)) {
		if (each->users || each->was_shared ||
		    (each->is_mapped && (!__libc_single_threaded || restore_stretch(each)))) {
			link = &each->next;
			continue;
		}
		*link = each->next;
		pages_free(each->link, each->offset);
		link_put(each->link);
		free(each);
	}
}

static void watch_process(void);

/* Makes pages the NIC's, those at `wanted` of its memory if they are free; an errno value. */
static int make_stretch(struct agent_link *link, uintptr_t start, uintptr_t end, uint32_t wanted,
			struct stretch **made)
{
	struct stretch *stretch = calloc(1, sizeof(*stretch));
	void *there = NULL;
	int error;

	if (!stretch)
		return ENOMEM;
	*stretch = (struct stretch){.link = link, .start = start, .bytes = end - start};
	error = pages_check(start, end, &stretch->was_shared);
	if (!error)
		error = pages_allocate(link, stretch->bytes, wanted, &stretch->offset);
	if (error) {
		free(stretch);
		return error;
	}
	there = pages_map(link, stretch->bytes, stretch->offset);
	error = there ? pages_replace(start, there, stretch->bytes) : errno;
	if (error) {
		pages_free(link, stretch->offset);
		free(stretch);
		return error;
	}
	watch_process();
	link_keep(link);
	stretch->next = stretches;
	__atomic_store_n(&stretches, stretch, __ATOMIC_RELAXED);
	*made = stretch;
	return 0;
}

static int lie_over(const struct run *runs, uint32_t count, const struct stretch *stretch)
{
	for (uint32_t i = 0; i < count; i++)
		if (runs[i].offset < stretch->offset + stretch->bytes &&
		    stretch->offset < runs[i].offset + runs[i].bytes)
			return 1;
	return 0;
}

static void let_go(const struct agent_link *link, const struct run *runs, uint32_t count)
{
	for (struct stretch *each = stretches; each; each = each->next)
		if (each->link == link && lie_over(runs, count, each))
			each->users--;
}

/* Takes the next pages of [at, end): those of a stretch that are in place, or a new one. */
static int take_run(struct agent_link *link, uintptr_t at, uintptr_t end, const struct run *last,
		    struct run *run, struct stretch **stretch)
{
	uint32_t wanted = last ? last->offset + last->bytes : MRC_APPLICATION_ANYWHERE;
	struct mapping mapping;
	int is_there = mapping_next(at, &mapping), error = 0;
	size_t left;

	*run = (struct run){.start = at, .bytes = end - at};
	if (is_there && mapping.start == at) {
		*stretch = stretch_of(&mapping);
		if (!*stretch || (*stretch)->link != link)
			return EOPNOTSUPP;
		left = (*stretch)->offset + (*stretch)->bytes - mapping.offset;
		run->offset = mapping.offset;
		if (mapping.bytes < run->bytes)
			run->bytes = mapping.bytes;
		if (left < run->bytes)
			run->bytes = left;
		return 0;
	}
	if (is_there && mapping.start < end)
		run->bytes = mapping.start - at;
	error = make_stretch(link, at, at + run->bytes, wanted, stretch);
	if (!error)
		run->offset = (*stretch)->offset;
	return error;
}

/* Appends a run, or makes the last one longer. */
static int append(struct run **runs, uint32_t *count, const struct run *run)
{
	struct run *last = *count ? &(*runs)[*count - 1] : NULL, *more;

	if (last && last->offset + last->bytes == run->offset) {
		last->bytes += run->bytes;
		return 0;
	}
	more = realloc(*runs, (*count + 1) * sizeof(**runs));
	if (!more)
		return ENOMEM;
	*runs = more;
	more[(*count)++] = *run;
	return 0;
}

/*
 * Makes all pages of [start, end) the NIC's that are not yet, until they are let go. *runs says
 * where they are; the caller frees it. An errno value.
 */
int pages_take(struct agent_link *link, uintptr_t start, uintptr_t end, struct run **runs,
	       uint32_t *count)
{
	int error = 0;

	*runs = NULL;
	*count = 0;
	pthread_mutex_lock(&changing);
	sweep();
	for (uintptr_t at = start; at < end && !error;) {
		const struct run *last = *count ? &(*runs)[*count - 1] : NULL;
		struct stretch *stretch;
		struct run run;
		int is_held;

		error = take_run(link, at, end, last, &run, &stretch);
		if (error)
			break;
		is_held = lie_over(*runs, *count, stretch);
		error = append(runs, count, &run);
		if (!error && !is_held)
			stretch->users++;
		at += run.bytes;
	}
	if (error) {
		let_go(link, *runs, *count);
		free(*runs);
		*runs = NULL;
		*count = 0;
	}
	pthread_mutex_unlock(&changing);
	return error;
}

void pages_let_go(const struct agent_link *link, const struct run *runs, uint32_t count)
{
	pthread_mutex_lock(&changing);
	let_go(link, runs, count);
	if (__libc_single_threaded)
		sweep();
	pthread_mutex_unlock(&changing);
}

/* ---- fork -------------------------------------------------------------------------------------
 * Mappings of the NIC's memory are shared with children of fork(), and a program does not know that
 * it has any. A child gets private copies, and its parent waits for that.
 */

static int until_copied[2];

/* Puts private memory in the place of pages of stretches that the process sees in [at, end). */
static void take_back(uintptr_t at, uintptr_t end)
{
	struct mapping mapping;

	while (at < end && mapping_next(at, &mapping) && mapping.start < end) {
		struct stretch *stretch = stretch_of(&mapping);
		size_t bytes =
		    mapping.bytes < end - mapping.start ? mapping.bytes : end - mapping.start;

		if (stretch && stretch->offset + stretch->bytes - mapping.offset < bytes)
			bytes = stretch->offset + stretch->bytes - mapping.offset;
		if (stretch && !stretch->was_shared)
			pages_restore(mapping.start, bytes, mapping.protection);
		at = mapping.start + bytes;
	}
}

static void before_fork(void)
{
	uintptr_t start, end;

	pthread_mutex_lock(&changing);
	until_copied[0] = until_copied[1] = -1;
	if (stretches) {
		pages_own_stack(&start, &end); /* on which two processes cannot stand */
		take_back(start, end);
		if (pipe(until_copied))
			until_copied[0] = until_copied[1] = -1;
	}
	links_lock();
}

static void in_parent(void)
{
	char byte;

	links_unlock();
	if (until_copied[0] >= 0) {
		close(until_copied[1]);
		while (read(until_copied[0], &byte, 1) < 0 && errno == EINTR)
			;
		close(until_copied[0]);
	}
	pthread_mutex_unlock(&changing);
}

static void in_child(void)
{
	links_unlock();
	if (stretches)
		take_back(0, UINTPTR_MAX);
	stretches = NULL;
	link_leave_all();
	if (until_copied[0] >= 0) {
		close(until_copied[0]);
		close(until_copied[1]);
	}
	pthread_mutex_unlock(&changing);
}

static void watch_process(void)
{
	static int is_watching;

	if (is_watching)
		return;
	is_watching = !pthread_atfork(before_fork, in_parent, in_child);
	/* The C library would shrink the heaps of threads by a madvise of its own. */
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

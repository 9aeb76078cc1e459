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
#include <sys/syscall.h>
#include <unistd.h>
#include "stretch.h"

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

/* Maps memory of the NIC, a mapping for each chunk; NULL with errno set. */
void *pages_map(struct agent_link *link, size_t bytes, uint32_t offset)
{
	char *there = map_memory(NULL, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int error = 0;

	if (!there)
		return NULL;
	for (size_t at = 0, piece; at < bytes && !error; at += piece) {
		piece = MRC_MEMORY_CHUNK - (offset + at) % MRC_MEMORY_CHUNK;
		if (piece > bytes - at)
			piece = bytes - at;
		error = link_map_chunk(link, offset + at, piece, there + at);
	}
	if (!error)
		return there;
	unmap_memory(there, bytes);
	errno = error;
	return NULL;
}

/* Ends stretches that have no region, as far as the program has or gets its pages back. */
static void sweep(void)
{
	struct stretch *each, **link;
	struct mapping mapping;
	struct vmas vmas;
	struct piece piece;
	uintptr_t at = 0;
	int has_idle = 0;

	for (each = stretches; each; each = each->next) {
		has_idle |= !each->users;
		each->is_mapped = 0;
	}
	if (!has_idle)
		return;
	if (__libc_single_threaded)
		while (piece_next(&at, &piece))
			if (piece.stretch && !piece.stretch->users)
				pages_restore(piece.start, piece.bytes, piece.protection);
	vmas_open(&vmas, "/proc/self/maps", 0);
	while (mappings_next(&vmas, 0, &mapping))
		note_mapped(mapping);
	vmas_close(&vmas);
	for (link = &stretches; (each = *link);) {
		if (each->users || each->is_mapped) {
			link = &each->next;
			continue;
		}
		*link = each->next;
		pages_free(each->link, each->offset);
		link_put(each->link);
		free(each);
	}
}

/* Makes pages the NIC's, those at `wanted` of its memory if they are free; an errno value. */
static int make_stretch(struct agent_link *link, uintptr_t start, uintptr_t end, uint32_t wanted,
			struct stretch **made)
{
	struct stretch *stretch = calloc(1, sizeof(*stretch));
	static int is_kept;
	void *there = NULL;
	size_t done = 0;
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
	if (!there ||
	    (!stretch->was_shared && syscall(SYS_madvise, there, stretch->bytes, MADV_DONTFORK)))
		error = errno;
	else
		error = pages_replace(start, there, stretch->bytes, stretch->offset, &done);
	/* What has been replaced all the same is the program's memory from now on. */
	if (error && !done) {
		pages_free(link, stretch->offset);
		free(stretch);
		return error;
	}
	/* The C library would shrink the heaps of threads by a madvise of its own. */
	if (!is_kept)
		is_kept = mallopt(M_TRIM_THRESHOLD, INT_MAX);
	link_keep(link);
	stretch->next = stretches;
	__atomic_store_n(&stretches, stretch, __ATOMIC_RELAXED);
	*made = stretch;
	return error;
}

static int is_over(const struct run *runs, uint32_t count, const struct stretch *stretch)
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
		if (each->link == link && is_over(runs, count, each))
			each->users--;
}

/* Takes the next pages of [at, end): those of a stretch that are in place, or a new one. */
static int take_run(struct agent_link *link, uintptr_t at, uintptr_t end, const struct run *last,
		    struct run *run, struct stretch **stretch)
{
	uint32_t wanted = last ? last->offset + last->bytes : MRC_APPLICATION_ANYWHERE;
	struct mapping mapping;
	int is_there = mapping_next(at, &mapping), error = 0;

	*run = (struct run){.start = at, .bytes = end - at};
	if (is_there && mapping.start == at) {
		struct finding found = stretch_of(&mapping);

		if (found.candidates != 1 || found.stretch->link != link)
			return EOPNOTSUPP;
		*stretch = found.stretch;
		run->offset = found.offset;
		if (found.bytes < run->bytes)
			run->bytes = found.bytes;
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
	pthread_mutex_lock(&pages_changing);
	sweep();
	for (uintptr_t at = start; at < end && !error;) {
		const struct run *last = *count ? &(*runs)[*count - 1] : NULL;
		struct stretch *stretch;
		struct run run;
		int is_held;

		error = take_run(link, at, end, last, &run, &stretch);
		if (error)
			break;
		is_held = is_over(*runs, *count, stretch);
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
	pthread_mutex_unlock(&pages_changing);
	return error;
}

void pages_let_go(const struct agent_link *link, const struct run *runs, uint32_t count)
{
	pthread_mutex_lock(&pages_changing);
	let_go(link, runs, count);
	if (__libc_single_threaded)
		sweep();
	pthread_mutex_unlock(&pages_changing);
}

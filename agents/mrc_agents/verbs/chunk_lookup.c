// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Finding the stretch that a mapping shows. The kernel names a mapping's place within a chunk of
 * the NIC's memory, but not the chunk. So it is of the stretch put at its address, if their places
 * agree; one that the program has moved, of the only page of all stretches that agrees.
 */
#include "stretch.h"

pthread_mutex_t pages_changing = PTHREAD_MUTEX_INITIALIZER;
struct stretch *stretches;

/* True if the stretch was put where the mapping is, at the same place in a chunk. */
static int is_in_place(const struct mapping *mapping, const struct stretch *stretch)
{
	uint64_t at = stretch->offset + (mapping->start - stretch->start);

	return mapping->start < stretch->start + stretch->bytes &&
	       stretch->start < mapping->start + mapping->bytes &&
	       (at - mapping->offset) % MRC_MEMORY_CHUNK == 0;
}

/* Number of pages of a stretch that the first page of a mapping can be; *offset: the first one. */
static uint32_t fitting(const struct mapping *mapping, const struct stretch *stretch,
			uint32_t *offset)
{
	uint64_t end = (uint64_t)stretch->offset + stretch->bytes;
	uint64_t at = stretch->offset - stretch->offset % MRC_MEMORY_CHUNK + mapping->offset;
	uint32_t count = 0;

	if (mapping->offset >= MRC_MEMORY_CHUNK)
		return 0;
	if (at < stretch->offset)
		at += MRC_MEMORY_CHUNK;
	*offset = at;
	for (; at < end; at += MRC_MEMORY_CHUNK)
		count++;
	return count;
}

struct finding stretch_of(const struct mapping *mapping)
{
	struct mapping page = {mapping->start, PAGE_BYTES, mapping->offset, 0};
	struct finding found = {0};
	uint64_t end;

	if (own_bytes(mapping))
		return found;
	for (struct stretch *each = stretches; each; each = each->next) {
		uint32_t offset, count;

		if (is_in_place(&page, each)) {
			found.stretch = each;
			found.offset = each->offset + (page.start - each->start);
			found.candidates = 1;
			break;
		}
		count = fitting(&page, each, &offset);
		if (count && !found.candidates) {
			found.stretch = each;
			found.offset = offset;
		}
		found.candidates += count;
	}
	if (!found.candidates)
		return found;
	end = (uint64_t)found.stretch->offset + found.stretch->bytes;
	found.bytes = found.candidates > 1 ? PAGE_BYTES : end - found.offset;
	if (found.bytes > mapping->bytes)
		found.bytes = mapping->bytes;
	return found;
}

/* Notes of which stretches a mapping may show pages. */
void note_mapped(struct mapping mapping)
{
	struct stretch *each;
	uint32_t offset;

	for (each = stretches; each; each = each->next)
		each->is_mapped |= is_in_place(&mapping, each);
	while (mapping.bytes) {
		struct finding found = stretch_of(&mapping);
		size_t bytes = own_bytes(&mapping);

		if (!bytes)
			bytes = found.candidates ? found.bytes : PAGE_BYTES;
		if (found.stretch && !is_in_place(&mapping, found.stretch)) {
			bytes = PAGE_BYTES;
			for (each = stretches; each; each = each->next)
				each->is_mapped |= fitting(&mapping, each, &offset) > 0;
		}
		if (bytes > mapping.bytes)
			bytes = mapping.bytes;
		mapping.start += bytes;
		mapping.offset += bytes;
		mapping.bytes -= bytes;
	}
}

/* The next piece from *at on, which becomes its end; 0: there is none. */
int piece_next(uintptr_t *at, struct piece *piece)
{
	struct mapping mapping;

	while (mapping_next(*at, &mapping)) {
		struct finding found = stretch_of(&mapping);
		size_t bytes = found.candidates ? found.bytes : own_bytes(&mapping);

		if (!bytes || bytes > mapping.bytes) /* of something else */
			bytes = bytes ? mapping.bytes : PAGE_BYTES;
		*at = mapping.start + bytes;
		/* Where there is no telling whose it is, a copy is right for a child. */
		if (!found.candidates || found.stretch->was_shared)
			continue;
		*piece = (struct piece){mapping.start, bytes, mapping.protection,
					found.candidates == 1 ? found.stretch : NULL};
		return 1;
	}
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The list of the process's pages that are the NIC's, under one lock. */
#ifndef MRC_STRETCH_H
#define MRC_STRETCH_H

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

/* Which stretch the first page of a mapping is of, and where it is in the NIC's memory. */
struct finding {
	struct stretch *stretch;
	uint32_t offset;
	size_t bytes;	     /* so many of the mapping are of the stretch as well */
	uint32_t candidates; /* 0: it is of something else; several: there is no telling */
};

/* Pages that the process sees of a stretch, or of one of several, but not of shared memory. */
struct piece {
	uintptr_t start;
	size_t bytes;
	int protection;
	struct stretch *stretch; /* NULL: there is no telling which */
};

/* chunk_lookup.c */
extern pthread_mutex_t pages_changing;
extern struct stretch *stretches; /* the newest first */

struct finding stretch_of(const struct mapping *mapping);
void note_mapped(struct mapping mapping);
int piece_next(uintptr_t *at, struct piece *piece);

/* own_memory.c */
size_t own_bytes(const struct mapping *mapping);

#endif

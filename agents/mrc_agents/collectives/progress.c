// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Operations from start to end, whatever wire carries their slices. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coll.h"

static const struct mrc_coll_options DEFAULTS = {
    .slots = 8,
    .slot_bytes = 65536,
    .dead_after_ms = 4300,
};

/* NULL: no memory. */
struct mrc_coll *coll_begin_progress(int rank, const struct mrc_coll_options *options)
{
	struct mrc_coll *coll = calloc(1, sizeof(*coll));

	if (!coll)
		return NULL;
	coll->rank = rank;
	coll->options = options ? *options : DEFAULTS;
	if (!coll->options.slots)
		coll->options.slots = DEFAULTS.slots;
	if (!coll->options.slot_bytes)
		coll->options.slot_bytes = DEFAULTS.slot_bytes;
	if (!coll->options.dead_after_ms)
		coll->options.dead_after_ms = DEFAULTS.dead_after_ms;
	pthread_mutex_init(&coll->lock, NULL);
	return coll;
}

void coll_fail(struct mrc_coll *coll, int rank, const char *format, ...)
{
	va_list arguments;

	if (coll->has_failed)
		return;
	coll->has_failed = true;
	va_start(arguments, format);
	vsnprintf(coll->error, sizeof(coll->error), format, arguments);
	va_end(arguments);
	coll_inform_peers(coll, rank);
}

/* NULL: that rank is no peer. */
struct peer *coll_peer_of(struct mrc_coll *coll, int rank)
{
	for (int i = 0; i < coll->peer_count; i++)
		if (coll->peers[i].rank == rank)
			return &coll->peers[i];
	return NULL;
}

struct mrc_coll_group *mrc_coll_group(struct mrc_coll *coll, const int *ranks, int size,
				      uint64_t number)
{
	struct mrc_coll_group *group = calloc(1, sizeof(*group) + size * sizeof(struct peer *));

	if (!group)
		return NULL;
	group->coll = coll;
	group->number = number;
	group->size = size;
	for (int at = 0; at < size; at++) {
		group->members[at] = coll_peer_of(coll, ranks[at]);
		if (ranks[at] == coll->rank)
			group->index = at;
	}
	group->next = coll->groups;
	coll->groups = group;
	return group;
}

const char *mrc_coll_error(const struct mrc_coll *coll)
{
	return coll->error;
}

/* True if the operation can take in the slice now, or knows that it never will. */
static bool is_due(const struct slice_header *header, const struct operation *operation)
{
	return header->group == operation->group->number && header->number == operation->number &&
	       (header->phase <= operation->phase ||
		memcmp(&header->call, &operation->call, sizeof(header->call)));
}

/* Passes a slice to its operation, or keeps a copy until that is ready for it. */
void coll_accept_slice(struct mrc_coll *coll, struct peer *peer, const struct slice_header *header,
		       const char *payload)
{
	struct early_slice *early, **end;

	for (struct operation *each = coll->active; each; each = each->next)
		if (is_due(header, each)) {
			coll_take_in(coll, each, peer, header, payload);
			return;
		}
	early = malloc(sizeof(*early) + header->bytes);
	if (!early) {
		coll_fail(coll, coll->rank, "rank %d has no memory for what rank %d sends",
			  coll->rank, peer->rank);
		return;
	}
	*early = (struct early_slice){.peer = peer, .header = *header};
	memcpy(early->payload, payload, header->bytes);
	for (end = &coll->early; *end; end = &(*end)->next)
		;
	*end = early;
}

/* Takes in what came before the operation was ready for it. */
void coll_take_early(struct mrc_coll *coll, struct operation *operation)
{
	struct early_slice **at = &coll->early;

	while (*at && !coll->has_failed) {
		struct early_slice *each = *at;

		if (is_due(&each->header, operation)) {
			coll_take_in(coll, operation, each->peer, &each->header, each->payload);
			*at = each->next;
			free(each);
		} else {
			at = &each->next;
		}
	}
}

/* Makes active what other threads have started. */
void coll_take_started(struct mrc_coll *coll)
{
	struct operation *started, **end = &coll->active;

	pthread_mutex_lock(&coll->lock);
	started = coll->started;
	coll->started = NULL;
	pthread_mutex_unlock(&coll->lock);
	while (*end)
		end = &(*end)->next;
	*end = started;
	for (; started; started = started->next)
		coll_take_early(coll, started);
}

/* Moves operations on; false: none could move. */
bool coll_advance_all(struct mrc_coll *coll)
{
	struct operation **at = &coll->active, **end;
	bool has_moved = false;

	while (*at) {
		struct operation *each = *at;

		if (!coll->has_failed)
			has_moved |= coll_advance(coll, each);
		if (!coll->has_failed && !coll_is_complete(each)) {
			at = &each->next;
			continue;
		}
		*at = each->next;
		each->next = NULL;
		for (end = &coll->ended; *end; end = &(*end)->next)
			;
		*end = each;
	}
	return has_moved;
}

bool coll_take_ended(struct mrc_coll *coll, struct mrc_coll_done *done)
{
	struct operation *first = coll->ended;

	if (!first)
		return false;
	coll->ended = first->next;
	*done = (struct mrc_coll_done){.id = first->id, .failed = !coll_is_complete(first)};
	free(first);
	return true;
}

static void free_operations(struct operation *first)
{
	while (first) {
		struct operation *next = first->next;

		free(first);
		first = next;
	}
}

void coll_free_progress(struct mrc_coll *coll)
{
	while (coll->groups) {
		struct mrc_coll_group *next = coll->groups->next;

		free(coll->groups);
		coll->groups = next;
	}
	while (coll->early) {
		struct early_slice *next = coll->early->next;

		free(coll->early);
		coll->early = next;
	}
	free_operations(coll->started);
	free_operations(coll->active);
	free_operations(coll->ended);
	pthread_mutex_destroy(&coll->lock);
	free(coll);
}

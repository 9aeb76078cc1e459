// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The wire of slices in virtual time: a list of WRITEs, which the simulation takes and carries. */
#include <stdlib.h>
#include "coll.h"
#include "virtual.h"

struct posted {
	struct posted *next;
	struct mrc_coll_virtual_write write;
};

struct mrc_coll *mrc_coll_virtual_open(int rank, const struct mrc_coll_options *options)
{
	return coll_begin_progress(rank, options);
}

size_t mrc_coll_virtual_memory_bytes(const struct mrc_coll *coll)
{
	return 2 * slots_bytes(coll);
}

int mrc_coll_virtual_add_peer(struct mrc_coll *coll, int rank, void *memory)
{
	if (coll->peer_count == PEERS_MAX)
		return -1;
	coll->peers[coll->peer_count++] = (struct peer){
	    .rank = rank,
	    .socket = -1,
	    .slots = memory,
	    .credits = coll->options.slots,
	};
	return 0;
}

void coll_post_write(struct mrc_coll *coll, struct peer *peer, struct write write)
{
	struct posted **end = &coll->posted, *posted = malloc(sizeof(*posted));

	if (write.work == SLICE)
		peer->acknowledged++; /* its slot is free when a credit comes back */
	if (!posted) {
		coll_fail(coll, coll->rank, "rank %d has no memory for what it sends", coll->rank);
		return;
	}
	*posted = (struct posted){
	    .write =
		{
		    .peer = peer->rank,
		    .bytes = write.bytes,
		    .local = write.local,
		    .remote = write.remote,
		    .immediate = write.immediate,
		},
	};
	while (*end)
		end = &(*end)->next;
	*end = posted;
}

int mrc_coll_virtual_take_write(struct mrc_coll *coll, struct mrc_coll_virtual_write *write)
{
	struct posted *first = coll->posted;

	if (!first)
		return 0;
	*write = first->write;
	coll->posted = first->next;
	free(first);
	return 1;
}

void mrc_coll_virtual_arrive(struct mrc_coll *coll, int rank, uint32_t immediate)
{
	if (!coll->has_failed)
		coll_take_arrival(coll, coll_peer_of(coll, rank), immediate);
}

void mrc_coll_virtual_advance(struct mrc_coll *coll)
{
	coll_take_started(coll);
	while (coll_advance_all(coll))
		;
}

int mrc_coll_virtual_take_ended(struct mrc_coll *coll, struct mrc_coll_done *done)
{
	return coll_take_ended(coll, done);
}

int mrc_coll_virtual_awaited(struct mrc_coll *coll, int *ranks, int size)
{
	int count = 0;

	for (struct operation *each = coll->active; each; each = each->next) {
		struct peer *peer;
		int at = 0;

		while (count < size && (peer = coll_awaited(each, &at)))
			ranks[count++] = peer->rank;
	}
	return count;
}

void mrc_coll_virtual_fail(struct mrc_coll *coll, const char *why)
{
	coll_fail(coll, coll->rank, "%s", why);
	coll_advance_all(coll);
}

void mrc_coll_virtual_close(struct mrc_coll *coll)
{
	struct mrc_coll_virtual_write write;

	while (mrc_coll_virtual_take_write(coll, &write))
		;
	coll_free_progress(coll);
}

/* ---- what is of no use here */

void coll_inform_peers(struct mrc_coll *coll, int rank)
{
	(void)coll;
	(void)rank; /* the simulation informs them */
}

int64_t coll_now_ns(void)
{
	return 0; /* of time-outs only */
}

void coll_rouse(const struct mrc_coll *coll)
{
	(void)coll; /* there is no thread */
}

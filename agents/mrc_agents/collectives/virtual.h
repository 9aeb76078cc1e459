/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libmrc_coll in virtual time: one `struct mrc_coll` per rank, all in the process of a simulation,
 * which carries the WRITEs that they post. Groups and operations are those of mrc_coll.h, but
 * time-outs are not kept: the simulation sees when ranks wait for each other for ever.
 *
 *	struct mrc_coll *coll = mrc_coll_virtual_open(rank, NULL);
 *	mrc_coll_virtual_add_peer(coll, peer, memory);  for all, before the groups
 *	... operations are started, or a WRITE has arrived: mrc_coll_virtual_arrive() ...
 *	mrc_coll_virtual_advance(coll);
 *	while (mrc_coll_virtual_take_write(coll, &write)) ... post it ...
 *	while (mrc_coll_virtual_take_ended(coll, &done)) ...
 */
#ifndef COLL_VIRTUAL_H
#define COLL_VIRTUAL_H

#include "mrc_coll.h"

/* A WRITE with immediate into the memory that the peer has for this rank. */
struct mrc_coll_virtual_write {
	int32_t peer;	/* rank */
	uint32_t bytes; /* 0: only the immediate */
	uint64_t local; /* offset in the memory that was given here */
	uint64_t remote;
	uint32_t immediate;
};

MRC_COLL_API struct mrc_coll *mrc_coll_virtual_open(int rank,
						    const struct mrc_coll_options *options);

/* Bytes of the memory that a rank needs for each peer. */
MRC_COLL_API size_t mrc_coll_virtual_memory_bytes(const struct mrc_coll *coll);

/* Returns 0; -1: there are too many peers. */
MRC_COLL_API int mrc_coll_virtual_add_peer(struct mrc_coll *coll, int rank, void *memory);

/* A WRITE of that peer is whole. */
MRC_COLL_API void mrc_coll_virtual_arrive(struct mrc_coll *coll, int rank, uint32_t immediate);

/* Makes all progress possible without waiting. */
MRC_COLL_API void mrc_coll_virtual_advance(struct mrc_coll *coll);

/* The next WRITE to post: 1, or 0: there is none. */
MRC_COLL_API int mrc_coll_virtual_take_write(struct mrc_coll *coll,
					     struct mrc_coll_virtual_write *write);

/* The next operation that has ended: 1, or 0: there is none. */
MRC_COLL_API int mrc_coll_virtual_take_ended(struct mrc_coll *coll, struct mrc_coll_done *done);

/* Ranks that unfinished operations wait for now, at most `size`; returns how many. */
MRC_COLL_API int mrc_coll_virtual_awaited(struct mrc_coll *coll, int *ranks, int size);

/* Lets all operations fail, for that reason. */
MRC_COLL_API void mrc_coll_virtual_fail(struct mrc_coll *coll, const char *why);

MRC_COLL_API void mrc_coll_virtual_close(struct mrc_coll *coll);

#endif

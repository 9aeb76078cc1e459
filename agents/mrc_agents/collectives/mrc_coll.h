/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libmrc_coll: collective operations of ranks, on RC QPs of libibverbs.
 *
 * A process opens one `struct mrc_coll`, connects it to its peers, and starts operations of groups
 * of ranks; any number is under way at once. Buffers are the caller's own memory, registered
 * nowhere: data moves through slots of NIC memory, which each pair of ranks has. One thread calls
 * mrc_coll_wait(), which does the work; starting and waking are for any thread.
 *
 *	struct mrc_coll *coll = mrc_coll_open(rank, NULL, why, sizeof(why));
 *	... all tell all others address and mrc_coll_port(coll), by whatever means ...
 *	mrc_coll_connect(coll, peers, 3, timeout_ms);
 *	struct mrc_coll_group *all = mrc_coll_group(coll, ranks, 4, 1);
 *	mrc_coll_all_reduce(all, 1, numbers, count, MRC_COLL_F32, MRC_COLL_SUM, timeout_ms, my_id);
 *	while (!mrc_coll_wait(coll, -1, &done))
 *		;
 */
#ifndef MRC_COLL_H
#define MRC_COLL_H

#include <stddef.h>
#include <stdint.h>
#include "element_abi.h"

/* 0 stands for the default. */
struct mrc_coll_options {
	uint32_t slots;		/* per peer and direction; 8 */
	uint32_t slot_bytes;	/* 65536 */
	uint32_t dead_after_ms; /* without a response of a peer's NIC; 4000 */
	uint16_t port;		/* TCP, that peers of higher rank connect to; any */
};

struct mrc_coll_peer {
	int rank;
	const char *address; /* name or IPv4 address on the network beside the fabric */
	int port;
};

/* An operation that has ended. */
struct mrc_coll_done {
	uint64_t id; /* as the caller gave it */
	int failed;  /* mrc_coll_error() says why; nothing that is started later will succeed */
};

struct mrc_coll;
struct mrc_coll_group;

#define MRC_COLL_API __attribute__((visibility("default")))

/* Opens the NIC; NULL: *why says why not. `rank` names this process to its peers. */
MRC_COLL_API struct mrc_coll *mrc_coll_open(int rank, const struct mrc_coll_options *options,
					    char *why, size_t why_bytes);

/* TCP port at which peers of higher rank find this process. */
MRC_COLL_API int mrc_coll_port(const struct mrc_coll *coll);

/* Connects to peers; those that are connected already stay so. All of them call it, in the same
 * order where a process calls it more than once. 0, or -1: mrc_coll_error() says why. No operation
 * may be under way. */
MRC_COLL_API int mrc_coll_connect(struct mrc_coll *coll, const struct mrc_coll_peer *peers,
				  int count, int timeout_ms);

/* Ranks, this one among them, in the order of their indices in the group. `number` names the group;
 * it is the same for all of its ranks, and no other group has it. NULL: no memory. */
MRC_COLL_API struct mrc_coll_group *mrc_coll_group(struct mrc_coll *coll, const int *ranks,
						   int size, uint64_t number);

/*
 * Operations. `number` is the same for all ranks of the group, and no other operation of the group
 * has it. `id` comes back by mrc_coll_wait(); buffers stay until then. All return 0, EINVAL for a
 * reduction that the type has not, or ENOMEM.
 */

/* Reduces `count` elements of all ranks; sums are made in the order of gloo's ring, to the bit. */
MRC_COLL_API int mrc_coll_all_reduce(struct mrc_coll_group *group, uint64_t number, void *data,
				     size_t count, enum mrc_coll_type type,
				     enum mrc_coll_reduction reduction, int timeout_ms,
				     uint64_t id);

/* `data` has as many chunks as the group has ranks; afterwards chunk i is reduced where i is this
 * rank's index, to the bit as by an all-reduce of `data`, and the others are spoilt. */
MRC_COLL_API int mrc_coll_reduce_scatter(struct mrc_coll_group *group, uint64_t number, void *data,
					 size_t chunk_count, enum mrc_coll_type type,
					 enum mrc_coll_reduction reduction, int timeout_ms,
					 uint64_t id);

/* `data` has as many chunks as the group has ranks, and this rank's in its place. */
MRC_COLL_API int mrc_coll_all_gather(struct mrc_coll_group *group, uint64_t number, void *data,
				     size_t chunk_bytes, int timeout_ms, uint64_t id);

/* Sends out[i] to the rank of index i and receives in[i] from it, for all i; of 0 bytes: nothing.
 * Those of this rank itself are ignored. Broadcast, gather, scatter, all-to-all, send and receive
 * are of this form. */
MRC_COLL_API int mrc_coll_exchange(struct mrc_coll_group *group, uint64_t number,
				   const void *const *out, const size_t *out_bytes, void *const *in,
				   const size_t *in_bytes, int timeout_ms, uint64_t id);

/* Works until an operation ends (1), it is woken or the time is over (0); < 0: no limit. */
MRC_COLL_API int mrc_coll_wait(struct mrc_coll *coll, int timeout_ms, struct mrc_coll_done *done);

/* Lets mrc_coll_wait() return. */
MRC_COLL_API void mrc_coll_wake(struct mrc_coll *coll);

/* One line, empty where nothing failed. */
MRC_COLL_API const char *mrc_coll_error(const struct mrc_coll *coll);

/* Waits until peers have what was sent, says goodbye, and frees everything, groups included. No
 * other call may be under way. */
MRC_COLL_API void mrc_coll_close(struct mrc_coll *coll);

#endif

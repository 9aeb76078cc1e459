/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parts of libmrc_coll.
 *
 *	operations.c  what is sent and received, in which order
 *	reduce.c      sums and the like, by type; what a rank calls, in words
 *	slots.c       slices of data through slots of NIC memory, credits
 *	progress.c    operations from start to end, and slices that come before theirs
 * over libibverbs, libmrc_coll.so:
 *	verbs.c       QPs
 *	peers.c       connections to peers, and what says that one is dead
 *	coll.c        the loop that does the work
 * in virtual time, part of libmrc_virtual.so:
 *	virtual.c     the interface of a simulation
 *
 * A slice is a WRITE with immediate into the peer's next slot: a header, then payload. The peer
 * takes it out at once, to a heap copy where its operation is not ready for it yet, so that no
 * operation holds up another, and returns credits by zero-length WRITEs with immediate.
 */
#ifndef COLL_H
#define COLL_H

#include <pthread.h>
#include <stdbool.h>
#include "mrc_coll.h"

enum {
	PEERS_MAX = 64, /* regions of a NIC */
	ERROR_BYTES = 256,
	CALL_BYTES = 64, /* of a call in words */
};

/* An operation is in one and then in the other; there may be nothing to do in it. */
enum phase { IN_RING, IN_EXCHANGE };

enum kind { EXCHANGE, ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER };

/* A kind of operation and reduction; all ranks of a group have to call the same. */
struct call {
	uint8_t kind;
	uint8_t type; /* of a reduction, as the next */
	uint8_t reduction;
};

struct slice_header {
	uint64_t group;
	uint64_t number;
	uint32_t bytes;
	struct call call;
	uint8_t phase;
	uint8_t unused[8]; /* payload begins at a multiple of 32 */
};

enum work { SLICE, CREDIT, PROBE, RECEIVE };

/* A WRITE into the slots of a peer. */
struct write {
	enum work work;
	size_t local;  /* offset in the slots here */
	size_t remote; /* offset in the peer's */
	uint32_t bytes;
	bool has_immediate;
	uint32_t immediate;
};

struct peer {
	int rank;
	int socket; /* -1: closed */
	bool has_left;
	struct ibv_qp *qp;
	struct ibv_mr *region;
	char *slots; /* those that it writes into, then those that are sent from */
	uint64_t remote_slots;
	uint32_t remote_key;
	uint32_t credits;
	uint32_t sent;
	uint32_t acknowledged;
	uint32_t arrived;
	uint32_t owed; /* credits that were not returned yet */
	bool is_probed;
};

struct mrc_coll_group {
	struct mrc_coll_group *next;
	struct mrc_coll *coll;
	uint64_t number;
	int index; /* of this rank */
	int size;
	struct peer *members[]; /* NULL: this rank */
};

/* The data from one rank to another in an exchange. */
struct stream {
	const char *out;
	size_t out_bytes;
	size_t sent;
	char *in;
	size_t in_bytes;
	size_t received;
};

struct operation {
	struct operation *next;
	struct mrc_coll_group *group;
	uint64_t number;
	struct call call;
	uint64_t id;
	int64_t deadline_ns;
	int timeout_ms;
	enum phase phase;
	/* of the ring: */
	char *data;
	size_t bytes;
	size_t chunk_bytes;
	int first_chunk;    /* to be sent */
	int reducing_steps; /* the others replace */
	size_t slices;	    /* of a step */
	size_t total;	    /* slices of all steps */
	size_t sent;
	size_t received;
	/* of the exchange: by index in the group */
	struct stream streams[];
};

/* A slice that came before its operation was started, or was in that phase. */
struct early_slice {
	struct early_slice *next;
	struct peer *peer;
	struct slice_header header;
	char payload[];
};

struct mrc_coll {
	int rank;
	struct mrc_coll_options options;
	struct ibv_context *nic;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint8_t gid[16];
	int mtu;	       /* enum ibv_mtu */
	struct posted *posted; /* of virtual time: WRITEs that nobody has taken, oldest first */
	int listener;
	int wake; /* eventfd */
	int peer_count;
	struct peer peers[PEERS_MAX];
	struct {
		int rank;
		int socket;
	} callers[PEERS_MAX]; /* connected before this process came to the group that they are of */
	int caller_count;
	struct mrc_coll_group *groups;
	pthread_mutex_t lock; /* of `started` */
	struct operation *started;
	struct operation *active; /* in the order of their start */
	struct operation *ended;
	struct early_slice *early;
	bool is_woken; /* by mrc_coll_wake() */
	bool has_failed;
	char error[ERROR_BYTES];
};

static inline uint32_t payload_bytes(const struct mrc_coll *coll)
{
	return coll->options.slot_bytes - sizeof(struct slice_header);
}

/* Bytes of the slots of one direction; those that are sent from lie behind those written into. */
static inline size_t slots_bytes(const struct mrc_coll *coll)
{
	return (size_t)coll->options.slots * coll->options.slot_bytes;
}

static inline bool can_send(const struct mrc_coll *coll, const struct peer *peer)
{
	return peer->credits && peer->sent - peer->acknowledged < coll->options.slots;
}

/* progress.c */
struct mrc_coll *coll_begin_progress(int rank, const struct mrc_coll_options *options);
void coll_free_progress(struct mrc_coll *coll);
struct peer *coll_peer_of(struct mrc_coll *coll, int rank);
void coll_take_started(struct mrc_coll *coll);
bool coll_advance_all(struct mrc_coll *coll);
bool coll_take_ended(struct mrc_coll *coll, struct mrc_coll_done *done);
void coll_accept_slice(struct mrc_coll *coll, struct peer *peer, const struct slice_header *header,
		       const char *payload);
void coll_take_early(struct mrc_coll *coll, struct operation *operation);

/* Notes the first failure; the text names the rank at fault, of which peers are informed. */
__attribute__((format(printf, 3, 4))) void coll_fail(struct mrc_coll *coll, int rank,
						     const char *format, ...);

/* slots.c */
void coll_send_slice(struct mrc_coll *coll, struct peer *peer, const struct operation *operation,
		     const void *payload, uint32_t bytes);
void coll_probe(struct mrc_coll *coll, struct peer *peer);
void coll_take_arrival(struct mrc_coll *coll, struct peer *peer, uint32_t immediate);

/* operations.c */
bool coll_advance(struct mrc_coll *coll, struct operation *operation);
bool coll_is_complete(const struct operation *operation);
struct peer *coll_awaited(struct operation *operation, int *at);
void coll_take_in(struct mrc_coll *coll, struct operation *operation, struct peer *peer,
		  const struct slice_header *header, const char *payload);

/* reduce.c */
size_t coll_element_bytes(enum mrc_coll_type type);
void coll_describe(struct call call, char text[CALL_BYTES]);
void coll_reduce(void *into, const void *from, size_t bytes, enum mrc_coll_type type,
		 enum mrc_coll_reduction reduction);

/* The carrier of slices, and the time: verbs.c, peers.c and coll.c, or virtual.c. */
void coll_post_write(struct mrc_coll *coll, struct peer *peer, struct write write);
void coll_inform_peers(struct mrc_coll *coll, int rank);
int64_t coll_now_ns(void);
/* Lets the thread in mrc_coll_wait() look around. */
void coll_rouse(const struct mrc_coll *coll);

/* verbs.c */
int coll_open_slots(struct mrc_coll *coll, struct peer *peer);
void coll_close_slots(struct peer *peer);
int coll_take_completions(struct mrc_coll *coll);

/* peers.c */
int coll_listen_for_peers(struct mrc_coll *coll, char *why, size_t why_bytes);
void coll_look_at_sockets(struct mrc_coll *coll);
void coll_close_peers(struct mrc_coll *coll);

#endif

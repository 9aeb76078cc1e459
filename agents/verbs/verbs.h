/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libibverbs over the NIC of the host that a program runs on. The library is preloaded: what it
 * exports without a version stands in for the functions of the genuine libibverbs, whose inline
 * functions call through the tables of our contexts.
 *
 * The data path is stores into the QP's work ring, a doorbell, and loads from the ring; the agent
 * is asked for what creates and ends things only.
 */
#ifndef MRC_VERBS_H
#define MRC_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>
#include <mrc/application_abi.h>
#include <mrc/work_abi.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT				    __attribute__((visibility("default")))
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

enum {
	PAGE_BYTES = 4096,
	QUEUE_MAX = 4096, /* work requests of a QP */
	CQE_MAX = 1 << 16,
	INLINE_MAX = 512,
};

/* The connection to the agent, and what came with it. */
struct agent_link {
	pthread_mutex_t lock; /* one request at a time */
	int socket;
	int program;
	int memory;
	int work_rings;
	int is_dead; /* once it is, everything is flushed */
	struct mrc_application_reply hello;
};

/* Pages of the process that the NIC's memory has taken the place of. */
struct stretch {
	uintptr_t start;
	size_t bytes;
	uint32_t offset; /* of its pages, in the NIC's memory */
	uint32_t users;	 /* regions in it */
};

/* A part of this process's address space that shows memory of a BPF map. */
struct mapping {
	uintptr_t start;
	size_t bytes;
	uint64_t offset; /* in the map */
	int protection;
};

struct protection_domain {
	struct ibv_pd pd;
	uint32_t number;
};

struct region {
	struct ibv_mr mr;
	struct stretch *stretch; /* NULL: the library's own, mapped elsewhere */
	uint32_t offset;	 /* of mr.addr, in the NIC's memory */
};

struct queue_pair;

struct device_context {
	struct device_context *next; /* of the process, with the lock of registrations */
	uint32_t transport;	     /* enum mrc_application_transport, of all its QPs */
	struct agent_link link;
	pthread_mutex_t lock; /* of all below but the rings */
	struct region *regions[MRC_REGION_MAX];
	uint32_t domains; /* made so far */
	struct queue_pair *queue_pairs;
	char *rings;
	size_t ring_stride;
	struct verbs_context verbs;
};

struct completion_queue {
	struct ibv_cq cq;
	pthread_mutex_t lock; /* of one poll; taken before a QP's */
	uint32_t users;	      /* queues of QPs */
	uint32_t empty_polls;
	int is_armed;
};

/* A work request as it was posted; the ring holds fewer of them than the queue. */
struct request {
	uint64_t wr_id;
	struct mrc_work work;
	uint32_t is_signalled;
};

/* A receive, and what arrived for it. */
struct receive {
	uint64_t wr_id;
	uint32_t immediate;
	uint32_t length;
};

struct queue_pair {
	struct ibv_qp qp;
	struct queue_pair *next;
	pthread_mutex_t lock; /* of all below */
	struct mrc_work_ring *ring;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	int given; /* mask of what the program has set in it */
	int signals_all;
	uint32_t window_packets;
	/* requests[posted % capacity]: done (polled for) <= completed <= handed (to the ring) <=
	 * posted, all free-running */
	struct request *requests;
	uint32_t capacity, posted, handed, completed, done;
	struct receive *receives; /* likewise: received (polled for) <= arrived <= receive_posted */
	uint32_t receive_capacity, received, arrived, receive_posted;
	struct region *inline_data; /* cap.max_inline_data for each place of the queue */
	char *inline_bytes;
	int has_failed; /* the request that failed has been completed: the rest is flushed */
};

static inline uint32_t number_of(struct ibv_pd *pd)
{
	return container_of(pd, struct protection_domain, pd)->number;
}

static inline struct device_context *device_of(struct ibv_context *context)
{
	return container_of(context, struct device_context, verbs.context);
}

/* One line for the person in front of the program. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* agent_link.c; errno values, 0 on success */
int link_open(struct agent_link *link);
void link_close(struct agent_link *link);
int link_call(struct agent_link *link, const struct mrc_application_request *request,
	      struct mrc_application_reply *reply, int *descriptor);
int link_is_alive(struct agent_link *link);

/* memory.c */
struct region *region_allocate(struct device_context *device, size_t bytes, char **mapped);
void region_free(struct region *region, char *mapped);
int64_t region_offset(struct device_context *device, uint32_t lkey, uint64_t address,
		      uint32_t length);

void region_begin(struct device_context *device);
void region_end(struct device_context *device);
int region_has_stretches(void);

/* mapping.c */
int mapping_next(uintptr_t from, struct mapping *found);

/* queue.c */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void queue_advance(struct queue_pair *queue_pair);
int queue_failure(struct queue_pair *queue_pair);

/* completion.c */
int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
void completion_join(struct queue_pair *queue_pair);

#endif

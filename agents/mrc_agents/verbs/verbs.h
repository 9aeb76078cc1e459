/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libibverbs over the NIC of the host that a program runs on. The library is preloaded: what it
 * exports stands in for the functions of the genuine libibverbs (versions.map), whose inline
 * functions call through the tables of our contexts.
 *
 * The data path is stores into the QP's work ring, a doorbell, and loads from the ring; the agent
 * is asked for what creates and ends things only.
 */
#ifndef MRC_VERBS_H
#define MRC_VERBS_H

#include <mrc.h>
#include <pthread.h>
#include <mrc/application_abi.h>
#include <mrc/control_abi.h>
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
	SGE_MAX = 16,
	SRQ_MAX = 1024, /* what a device reports; nothing limits them */
};

/* The connection to the agent, and what came with it. */
struct agent_link {
	struct agent_link *next;
	uint32_t users;	      /* contexts, and stretches of memory */
	uint32_t domains;     /* made so far */
	pthread_mutex_t lock; /* one request at a time */
	int socket;
	int program;
	int doorbell; /* -1: there is none */
	int work_rings;
	int chunks[MRC_MEMORY_CHUNKS]; /* 1 + descriptor, of those that stay and have been used */
	int is_dead;		       /* once it is, everything is flushed */
	char *rings;
	size_t ring_stride;
	struct mrc_application_reply hello;
};

/* A mapping of a process, and a reader of all of them in the order of addresses. */
struct vma {
	uintptr_t start, end;
	uint64_t offset, device, inode;
	int protection, is_shared;
	char name[64];
};

enum { LINE_MAX_BYTES = 256 };

struct vmas {
	int file;
	int is_text; /* the kernel takes no queries: lines are read */
	int is_shared_only;
	uintptr_t from;
	size_t used, at;
	char bytes[2048];
};

/* A part of this process's address space that shows memory of a BPF map. */
struct mapping {
	uintptr_t start;
	size_t bytes;
	uint64_t offset; /* in a chunk of the NIC's memory: which one the kernel does not say */
	int protection;
};

struct protection_domain {
	struct ibv_pd pd;
	uint32_t number;
};

/* Pages of the process that are the NIC's, in a row on both sides. */
struct run {
	uintptr_t start;
	size_t bytes;
	uint32_t offset; /* in the NIC's memory */
};

/* Memory of the NIC that is the library's own. */
struct own_memory {
	struct own_memory *next;
	struct agent_link *link;
	char *bytes; /* NULL: there is none */
	size_t length;
	uint32_t offset; /* in the NIC's memory */
};

/* Memory that a program has registered. */
struct region {
	struct ibv_mr mr;
	struct run *runs; /* of what peers may write to: all of it; of other memory: none */
	uint32_t run_count;
	struct own_memory page_list; /* of runs that are not in a row in the NIC's memory */
};

struct queue_pair;

/* An event that an object may have, and where verbs counts how many of it are acknowledged. */
struct object_event {
	struct object_event *next;
	int is_waiting;
	uint32_t taken; /* by the program */
	struct ibv_async_event event;
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	uint32_t *acknowledged;
};

/* Asynchronous events of a context that the program has not taken. */
struct events {
	pthread_mutex_t lock; /* taken after all others */
	struct object_event *first, **end;
	int waiting; /* eventfd: how many there are */
	int port;    /* socket of the agent */
	int is_lost; /* the program knows that the agent is gone */
};

struct device_context {
	uint32_t transport; /* enum mrc_application_transport, of its QPs but libmrc's */
	struct agent_link *link;
	pthread_mutex_t lock; /* of what is below */
	struct queue_pair *queue_pairs;
	struct events events;
	struct verbs_context verbs;
};

struct completion_queue {
	struct ibv_cq cq;
	pthread_mutex_t lock; /* of one poll; taken before a QP's */
	uint32_t users;	      /* queues of QPs */
	uint32_t empty_polls;
	int is_armed;
	uint32_t unpolled; /* completions that are there, apart from flushed ones; atomic */
	int is_overrun;
	uint32_t left; /* of one that is: completions that still fitted */
	struct object_event overrun;
	struct mrc_context *owner; /* of libmrc's */
	int ev_events;		   /* 1 + socket of the agent, of libmrc's CQs of EV events */
};

/* A piece of what a request sends: an SGE, or inline data. */
struct part {
	const char *bytes;
	uint32_t length;
	uint32_t offset; /* in the NIC's memory; NOT_THERE: they are copied there */
};

enum { NOT_THERE = 0xffffffff };

/* A work request as it was posted. It becomes one entry of the ring or several. */
struct request {
	uint64_t wr_id;
	uint64_t remote_address;
	enum ibv_wr_opcode opcode;
	uint32_t r_key;
	uint32_t immediate;
	uint32_t length;
	uint32_t part_count;
	uint32_t is_signalled;
	uint32_t entries_end; /* of the ring, free-running, once it is there whole */
};

/* Progress of the request that is on its way into the ring. */
struct progress {
	uint32_t part;
	uint32_t part_bytes; /* of that part */
	uint32_t bytes;
};

/* A place in the NIC's memory for what is sent from elsewhere; it is used as a ring. */
struct staging {
	struct own_memory memory;
	uint32_t head, tail;	      /* free-running */
	uint32_t ends[MRC_WORK_RING]; /* head behind each entry's bytes */
};

/* A posted receive, and what has become of it. */
struct receive {
	uint64_t wr_id;
	struct ibv_sge *sges;
	uint32_t sge_count;
	uint32_t length; /* this and all below: of what arrived */
	uint32_t immediate;
	uint32_t has_immediate;
	enum ibv_wc_opcode opcode;
	enum ibv_wc_status status;
};

/* Receives, oldest first, with room for max_sge SGEs each. */
struct receive_queue {
	struct receive *receives; /* by number % capacity */
	struct ibv_sge *sges;
	uint32_t capacity, max_sge;
	uint32_t posted; /* free-running */
};

struct shared_queue {
	struct ibv_srq srq;
	pthread_mutex_t lock; /* taken after a QP's */
	struct receive_queue queue;
	uint32_t taken; /* by QPs */
	uint32_t users;
	uint32_t limit; /* event when fewer are left; 0: none */
	struct object_event low;
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
	uint32_t transport; /* enum mrc_application_transport */
	uint32_t window_packets;
	uint32_t pmtu_bytes; /* of a part of a SEND, and the distance of two in a mailbox */

	/* requests[number % capacity]: done (polled for) <= handed (whole in the ring) <= posted,
	 * all free-running, as are the entries of the ring */
	struct request *requests;
	struct part *parts; /* cap.max_send_sge for each */
	char *inline_bytes; /* cap.max_inline_data for each */
	uint32_t capacity, posted, handed, done;
	uint32_t finished; /* of handed: the NIC has done them, and their CQ has counted them */
	struct progress progress; /* of requests[handed] */
	uint32_t entries_end, entries_done;
	uint32_t immediates; /* messages with immediate in the ring so far, parts of SENDs too */
	struct staging staging;

	/* likewise: received (polled for) <= arrived (whole) <= posted */
	struct receive_queue receives;
	uint32_t received, arrived;
	uint32_t taken;	 /* arrivals taken from the ring; a SEND is as many as it has parts */
	int is_arriving; /* the first parts of a SEND have been taken */
	struct shared_queue *shared;
	struct own_memory mailbox;
	int has_failed; /* the request that failed has been completed: the rest is flushed */
	struct object_event end; /* it is in ERROR: it takes no more of a shared queue, or failed */

	/* of libmrc */
	int is_libmrc;
	int mrc_given; /* mask of what the program has set in `mrc` */
	struct mrc_qp_attr mrc;
};

static inline uint32_t number_of(struct ibv_pd *pd)
{
	return container_of(pd, struct protection_domain, pd)->number;
}

static inline struct device_context *device_of(struct ibv_context *context)
{
	return container_of(context, struct device_context, verbs.context);
}

static inline struct completion_queue *queue_of(struct ibv_cq *cq)
{
	return container_of(cq, struct completion_queue, cq);
}

/* True if more completions wait in a CQ than it holds, for the first time. */
static inline int is_too_full(const struct completion_queue *queue)
{
	return !queue->is_overrun &&
	       __atomic_load_n(&queue->unpolled, __ATOMIC_RELAXED) > (uint32_t)queue->cq.cqe;
}

/* True if the NIC has done all of the oldest request. */
static inline int queue_is_done(const struct queue_pair *queue_pair)
{
	return queue_pair->done != queue_pair->finished;
}

static inline int is_send(const struct request *request)
{
	return request->opcode == IBV_WR_SEND || request->opcode == IBV_WR_SEND_WITH_IMM;
}

/* One line for the person in front of the program. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* agent_link.c; errno values, 0 on success */
int link_get(struct agent_link **link);
void link_keep(struct agent_link *link);
void link_put(struct agent_link *link);
void links_lock(void);
void links_unlock(void);
void link_leave_all(void);
int link_has_ring_at(uintptr_t address);
int link_call(struct agent_link *link, const struct mrc_application_request *request,
	      struct mrc_application_reply *reply, int *descriptor);
int link_control(struct agent_link *link, struct mrc_control *control);
int link_is_alive(struct agent_link *link);
int link_map_chunk(struct agent_link *link, uint32_t offset, size_t bytes, void *there);

/* events.c */
int events_open(struct device_context *device);
void events_close(struct device_context *device);
int watch_descriptor(int epoll, int descriptor);
void events_raise(struct device_context *device, struct object_event *event);
void events_forget(struct device_context *device, struct object_event *event);

/* memory.c */
extern pthread_mutex_t registering;
int region_find(uint32_t lkey, uint64_t address, uint32_t length, uint32_t *offset);

/* own_memory.c; errno values */
int own_allocate(struct own_memory *own, struct agent_link *link, size_t length);
void own_free(struct own_memory *own);

/* pages.c; errno values */
int pages_allocate(struct agent_link *link, size_t bytes, uint32_t wanted, uint32_t *offset);
void pages_free(struct agent_link *link, uint32_t offset);
void *pages_map(struct agent_link *link, size_t bytes, uint32_t offset);
int pages_take(struct agent_link *link, uintptr_t start, uintptr_t end, struct run **runs,
	       uint32_t *count);
void pages_let_go(const struct agent_link *link, const struct run *runs, uint32_t count);
int pages_are_there(void);

/* page_swap.c; errno values */
int pages_check(uintptr_t start, uintptr_t end, int *is_shared);
int pages_replace(uintptr_t start, void *there, size_t bytes, uint32_t offset, size_t *done);
int pages_restore(uintptr_t start, size_t bytes, int protection);

/* forking.c; an errno value */
int forks_watch(void);

/* mapping.c */
void *map_memory(void *place, size_t bytes, int flags, int file, uint64_t offset);
void unmap_memory(void *memory, size_t bytes);
int move_memory(void *memory, size_t bytes, void *place);
void vmas_open(struct vmas *vmas, const char *path, uintptr_t from);
int vmas_next(struct vmas *vmas, struct vma *found);
void vmas_close(const struct vmas *vmas);
int mappings_next(struct vmas *vmas, uintptr_t from, struct mapping *found);
int mapping_next(uintptr_t from, struct mapping *found);

/* channel.c */
void channel_join(struct queue_pair *queue_pair);
int channel_arm(const struct completion_queue *queue, int operation);
int channel_wait(struct ibv_comp_channel *waiting, struct completion_queue **ev_queue);

/* doorbell.c */
int doorbell_open(void);
void doorbell_ring(struct queue_pair *queue_pair, uint32_t frames);

/* send.c */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
void queue_hand_over(struct queue_pair *queue_pair);

/* receive.c */
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int receive_queue_allocate(struct receive_queue *queue, uint32_t capacity, uint32_t max_sge);
void receive_queue_free(struct receive_queue *queue);
int receive_queue_add(struct receive_queue *queue, uint32_t in_use, const struct ibv_recv_wr *wr);
void queue_take_arrivals(struct queue_pair *queue_pair);

/* device.c */
int device_is_ours(const struct ibv_context *context);

/* queue_pair.c */
struct ibv_qp *queue_pair_create(struct ibv_pd *pd, struct ibv_qp_init_attr *init,
				 uint32_t transport);
int64_t host_of(const struct device_context *device, const union ibv_gid *gid);
int queue_pair_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      const struct mrc_qp_attr *mrc, int mrc_mask);
int queue_pair_open_mailbox(struct queue_pair *queue_pair);
void queue_pair_fail(struct queue_pair *queue_pair);

/* shared_queue.c */
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
uint32_t shared_queue_left(struct shared_queue *shared);
int shared_queue_take(struct shared_queue *shared, struct receive *receive);

/* queue.c */
void queue_advance(struct queue_pair *queue_pair);
int queue_failure(struct queue_pair *queue_pair);
void queue_enter_error(struct queue_pair *queue_pair);

/* completion.c */
int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
void completion_join(struct queue_pair *queue_pair);

/* overrun.c */
void overrun_count(struct ibv_cq *cq, int change);
void overrun_leave(struct queue_pair *queue_pair);
void overrun_check(struct completion_queue *queue);
void overrun_look(struct ibv_cq *cq);
void overrun_look_at_all(struct device_context *device);

#endif

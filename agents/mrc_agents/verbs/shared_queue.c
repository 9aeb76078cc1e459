// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Shared receive queues: receives that the messages of several QPs take in the order they come. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "verbs.h"

static struct shared_queue *shared_of(struct ibv_srq *srq)
{
	return container_of(srq, struct shared_queue, srq);
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_attr *attr = &init->attr;
	struct shared_queue *shared;

	if (!attr->max_wr || attr->max_wr > QUEUE_MAX || attr->max_sge > SGE_MAX) {
		errno = EINVAL;
		return NULL;
	}
	shared = calloc(1, sizeof(*shared));
	if (!shared)
		return NULL;
	if (!attr->max_sge)
		attr->max_sge = 1;
	if (receive_queue_allocate(&shared->queue, attr->max_wr, attr->max_sge)) {
		receive_queue_free(&shared->queue);
		free(shared);
		errno = ENOMEM;
		return NULL;
	}
	shared->srq.context = pd->context;
	shared->srq.srq_context = init->srq_context;
	shared->srq.pd = pd;
	pthread_mutex_init(&shared->lock, NULL);
	pthread_mutex_init(&shared->srq.mutex, NULL);
	pthread_cond_init(&shared->srq.cond, NULL);
	shared->low = (struct object_event){
	    .event = {.element.srq = &shared->srq, .event_type = IBV_EVENT_SRQ_LIMIT_REACHED},
	    .mutex = &shared->srq.mutex,
	    .cond = &shared->srq.cond,
	    .acknowledged = &shared->srq.events_completed,
	};
	return &shared->srq;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct shared_queue *shared = shared_of(srq);

	if (shared->users)
		return EBUSY;
	events_forget(device_of(srq->context), &shared->low);
	receive_queue_free(&shared->queue);
	pthread_mutex_destroy(&shared->lock);
	free(shared);
	return 0;
}

/* Raises the event of a queue that is low, once for each time that a limit is set. */
static void check_limit(struct shared_queue *shared)
{
	if (shared->queue.posted - shared->taken >= shared->limit)
		return;
	shared->limit = 0;
	events_raise(device_of(shared->srq.context), &shared->low);
}

/* Its size stays. */
EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct shared_queue *shared = shared_of(srq);

	if (mask & ~IBV_SRQ_LIMIT)
		return EOPNOTSUPP;
	if (!mask)
		return 0;
	if (attr->srq_limit > shared->queue.capacity)
		return EINVAL;
	pthread_mutex_lock(&shared->lock);
	shared->limit = attr->srq_limit;
	check_limit(shared);
	pthread_mutex_unlock(&shared->lock);
	return 0;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	const struct receive_queue *queue = &shared_of(srq)->queue;

	*attr = (struct ibv_srq_attr){
	    .max_wr = queue->capacity,
	    .max_sge = queue->max_sge,
	    .srq_limit = shared_of(srq)->limit,
	};
	return 0;
}

/* Receives that no message has taken. */
uint32_t shared_queue_left(struct shared_queue *shared)
{
	uint32_t left;

	pthread_mutex_lock(&shared->lock);
	left = shared->queue.posted - shared->taken;
	pthread_mutex_unlock(&shared->lock);
	return left;
}

/* Copies the oldest receive, its SGEs to where the copy has room for them; 0: there is none. */
int shared_queue_take(struct shared_queue *shared, struct receive *receive)
{
	struct ibv_sge *sges = receive->sges;
	int is_there;

	pthread_mutex_lock(&shared->lock);
	is_there = shared->taken != shared->queue.posted;
	if (is_there) {
		*receive = shared->queue.receives[shared->taken++ % shared->queue.capacity];
		memcpy(sges, receive->sges, receive->sge_count * sizeof(*sges));
		receive->sges = sges;
		check_limit(shared);
	}
	pthread_mutex_unlock(&shared->lock);
	return is_there;
}

int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct device_context *device = device_of(srq->context);
	struct shared_queue *shared = shared_of(srq);
	struct queue_pair *each;
	int error = 0;

	pthread_mutex_lock(&device->lock);
	pthread_mutex_lock(&shared->lock);
	for (; wr && !error; wr = error ? wr : wr->next)
		error = receive_queue_add(&shared->queue, shared->queue.posted - shared->taken, wr);
	if (error)
		*bad = wr;
	pthread_mutex_unlock(&shared->lock);
	for (each = device->queue_pairs; each; each = each->next) {
		if (each->shared != shared)
			continue;
		pthread_mutex_lock(&each->lock);
		queue_advance(each);
		pthread_mutex_unlock(&each->lock);
	}
	pthread_mutex_unlock(&device->lock);
	return error;
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * CQs in which more completions wait than they hold. Completions stay in the QPs' work rings until
 * they are polled, so they are counted.
 */
#include "verbs.h"

/* Counts completions that are to be polled, or no longer. */
void overrun_count(struct ibv_cq *cq, int change)
{
	__atomic_add_fetch(&queue_of(cq)->unpolled, change, __ATOMIC_RELAXED);
}

/* Takes a QP that ends out of the counts of its CQs. With the device's lock held. */
void overrun_leave(struct queue_pair *queue_pair)
{
	pthread_mutex_lock(&queue_pair->lock);
	for (uint32_t i = queue_pair->done; i != queue_pair->finished; i++)
		if (queue_pair->requests[i % queue_pair->capacity].is_signalled)
			overrun_count(queue_pair->qp.send_cq, -1);
	overrun_count(queue_pair->qp.recv_cq, queue_pair->received - queue_pair->arrived);
	pthread_mutex_unlock(&queue_pair->lock);
}

/* Ends all QPs of a CQ in which more waits than it holds. With the device's lock held. */
void overrun_check(struct completion_queue *queue)
{
	struct device_context *device = device_of(queue->cq.context);
	struct ibv_cq *cq = &queue->cq;
	struct queue_pair *each;

	if (!is_too_full(queue))
		return;
	queue->is_overrun = 1;
	queue->left = cq->cqe;
	complain("a completion queue of %d has overrun, and its QPs are in ERROR", cq->cqe);
	for (each = device->queue_pairs; each; each = each->next) {
		if (each->qp.send_cq != cq && each->qp.recv_cq != cq)
			continue;
		pthread_mutex_lock(&each->lock);
		queue_pair_fail(each);
		pthread_mutex_unlock(&each->lock);
	}
	events_raise(device, &queue->overrun);
}

/* Looks whether a CQ overran; with none of the locks held. */
void overrun_look(struct ibv_cq *cq)
{
	struct completion_queue *queue = queue_of(cq);
	struct device_context *device = device_of(cq->context);

	if (!is_too_full(queue))
		return;
	pthread_mutex_lock(&device->lock);
	overrun_check(queue);
	pthread_mutex_unlock(&device->lock);
}

/* Looks whether any CQ overran or QP failed, for a program that calls nothing else. */
void overrun_look_at_all(struct device_context *device)
{
	struct queue_pair *each;

	pthread_mutex_lock(&device->lock);
	for (each = device->queue_pairs; each; each = each->next) {
		pthread_mutex_lock(&each->lock);
		queue_advance(each);
		if (queue_failure(each))
			queue_enter_error(each);
		pthread_mutex_unlock(&each->lock);
		overrun_check(queue_of(each->qp.send_cq));
		overrun_check(queue_of(each->qp.recv_cq));
	}
	pthread_mutex_unlock(&device->lock);
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Completion queues, which are views of the QPs' work rings, and completion channels. */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <mrc/nic_abi.h>
#include "verbs.h"

enum {
	POLLS_PER_YIELD = 64,	    /* whoever is to complete the work may need this CPU */
	POLLS_PER_LOOK = 64 * 1024, /* at whether the agent is still there */
};

static enum ibv_wc_status status_of(uint32_t failure)
{
	switch (failure - 1) {
	case MRC_STATUS_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case MRC_STATUS_RETRY_EXCEEDED:
		return IBV_WC_RETRY_EXC_ERR;
	case MRC_STATUS_RNR_RETRY_EXCEEDED:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case MRC_STATUS_REMOTE_OPERATION:
		return IBV_WC_REM_OP_ERR;
	case MRC_STATUS_REMOTE_INVALID_REQUEST:
		return IBV_WC_REM_INV_REQ_ERR;
	default:
		return IBV_WC_WR_FLUSH_ERR;
	}
}

/* True if the oldest request is done, one way or the other: *status says how. */
static int is_send_due(struct queue_pair *queue_pair, enum ibv_wc_status *status)
{
	uint32_t failure;

	if (queue_pair->done == queue_pair->posted)
		return 0;
	*status = IBV_WC_SUCCESS;
	if (queue_is_done(queue_pair))
		return 1;
	failure = queue_failure(queue_pair);
	if (!failure && queue_pair->qp.state != IBV_QPS_ERR)
		return 0;
	*status = queue_pair->has_failed ? IBV_WC_WR_FLUSH_ERR : status_of(failure);
	return 1;
}

/* Completions of requests, oldest first; returns how many were written. */
static int take_sends(struct queue_pair *queue_pair, int count, struct ibv_wc *wc)
{
	enum ibv_wc_status status;
	int taken = 0;

	while (taken < count && is_send_due(queue_pair, &status)) {
		struct request *request =
		    &queue_pair->requests[queue_pair->done % queue_pair->capacity];

		if (status != IBV_WC_SUCCESS) {
			if (queue_pair->handed == queue_pair->done)
				queue_pair->handed++; /* it never was in the ring */
			queue_pair->has_failed = 1;
			queue_enter_error(queue_pair);
		}
		if (queue_pair->finished == queue_pair->done)
			queue_pair->finished++; /* flushed: its CQ has not counted it */
		else if (request->is_signalled)
			overrun_count(queue_pair->qp.send_cq, -1);
		queue_pair->done++;
		if (!request->is_signalled && status == IBV_WC_SUCCESS)
			continue;
		wc[taken++] = (struct ibv_wc){
		    .wr_id = request->wr_id,
		    .status = status,
		    .opcode = is_send(request) ? IBV_WC_SEND : IBV_WC_RDMA_WRITE,
		    .byte_len = request->length,
		    .qp_num = queue_pair->qp.qp_num,
		};
	}
	return taken;
}

static int is_receive_due(struct queue_pair *queue_pair)
{
	if (queue_pair->received != queue_pair->arrived)
		return 1;
	return queue_pair->received != queue_pair->receives.posted &&
	       (queue_failure(queue_pair) || queue_pair->qp.state == IBV_QPS_ERR);
}

/* Completions of receives, oldest first; returns how many were written. */
static int take_receives(struct queue_pair *queue_pair, int count, struct ibv_wc *wc)
{
	int taken = 0;

	while (taken < count && is_receive_due(queue_pair)) {
		struct receive_queue *queue = &queue_pair->receives;
		struct receive *receive = &queue->receives[queue_pair->received % queue->capacity];

		wc[taken] = (struct ibv_wc){
		    .wr_id = receive->wr_id,
		    .status = receive->status,
		    .opcode = receive->opcode,
		    .byte_len = receive->length,
		    .qp_num = queue_pair->qp.qp_num,
		    .src_qp = queue_pair->attr.dest_qp_num,
		};
		if (queue_pair->received == queue_pair->arrived) {
			queue_pair->arrived++; /* none will come for it */
			wc[taken].status = IBV_WC_WR_FLUSH_ERR;
		} else {
			overrun_count(queue_pair->qp.recv_cq, -1);
			if (receive->has_immediate) {
				wc[taken].imm_data = htonl(receive->immediate);
				wc[taken].wc_flags = IBV_WC_WITH_IMM;
			}
		}
		queue_pair->received++;
		taken++;
	}
	return taken;
}

/* Completions of a QP. With the device's lock held. */
static int take(struct completion_queue *queue, struct queue_pair *queue_pair, int count,
		struct ibv_wc *wc)
{
	int taken = 0;

	pthread_mutex_lock(&queue_pair->lock);
	queue_advance(queue_pair);
	if (is_too_full(queue)) {
		pthread_mutex_unlock(&queue_pair->lock);
		overrun_check(queue);
		pthread_mutex_lock(&queue_pair->lock);
	}
	if (queue->is_overrun && (uint32_t)count > queue->left)
		count = queue->left;
	if (queue_pair->qp.send_cq == &queue->cq)
		taken += take_sends(queue_pair, count, wc);
	if (queue_pair->qp.recv_cq == &queue->cq)
		taken += take_receives(queue_pair, count - taken, wc + taken);
	pthread_mutex_unlock(&queue_pair->lock);
	if (queue->is_overrun)
		queue->left -= taken;
	return taken;
}

int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	struct completion_queue *queue = queue_of(cq);
	struct device_context *device = device_of(cq->context);
	struct queue_pair *each;
	int taken = 0;

	pthread_mutex_lock(&queue->lock);
	pthread_mutex_lock(&device->lock);
	for (each = device->queue_pairs; each && taken < count; each = each->next)
		taken += take(queue, each, count - taken, wc + taken);
	pthread_mutex_unlock(&device->lock);
	queue->empty_polls = taken ? 0 : queue->empty_polls + 1;
	if (queue->empty_polls % POLLS_PER_LOOK == POLLS_PER_LOOK - 1)
		link_is_alive(device->link);
	pthread_mutex_unlock(&queue->lock);
	if (!taken && queue->empty_polls % POLLS_PER_YIELD == 0)
		sched_yield();
	return taken;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector)
{
	struct completion_queue *queue;

	if (cqe < 1 || cqe > CQE_MAX || vector) {
		errno = EINVAL;
		return NULL;
	}
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return NULL;
	pthread_mutex_init(&queue->lock, NULL);
	queue->cq.context = context;
	queue->cq.channel = channel;
	queue->cq.cq_context = cq_context;
	queue->cq.cqe = cqe;
	pthread_mutex_init(&queue->cq.mutex, NULL);
	pthread_cond_init(&queue->cq.cond, NULL);
	queue->overrun = (struct object_event){
	    .event = {.element.cq = &queue->cq, .event_type = IBV_EVENT_CQ_ERR},
	    .mutex = &queue->cq.mutex,
	    .cond = &queue->cq.cond,
	    .acknowledged = &queue->cq.async_events_completed,
	};
	if (channel)
		channel->refcnt++;
	return &queue->cq;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct completion_queue *queue = container_of(cq, struct completion_queue, cq);

	if (queue->users)
		return EBUSY;
	events_forget(device_of(cq->context), &queue->overrun);
	if (cq->channel)
		cq->channel->refcnt--;
	pthread_mutex_destroy(&queue->lock);
	free(queue);
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Has the NIC report the next event of a QP that is for a CQ. A full barrier. */
static void arm(struct queue_pair *queue_pair, const struct ibv_cq *cq)
{
	const struct ibv_cq *cqs[MRC_SIDE_COUNT] = {queue_pair->qp.send_cq, queue_pair->qp.recv_cq};

	for (int side = 0; side < MRC_SIDE_COUNT; side++)
		if (cqs[side] == cq)
			__atomic_exchange_n(&queue_pair->ring->notify[side], MRC_NOTIFY_ARMED,
					    __ATOMIC_SEQ_CST);
}

/* Has a QP that is new report to a CQ that was armed before it. With the device's lock held. */
void completion_join(struct queue_pair *queue_pair)
{
	channel_join(queue_pair);
	if (queue_of(queue_pair->qp.send_cq)->is_armed)
		arm(queue_pair, queue_pair->qp.send_cq);
	if (queue_of(queue_pair->qp.recv_cq)->is_armed)
		arm(queue_pair, queue_pair->qp.recv_cq);
}

/* Every event of the channel wakes it; whoever wants solicited ones alone gets more. */
int req_notify_cq(struct ibv_cq *cq, int solicited_only __attribute__((unused)))
{
	struct completion_queue *queue = container_of(cq, struct completion_queue, cq);
	struct device_context *device = device_of(cq->context);
	struct queue_pair *queue_pair;

	pthread_mutex_lock(&device->lock);
	queue->is_armed = 1;
	for (queue_pair = device->queue_pairs; queue_pair; queue_pair = queue_pair->next)
		arm(queue_pair, cq);
	pthread_mutex_unlock(&device->lock);
	return 0;
}

/* True if a request that has a completion to come is done. */
static int has_completion(struct queue_pair *queue_pair)
{
	enum ibv_wc_status status;

	while (is_send_due(queue_pair, &status)) {
		struct request *request =
		    &queue_pair->requests[queue_pair->done % queue_pair->capacity];

		if (request->is_signalled || status != IBV_WC_SUCCESS)
			return 1;
		queue_pair->done++;
	}
	return 0;
}

/* True if a queue pair has something to poll in a CQ. */
static int is_ready(struct queue_pair *queue_pair, const struct ibv_cq *cq)
{
	int is_due;

	pthread_mutex_lock(&queue_pair->lock);
	queue_advance(queue_pair);
	is_due = (queue_pair->qp.send_cq == cq && has_completion(queue_pair)) ||
		 (queue_pair->qp.recv_cq == cq && is_receive_due(queue_pair));
	pthread_mutex_unlock(&queue_pair->lock);
	return is_due;
}

enum event_rank { EVENT_ANY, EVENT_ARMED, EVENT_READY, EVENT_MADE, EVENT_MADE_AND_READY };

static enum event_rank rank_of(struct queue_pair *queue_pair, int side, struct ibv_cq *cq)
{
	/* The NIC has made an event, or it would still be armed. */
	int is_made =
	    __atomic_load_n(&queue_pair->ring->notify[side], __ATOMIC_ACQUIRE) != MRC_NOTIFY_ARMED;

	if (!queue_of(cq)->is_armed)
		return EVENT_ANY;
	return (is_made ? EVENT_MADE : EVENT_ARMED) + is_ready(queue_pair, cq);
}

/*
 * The CQ that an event of the channel is for: one for which the NIC has made an event, else an
 * armed one that has something to poll, else one that is armed, else any. What an event was for the
 * program may have polled already, but a channel that is readable always has one. NULL: none of
 * that rank.
 */
static struct completion_queue *take_event(struct ibv_comp_channel *channel, enum event_rank least)
{
	struct device_context *device = device_of(channel->context);
	struct completion_queue *best = NULL;
	struct queue_pair *each;
	int best_rank = (int)least - 1;

	pthread_mutex_lock(&device->lock);
	for (each = device->queue_pairs; each; each = each->next) {
		struct ibv_cq *cqs[MRC_SIDE_COUNT] = {each->qp.send_cq, each->qp.recv_cq};

		for (int side = 0; side < MRC_SIDE_COUNT; side++) {
			int rank;

			if (cqs[side]->channel != channel)
				continue;
			rank = rank_of(each, side, cqs[side]);
			if (rank > best_rank) {
				best_rank = rank;
				best = queue_of(cqs[side]);
			}
		}
	}
	if (best_rank > EVENT_ARMED)
		best->is_armed = 0;
	pthread_mutex_unlock(&device->lock);
	return best;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct completion_queue *queue = NULL;
	int has_event;

	while (!queue) {
		has_event = channel_wait(channel, &queue);
		if (has_event < 0)
			return -1;
		if (!has_event)
			link_is_alive(device_of(channel->context)->link);
		if (!queue)
			queue = take_event(channel, has_event ? EVENT_ANY : EVENT_READY);
		if (!queue && !has_event) {
			errno = EIO; /* nothing was posted, and nothing will come */
			return -1;
		}
	}
	*cq = &queue->cq;
	*cq_context = queue->cq.cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += count;
	pthread_mutex_unlock(&cq->mutex);
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Receiving: posted receives, and what the NIC reports of messages that need one. The parts of a
 * SEND lie in the QP's mailbox until they are copied to where its receive says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <mrc/nic_abi.h>
#include "verbs.h"

int receive_queue_allocate(struct receive_queue *queue, uint32_t capacity, uint32_t max_sge)
{
	*queue = (struct receive_queue){.capacity = capacity, .max_sge = max_sge};
	queue->receives = calloc(capacity, sizeof(*queue->receives));
	queue->sges = calloc((size_t)capacity * max_sge, sizeof(*queue->sges));
	return queue->receives && queue->sges ? 0 : ENOMEM;
}

void receive_queue_free(struct receive_queue *queue)
{
	free(queue->receives);
	free(queue->sges);
}

/* Appends what a program posts, of whose receives so many are in use; an errno value. */
int receive_queue_add(struct receive_queue *queue, uint32_t in_use, const struct ibv_recv_wr *wr)
{
	uint32_t place = queue->posted % queue->capacity, offset;
	struct receive *receive = &queue->receives[place];

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge)
		return EINVAL;
	if (in_use >= queue->capacity)
		return ENOMEM;
	*receive = (struct receive){.wr_id = wr->wr_id, .sge_count = wr->num_sge};
	receive->sges = &queue->sges[place * queue->max_sge];
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length && region_find(sge->lkey, sge->addr, sge->length, &offset))
			return EINVAL;
		receive->sges[i] = *sge;
	}
	queue->posted++;
	return 0;
}

/* Copies bytes of a SEND behind those that its receive has. */
static void scatter(struct receive *receive, const char *bytes, uint32_t length)
{
	uint32_t before = receive->length;

	for (uint32_t i = 0; i < receive->sge_count && length; i++) {
		const struct ibv_sge *sge = &receive->sges[i];
		uint32_t count;

		if (before >= sge->length) {
			before -= sge->length;
			continue;
		}
		count = sge->length - before < length ? sge->length - before : length;
		memcpy((char *)sge->addr + before, bytes, count);
		before = 0;
		bytes += count;
		length -= count;
		receive->length += count;
	}
	if (length)
		receive->status = IBV_WC_LOC_LEN_ERR;
}

/* The receive that the next arrival is for; NULL: none is posted. */
static struct receive *next_receive(struct queue_pair *queue_pair)
{
	struct receive_queue *queue = &queue_pair->receives;
	struct receive *receive = &queue->receives[queue_pair->arrived % queue->capacity];

	if (queue_pair->arrived != queue->posted)
		return receive;
	if (!queue_pair->shared || queue->posted - queue_pair->received >= queue->capacity)
		return NULL;
	receive->sges = &queue->sges[queue_pair->arrived % queue->capacity * queue->max_sge];
	if (!shared_queue_take(queue_pair->shared, receive))
		return NULL;
	queue->posted++;
	return receive;
}

/* Copies a part of a SEND out of its slot, unless the peer claims more than a slot holds. */
static void take_part(struct queue_pair *queue_pair, struct receive *receive, uint32_t number,
		      uint32_t length)
{
	uint32_t start = number % MRC_WIMM_MAX * queue_pair->pmtu_bytes;

	if (length > queue_pair->pmtu_bytes || (length && !queue_pair->mailbox.bytes))
		receive->status = IBV_WC_LOC_LEN_ERR;
	else if (receive->status == IBV_WC_SUCCESS)
		scatter(receive, queue_pair->mailbox.bytes + start, length);
}

/* An arrival, whose number is that of messages with immediate and parts of SENDs together. */
static void take_arrival(struct queue_pair *queue_pair, struct receive *receive, uint32_t number,
			 const struct mrc_arrival *arrival)
{
	uint32_t r_key = arrival->r_key, length = arrival->length;

	queue_pair->is_arriving = r_key == MRC_KEY_SEND_PART;
	if (r_key < MRC_KEY_SEND_PART || r_key > MRC_KEY_SEND_LAST_IMMEDIATE) {
		receive->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		receive->length = length;
	} else {
		receive->opcode = IBV_WC_RECV;
		take_part(queue_pair, receive, number, length);
	}
	if (queue_pair->is_arriving)
		return;
	receive->has_immediate = r_key != MRC_KEY_SEND_LAST;
	receive->immediate = arrival->immediate;
	queue_pair->arrived++;
	overrun_count(queue_pair->qp.recv_cq, 1);
	if (receive->status != IBV_WC_SUCCESS)
		queue_pair_fail(queue_pair);
}

/*
 * Passes as many posted receives to the NIC as it has places for arrivals. A SEND that is arriving
 * gets all places, for nobody knows how many parts it has. What comes behind it may then wait in
 * the mailbox for its receive.
 */
static void offer_receives(struct queue_pair *queue_pair)
{
	uint32_t offered = queue_pair->shared ? shared_queue_left(queue_pair->shared)
					      : queue_pair->receives.posted - queue_pair->arrived;

	if (offered > MRC_WIMM_MAX || queue_pair->is_arriving)
		offered = MRC_WIMM_MAX;
	__atomic_store_n(&queue_pair->ring->receive_tail, queue_pair->taken + offered,
			 __ATOMIC_RELEASE);
}

/* Takes arrivals from the ring as far as there are receives. With the lock held. */
void queue_take_arrivals(struct queue_pair *queue_pair)
{
	for (;;) {
		uint32_t number = queue_pair->taken + 1;
		struct mrc_arrival *arrival = &queue_pair->ring->arrivals[number % MRC_WIMM_MAX];
		struct receive *receive;

		if (__atomic_load_n(&arrival->number, __ATOMIC_ACQUIRE) != number)
			break;
		receive = next_receive(queue_pair);
		if (!receive)
			break;
		take_arrival(queue_pair, receive, number, arrival);
		queue_pair->taken = number;
	}
	offer_receives(queue_pair);
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct queue_pair *queue_pair = container_of(qp, struct queue_pair, qp);
	int error = 0;

	pthread_mutex_lock(&queue_pair->lock);
	for (; wr; wr = wr->next) {
		if (qp->state == IBV_QPS_RESET || queue_pair->shared)
			error = EINVAL;
		if (!error && wr->num_sge)
			error = queue_pair_open_mailbox(queue_pair);
		if (!error)
			error = receive_queue_add(
			    &queue_pair->receives,
			    queue_pair->receives.posted - queue_pair->received, wr);
		if (error) {
			*bad = wr;
			break;
		}
	}
	queue_advance(queue_pair);
	pthread_mutex_unlock(&queue_pair->lock);
	overrun_look(qp->recv_cq);
	return error;
}

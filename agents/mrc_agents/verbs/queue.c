// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A QP's work ring: what the NIC has done of it, and why it stopped. */
#include <mrc/nic_abi.h>
#include "verbs.h"

/* Why the QP is in ERROR: 1 + enum mrc_status; 0: it is not. */
int queue_failure(struct queue_pair *queue_pair)
{
	uint32_t failure = __atomic_load_n(&queue_pair->ring->failure, __ATOMIC_ACQUIRE);

	if (!failure && device_of(queue_pair->qp.context)->link->is_dead)
		failure = 1 + MRC_STATUS_FLUSHED;
	return failure;
}

/* Takes completed entries from the ring, and the bytes that were staged for them. */
static void take_completions(struct queue_pair *queue_pair)
{
	while (queue_pair->entries_done != queue_pair->entries_end) {
		uint32_t place = queue_pair->entries_done % MRC_WORK_RING;

		if (!__atomic_load_n(&queue_pair->ring->entries[place].is_completed,
				     __ATOMIC_ACQUIRE))
			break;
		queue_pair->staging.tail = queue_pair->staging.ends[place];
		queue_pair->entries_done++;
	}
	while (queue_pair->finished != queue_pair->handed) {
		const struct request *request =
		    &queue_pair->requests[queue_pair->finished % queue_pair->capacity];

		if ((int32_t)(queue_pair->entries_done - request->entries_end) < 0)
			break;
		if (request->is_signalled)
			overrun_count(queue_pair->qp.send_cq, 1);
		queue_pair->finished++;
	}
}

/*
 * The QP is in ERROR. If its receives are shared, it takes no more; libmrc's programs get an event
 * of one that failed. With the lock held.
 */
void queue_enter_error(struct queue_pair *queue_pair)
{
	uint32_t failure = queue_failure(queue_pair);
	int is_fatal = queue_pair->is_libmrc && failure && failure != 1 + MRC_STATUS_FLUSHED;

	if ((queue_pair->shared || is_fatal) && queue_pair->qp.state != IBV_QPS_ERR)
		events_raise(device_of(queue_pair->qp.context), &queue_pair->end);
	queue_pair->qp.state = IBV_QPS_ERR;
}

/*
 * Takes from the ring what is done there, and gives it what has to be. Whatever a program polls
 * for, all its QPs go on: the ring holds fewer requests and arrivals than their queues. With the
 * lock held.
 */
void queue_advance(struct queue_pair *queue_pair)
{
	take_completions(queue_pair);
	queue_take_arrivals(queue_pair);
	if (queue_pair->handed != queue_pair->posted && queue_pair->qp.state == IBV_QPS_RTS &&
	    !queue_failure(queue_pair))
		queue_hand_over(queue_pair);
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Posting: from work requests to entries of the QP's work ring, and the doorbell. */
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <mrc/nic_abi.h>
#include "verbs.h"

enum {
	FRAMES_PER_RUN = 64, /* of one batch: pages of a second one would hold old packets */
	RING_ROOM = MRC_WORK_RING - 1,
};

/* Why the QP is in ERROR: 1 + enum mrc_status; 0: it is not. */
int queue_failure(struct queue_pair *queue_pair)
{
	uint32_t failure = __atomic_load_n(&queue_pair->ring->failure, __ATOMIC_ACQUIRE);

	if (!failure && device_of(queue_pair->qp.context)->link.is_dead)
		failure = 1 + MRC_STATUS_FLUSHED;
	return failure;
}

/* Provides frames to the NIC, which become packets of the QP as far as its window allows. */
static void ring_doorbell(struct queue_pair *queue_pair, uint32_t frames)
{
	struct device_context *device = device_of(queue_pair->qp.context);
	uint32_t frame[MRC_FRAME_BYTES_MAX / sizeof(uint32_t)] = {MRC_DOORBELL_MAGIC};
	union bpf_attr attr;

	if (device->transport == MRC_APPLICATION_ROCEV2)
		frame[0] = MRC_DOORBELL_RC_MAGIC;
	frame[1] = queue_pair->qp.qp_num & ((1U << MRC_QP_INDEX_BITS) - 1);
	while (frames) {
		uint32_t count = frames < FRAMES_PER_RUN ? frames : FRAMES_PER_RUN;

		memset(&attr, 0, sizeof(attr));
		attr.test.prog_fd = device->link.program;
		attr.test.data_in = (uintptr_t)frame;
		attr.test.data_size_in = sizeof(frame);
		attr.test.repeat = count;
		attr.test.batch_size = count;
		attr.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
		/* What is not sent now the agent's look at every QP sends, within a second. */
		if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr)))
			return;
		frames -= count;
	}
}

static uint32_t packets_of(const struct queue_pair *queue_pair, uint32_t length)
{
	uint32_t pmtu = device_of(queue_pair->qp.context)->link.hello.pmtu_bytes;

	return length <= pmtu ? 1 : (length - 1) / pmtu + 1;
}

/* Moves requests into the ring as far as it has room, and rings. */
static void hand_over(struct queue_pair *queue_pair)
{
	struct mrc_work_ring *ring = queue_pair->ring;
	uint32_t first = queue_pair->handed, packets = 0;

	while (queue_pair->handed != queue_pair->posted &&
	       queue_pair->handed - queue_pair->completed < RING_ROOM) {
		struct mrc_work *work =
		    &queue_pair->requests[queue_pair->handed % queue_pair->capacity].work;

		ring->entries[queue_pair->handed % MRC_WORK_RING] = *work;
		if (packets < queue_pair->window_packets)
			packets += packets_of(queue_pair, work->length);
		queue_pair->handed++;
	}
	if (first == queue_pair->handed)
		return;
	__atomic_store_n(&ring->tail, queue_pair->handed, __ATOMIC_SEQ_CST);
	ring_doorbell(queue_pair,
		      packets < queue_pair->window_packets ? packets : queue_pair->window_packets);
}

/* Where the bytes of a request are, in the NIC's memory; -1: nowhere. */
static int64_t source_of(struct queue_pair *queue_pair, const struct ibv_send_wr *wr)
{
	uint32_t place =
	    queue_pair->posted % queue_pair->capacity * queue_pair->cap.max_inline_data;
	const struct ibv_sge *sge = wr->sg_list;

	if (!wr->num_sge || !sge->length)
		return 0;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return region_offset(device_of(queue_pair->qp.context), sge->lkey, sge->addr,
				     sge->length);
	if (sge->length > queue_pair->cap.max_inline_data)
		return -1;
	memcpy(queue_pair->inline_bytes + place, (void *)sge->addr, sge->length);
	return queue_pair->inline_data->offset + place;
}

/* Says once for each operation what there is in its place. */
static int unsupported_opcode(enum ibv_wr_opcode opcode, uint32_t transport)
{
	static const char *const names[] = {
	    [IBV_WR_SEND] = "SEND",
	    [IBV_WR_SEND_WITH_IMM] = "SEND with immediate",
	    [IBV_WR_RDMA_READ] = "RDMA READ",
	    [IBV_WR_ATOMIC_CMP_AND_SWP] = "atomic compare and swap",
	    [IBV_WR_ATOMIC_FETCH_AND_ADD] = "atomic fetch and add",
	};
	static uint32_t said;
	const char *name = opcode < sizeof(names) / sizeof(*names) ? names[opcode] : NULL;
	uint32_t bit = 1U << (opcode % 32);

	if (!(__atomic_fetch_or(&said, bit, __ATOMIC_RELAXED) & bit))
		complain("%s cannot be posted: %s RDMA WRITE and RDMA WRITE with immediate",
			 name ? name : "an operation",
			 transport == MRC_APPLICATION_MRC ? "MRC has" : "over rocev2 there are");
	return EOPNOTSUPP;
}

/* Queues one request; an errno value. */
static int queue_request(struct queue_pair *queue_pair, const struct ibv_send_wr *wr)
{
	int has_immediate = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct request *request;
	int64_t source;

	if (wr->opcode != IBV_WR_RDMA_WRITE && !has_immediate)
		return unsupported_opcode(wr->opcode, device_of(queue_pair->qp.context)->transport);
	if (wr->num_sge > 1)
		return EINVAL;
	if (queue_pair->posted - queue_pair->done >= queue_pair->capacity)
		return ENOMEM;
	source = source_of(queue_pair, wr);
	if (source < 0)
		return EINVAL;
	request = &queue_pair->requests[queue_pair->posted % queue_pair->capacity];
	*request = (struct request){
	    .wr_id = wr->wr_id,
	    .is_signalled = queue_pair->signals_all || wr->send_flags & IBV_SEND_SIGNALED,
	    .work =
		{
		    .id = queue_pair->posted,
		    .length = wr->num_sge ? wr->sg_list->length : 0,
		    .iterations = 1,
		    .local_offset = source,
		    .local_slots = 1,
		    .remote_offset = wr->wr.rdma.remote_addr,
		    .remote_high = wr->wr.rdma.remote_addr >> 32,
		    .remote_slots = 1,
		    .r_key = wr->wr.rdma.rkey,
		    .depth = RING_ROOM,
		    .has_immediate = has_immediate,
		    .immediate = ntohl(wr->imm_data),
		},
	};
	queue_pair->posted++;
	return 0;
}

/* Frees the places of unsignalled requests that are done, which no poll may ever look for. */
static void reclaim(struct queue_pair *queue_pair)
{
	while (queue_pair->done != queue_pair->completed &&
	       !queue_pair->requests[queue_pair->done % queue_pair->capacity].is_signalled)
		queue_pair->done++;
}

/* Takes arrivals from the ring. */
static void take_arrivals(struct queue_pair *queue_pair)
{
	while (queue_pair->arrived != queue_pair->receive_posted) {
		uint32_t number = queue_pair->arrived + 1;
		struct mrc_arrival *arrival = &queue_pair->ring->arrivals[number % MRC_WIMM_MAX];
		struct receive *receive =
		    &queue_pair->receives[queue_pair->arrived % queue_pair->receive_capacity];

		if (__atomic_load_n(&arrival->number, __ATOMIC_ACQUIRE) != number)
			break;
		receive->immediate = arrival->immediate;
		receive->length = arrival->length;
		queue_pair->arrived++;
	}
}

/* Passes as many posted receives to the NIC as it has places for arrivals. */
static void offer_receives(struct queue_pair *queue_pair)
{
	uint32_t offered = queue_pair->receive_posted - queue_pair->arrived;

	if (offered > MRC_WIMM_MAX)
		offered = MRC_WIMM_MAX;
	__atomic_store_n(&queue_pair->ring->receive_tail, queue_pair->arrived + offered,
			 __ATOMIC_RELEASE);
}

/*
 * Takes from the ring what is done there, and gives it what has to be. Whatever a program polls
 * for, all its QPs go on: the ring holds fewer requests and arrivals than their queues. With the
 * lock held.
 */
void queue_advance(struct queue_pair *queue_pair)
{
	while (queue_pair->completed != queue_pair->handed &&
	       __atomic_load_n(
		   &queue_pair->ring->entries[queue_pair->completed % MRC_WORK_RING].is_completed,
		   __ATOMIC_ACQUIRE))
		queue_pair->completed++;
	take_arrivals(queue_pair);
	offer_receives(queue_pair);
	if (queue_pair->handed != queue_pair->posted && queue_pair->qp.state == IBV_QPS_RTS &&
	    !queue_failure(queue_pair))
		hand_over(queue_pair);
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct queue_pair *queue_pair = container_of(qp, struct queue_pair, qp);
	int error = 0;

	pthread_mutex_lock(&queue_pair->lock);
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR)
		error = EINVAL;
	for (; wr && !error; wr = wr->next) {
		if (queue_pair->posted - queue_pair->done >= queue_pair->capacity) {
			queue_advance(queue_pair);
			reclaim(queue_pair);
		}
		error = queue_request(queue_pair, wr);
		if (error)
			break;
	}
	if (error)
		*bad = wr;
	queue_advance(queue_pair);
	pthread_mutex_unlock(&queue_pair->lock);
	return error;
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct queue_pair *queue_pair = container_of(qp, struct queue_pair, qp);
	int error = 0;

	pthread_mutex_lock(&queue_pair->lock);
	for (; wr; wr = wr->next) {
		if (qp->state == IBV_QPS_RESET)
			error = EINVAL;
		else if (queue_pair->receive_posted - queue_pair->received >=
			 queue_pair->receive_capacity)
			error = ENOMEM;
		if (error) {
			*bad = wr;
			break;
		}
		queue_pair->receives[queue_pair->receive_posted % queue_pair->receive_capacity]
		    .wr_id = wr->wr_id;
		queue_pair->receive_posted++;
	}
	queue_advance(queue_pair);
	pthread_mutex_unlock(&queue_pair->lock);
	return error;
}

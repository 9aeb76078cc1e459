// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Completion channels. The descriptor that programs poll is an epoll(7) of two: a ring of which the
 * NIC's programs make a record for each event, and a socket by which the agent reports failures,
 * and all events where it may make no ring.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <mrc/limit_abi.h>
#include "verbs.h"

enum { RECORD_BYTES = 16 }; /* with its header */

struct channel {
	struct ibv_comp_channel channel;
	int socket;
	int ring; /* -1: there is none */
	uint32_t number;
	uint64_t *consumer; /* a page for each of the two positions */
	const uint64_t *producer;
};

static struct channel *channel_of(struct ibv_comp_channel *channel)
{
	return container_of(channel, struct channel, channel);
}

static void *map_page(int ring, int protection, uint64_t offset)
{
	void *page = mmap(NULL, MRC_PAGE_BYTES, protection, MAP_SHARED, ring, offset);

	return page == MAP_FAILED ? NULL : page;
}

static void close_channel(struct channel *channel)
{
	if (channel->consumer)
		unmap_memory(channel->consumer, MRC_PAGE_BYTES);
	if (channel->producer)
		unmap_memory((void *)channel->producer, MRC_PAGE_BYTES);
	if (channel->ring >= 0)
		close(channel->ring);
	if (channel->socket >= 0)
		close(channel->socket);
	if (channel->channel.fd >= 0)
		close(channel->channel.fd);
	free(channel);
}

/* Opens the ring, in which an earlier owner may have left records; an errno value. */
static int open_ring(struct agent_link *link, struct channel *channel)
{
	struct mrc_application_request request = {.verb = MRC_APPLICATION_CHANNEL_RING,
						  .offset = channel->number};
	struct mrc_application_reply reply;
	int error = link_call(link, &request, &reply, &channel->ring);

	if (error)
		return error;
	channel->consumer = map_page(channel->ring, PROT_READ | PROT_WRITE, 0);
	channel->producer = map_page(channel->ring, PROT_READ, MRC_PAGE_BYTES);
	if (!channel->consumer || !channel->producer)
		return ENOMEM;
	__atomic_store_n(channel->consumer, __atomic_load_n(channel->producer, __ATOMIC_ACQUIRE),
			 __ATOMIC_SEQ_CST);
	return watch_descriptor(channel->channel.fd, channel->ring) ? errno : 0;
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct mrc_application_request request = {.verb = MRC_APPLICATION_CREATE_CHANNEL};
	struct agent_link *link = device_of(context)->link;
	struct channel *channel = calloc(1, sizeof(*channel));
	struct mrc_application_reply reply;
	int error;

	if (!channel)
		return NULL;
	channel->channel.context = context;
	channel->socket = channel->ring = -1;
	channel->channel.fd = epoll_create1(EPOLL_CLOEXEC);
	error = channel->channel.fd < 0 ? errno : 0;
	if (!error)
		error = link_call(link, &request, &reply, &channel->socket);
	if (!error && watch_descriptor(channel->channel.fd, channel->socket))
		error = errno;
	channel->number = error ? 0 : reply.channel;
	if (!error && reply.has_ring)
		error = open_ring(link, channel);
	if (error) {
		close_channel(channel);
		errno = error;
		return NULL;
	}
	return &channel->channel;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt)
		return EBUSY;
	close_channel(channel_of(channel));
	return 0;
}

static uint32_t channel_number(const struct ibv_cq *cq)
{
	return cq->channel ? channel_of(cq->channel)->number : 0;
}

/* Names the channels that a QP's events are for. */
void channel_join(struct queue_pair *queue_pair)
{
	queue_pair->ring->channels[MRC_SIDE_SENDS] = channel_number(queue_pair->qp.send_cq);
	queue_pair->ring->channels[MRC_SIDE_RECEIVES] = channel_number(queue_pair->qp.recv_cq);
}

/* Takes a record from the ring; false: there is none. Several threads may do it. */
static int take_record(struct channel *channel)
{
	uint64_t taken;

	if (channel->ring < 0)
		return 0;
	taken = __atomic_load_n(channel->consumer, __ATOMIC_RELAXED);
	while (taken != __atomic_load_n(channel->producer, __ATOMIC_ACQUIRE))
		if (__atomic_compare_exchange_n(channel->consumer, &taken, taken + RECORD_BYTES, 0,
						__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return 1;
	return 0;
}

/* Has a channel report, once, that a CQ of EV events has some; an errno value. */
int channel_arm(const struct completion_queue *queue, int operation)
{
	struct epoll_event wanted = {
	    .events = operation == EPOLL_CTL_ADD ? 0 : EPOLLIN | EPOLLONESHOT,
	    .data.ptr = (void *)queue,
	};

	return epoll_ctl(queue->cq.channel->fd, operation, queue->ev_events - 1, &wanted) ? errno
											  : 0;
}

/*
 * Waits for an event, unless the descriptor does not block. 1: there is one, for the CQ of EV
 * events if it is of one; 0: the agent is gone; -1: errno says why not.
 */
int channel_wait(struct ibv_comp_channel *waiting, struct completion_queue **ev_queue)
{
	struct channel *channel = channel_of(waiting);
	struct epoll_event event;
	ssize_t length;
	int count;
	char byte;

	for (;;) {
		if (take_record(channel))
			return 1;
		length = recv(channel->socket, &byte, 1, MSG_DONTWAIT);
		if (length >= 0)
			return length;
		if (errno != EAGAIN)
			return -1;
		count = epoll_wait(waiting->fd, &event, 1,
				   fcntl(waiting->fd, F_GETFL) & O_NONBLOCK ? 0 : -1);
		if (!count)
			errno = EAGAIN;
		if (count < 1)
			return -1;
		*ev_queue = event.data.ptr;
		if (*ev_queue)
			return 1;
	}
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Asynchronous events. Those of the port come from the agent by a socket, all others from this
 * library; async_fd is an epoll descriptor over both.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "verbs.h"

enum {
	PORT = 1, /* of a program */
	LOOK_MS = 100,
};

int watch_descriptor(int epoll, int descriptor)
{
	struct epoll_event wanted = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &wanted);
}

/* Opens async_fd of a context; an errno value. */
int events_open(struct device_context *device)
{
	struct mrc_application_request request = {.verb = MRC_APPLICATION_WATCH_PORT};
	struct events *events = &device->events;
	struct mrc_application_reply reply;
	int error = link_call(device->link, &request, &reply, &events->port);

	if (error)
		return error;
	pthread_mutex_init(&events->lock, NULL);
	events->end = &events->first;
	device->verbs.context.async_fd = -1;
	events->waiting = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	device->verbs.context.async_fd = epoll_create1(EPOLL_CLOEXEC);
	if (events->waiting >= 0 && device->verbs.context.async_fd >= 0 &&
	    !watch_descriptor(device->verbs.context.async_fd, events->waiting) &&
	    !watch_descriptor(device->verbs.context.async_fd, events->port))
		return 0;
	error = errno;
	events_close(device);
	return error;
}

void events_close(struct device_context *device)
{
	int descriptors[] = {device->events.port, device->events.waiting,
			     device->verbs.context.async_fd};

	for (size_t i = 0; i < sizeof(descriptors) / sizeof(*descriptors); i++)
		if (descriptors[i] >= 0)
			close(descriptors[i]);
	pthread_mutex_destroy(&device->events.lock);
}

/* Queues an event of an object; one that still waits to be taken is not queued again. */
void events_raise(struct device_context *device, struct object_event *event)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&device->events.lock);
	if (!event->is_waiting) {
		event->is_waiting = 1;
		event->next = NULL;
		*device->events.end = event;
		device->events.end = &event->next;
		/* It cannot be full. */
		(void)!write(device->events.waiting, &one, sizeof(one));
	}
	pthread_mutex_unlock(&device->events.lock);
}

/* Takes an event out of the queue. With the lock held. */
static void unqueue(struct events *events, struct object_event *event)
{
	struct object_event **link = &events->first;
	uint64_t one;

	while (*link != event)
		link = &(*link)->next;
	*link = event->next;
	if (!event->next)
		events->end = link;
	event->is_waiting = 0;
	(void)!read(events->waiting, &one, sizeof(one));
}

/*
 * Forgets an event of an object that is about to end, and waits until the program has acknowledged
 * what it has got of it, as verbs has it.
 */
void events_forget(struct device_context *device, struct object_event *event)
{
	pthread_mutex_lock(&device->events.lock);
	if (event->is_waiting)
		unqueue(&device->events, event);
	pthread_mutex_unlock(&device->events.lock);
	pthread_mutex_lock(event->mutex);
	while (*event->acknowledged != event->taken)
		pthread_cond_wait(event->cond, event->mutex);
	pthread_mutex_unlock(event->mutex);
}

/* The oldest event of an object; 0: there is none. */
static int take_waiting(struct events *events, struct ibv_async_event *taken)
{
	struct object_event *event;

	pthread_mutex_lock(&events->lock);
	event = events->first;
	if (event) {
		unqueue(events, event);
		event->taken++;
		*taken = event->event;
	}
	pthread_mutex_unlock(&events->lock);
	return event != NULL;
}

/* A change of the port, or the end of the agent; 0: there is none. */
static int take_port_change(struct device_context *device, struct ibv_async_event *taken)
{
	struct events *events = &device->events;
	char is_up;
	ssize_t length;

	pthread_mutex_lock(&events->lock);
	length = events->is_lost ? -1 : recv(events->port, &is_up, 1, MSG_DONTWAIT);
	if (!length) {
		events->is_lost = 1;
		epoll_ctl(device->verbs.context.async_fd, EPOLL_CTL_DEL, events->port, NULL);
	}
	pthread_mutex_unlock(&events->lock);
	if (length < 0)
		return 0;
	*taken = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
	if (length) {
		taken->event_type = is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
		taken->element.port_num = PORT;
	}
	return 1;
}

/*
 * Takes the next event. While it waits for one it looks at CQs now and then: what overruns one the
 * NIC does not know.
 */
EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct device_context *device = device_of(context);
	struct epoll_event ready;
	int count;

	for (;;) {
		overrun_look_at_all(device);
		if (take_waiting(&device->events, event) || take_port_change(device, event))
			return 0;
		if (device->events.is_lost) {
			errno = EIO;
			return -1;
		}
		if (fcntl(context->async_fd, F_GETFL) & O_NONBLOCK) {
			errno = EAGAIN;
			return -1;
		}
		count = epoll_wait(context->async_fd, &ready, 1, LOOK_MS);
		if (count < 0)
			return -1;
	}
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *acknowledged)
{
	pthread_mutex_lock(mutex);
	++*acknowledged;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default:
		break;
	}
}

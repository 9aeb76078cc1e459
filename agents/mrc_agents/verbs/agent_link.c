// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The connection to the NIC agent: one packet out, one packet back. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "verbs.h"

enum {
	HELLO_DESCRIPTORS = 2,
	REPLY_TIMEOUT_SECONDS = 10,
};

union descriptor_message {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr header; /* for its alignment */
};

void complain(const char *format, ...)
{
	va_list arguments;

	fputs("mrc-testbed: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

/*
 * Receives one reply, what follows it, if anything does, and the descriptors that come with it;
 * those that were wanted are there.
 */
static int receive_reply(struct agent_link *link, struct mrc_application_reply *reply,
			 struct mrc_control *behind, int *descriptors, unsigned int wanted)
{
	char control[CMSG_SPACE(HELLO_DESCRIPTORS * sizeof(int))]
	    __attribute__((aligned(sizeof(struct cmsghdr))));
	struct iovec parts[] = {{reply, sizeof(*reply)}, {behind, behind ? sizeof(*behind) : 0}};
	struct msghdr message = {
	    .msg_iov = parts,
	    .msg_iovlen = 2,
	    .msg_control = control,
	    .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;
	ssize_t length = -1;

	/* In steps of a second: a pause of the whole machine costs one step. */
	for (int seconds = 0; seconds < REPLY_TIMEOUT_SECONDS; seconds += errno != EINTR) {
		length = recvmsg(link->socket, &message, MSG_CMSG_CLOEXEC);
		if (length >= 0 || (errno != EINTR && errno != EAGAIN))
			break;
	}
	if (length < 0 && (errno == EAGAIN)) {
		complain("the NIC agent does not respond within %d s", REPLY_TIMEOUT_SECONDS);
		return ETIMEDOUT;
	}
	if (length <= 0) {
		link->is_dead = 1;
		return EIO;
	}
	if ((size_t)length != parts[0].iov_len + parts[1].iov_len) {
		complain("the NIC agent is of another version than this library");
		return EPROTO;
	}
	reply->text[sizeof(reply->text) - 1] = 0;
	if (reply->error || !wanted)
		return reply->error;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS ||
	    header->cmsg_len != CMSG_LEN(wanted * sizeof(int)))
		return EPROTO;
	memcpy(descriptors, CMSG_DATA(header), wanted * sizeof(int));
	return 0;
}

static void link_close(struct agent_link *link)
{
	for (int i = 0; i < MRC_MEMORY_CHUNKS; i++)
		if (link->chunks[i])
			close(link->chunks[i] - 1);
	close(link->program);
	if (link->doorbell >= 0)
		close(link->doorbell);
	close(link->work_rings);
	close(link->socket);
	pthread_mutex_destroy(&link->lock);
}

static int link_open(struct agent_link *link)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval step = {.tv_sec = 1}, timeout = {.tv_sec = REPLY_TIMEOUT_SECONDS};
	const char *name = MRC_APPLICATION_SOCKET;
	int descriptors[HELLO_DESCRIPTORS], error;

	pthread_mutex_init(&link->lock, NULL);
	link->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (link->socket < 0)
		return errno;
	setsockopt(link->socket, SOL_SOCKET, SO_RCVTIMEO, &step, sizeof(step));
	setsockopt(link->socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	memcpy(address.sun_path + 1, name, strlen(name)); /* abstract: its first byte is 0 */
	if (connect(link->socket, (struct sockaddr *)&address,
		    offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) {
		error = errno;
		close(link->socket);
		return error;
	}
	error = receive_reply(link, &link->hello, NULL, descriptors, HELLO_DESCRIPTORS);
	if (!error && (link->hello.version != MRC_APPLICATION_VERSION ||
		       link->hello.ring_bytes != sizeof(struct mrc_work_ring))) {
		complain("the lab is of another version than this library: restart its agents");
		for (int i = 0; i < HELLO_DESCRIPTORS; i++)
			close(descriptors[i]);
		error = EPROTO;
	}
	if (error) {
		if (link->hello.error)
			complain("%s", (char *)link->hello.text);
		close(link->socket);
		return error;
	}
	link->program = descriptors[0];
	link->doorbell = doorbell_open();
	link->work_rings = descriptors[1];
	link->ring_stride = (sizeof(struct mrc_work_ring) + 7) & ~7UL;
	link->rings = mmap(NULL, link->ring_stride * link->hello.qp_count, PROT_READ | PROT_WRITE,
			   MAP_SHARED, link->work_rings, 0);
	if (link->rings != MAP_FAILED)
		return 0;
	error = errno;
	link_close(link);
	return error;
}

/* The link that a process shares among its contexts, for what they register is one memory. */
static pthread_mutex_t sharing = PTHREAD_MUTEX_INITIALIZER;
static struct agent_link *links; /* the newest first; others are dead */
static int is_forking;		 /* a thread that has the lock, and pages_changing */

/* Finds the link to the agent that responds now, or opens one; an errno value. */
int link_get(struct agent_link **got)
{
	struct agent_link *link;
	int error = forks_watch();

	pthread_mutex_lock(&sharing);
	link = links;
	if (!error && (!link || !link_is_alive(link))) {
		link = calloc(1, sizeof(*link));
		error = link ? link_open(link) : ENOMEM;
		if (error) {
			free(link);
		} else {
			link->next = links;
			links = link;
		}
	}
	if (!error) {
		link->users++;
		*got = link;
	}
	pthread_mutex_unlock(&sharing);
	return error;
}

/* Keeps a link for one user more. */
void link_keep(struct agent_link *link)
{
	pthread_mutex_lock(&sharing);
	link->users++;
	pthread_mutex_unlock(&sharing);
}

void link_put(struct agent_link *link)
{
	struct agent_link **each;
	int is_last;

	pthread_mutex_lock(&sharing);
	is_last = !--link->users;
	for (each = &links; is_last && *each; each = &(*each)->next)
		if (*each == link) {
			*each = link->next;
			break;
		}
	pthread_mutex_unlock(&sharing);
	if (!is_last)
		return;
	munmap(link->rings, link->ring_stride * link->hello.qp_count);
	link_close(link);
	free(link);
}

/* Keep links as they are while the process forks. */
void links_lock(void)
{
	pthread_mutex_lock(&sharing);
	is_forking = 1;
}

void links_unlock(void)
{
	is_forking = 0;
	pthread_mutex_unlock(&sharing);
}

/* In a child of fork(): its parent's links are not its own, and end with the parent. */
void link_leave_all(void)
{
	struct agent_link *link;

	for (link = links; link; link = link->next) {
		close(link->socket);
		link->is_dead = 1;
		pthread_mutex_init(&link->lock, NULL); /* a thread of the parent may hold it */
	}
	links = NULL;
}

/* True if an address is one of the work rings; with pages_changing held. */
int link_has_ring_at(uintptr_t address)
{
	int is_there = 0, must_lock = !is_forking;
	struct agent_link *link;

	if (must_lock)
		pthread_mutex_lock(&sharing);
	for (link = links; link && !is_there; link = link->next)
		is_there =
		    address - (uintptr_t)link->rings < link->ring_stride * link->hello.qp_count;
	if (must_lock)
		pthread_mutex_unlock(&sharing);
	return is_there;
}

/*
 * Adds a proof of CAP_NET_ADMIN to a message: the link's socket, with an option that the kernel
 * lets nobody else set, and the agent reads. An errno value.
 */
static int add_proof(struct agent_link *link, struct msghdr *message,
		     union descriptor_message *room)
{
	const int one = 1;
	struct cmsghdr *header;

	if (setsockopt(link->socket, SOL_SOCKET, SO_PREFER_BUSY_POLL, &one, sizeof(one))) {
		if (errno == EPERM)
			complain("control of the NIC needs CAP_NET_ADMIN");
		return errno;
	}
	message->msg_control = room;
	message->msg_controllen = sizeof(*room);
	header = CMSG_FIRSTHDR(message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &link->socket, sizeof(int));
	return 0;
}

/* One request and its reply, each with what follows it, if anything does. */
static int exchange(struct agent_link *link, const struct mrc_application_request *request,
		    struct mrc_application_reply *reply, struct mrc_control *behind,
		    int *descriptor)
{
	struct iovec parts[] = {{(void *)request, sizeof(*request)},
				{behind, behind ? sizeof(*behind) : 0}};
	int is_controller = behind || request->verb == MRC_APPLICATION_WATCH_EVS, error;
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	union descriptor_message room = {{0}};

	pthread_mutex_lock(&link->lock);
	error = link->is_dead ? EIO : 0;
	if (!error && is_controller)
		error = add_proof(link, &message, &room);
	if (error) {
		/* nothing is sent */
	} else if (sendmsg(link->socket, &message, MSG_NOSIGNAL) < 0) {
		error = errno;
		link->is_dead = error == EPIPE || error == ECONNRESET;
	} else {
		error = receive_reply(link, reply, behind, descriptor, descriptor ? 1 : 0);
		/* The reply may come later: it would be taken for that of another request. */
		link->is_dead |= error == ETIMEDOUT || error == EPROTO;
		/* A query learns by E2BIG how long its array has to be. */
		if (error && !link->is_dead && error != E2BIG)
			complain("%s", (char *)reply->text);
	}
	if (error && link->is_dead)
		complain("the NIC agent is gone");
	pthread_mutex_unlock(&link->lock);
	return error;
}

int link_call(struct agent_link *link, const struct mrc_application_request *request,
	      struct mrc_application_reply *reply, int *descriptor)
{
	return exchange(link, request, reply, NULL, descriptor);
}

/* Carries out a message of a controller, into which the reply is written; an errno value. */
int link_control(struct agent_link *link, struct mrc_control *control)
{
	const struct mrc_application_request request = {.verb = MRC_APPLICATION_CONTROL};
	struct mrc_application_reply reply;

	return exchange(link, &request, &reply, control, NULL);
}

/* True if the agent still holds its end; does not block, nor takes a reply for another. */
int link_is_alive(struct agent_link *link)
{
	char byte;

	if (!link->is_dead && recv(link->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
		link->is_dead = 1;
		complain("the NIC agent is gone; what was posted is flushed");
	}
	return !link->is_dead;
}

/* The descriptor of a chunk of NIC memory, and whether the caller closes it; -1 with errno. */
static int chunk_open(struct agent_link *link, uint32_t index, int *is_mine)
{
	struct mrc_application_request request = {.verb = MRC_APPLICATION_CHUNK, .offset = index};
	int known = __atomic_load_n(&link->chunks[index], __ATOMIC_ACQUIRE), descriptor, none = 0;
	struct mrc_application_reply reply;

	*is_mine = 0;
	if (known)
		return known - 1;
	errno = link_call(link, &request, &reply, &descriptor);
	if (errno)
		return -1;
	/* One that was added may be another one when it is next used. */
	*is_mine = (uint64_t)index * MRC_MEMORY_CHUNK >= link->hello.memory_bytes ||
		   !__atomic_compare_exchange_n(&link->chunks[index], &none, descriptor + 1, 0,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return descriptor;
}

/* Maps bytes of one chunk of the NIC's memory, in the place of what is there; an errno value. */
int link_map_chunk(struct agent_link *link, uint32_t offset, size_t bytes, void *there)
{
	int is_mine, descriptor = chunk_open(link, offset / MRC_MEMORY_CHUNK, &is_mine), error = 0;

	if (descriptor < 0)
		return errno;
	if (!map_memory(there, bytes, MAP_SHARED | MAP_FIXED, descriptor,
			offset % MRC_MEMORY_CHUNK))
		error = errno;
	if (is_mine)
		close(descriptor);
	return error;
}

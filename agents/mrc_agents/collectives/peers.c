// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Connections to peers. A TCP connection to each, on the network beside the fabric, carries
 * what QPs need to know of each other. Later it says that a peer is dead: its kernel closes the
 * connection, and a peer that leaves in good order has said so before. A QP that owes nothing would
 * never miss the other end.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "coll.h"

enum {
	MAGIC = 0x4d52434c, /* "MRCL" */
	RETRIES = 7,
	PSN_MASK = 0xffffff,
	BACKLOG = 128,
	CALL_AGAIN_MS = 10,
};

struct hello {
	uint32_t magic;
	int32_t rank;
};

struct endpoint {
	uint32_t qp_number;
	uint32_t psn;
	uint32_t key;
	uint32_t slots;
	uint32_t slot_bytes;
	uint32_t unused;
	uint64_t address;
	uint8_t gid[16];
};

enum word { LEFT = 1, FAULTY };

struct notice {
	uint32_t word;
	int32_t rank; /* at fault */
	char why[ERROR_BYTES];
};

int coll_listen_for_peers(struct mrc_coll *coll, char *why, size_t why_bytes)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(coll->options.port)};
	const int yes = 1;

	coll->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (coll->listener < 0 ||
	    setsockopt(coll->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) ||
	    bind(coll->listener, (struct sockaddr *)&any, sizeof(any)) ||
	    listen(coll->listener, BACKLOG)) {
		snprintf(why, why_bytes, "peers cannot connect: %s", strerror(errno));
		return -1;
	}
	return 0;
}

int mrc_coll_port(const struct mrc_coll *coll)
{
	struct sockaddr_in own;
	socklen_t bytes = sizeof(own);

	return getsockname(coll->listener, (struct sockaddr *)&own, &bytes) ? -1
									    : ntohs(own.sin_port);
}

static int await(int file, short events, int64_t deadline_ns)
{
	const int64_t left_ms = (deadline_ns - coll_now_ns()) / 1000000;
	struct pollfd wanted = {.fd = file, .events = events};

	if (left_ms <= 0 || poll(&wanted, 1, left_ms) <= 0) {
		errno = ETIMEDOUT;
		return -1;
	}
	return 0;
}

static int receive(int file, void *into, size_t bytes, int64_t deadline_ns)
{
	while (bytes) {
		ssize_t got;

		if (await(file, POLLIN, deadline_ns))
			return -1;
		got = recv(file, into, bytes, 0);
		if (got <= 0) {
			if (!got)
				errno = ECONNRESET;
			return -1;
		}
		into = (char *)into + got;
		bytes -= got;
	}
	return 0;
}

/* Sends some bytes, which an idle connection takes at once. */
static int give(int file, const void *from, size_t bytes)
{
	return send(file, from, bytes, MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : -1;
}

static int call_once(const struct sockaddr *address, socklen_t bytes)
{
	const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (file >= 0 && connect(file, address, bytes)) {
		close(file);
		return -1;
	}
	return file;
}

/* Calls until the peer listens; -1: errno says why not. */
static int call(const struct mrc_coll *coll, const struct mrc_coll_peer *wanted,
		int64_t deadline_ns)
{
	const struct addrinfo kind = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	const struct hello hello = {MAGIC, coll->rank};
	struct addrinfo *found;
	char port[8];
	int file;

	snprintf(port, sizeof(port), "%d", wanted->port);
	if (getaddrinfo(wanted->address, port, &kind, &found)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	while ((file = call_once(found->ai_addr, found->ai_addrlen)) < 0 && errno == ECONNREFUSED &&
	       coll_now_ns() < deadline_ns)
		poll(NULL, 0, CALL_AGAIN_MS);
	freeaddrinfo(found);
	if (file >= 0 && give(file, &hello, sizeof(hello))) {
		close(file);
		return -1;
	}
	return file;
}

/* The connection of a peer of higher rank, which calls; others that call meanwhile are kept. */
static int accept_peer(struct mrc_coll *coll, int rank, int64_t deadline_ns)
{
	struct hello hello;
	int file;

	for (;;) {
		for (int i = 0; i < coll->caller_count; i++)
			if (coll->callers[i].rank == rank) {
				file = coll->callers[i].socket;
				coll->callers[i] = coll->callers[--coll->caller_count];
				return file;
			}
		if (await(coll->listener, POLLIN, deadline_ns))
			return -1;
		file = accept4(coll->listener, NULL, NULL, SOCK_CLOEXEC);
		if (file < 0)
			return -1;
		if (receive(file, &hello, sizeof(hello), deadline_ns) || hello.magic != MAGIC ||
		    coll->caller_count == PEERS_MAX) {
			close(file); /* a stranger */
			continue;
		}
		coll->callers[coll->caller_count].rank = hello.rank;
		coll->callers[coll->caller_count++].socket = file;
	}
}

static int tell_endpoint(const struct mrc_coll *coll, const struct peer *peer)
{
	struct endpoint own = {
	    .qp_number = peer->qp->qp_num,
	    .psn = peer->qp->qp_num & PSN_MASK,
	    .key = peer->region->rkey,
	    .slots = coll->options.slots,
	    .slot_bytes = coll->options.slot_bytes,
	    .address = (uintptr_t)peer->slots,
	};

	memcpy(own.gid, coll->gid, sizeof(own.gid));
	return give(peer->socket, &own, sizeof(own));
}

/* The longest time-out of a QP, as an exponent, with which RETRIES of them fit. */
static uint8_t timeout_exponent(uint32_t dead_after_ms)
{
	uint8_t exponent = 1;

	while (exponent < 31 && (RETRIES + 1) * 4096e-6 * (2u << exponent) <= dead_after_ms)
		exponent++;
	return exponent;
}

static int connect_qp(struct mrc_coll *coll, struct peer *peer, int64_t deadline_ns)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = coll->mtu,
	    .ah_attr = {.is_global = 1, .port_num = 1},
	    .timeout = timeout_exponent(coll->options.dead_after_ms),
	    .retry_cnt = RETRIES,
	    .rnr_retry = 7, /* for ever: its program may compute */
	    .sq_psn = peer->qp->qp_num & PSN_MASK,
	};
	struct endpoint far;
	int error;

	if (receive(peer->socket, &far, sizeof(far), deadline_ns))
		return -1;
	if (far.slots != coll->options.slots || far.slot_bytes != coll->options.slot_bytes) {
		errno = EPROTO;
		return -1;
	}
	attr.dest_qp_num = far.qp_number;
	attr.rq_psn = far.psn;
	memcpy(attr.ah_attr.grh.dgid.raw, far.gid, sizeof(far.gid));
	error = ibv_modify_qp(peer->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN);
	attr.qp_state = IBV_QPS_RTS;
	if (!error)
		error = ibv_modify_qp(peer->qp, &attr,
				      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	peer->remote_slots = far.address;
	peer->remote_key = far.key;
	errno = error;
	return error ? -1 : 0;
}

/* Waits until the other end can take writes; none begins before. */
static int await_readiness(struct peer *peer, int64_t deadline_ns)
{
	char ready;

	return receive(peer->socket, &ready, 1, deadline_ns) ||
	       fcntl(peer->socket, F_SETFL, fcntl(peer->socket, F_GETFL) | O_NONBLOCK);
}

static int give_up(struct mrc_coll *coll, const struct peer *peer, const char *what)
{
	coll_fail(coll, peer->rank, "rank %d %s: %s", peer->rank, what,
		  errno == EPROTO ? "it has slots of another number or size" : strerror(errno));
	return -1;
}

int mrc_coll_connect(struct mrc_coll *coll, const struct mrc_coll_peer *peers, int count,
		     int timeout_ms)
{
	const int64_t deadline_ns = coll_now_ns() + timeout_ms * 1000000LL;
	const int first = coll->peer_count;
	int error;

	for (int i = 0; i < count; i++) {
		struct peer *peer = &coll->peers[coll->peer_count];

		if (peers[i].rank == coll->rank || coll_peer_of(coll, peers[i].rank))
			continue;
		if (coll->peer_count == PEERS_MAX) {
			coll_fail(coll, peers[i].rank, "rank %d cannot have more than %d peers",
				  coll->rank, PEERS_MAX);
			return -1;
		}
		coll->peer_count++;
		*peer = (struct peer){.rank = peers[i].rank, .socket = -1};
		error = coll_open_slots(coll, peer);
		if (error) {
			coll_fail(coll, coll->rank,
				  "the NIC of rank %d has no room for %d peers, each %zu bytes "
				  "and a QP (`nic: {memory}` of the topology): %s",
				  coll->rank, count, 2 * slots_bytes(coll), strerror(error));
			return -1;
		}
		if (peer->rank < coll->rank)
			peer->socket = call(coll, &peers[i], deadline_ns);
	}
	for (int i = first; i < coll->peer_count; i++) {
		struct peer *peer = &coll->peers[i];

		if (peer->rank > coll->rank)
			peer->socket = accept_peer(coll, peer->rank, deadline_ns);
		if (peer->socket < 0 || tell_endpoint(coll, peer))
			return give_up(coll, peer, "cannot be reached");
	}
	for (int i = first; i < coll->peer_count; i++)
		if (connect_qp(coll, &coll->peers[i], deadline_ns) ||
		    give(coll->peers[i].socket, "", 1))
			return give_up(coll, &coll->peers[i], "cannot be connected to");
	for (int i = first; i < coll->peer_count; i++)
		if (await_readiness(&coll->peers[i], deadline_ns))
			return give_up(coll, &coll->peers[i], "is not ready");
	return 0;
}

/* Reports to peers which rank is at fault, and why: they would see this one go. */
void coll_inform_peers(struct mrc_coll *coll, int rank)
{
	struct notice notice = {FAULTY, rank, ""};

	memcpy(notice.why, coll->error, sizeof(notice.why));
	for (int i = 0; i < coll->peer_count; i++)
		if (coll->peers[i].socket >= 0)
			give(coll->peers[i].socket, &notice, sizeof(notice));
}

/* Reads a notice of the connection, if one has arrived. */
static enum { SILENCE, GOODBYE, FAULT, CLOSED } listen_to(struct peer *peer, struct notice *notice)
{
	const ssize_t got = recv(peer->socket, notice, sizeof(*notice), MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return SILENCE;
	if (got == sizeof(*notice) && notice->word == FAULTY)
		return FAULT;
	close(peer->socket);
	peer->socket = -1;
	peer->has_left = got == sizeof(*notice) && notice->word == LEFT;
	return peer->has_left ? GOODBYE : CLOSED;
}

/* Finds peers that died or left. One that closed without a word is the cause; others follow. */
void coll_look_at_sockets(struct mrc_coll *coll)
{
	struct notice notice, fault = {.rank = -1};
	int dead = -1;

	for (int i = 0; i < coll->peer_count; i++) {
		struct peer *peer = &coll->peers[i];

		if (peer->socket < 0)
			continue;
		switch (listen_to(peer, &notice)) {
		case SILENCE:
		case GOODBYE:
			break;
		case CLOSED:
			dead = peer->rank;
			break;
		case FAULT:
			fault = notice;
			break;
		}
	}
	if (dead >= 0)
		coll_fail(coll, dead, "rank %d has died", dead);
	else if (fault.rank >= 0)
		coll_fail(coll, fault.rank, "%.*s", ERROR_BYTES - 1, fault.why);
}

void coll_close_peers(struct mrc_coll *coll)
{
	const struct notice goodbye = {LEFT, coll->rank, ""};

	for (int i = 0; i < coll->peer_count; i++) {
		struct peer *peer = &coll->peers[i];

		if (peer->socket >= 0) {
			if (!coll->has_failed)
				give(peer->socket, &goodbye, sizeof(goodbye));
			close(peer->socket);
		}
		coll_close_slots(peer);
	}
	for (int i = 0; i < coll->caller_count; i++)
		close(coll->callers[i].socket);
	if (coll->listener >= 0)
		close(coll->listener);
}

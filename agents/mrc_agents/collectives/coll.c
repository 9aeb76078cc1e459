// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Opening and closing, and the loop that does the work. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "coll.h"

enum {
	POLLS = 200,	/* of the CQ before the thread sleeps */
	PROBE_MS = 500, /* of waiting, until the peer's NIC is asked whether it is there */
	CQE_COUNT = 4096,
};

int64_t coll_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int open_nic(struct mrc_coll *coll, char *why, size_t why_bytes)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_port_attr port;
	union ibv_gid gid;

	coll->nic = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	if (devices)
		ibv_free_device_list(devices);
	if (!coll->nic) {
		snprintf(why, why_bytes,
			 "there is no RDMA device; start the program by mrc-testbed launch");
		return -1;
	}
	coll->pd = ibv_alloc_pd(coll->nic);
	coll->channel = ibv_create_comp_channel(coll->nic);
	if (coll->pd && coll->channel)
		coll->cq = ibv_create_cq(coll->nic, CQE_COUNT, NULL, coll->channel, 0);
	if (!coll->cq || ibv_query_port(coll->nic, 1, &port) ||
	    ibv_query_gid(coll->nic, 1, 0, &gid) ||
	    fcntl(coll->channel->fd, F_SETFL, fcntl(coll->channel->fd, F_GETFL) | O_NONBLOCK)) {
		snprintf(why, why_bytes, "the RDMA device cannot be used: %s", strerror(errno));
		return -1;
	}
	memcpy(coll->gid, gid.raw, sizeof(coll->gid));
	coll->mtu = port.active_mtu;
	return 0;
}

struct mrc_coll *mrc_coll_open(int rank, const struct mrc_coll_options *options, char *why,
			       size_t why_bytes)
{
	struct mrc_coll *coll = coll_begin_progress(rank, options);

	if (!coll) {
		snprintf(why, why_bytes, "no memory");
		return NULL;
	}
	coll->listener = -1;
	coll->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (open_nic(coll, why, why_bytes) || coll_listen_for_peers(coll, why, why_bytes)) {
		mrc_coll_close(coll);
		return NULL;
	}
	return coll;
}

void coll_rouse(const struct mrc_coll *coll)
{
	eventfd_write(coll->wake, 1);
}

void mrc_coll_wake(struct mrc_coll *coll)
{
	__atomic_store_n(&coll->is_woken, true, __ATOMIC_RELEASE);
	coll_rouse(coll);
}

static void check_awaited(struct mrc_coll *coll, struct operation *operation, int64_t now)
{
	struct peer *peer;
	int at = 0;

	while ((peer = coll_awaited(operation, &at))) {
		if (peer->has_left)
			coll_fail(coll, peer->rank, "rank %d has left, and an operation needs it",
				  peer->rank);
		else if (now >= operation->deadline_ns)
			coll_fail(coll, peer->rank,
				  "time-out: rank %d waits for rank %d since %d ms", coll->rank,
				  peer->rank, operation->timeout_ms);
	}
}

/* Sleeps until something comes. */
static void sleep_until(struct mrc_coll *coll, int64_t deadline_ns, int64_t probe_ns)
{
	struct pollfd files[PEERS_MAX + 2] = {
	    {.fd = coll->wake, .events = POLLIN},
	    {.fd = coll->channel->fd, .events = POLLIN},
	};
	const int64_t until = probe_ns < deadline_ns ? probe_ns : deadline_ns, now = coll_now_ns();
	bool is_any_ready = false;
	struct ibv_cq *cq;
	void *context;
	eventfd_t count;

	for (int i = 0; i < coll->peer_count; i++)
		files[i + 2] = (struct pollfd){.fd = coll->peers[i].socket, .events = POLLIN};
	poll(files, coll->peer_count + 2,
	     until == INT64_MAX ? -1
	     : until > now	? (int)((until - now + 999999) / 1000000)
				: 0);
	if (files[1].revents && !ibv_get_cq_event(coll->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < coll->peer_count; i++)
		is_any_ready |= files[i + 2].revents != 0;
	if (is_any_ready)
		coll_look_at_sockets(coll);
	while (coll_take_completions(coll) > 0) /* what a peer sent before it left is here */
		;
	eventfd_read(coll->wake, &count);
}

static void check_all(struct mrc_coll *coll, int64_t *probe_ns)
{
	const int64_t now = coll_now_ns();
	const bool is_late = now >= *probe_ns;
	struct peer *peer;

	for (struct operation *each = coll->active; each && !coll->has_failed; each = each->next) {
		int at = 0;

		check_awaited(coll, each, now);
		while (is_late && !coll->has_failed && (peer = coll_awaited(each, &at)))
			coll_probe(coll, peer);
	}
	if (is_late)
		*probe_ns = now + PROBE_MS * 1000000LL;
}

static int64_t first_deadline_ns(const struct mrc_coll *coll, int64_t deadline_ns)
{
	for (const struct operation *each = coll->active; each; each = each->next)
		if (each->deadline_ns < deadline_ns)
			deadline_ns = each->deadline_ns;
	return deadline_ns;
}

int mrc_coll_wait(struct mrc_coll *coll, int timeout_ms, struct mrc_coll_done *done)
{
	const int64_t deadline_ns =
	    timeout_ms < 0 ? INT64_MAX : coll_now_ns() + timeout_ms * 1000000LL;
	int64_t probe_ns = coll_now_ns() + PROBE_MS * 1000000LL;
	int idle = 0;

	for (;;) {
		bool has_moved = coll_take_completions(coll) > 0;

		coll_take_started(coll);
		has_moved |= coll_advance_all(coll);
		if (coll_take_ended(coll, done))
			return 1;
		if (__atomic_exchange_n(&coll->is_woken, false, __ATOMIC_ACQUIRE))
			return 0;
		if (has_moved) {
			idle = 0;
			continue;
		}
		if (coll->active && idle++ < POLLS)
			continue;
		ibv_req_notify_cq(coll->cq, 0);
		if (coll_take_completions(coll) > 0)
			continue;
		sleep_until(coll, first_deadline_ns(coll, deadline_ns),
			    coll->active ? probe_ns : INT64_MAX);
		check_all(coll, &probe_ns);
		if (coll_now_ns() >= deadline_ns)
			return 0;
		idle = 0;
	}
}

static bool is_all_acknowledged(const struct mrc_coll *coll)
{
	for (int i = 0; i < coll->peer_count; i++)
		if (coll->peers[i].sent != coll->peers[i].acknowledged && !coll->peers[i].has_left)
			return false;
	return true;
}

void mrc_coll_close(struct mrc_coll *coll)
{
	while (!coll->has_failed && !is_all_acknowledged(coll)) {
		ibv_req_notify_cq(coll->cq, 0);
		if (coll_take_completions(coll) <= 0)
			sleep_until(coll, INT64_MAX, INT64_MAX); /* a QP fails in the end */
	}
	coll_close_peers(coll);
	if (coll->cq)
		ibv_destroy_cq(coll->cq);
	if (coll->channel)
		ibv_destroy_comp_channel(coll->channel);
	if (coll->pd)
		ibv_dealloc_pd(coll->pd);
	if (coll->nic)
		ibv_close_device(coll->nic);
	close(coll->wake);
	coll_free_progress(coll);
}

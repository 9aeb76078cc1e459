/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Two QPs of MRC on two hosts, which find each other by TCP over the management network. */
#ifndef PAIR_H
#define PAIR_H

#include <errno.h>
#include <mrc.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEPTH = 64, CONNECT_TRIES = 100, RETRY_US = 100000 };

/* The part that the ends exchange. */
struct end {
	union ibv_gid gid;
	uint64_t address;
	uint32_t qpn, psn, rkey;
};

struct pair {
	struct ibv_context *device;
	struct mrc_context *context;
	struct ibv_pd *pd;
	struct mrc_comp_channel *channel;
	struct mrc_cq *sends, *receives;
	struct mrc_qp *qp;
	struct ibv_mr *region;
	struct end mine, theirs;
	int tcp;
};

static inline void need(int is_so, const char *what)
{
	if (is_so)
		return;
	perror(what);
	exit(1);
}

static inline struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device = list && *list ? ibv_open_device(*list) : NULL;

	need(device != NULL, "no RDMA device");
	ibv_free_device_list(list);
	return device;
}

/* A TCP connection to a host, as soon as its program listens, or from whoever connects first. */
static inline int connect_tcp(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	int one = 1, connected, listener = socket(AF_INET, SOCK_STREAM, 0);

	if (!host)
		hints.ai_flags = AI_PASSIVE;
	need(!getaddrinfo(host, "18600", &hints, &found), "getaddrinfo");
	for (int left = CONNECT_TRIES; host; left--) {
		if (!connect(listener, found->ai_addr, found->ai_addrlen))
			return listener;
		need(errno == ECONNREFUSED && left, "connect");
		close(listener);
		usleep(RETRY_US);
		listener = socket(AF_INET, SOCK_STREAM, 0);
	}
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	need(!bind(listener, found->ai_addr, found->ai_addrlen) && !listen(listener, 1), "listen");
	puts("listening");
	fflush(stdout);
	connected = accept(listener, NULL, NULL);
	need(connected >= 0, "accept");
	close(listener);
	return connected;
}

static inline void exchange(int tcp, const void *mine, void *theirs, size_t bytes)
{
	need(send(tcp, mine, bytes, 0) == (ssize_t)bytes, "send");
	need(recv(tcp, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes, "the peer is gone");
}

/* The number of a profile, which whoever set it up says by the environment. */
static inline int profile_given(const char *name, uint64_t *number)
{
	const char *text = getenv(name);

	if (text)
		*number = strtoull(text, NULL, 10);
	return text != NULL;
}

static inline void pair_connect(struct pair *pair, const char *host, void *buffer, size_t bytes)
{
	struct mrc_qp_init_attr init = {.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct mrc_qp_attr mrc = {.wimm = {DEPTH, DEPTH}, .timeout = 14, .retry = {3, 6}};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, mask = 0;

	pair->device = open_device();
	pair->context = mrc_create_context(pair->device, NULL);
	need(pair->context != NULL, "mrc_create_context");
	pair->pd = ibv_alloc_pd(pair->device);
	pair->region = ibv_reg_mr(pair->pd, buffer, bytes, access);
	need(pair->region != NULL, "ibv_reg_mr");
	need(!mrc_create_comp_channel(pair->context, &pair->channel), "mrc_create_comp_channel");
	pair->sends = mrc_create_cq(pair->context, DEPTH, NULL, NULL, 0);
	pair->receives = mrc_create_cq(pair->context, DEPTH, NULL, pair->channel, 0);
	need(pair->sends && pair->receives, "mrc_create_cq");
	init.send_cq = pair->sends;
	init.recv_cq = pair->receives;
	init.pd = pair->pd;
	pair->qp = mrc_create_qp(pair->context, &init);
	need(pair->qp != NULL, "mrc_create_qp");

	if (profile_given("MRC_QP_EV_PROFILE_ID", &mrc.profile.ev_profile_id))
		mask |= MRC_QP_EV_PROFILE_ID;
	if (profile_given("MRC_QP_CC_PROFILE_ID", &mrc.profile.cc_profile_id))
		mask |= MRC_QP_CC_PROFILE_ID;
	need(!mrc_modify_qp(pair->qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, &mrc, mask), "to INIT");

	pair->mine = (struct end){.address = (uintptr_t)buffer, .psn = getpid(), .rkey = pair->region->rkey};
	mrc_get_qpn(pair->qp, &pair->mine.qpn);
	need(!ibv_query_gid(pair->device, 1, 0, &pair->mine.gid), "ibv_query_gid");
	pair->tcp = connect_tcp(host);
	exchange(pair->tcp, &pair->mine, &pair->theirs, sizeof(pair->mine));

	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_4096,
	    .dest_qp_num = pair->theirs.qpn,
	    .rq_psn = pair->theirs.psn,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh.dgid = pair->theirs.gid},
	};
	need(!mrc_modify_qp(pair->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU, &mrc,
			    MRC_QP_MAX_WIMM_DEST),
	     "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = pair->mine.psn;
	need(!mrc_modify_qp(pair->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, &mrc,
			    MRC_QP_MAX_WIMM | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT),
	     "to RTS");
}

/* Wait until the peer has come as far, and end. */
static inline void pair_end(struct pair *pair)
{
	char byte = 0;

	exchange(pair->tcp, &byte, &byte, 1);
	need(!mrc_destroy_qp(pair->qp), "mrc_destroy_qp");
	need(!mrc_destroy_cq(pair->sends) && !mrc_destroy_cq(pair->receives), "mrc_destroy_cq");
	need(!mrc_destroy_comp_channel(pair->channel), "mrc_destroy_comp_channel");
	need(!ibv_dereg_mr(pair->region) && !ibv_dealloc_pd(pair->pd), "ibv_dereg_mr");
	need(!mrc_destroy_context(pair->context), "mrc_destroy_context");
	need(!ibv_close_device(pair->device), "ibv_close_device");
	close(pair->tcp);
}

#endif

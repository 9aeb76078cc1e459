// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The bounds of ibv_modify_qp, and what peers may write, between two QPs of one host: `verbs_limits CASE`. Prints the status
 * of what was posted and whether the target was written; ends with 1 where something else fails.
 */
#include <time.h>
#include "verbs_loop.h"

enum { PAGE = 4096, RECEIVES = 512, LATE_RECEIVES = 300 };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void post_receives(struct ibv_qp *qp, int count)
{
	struct ibv_recv_wr wr = {0}, *bad;

	for (int i = 0; i < count; i++)
		need(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

/* Polls what has a receive, and posts the rest once all of those are used up. */
static void receive_late(struct ibv_qp *qp, struct ibv_cq *cq)
{
	for (int i = 0; i < RECEIVES; i++) {
		if (i == RECEIVES - LATE_RECEIVES)
			post_receives(qp, LATE_RECEIVES);
		need(complete(cq).status == IBV_WC_SUCCESS, "a receive");
	}
}

int main(int count, char **arguments)
{
	const char *name = count > 1 ? arguments[1] : "";
	int is_late = !strcmp(name, "late-receives"), is_never = !strcmp(name, "no-receive");
	int is_gone = !strcmp(name, "peer-gone"), posted = is_late ? RECEIVES : 1;
	int access = strcmp(name, "qp-access") ? IBV_ACCESS_REMOTE_WRITE : 0;
	struct ibv_cq *sends, *receives;
	struct ibv_pd *pd, *other_pd;
	struct ibv_qp *qp, *peer;
	char *from = aligned_alloc(PAGE, PAGE), *to = aligned_alloc(PAGE, PAGE);
	struct ibv_mr *source, *target;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_qp_attr attr = {
	    .timeout = 14, .retry_cnt = 3, .min_rnr_timer = 12, .rnr_retry = is_never ? 2 : 7};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1024, 1024, 1, 1, 0}};
	struct ibv_wc wc = {0};
	double begun;

	pd = open_nic();
	other_pd = ibv_alloc_pd(context);
	sends = ibv_create_cq(context, 1024, NULL, NULL, 0);
	receives = ibv_create_cq(context, 1024, NULL, NULL, 0);
	memset(from, 9, PAGE);
	memset(to, 5, PAGE);
	source = ibv_reg_mr(pd, from, PAGE, IBV_ACCESS_LOCAL_WRITE);
	target = ibv_reg_mr(strcmp(name, "other-pd") ? pd : other_pd, to, PAGE,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(source && target, "ibv_reg_mr");
	init.send_cq = sends;
	init.recv_cq = receives;
	qp = new_qp(pd, init, IBV_ACCESS_REMOTE_WRITE);
	peer = new_qp(pd, init, access);
	connect_to(peer, qp, attr);
	connect_to(qp, peer, attr);
	memset(&attr, 0, sizeof(attr));
	need(!ibv_query_qp(qp, &attr, 0, &init) && attr.timeout == 14 && attr.retry_cnt == 3 && attr.min_rnr_timer == 12,
	     "ibv_query_qp");
	if (is_gone)
		need(!ibv_destroy_qp(peer), "ibv_destroy_qp");
	if (is_late)
		post_receives(peer, RECEIVES - LATE_RECEIVES);
	sge = (struct ibv_sge){(uintptr_t)from, 8, source->lkey};
	wr.sg_list = &sge;
	wr.opcode = is_late || is_never ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)to + (strcmp(name, "high-half") ? 0 : 1ULL << 32);
	wr.wr.rdma.rkey = target->rkey;
	begun = now();
	for (int i = 0; i < posted; i++)
		need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	if (is_late)
		receive_late(peer, receives);
	for (int i = 0; i < posted && wc.status == IBV_WC_SUCCESS; i++)
		wc = complete(sends);
	if (is_gone) /* IBTA lets the NIC take four times as long as is said */
		printf("%s: ", now() - begun < 4 * 4 * 4.096e-6 * (1 << 14) + 2 ? "in time" : "late");
	printf("%s, %s\n", ibv_wc_status_str(wc.status), to[0] == 5 ? "untouched" : "written");
	return 0;
}

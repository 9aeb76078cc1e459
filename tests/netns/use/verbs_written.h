// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Memory that a peer on the same host writes to, for programs that test registration. */
#ifndef VERBS_WRITTEN_H
#define VERBS_WRITTEN_H

#include "verbs_loop.h"

enum { BYTES = 1 << 20, REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static struct ibv_pd *pd;
static struct ibv_qp *qp;
static struct ibv_mr *source;
static char *from;
static int wanted; /* times, of cases that repeat what they do */

static void set_up(void)
{
	struct ibv_qp_attr attr = {.timeout = 14, .retry_cnt = 7, .min_rnr_timer = 12, .rnr_retry = 7};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};
	struct ibv_qp *peer;

	pd = open_nic();
	init.send_cq = init.recv_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	from = malloc(BYTES);
	for (int i = 0; i < BYTES; i++)
		from[i] = 1 + i % 127;
	source = ibv_reg_mr(pd, from, BYTES, 0);
	need(source != NULL, "memory that only this end uses");
	qp = new_qp(pd, init, REMOTE);
	peer = new_qp(pd, init, REMOTE);
	connect_to(qp, peer, attr);
	connect_to(peer, qp, attr);
}

/* The peer's WRITE of what a region begins with to another one, whose status is returned. */
static enum ibv_wc_status write_from(const struct ibv_mr *sent, const struct ibv_mr *mr, size_t at, size_t length)
{
	struct ibv_sge sge = {(uintptr_t)sent->addr, length, sent->lkey};
	struct ibv_send_wr *bad, wr = {
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma = {(uintptr_t)mr->addr + at, mr->rkey},
				 };

	need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	return complete(qp->send_cq).status;
}

static enum ibv_wc_status write_to(const struct ibv_mr *mr, size_t at, size_t length)
{
	return write_from(source, mr, at, length);
}

/* Every byte of a region is written by the peer, and seen here. */
static void need_written(const struct ibv_mr *mr)
{
	need(write_to(mr, 0, mr->length) == IBV_WC_SUCCESS, "a WRITE");
	need(!memcmp(mr->addr, from, mr->length), "what was written");
}

static struct ibv_mr *registered(void *memory, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, bytes, REMOTE);

	need(mr != NULL, "ibv_reg_mr");
	return mr;
}

struct test_case {
	const char *name;
	void (*run)(void);
};

/* Runs the case that the command line names, and how many times. */
static int run_case(const struct test_case *cases, size_t count, char **arguments)
{
	wanted = arguments[1] && arguments[2] ? atoi(arguments[2]) : 1;
	set_up();
	for (size_t i = 0; i < count; i++)
		if (arguments[1] && !strcmp(arguments[1], cases[i].name)) {
			cases[i].run();
			puts("right");
			return 0;
		}
	puts("no such case");
	return 1;
}

#endif

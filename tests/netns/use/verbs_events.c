// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Asynchronous events: `verbs_events CASE` prints each as it comes, and ends with 1 where one is not as verbs has it.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include "verbs_loop.h"

enum { CQES = 4, REQUESTS = 40, BYTES = 64 };

static struct ibv_async_event last;
static int is_acknowledged;

/* Waits for an event of a kind. */
static void expect(enum ibv_event_type wanted)
{
	struct pollfd waiting = {.fd = context->async_fd, .events = POLLIN};

	need(poll(&waiting, 1, -1) == 1 && !ibv_get_async_event(context, &last), "ibv_get_async_event");
	printf("%s\n", ibv_event_type_str(last.event_type));
	need(last.event_type == wanted, "another event");
}

static void expect_none(void)
{
	struct pollfd waiting = {.fd = context->async_fd, .events = POLLIN};
	int flags = fcntl(context->async_fd, F_GETFL);

	need(poll(&waiting, 1, 0) == 0, "nothing to read");
	fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK);
	need(ibv_get_async_event(context, &last) == -1 && errno == EAGAIN, "EAGAIN");
	fcntl(context->async_fd, F_SETFL, flags);
}

static void say_port(void)
{
	struct ibv_port_attr attr;

	need(!ibv_query_port(context, 1, &attr), "ibv_query_port");
	printf("%s\n", ibv_port_state_str(attr.state));
	fflush(stdout);
}

/* A plane less is no event: all of them are one port. */
static void port(void)
{
	static const enum ibv_event_type wanted[] = {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE};

	open_nic();
	expect_none();
	say_port();
	for (int i = 0; i < 2; i++) {
		expect(wanted[i]);
		need(last.element.port_num == 1, "port 1");
		ibv_ack_async_event(&last);
		say_port();
	}
	expect_none();
}

/* The agent ends. */
static void fatal(void)
{
	open_nic();
	say_port();
	expect(IBV_EVENT_DEVICE_FATAL);
	need(ibv_get_async_event(context, &last) == -1 && errno == EIO, "EIO");
}

static void *acknowledge(void *event)
{
	is_acknowledged = 1;
	ibv_ack_async_event(event);
	return NULL;
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	need(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return attr.qp_state;
}

static void post(struct ibv_qp *qp, struct ibv_mr *region, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)region->addr, BYTES, region->lkey};
	struct ibv_send_wr *bad, wr = {
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma = {(uintptr_t)region->addr + BYTES, region->rkey},
				 };

	need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* Two QPs that are connected; the second may share receives. */
static struct ibv_mr *set_up(struct ibv_qp *qps[2], struct ibv_cq *sends, struct ibv_cq *others, int is_shared)
{
	struct ibv_qp_attr attr = {.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {REQUESTS, 8, 1, 1, 0}};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_srq_init_attr wanted = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *region = ibv_reg_mr(pd, aligned_alloc(4096, 4096), 4096, access);

	need(region != NULL, "ibv_reg_mr");
	init.send_cq = sends;
	init.recv_cq = others;
	qps[0] = new_qp(pd, init, access);
	init.send_cq = others;
	if (is_shared)
		init.srq = ibv_create_srq(pd, &wanted);
	qps[1] = new_qp(pd, init, access);
	connect_to(qps[1], qps[0], attr);
	connect_to(qps[0], qps[1], attr);
	return region;
}

static void overrun(void)
{
	struct ibv_cq *small, *others;
	struct ibv_wc wc[REQUESTS];
	struct ibv_mr *region;
	struct ibv_qp *qps[2];
	pthread_t thread;

	open_nic();
	small = ibv_create_cq(context, CQES, NULL, NULL, 0);
	others = ibv_create_cq(context, REQUESTS, NULL, NULL, 0);
	region = set_up(qps, small, others, 0);
	for (int i = 0; i < CQES; i++)
		post(qps[0], region, IBV_WR_RDMA_WRITE);
	for (int i = 0; i < CQES; i++)
		need(complete(small).status == IBV_WC_SUCCESS, "as many as it holds");
	expect_none();
	for (int i = 0; i < REQUESTS; i++)
		post(qps[0], region, IBV_WR_RDMA_WRITE);
	need(!ibv_get_async_event(context, &last) && last.event_type == IBV_EVENT_CQ_ERR, "an event");
	printf("%s\n", ibv_event_type_str(last.event_type));
	need(last.element.cq == small, "another CQ");
	need(state_of(qps[0]) == IBV_QPS_ERR && state_of(qps[1]) == IBV_QPS_RTS, "states");
	need(ibv_poll_cq(small, REQUESTS, wc) == CQES && !ibv_poll_cq(small, REQUESTS, wc), "what fitted");
	expect_none();
	need(!ibv_destroy_qp(qps[0]), "ibv_destroy_qp");
	need(!pthread_create(&thread, NULL, acknowledge, &last), "pthread_create");
	need(!ibv_destroy_cq(small) && is_acknowledged, "a CQ that ends before its event is acknowledged");
	pthread_join(thread, NULL);
}

/* Receives that QPs share run low, and the QP that takes them ends. */
static void low(void)
{
	struct ibv_cq *cq;
	struct ibv_srq_attr attr = {.srq_limit = 2};
	struct ibv_recv_wr *bad, wr = {.num_sge = 0};
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_mr *region;
	struct ibv_srq *shared;
	struct ibv_qp *qps[2];

	open_nic();
	cq = ibv_create_cq(context, REQUESTS, NULL, NULL, 0);
	region = set_up(qps, cq, cq, 1);
	shared = qps[1]->srq;
	for (int i = 0; i < 3; i++)
		need(!ibv_post_srq_recv(shared, &wr, &bad), "ibv_post_srq_recv");
	need(!ibv_modify_srq(shared, &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
	for (int i = 0; i < 2; i++) {
		expect_none();
		post(qps[0], region, IBV_WR_RDMA_WRITE_WITH_IMM);
		complete(cq);
		complete(cq);
	}
	expect(IBV_EVENT_SRQ_LIMIT_REACHED);
	need(last.element.srq == shared, "another SRQ");
	ibv_ack_async_event(&last);
	need(!ibv_query_srq(shared, &attr) && attr.srq_limit == 0, "a limit that is set once more");
	need(!ibv_modify_qp(qps[1], &error, IBV_QP_STATE), "ERROR");
	expect(IBV_EVENT_QP_LAST_WQE_REACHED);
	need(last.element.qp == qps[1], "another QP");
	ibv_ack_async_event(&last);
	expect_none();
	need(!ibv_destroy_qp(qps[1]) && !ibv_destroy_srq(shared), "an end");
}

int main(int count, char **arguments)
{
	const char *name = count > 1 ? arguments[1] : "";

	if (!strcmp(name, "port"))
		port();
	else if (!strcmp(name, "fatal"))
		fatal();
	else if (!strcmp(name, "overrun"))
		overrun();
	else
		low();
	return 0;
}

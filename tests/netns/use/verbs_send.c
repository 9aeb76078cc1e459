// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * SEND and RECV between two QPs of one host: `verbs_send CASE`. Prints what became of it; ends with 1 where bytes, order or
 * completions are not as verbs has them.
 */
#include <arpa/inet.h>
#include "verbs_loop.h"

enum { LENGTH_MAX = 1 << 20, SGES = 4, MESSAGES = 400, SHARING = 2, CQES = 4096 };

static struct ibv_qp *senders[SHARING], *receivers[SHARING];
static struct ibv_cq *sends, *receives;
static unsigned char *from, *to;
static struct ibv_mr *source, *target;
static struct ibv_srq *shared;

/* Pairs of QPs that are connected to each other; the receiving ends may share their receives. */
static void set_up(int pairs, int rnr_retry)
{
	struct ibv_qp_attr attr = {.timeout = 14, .retry_cnt = 7, .min_rnr_timer = 12, .rnr_retry = rnr_retry};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {512, 512, SGES, SGES, 64}};
	struct ibv_pd *pd = open_nic();
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	from = aligned_alloc(4096, LENGTH_MAX);
	to = aligned_alloc(4096, LENGTH_MAX);
	for (int i = 0; i < LENGTH_MAX; i++)
		from[i] = i * 2654435761u >> 11;
	source = ibv_reg_mr(pd, from, LENGTH_MAX, access);
	target = ibv_reg_mr(pd, to, LENGTH_MAX, access);
	need(source && target, "ibv_reg_mr");
	init.send_cq = sends = ibv_create_cq(context, CQES, NULL, NULL, 0);
	init.recv_cq = receives = ibv_create_cq(context, CQES, NULL, NULL, 0);
	if (pairs > 1) {
		struct ibv_srq_init_attr wanted = {.attr = {.max_wr = 64, .max_sge = 1}};

		shared = ibv_create_srq(pd, &wanted);
		need(shared != NULL, "ibv_create_srq");
	}
	for (int i = 0; i < pairs; i++) {
		senders[i] = new_qp(pd, init, access);
		init.srq = shared;
		receivers[i] = new_qp(pd, init, access);
		init.srq = NULL;
		connect_to(receivers[i], senders[i], attr);
		connect_to(senders[i], receivers[i], attr);
	}
}

/* `length` bytes in uneven SGEs. */
static int spread(struct ibv_sge *sges, unsigned char *bytes, uint32_t length, uint32_t lkey)
{
	uint32_t done = 0;

	for (int i = 0; i < SGES; i++) {
		uint32_t count = i == SGES - 1 ? length - done : (length - done) / (5 - i);

		sges[i] = (struct ibv_sge){(uintptr_t)bytes + done, count, lkey};
		done += count;
	}
	return SGES;
}

static void post_receive(uint64_t wr_id, uint32_t length, int is_spread)
{
	struct ibv_sge sges[SGES] = {{(uintptr_t)to, length, target->lkey}};
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id, .sg_list = sges, .num_sge = 1};

	if (is_spread)
		wr.num_sge = spread(sges, to, length, target->lkey);
	need(!(shared ? ibv_post_srq_recv(shared, &wr, &bad) : ibv_post_recv(receivers[0], &wr, &bad)), "a receive");
}

static void post(int pair, enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t length, int is_spread, int flags)
{
	struct ibv_sge sges[SGES] = {{(uintptr_t)from, length, source->lkey}};
	struct ibv_send_wr *bad, wr = {
				     .wr_id = wr_id,
				     .sg_list = sges,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED | flags,
				     .imm_data = htonl(wr_id * 3),
				     .wr.rdma = {(uintptr_t)to, target->rkey},
				 };

	if (is_spread)
		wr.num_sge = spread(sges, from, length, source->lkey);
	need(!ibv_post_send(senders[pair], &wr, &bad), "ibv_post_send");
}

static void check_receive(const struct ibv_wc *wc, enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t length)
{
	int is_write = opcode == IBV_WR_RDMA_WRITE_WITH_IMM, has_immediate = opcode != IBV_WR_SEND;

	need(wc->status == IBV_WC_SUCCESS, ibv_wc_status_str(wc->status));
	need(wc->opcode == (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV), "opcode of a receive");
	need(wc->wr_id == wr_id && wc->byte_len == length, "receive of another message");
	need(!!(wc->wc_flags & IBV_WC_WITH_IMM) == has_immediate, "immediate or not");
	need(!has_immediate || ntohl(wc->imm_data) == wr_id * 3, "immediate");
}

/* Every kind of message with every layout, each with bytes that the one before has not left there. */
static void sizes(void)
{
	static const uint32_t lengths[] = {0, 1, 63, 2047, 2048, 2049, 4096, 6000, 70000, 262144, 262145, LENGTH_MAX};
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM};
	struct ibv_wc wc;
	uint64_t wr_id = 0;

	set_up(1, 7);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		for (int kind = 0; kind < 3; kind++)
			for (int layout = 0; layout < 4; layout++) {
				uint32_t length = lengths[i];
				int is_inline = length && length < 64 && layout == 3;

				memset(to, 0, length + 1 < LENGTH_MAX ? length + 1 : LENGTH_MAX);
				wr_id++;
				post_receive(wr_id, length, layout & 2);
				post(0, opcodes[kind], wr_id, length, layout & 1, is_inline ? IBV_SEND_INLINE : 0);
				while (!ibv_poll_cq(receives, 1, &wc))
					;
				check_receive(&wc, opcodes[kind], wr_id, length);
				need(!memcmp(to, from, length), "bytes");
				need(length == LENGTH_MAX || to[length] == 0, "bytes behind a message");
				wc = complete(sends);
				need(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id, "completion of a request");
				need(wc.opcode == (kind == 2 ? IBV_WC_RDMA_WRITE : IBV_WC_SEND), "opcode of a request");
			}
	printf("%d messages\n", (int)wr_id);
}

/* Many at once, the receives late and few at a time: order, and each once. */
static void order(void)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM};
	int received = 0, posted = 0, done = 0;
	struct ibv_wc wc;

	set_up(1, 7);
	for (int i = 0; i < MESSAGES; i++)
		post(0, opcodes[i % 3], i, i % 5 * 1500, i & 1, 0);
	while (received < MESSAGES) {
		if (posted == received)
			for (int i = 0; i < 1 + received % 9 && posted < MESSAGES; i++)
				post_receive(posted++, 6000, 0);
		if (ibv_poll_cq(receives, 1, &wc)) {
			check_receive(&wc, opcodes[received % 3], received, received % 5 * 1500);
			received++;
		}
		while (ibv_poll_cq(sends, 1, &wc))
			need(wc.status == IBV_WC_SUCCESS && (int)wc.wr_id == done++, "completion of a request");
	}
	while (done < MESSAGES)
		need(complete(sends).wr_id == (uint64_t)done++, "completion of a request");
	printf("%d messages\n", received);
}

/* Messages of several QPs take the receives of one queue, those of each in their order. */
static void sharing(void)
{
	int received[SHARING] = {0}, all = 0, posted = 0, sent = 0;
	struct ibv_wc wc;

	set_up(SHARING, 7);
	while (all < MESSAGES) {
		for (; sent < MESSAGES && sent < all + 200; sent++)
			post(sent % SHARING, IBV_WR_SEND_WITH_IMM, sent / SHARING, 3000, 0, 0);
		for (; posted < MESSAGES && posted < all + 20; posted++)
			post_receive(posted, 3000, 0);
		while (ibv_poll_cq(receives, 1, &wc)) {
			int which = wc.qp_num == receivers[1]->qp_num;

			need(wc.status == IBV_WC_SUCCESS && wc.byte_len == 3000, "a receive");
			need(ntohl(wc.imm_data) == (uint32_t)received[which]++ * 3, "order of a QP's messages");
			all++;
		}
		while (ibv_poll_cq(sends, 1, &wc))
			need(wc.status == IBV_WC_SUCCESS, "completion of a request");
	}
	need(!memcmp(to, from, 3000), "bytes");
	need(ibv_destroy_srq(shared) == EBUSY, "a queue in use");
	printf("%d messages\n", all);
}

int main(int count, char **arguments)
{
	const char *name = count > 1 ? arguments[1] : "";
	struct ibv_wc wc;

	if (!strcmp(name, "sizes")) {
		sizes();
	} else if (!strcmp(name, "order")) {
		order();
	} else if (!strcmp(name, "sharing")) {
		sharing();
	} else if (!strcmp(name, "no-receive")) {
		set_up(1, 2);
		post(0, IBV_WR_SEND, 1, 8, 0, 0);
		printf("%s\n", ibv_wc_status_str(complete(sends).status));
	} else {
		set_up(1, 7);
		post_receive(1, 5000, 0);
		post(0, IBV_WR_SEND, 1, 5001, 0, 0);
		while (!ibv_poll_cq(receives, 1, &wc))
			;
		printf("%s, %s\n", ibv_wc_status_str(wc.status), to[4999] == from[4999] ? "as far as it fits" : "lost");
	}
	return 0;
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Two ends of a QP, by plain libibverbs. `verbs_pair` waits for a peer, sleeps on a completion channel until a
 * WRITE with immediate arrives, and compares what was written. `verbs_pair HOST CASE` writes: `good`, `paused`,
 * `wrong-key`, `out-of-bounds`, `endless`. Prints the status of what fails.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 1 << 20, PORT = 7000, IMMEDIATE = 0x1234abcd, SEED = 17 };

struct end {
	union ibv_gid gid;
	uint64_t address;
	uint32_t qpn, psn, rkey;
};

static void need(int is_so, const char *what)
{
	if (is_so)
		return;
	perror(what);
	exit(1);
}

static unsigned char pattern(size_t at, int seed)
{
	return (at * 2654435761u >> 7) + seed;
}

static int connect_tcp(const char *peer)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int listener, one = 1, connected = socket(AF_INET, SOCK_STREAM, 0);

	if (peer) {
		need(!getaddrinfo(peer, "7000", &hints, &found), "getaddrinfo");
		need(!connect(connected, found->ai_addr, found->ai_addrlen), "connect");
		return connected;
	}
	listener = connected;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	need(!bind(listener, (struct sockaddr *)&any, sizeof(any)) && !listen(listener, 1), "listen");
	puts("listening");
	fflush(stdout);
	connected = accept(listener, NULL, NULL);
	need(connected >= 0, "accept");
	return connected;
}

static void modify(struct ibv_qp *qp, const struct end *mine, const struct end *theirs)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_4096,
	    .dest_qp_num = theirs->qpn,
	    .rq_psn = theirs->psn,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh.dgid = theirs->gid},
	};

	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
	     "RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = mine->psn;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

static struct ibv_wc complete(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		;
	need(count == 1, "poll");
	return wc;
}

static enum ibv_wc_status write_to(struct ibv_qp *qp, struct ibv_mr *mr, uint64_t address, uint32_t rkey,
				   size_t length, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, length, mr->lkey};
	struct ibv_send_wr *bad, wr = {
				     .wr_id = 99,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED,
				     .imm_data = htonl(IMMEDIATE),
				     .wr.rdma = {address, rkey},
				 };
	struct ibv_wc wc;

	need(!ibv_post_send(qp, &wr, &bad), "post_send");
	wc = complete(qp->send_cq);
	need(wc.wr_id == 99 && wc.qp_num == qp->qp_num, "completion");
	return wc.status;
}

/* Every size from a byte to all of it, each over what the one before wrote; the last with an immediate. */
static int be_client(struct ibv_qp *qp, struct ibv_mr *mr, const struct end *peer, const char *name)
{
	int is_wrong_key = !strcmp(name, "wrong-key"), is_outside = !strcmp(name, "out-of-bounds");
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	size_t length;

	if (!strcmp(name, "paused"))
		raise(SIGSTOP); /* until somebody continues it */
	do
		for (length = 1; length < BYTES && status == IBV_WC_SUCCESS; length = length * 3 + 1)
			status = write_to(qp, mr, peer->address + (is_outside ? BYTES - length + 1 : 0),
					  peer->rkey ^ (is_wrong_key ? 64 : 0), length, IBV_WR_RDMA_WRITE);
	while (!strcmp(name, "endless") && status == IBV_WC_SUCCESS);
	if (status == IBV_WC_SUCCESS)
		status = write_to(qp, mr, peer->address, peer->rkey, BYTES, IBV_WR_RDMA_WRITE_WITH_IMM);
	puts(ibv_wc_status_str(status));
	return status != IBV_WC_SUCCESS;
}

static int be_server(struct ibv_qp *qp, struct ibv_comp_channel *channel, const unsigned char *bytes)
{
	size_t wrong = 0;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	need(!ibv_get_cq_event(channel, &cq, &context), "get_cq_event");
	ibv_ack_cq_events(cq, 1);
	need(cq == qp->recv_cq, "event of another CQ");
	wc = complete(cq);
	for (size_t at = 0; at < BYTES; at++)
		wrong += bytes[at] != pattern(at, SEED);
	printf("%s, %u bytes, immediate %#x, wr_id %d, %zu wrong\n", ibv_wc_status_str(wc.status), wc.byte_len,
	       ntohl(wc.imm_data), (int)wc.wr_id, wrong);
	fflush(stdout);
	return wrong != 0;
}

int main(int count, char **arguments)
{
	const char *peer = count > 1 ? arguments[1] : NULL;
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *nic = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	int connected, result, flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = flags};
	unsigned char *bytes = aligned_alloc(4096, BYTES);
	struct ibv_qp_init_attr wanted = {
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_recv_wr *bad, receive = {.wr_id = 42};
	struct ibv_comp_channel *channel;
	struct end mine = {.psn = getpid() & 0xffffff}, theirs;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp *qp;

	need(nic != NULL, "no device");
	for (size_t at = 0; at < BYTES; at++)
		bytes[at] = peer ? pattern(at, SEED) : 0;
	pd = ibv_alloc_pd(nic);
	mr = ibv_reg_mr(pd, bytes, BYTES, flags);
	need(mr != NULL, "reg_mr");
	channel = ibv_create_comp_channel(nic);
	need(channel != NULL, "create_comp_channel");
	wanted.send_cq = ibv_create_cq(nic, 16, NULL, NULL, 0);
	wanted.recv_cq = ibv_create_cq(nic, 16, NULL, channel, 0);
	qp = ibv_create_qp(pd, &wanted);
	need(qp != NULL, "create_qp");
	need(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	need(!ibv_post_recv(qp, &receive, &bad) && !ibv_req_notify_cq(wanted.recv_cq, 0), "post_recv");
	need(!ibv_query_gid(nic, 1, 0, &mine.gid), "query_gid");
	mine.address = (uintptr_t)bytes;
	mine.qpn = qp->qp_num;
	mine.rkey = mr->rkey;
	connected = connect_tcp(peer);
	need(send(connected, &mine, sizeof(mine), 0) == sizeof(mine), "send");
	need(recv(connected, &theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs), "recv");
	modify(qp, &mine, &theirs);
	/* Both receive from here on. */
	need(send(connected, "1", 1, 0) == 1 && recv(connected, &result, 1, MSG_WAITALL) == 1, "ready");
	puts("connected");
	fflush(stdout);
	result = peer ? be_client(qp, mr, &theirs, arguments[2]) : be_server(qp, channel, bytes);
	need(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr), "destroy");
	/* What was registered is the program's again, with its bytes. */
	for (size_t at = 0; peer && at < BYTES; at++)
		need(bytes[at] == pattern(at, SEED), "bytes after dereg_mr");
	return result;
}

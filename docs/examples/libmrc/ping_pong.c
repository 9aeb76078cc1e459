// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * `ping_pong [-n ROUNDS] [-s BYTES] [-t SECONDS]` waits for a peer; `ping_pong ... HOST` writes first. Each
 * round is a WRITE with immediate there and one back, whose bytes the other end compares. With -t rounds
 * go on for so long. MRC_QP_EV_PROFILE_ID and MRC_QP_CC_PROFILE_ID name the profiles of the QP.
 */
#include <arpa/inet.h>
#include <time.h>
#include "pair.h"

static double now_s(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static struct ibv_wc await(struct mrc_cq *cq)
{
	struct ibv_wc wc;
	int count;

	while (!(count = mrc_poll_cq(cq, 1, &wc)))
		;
	need(count == 1, "mrc_poll_cq");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}

static unsigned char byte_of(uint32_t round, size_t at)
{
	return round * 31 + at;
}

static void send_round(struct pair *pair, unsigned char *bytes, size_t length, uint32_t round)
{
	struct ibv_sge part = {(uintptr_t)bytes, length, pair->region->lkey};
	struct ibv_send_wr wr = {
	    .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	    .send_flags = IBV_SEND_SIGNALED,
	    .imm_data = htonl(round),
	    .sg_list = &part,
	    .num_sge = 1,
	    .wr.rdma = {.remote_addr = pair->theirs.address, .rkey = pair->theirs.rkey},
	}, *bad;

	for (size_t at = 0; at < length; at++)
		bytes[at] = byte_of(round, at);
	need(!mrc_post_send(pair->qp, &wr, &bad), "mrc_post_send");
	await(pair->sends);
}

/* The number of the round that has arrived, whose bytes are right. */
static uint32_t take_round(struct pair *pair, const unsigned char *bytes, size_t length)
{
	struct ibv_wc wc = await(pair->receives);
	uint32_t round = ntohl(wc.imm_data);
	struct ibv_recv_wr wr = {0}, *bad;

	if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM || wc.byte_len != length) {
		fprintf(stderr, "round %u: opcode %d, %u bytes\n", round, wc.opcode, wc.byte_len);
		exit(1);
	}
	for (size_t at = 0; at < length; at++)
		if (bytes[at] != byte_of(round, at)) {
			fprintf(stderr, "round %u: byte %zu is wrong\n", round, at);
			exit(1);
		}
	need(!mrc_post_recv(pair->qp, &wr, &bad), "mrc_post_recv");
	return round;
}

int main(int argc, char **argv)
{
	uint32_t rounds = 1000, round = 0, taken;
	unsigned char *buffer, *outgoing;
	double seconds = 0, begun_s;
	struct ibv_recv_wr wr = {0}, *bad;
	size_t length = 64;
	const char *host;
	struct pair pair;
	int option;
	char byte = 0;

	while ((option = getopt(argc, argv, "n:s:t:")) > 0) {
		if (option == 'n')
			rounds = atoi(optarg);
		else if (option == 's')
			length = atoi(optarg);
		else if (option == 't')
			seconds = atof(optarg);
		else
			return 2;
	}
	host = argv[optind];
	buffer = calloc(2, length);
	need(buffer != NULL, "calloc");
	outgoing = buffer + length;
	pair_connect(&pair, host, buffer, 2 * length);
	for (int i = 0; i < DEPTH; i++)
		need(!mrc_post_recv(pair.qp, &wr, &bad), "mrc_post_recv");
	exchange(pair.tcp, &byte, &byte, 1); /* the peer's receives are there */

	puts("running");
	fflush(stdout);
	begun_s = now_s();
	do { /* round 0 is the last */
		if (host) {
			int is_last = seconds > 0 ? now_s() - begun_s > seconds : round + 1 >= rounds;

			round++;
			send_round(&pair, outgoing, length, is_last ? 0 : round);
			taken = take_round(&pair, buffer, length);
		} else {
			round++;
			taken = take_round(&pair, buffer, length);
			send_round(&pair, outgoing, length, taken);
		}
	} while (taken);
	printf("%u rounds of %zu bytes, %.1f us each\n", round, length, (now_s() - begun_s) / round * 1e6);
	pair_end(&pair);
	free(buffer);
	return 0;
}

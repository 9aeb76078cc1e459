// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The wire of slices: RC QPs of libibverbs. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include "coll.h"

enum {
	WORK_PER_SLOT = 4, /* slices, credits, probes */
	PAGE_BYTES = 4096,
};

static uint64_t work_id(const struct mrc_coll *coll, const struct peer *peer, enum work work)
{
	return (uint64_t)(peer - coll->peers) << 8 | work;
}

static void check(struct mrc_coll *coll, const struct peer *peer, int error)
{
	if (error)
		coll_fail(coll, peer->rank, "rank %d cannot be written to: %s", peer->rank,
			  strerror(error));
}

static void post_receive(struct mrc_coll *coll, struct peer *peer)
{
	struct ibv_recv_wr request = {.wr_id = work_id(coll, peer, RECEIVE)}, *refused;

	check(coll, peer, ibv_post_recv(peer->qp, &request, &refused));
}

/* 0 or errno. */
int coll_open_slots(struct mrc_coll *coll, struct peer *peer)
{
	const uint32_t work = WORK_PER_SLOT * coll->options.slots;
	const size_t bytes = 2 * slots_bytes(coll);
	struct ibv_qp_init_attr init = {
	    .send_cq = coll->cq,
	    .recv_cq = coll->cq,
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = work, .max_recv_wr = work, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	int error;

	peer->slots = aligned_alloc(PAGE_BYTES, bytes);
	if (!peer->slots)
		return ENOMEM;
	peer->region = ibv_reg_mr(coll->pd, peer->slots, bytes,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!peer->region)
		return errno;
	peer->qp = ibv_create_qp(coll->pd, &init);
	if (!peer->qp)
		return errno;
	error = ibv_modify_qp(peer->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	for (uint32_t i = 0; i < work && !error; i++)
		post_receive(coll, peer);
	peer->credits = coll->options.slots;
	return error;
}

void coll_close_slots(struct peer *peer)
{
	if (peer->qp)
		ibv_destroy_qp(peer->qp);
	if (peer->region)
		ibv_dereg_mr(peer->region);
	free(peer->slots);
}

void coll_post_write(struct mrc_coll *coll, struct peer *peer, struct write write)
{
	struct ibv_sge entry = {(uintptr_t)peer->slots + write.local, write.bytes,
				peer->region->lkey};
	struct ibv_send_wr *refused,
	    request = {
		.wr_id = work_id(coll, peer, write.work),
		.opcode = write.has_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(write.immediate),
		.sg_list = &entry,
		.num_sge = write.bytes ? 1 : 0,
		.wr.rdma = {.remote_addr = peer->remote_slots + write.remote,
			    .rkey = peer->remote_key},
	    };

	check(coll, peer, ibv_post_send(peer->qp, &request, &refused));
}

static void note_failure(struct mrc_coll *coll, const struct peer *peer,
			 const struct ibv_wc *completion)
{
	if ((completion->wr_id & 0xff) == RECEIVE)
		return;		    /* flushed, and what is sent says why */
	coll_look_at_sockets(coll); /* the peer may have left, and what it was given be late */
	if (completion->status == IBV_WC_WR_FLUSH_ERR)
		coll_fail(coll, coll->rank, "the NIC of rank %d has failed", coll->rank);
	else if (!peer->has_left)
		coll_fail(coll, peer->rank, "rank %d does not respond: %s", peer->rank,
			  ibv_wc_status_str(completion->status));
}

/* Takes the completions that wait; returns their number. */
int coll_take_completions(struct mrc_coll *coll)
{
	struct ibv_wc completions[32];
	const int count = ibv_poll_cq(coll->cq, 32, completions);

	for (int i = 0; i < count && !coll->has_failed; i++) {
		const struct ibv_wc *each = &completions[i];
		struct peer *peer = &coll->peers[each->wr_id >> 8];

		if (each->status != IBV_WC_SUCCESS) {
			note_failure(coll, peer, each);
			continue;
		}
		switch ((enum work)(each->wr_id & 0xff)) {
		case SLICE:
			peer->acknowledged++;
			break;
		case CREDIT:
			break;
		case PROBE:
			peer->is_probed = false;
			break;
		case RECEIVE:
			coll_take_arrival(coll, peer, ntohl(each->imm_data));
			post_receive(coll, peer);
			break;
		}
	}
	return count;
}

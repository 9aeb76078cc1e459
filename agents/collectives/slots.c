// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Slices of data through slots of NIC memory, and the credits that say which slots are free. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "coll.h"

enum {
	CREDITS = 1u << 31, /* in an immediate: credits come back, no slice */
	WORK_PER_SLOT = 4,  /* slices, credits, probes */
	PAGE_BYTES = 4096,
};

enum work { SLICE, CREDIT, PROBE, RECEIVE };

static uint64_t work_id(const struct mrc_coll *coll, const struct peer *peer, enum work work)
{
	return (uint64_t)(peer - coll->peers) << 8 | work;
}

static size_t slot_offset(const struct mrc_coll *coll, uint32_t number)
{
	return (size_t)(number % coll->options.slots) * coll->options.slot_bytes;
}

static void check(struct mrc_coll *coll, const struct peer *peer, int error)
{
	if (error)
		fail(coll, peer->rank, "rank %d cannot be written to: %s", peer->rank,
		     strerror(error));
}

static void post_receive(struct mrc_coll *coll, struct peer *peer)
{
	struct ibv_recv_wr request = {.wr_id = work_id(coll, peer, RECEIVE)}, *refused;

	check(coll, peer, ibv_post_recv(peer->qp, &request, &refused));
}

/* 0 or errno. */
int open_slots(struct mrc_coll *coll, struct peer *peer)
{
	const uint32_t work = WORK_PER_SLOT * coll->options.slots;
	const size_t bytes = 2 * (size_t)coll->options.slots * coll->options.slot_bytes;
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

void close_slots(struct peer *peer)
{
	if (peer->qp)
		ibv_destroy_qp(peer->qp);
	if (peer->region)
		ibv_dereg_mr(peer->region);
	free(peer->slots);
}

bool can_send(const struct mrc_coll *coll, const struct peer *peer)
{
	return peer->credits && peer->sent - peer->acknowledged < coll->options.slots;
}

static void post_write(struct mrc_coll *coll, struct peer *peer, struct ibv_send_wr request)
{
	struct ibv_send_wr *refused;

	request.send_flags = IBV_SEND_SIGNALED;
	request.wr.rdma.rkey = peer->remote_key;
	request.wr.rdma.remote_addr += peer->remote_slots;
	check(coll, peer, ibv_post_send(peer->qp, &request, &refused));
}

/* Sends what can_send() lets; the payload may change afterwards. */
void send_slice(struct mrc_coll *coll, struct peer *peer, const struct operation *operation,
		const void *payload, uint32_t bytes)
{
	const size_t offset = slot_offset(coll, peer->sent);
	char *slot = peer->slots + slot_offset(coll, peer->sent) +
		     (size_t)coll->options.slots * coll->options.slot_bytes;
	struct slice_header header = {operation->group->number, operation->number, bytes, {0}};
	struct ibv_sge entry = {(uintptr_t)slot, sizeof(header) + bytes, peer->region->lkey};

	memcpy(slot, &header, sizeof(header));
	if (bytes)
		memcpy(slot + sizeof(header), payload, bytes);
	peer->sent++;
	peer->credits--;
	post_write(coll, peer,
		   (struct ibv_send_wr){
		       .wr_id = work_id(coll, peer, SLICE),
		       .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		       .sg_list = &entry,
		       .num_sge = 1,
		       .wr.rdma.remote_addr = offset,
		   });
}

/* Writes nothing to a peer that owes something: its NIC responds, or the QP fails. */
void probe(struct mrc_coll *coll, struct peer *peer)
{
	if (peer->is_probed)
		return;
	peer->is_probed = true;
	post_write(coll, peer,
		   (struct ibv_send_wr){
		       .wr_id = work_id(coll, peer, PROBE),
		       .opcode = IBV_WR_RDMA_WRITE,
		   });
}

static void take_slice(struct mrc_coll *coll, struct peer *peer)
{
	const char *slot = peer->slots + slot_offset(coll, peer->arrived++);
	struct slice_header header;

	memcpy(&header, slot, sizeof(header));
	if (header.bytes <= payload_bytes(coll))
		accept_slice(coll, peer, &header, slot + sizeof(header));
	else
		fail(coll, peer->rank, "rank %d has slots of another size", peer->rank);
	if (++peer->owed < (coll->options.slots + 1) / 2 || peer->has_left)
		return;
	post_write(coll, peer,
		   (struct ibv_send_wr){
		       .wr_id = work_id(coll, peer, CREDIT),
		       .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		       .imm_data = htonl(CREDITS | peer->owed),
		   });
	peer->owed = 0;
}

static void note_failure(struct mrc_coll *coll, const struct peer *peer,
			 const struct ibv_wc *completion)
{
	if ((completion->wr_id & 0xff) == RECEIVE)
		return;	       /* flushed, and what is sent says why */
	look_at_sockets(coll); /* the peer may have left, and what it was given be late */
	if (completion->status == IBV_WC_WR_FLUSH_ERR)
		fail(coll, coll->rank, "the NIC of rank %d has failed", coll->rank);
	else if (!peer->has_left)
		fail(coll, peer->rank, "rank %d does not respond: %s", peer->rank,
		     ibv_wc_status_str(completion->status));
}

/* Takes the completions that wait; returns their number. */
int take_completions(struct mrc_coll *coll)
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
			if (ntohl(each->imm_data) & CREDITS)
				peer->credits += ntohl(each->imm_data) & ~CREDITS;
			else
				take_slice(coll, peer);
			post_receive(coll, peer);
			break;
		}
	}
	return count;
}

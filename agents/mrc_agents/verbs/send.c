// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Posting requests: from work requests to entries of the QP's work ring, and the doorbell.
 *
 * A SEND is a series of WRITEs with immediate into the mailbox of the peer's QP, a packet each
 * (docs/reference/protocol.md, "SEND"). What does not lie in the NIC's memory is copied to a place
 * there on its way into the ring.
 */
#include <errno.h>
#include <string.h>
#include <arpa/inet.h>
#include <mrc/nic_abi.h>
#include "verbs.h"

enum {
	RING_ROOM = MRC_WORK_RING - 1,
	STAGING_BYTES = 1 << 18,
	STAGED_MAX = 1 << 15, /* for one entry */
	MESSAGE_MAX = 1 << 30,
};

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static struct part *parts_of(struct queue_pair *queue_pair, uint32_t number)
{
	return queue_pair->parts + number % queue_pair->capacity * queue_pair->cap.max_send_sge;
}

/* A place for bytes in the NIC's memory until their entry is completed; NULL: not now. */
static char *stage(struct queue_pair *queue_pair, uint32_t bytes, uint32_t *offset)
{
	struct staging *staging = &queue_pair->staging;
	uint32_t at = staging->head % STAGING_BYTES;
	uint32_t skipped = bytes > STAGING_BYTES - at ? STAGING_BYTES - at : 0;

	if (STAGING_BYTES - (staging->head - staging->tail) < skipped + bytes)
		return NULL;
	at = (at + skipped) % STAGING_BYTES;
	staging->head += skipped + bytes;
	*offset = staging->memory.offset + at;
	return staging->memory.bytes + at;
}

/* True if the end of a request is no event: it has no completion, and there is room for others. */
static int is_silent(const struct queue_pair *queue_pair, const struct request *request)
{
	return !request->is_signalled &&
	       queue_pair->entries_end - queue_pair->entries_done < RING_ROOM / 2 &&
	       queue_pair->staging.head - queue_pair->staging.tail < STAGING_BYTES / 2;
}

/* Moves on by bytes of the request that is on its way, and copies them if there is a place. */
static void take_bytes(struct queue_pair *queue_pair, char *to, uint32_t bytes)
{
	const struct part *parts = parts_of(queue_pair, queue_pair->handed);
	struct progress *progress = &queue_pair->progress;

	progress->bytes += bytes;
	while (bytes) {
		const struct part *part = &parts[progress->part];
		uint32_t count = smaller(bytes, part->length - progress->part_bytes);

		if (to) {
			memcpy(to, part->bytes + progress->part_bytes, count);
			to += count;
		}
		bytes -= count;
		progress->part_bytes += count;
		if (progress->part_bytes == part->length) {
			progress->part++;
			progress->part_bytes = 0;
		}
	}
}

/*
 * Moves the next piece of the oldest request that is not in the ring into it. Returns its packets;
 * 0: there is no room for it now.
 */
static uint32_t hand_piece(struct queue_pair *queue_pair)
{
	struct request *request = &queue_pair->requests[queue_pair->handed % queue_pair->capacity];
	struct progress *progress = &queue_pair->progress;
	const struct part *part = parts_of(queue_pair, queue_pair->handed) + progress->part;
	uint32_t left = request->length - progress->bytes, pmtu = queue_pair->pmtu_bytes;
	uint32_t place = queue_pair->entries_end % MRC_WORK_RING, row = 0, staged = 0;
	uint64_t remote = request->remote_address + progress->bytes;
	struct mrc_work work = {.id = queue_pair->handed,
				.length = left,
				.iterations = 1,
				.r_key = request->r_key,
				.depth = RING_ROOM,
				.immediate = request->immediate};
	char *copy = NULL;

	if (left && part->offset != NOT_THERE)
		row = part->length - progress->part_bytes; /* bytes in a row where they are */
	if (row < left && row < pmtu) {
		row = smaller(left, STAGED_MAX);
		staged = 1;
	}
	if (!is_send(request)) {
		work.length = row;
		/* The last of several pieces does not say how long all of them are. */
		work.has_immediate = request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM &&
				     (!left || row == request->length);
		if (!left && request->length) {
			work.r_key = MRC_KEY_WRITE_END;
			remote = request->length;
		}
	} else {
		uint32_t slot = (queue_pair->immediates + 1) % MRC_WIMM_MAX;

		work.has_immediate = 1;
		work.r_key = request->opcode == IBV_WR_SEND ? MRC_KEY_SEND_LAST
							    : MRC_KEY_SEND_LAST_IMMEDIATE;
		remote = slot * pmtu;
		if (left > pmtu) {
			work.r_key = MRC_KEY_SEND_PART;
			work.length = pmtu;
			work.iterations =
			    smaller((row - (row == left)) / pmtu, MRC_WIMM_MAX - slot);
		}
	}
	work.local_slots = work.remote_slots = work.iterations;
	work.remote_offset = remote;
	work.remote_high = remote >> 32;
	if (staged) {
		copy = stage(queue_pair, work.length * work.iterations, &work.local_offset);
		if (!copy)
			return 0;
	} else if (left) {
		work.local_offset = part->offset + progress->part_bytes;
	}
	take_bytes(queue_pair, copy, work.length * work.iterations);
	queue_pair->ring->entries[place] = work;
	queue_pair->staging.ends[place] = queue_pair->staging.head;
	queue_pair->immediates += work.has_immediate ? work.iterations : 0;
	queue_pair->entries_end++;
	if (progress->bytes == request->length &&
	    (work.has_immediate || request->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)) {
		request->entries_end = queue_pair->entries_end;
		queue_pair->ring->entries[place].is_silent = is_silent(queue_pair, request);
		queue_pair->handed++;
		*progress = (struct progress){0};
	}
	return work.iterations * (work.length <= pmtu ? 1 : (work.length - 1) / pmtu + 1);
}

/* Moves requests into the ring as far as it has room, and rings. */
void queue_hand_over(struct queue_pair *queue_pair)
{
	uint32_t first = queue_pair->entries_end, window = queue_pair->window_packets, packets = 0;

	while (queue_pair->handed != queue_pair->posted &&
	       queue_pair->entries_end - queue_pair->entries_done < RING_ROOM) {
		uint32_t more = hand_piece(queue_pair);

		if (!more)
			break;
		packets = smaller(window, packets + smaller(window, more));
	}
	if (first == queue_pair->entries_end)
		return;
	__atomic_store_n(&queue_pair->ring->tail, queue_pair->entries_end, __ATOMIC_SEQ_CST);
	doorbell_ring(queue_pair, packets);
}

/* Says once for each operation what there is in its place. */
static int unsupported_opcode(enum ibv_wr_opcode opcode, uint32_t transport)
{
	static const char *const names[] = {
	    [IBV_WR_RDMA_READ] = "RDMA READ",
	    [IBV_WR_ATOMIC_CMP_AND_SWP] = "atomic compare and swap",
	    [IBV_WR_ATOMIC_FETCH_AND_ADD] = "atomic fetch and add",
	};
	static uint32_t said;
	const char *name = opcode < sizeof(names) / sizeof(*names) ? names[opcode] : NULL;
	uint32_t bit = 1U << (opcode % 32);

	if (!(__atomic_fetch_or(&said, bit, __ATOMIC_RELAXED) & bit))
		complain("%s cannot be posted: over %s there are RDMA WRITE and SEND",
			 name ? name : "an operation",
			 transport == MRC_APPLICATION_MRC ? "MRC" : "rocev2");
	return EOPNOTSUPP;
}

/* Copies inline data, which the program may change once this returns; an errno value. */
static int copy_inline(struct queue_pair *queue_pair, const struct ibv_send_wr *wr,
		       struct part *part)
{
	uint32_t most = queue_pair->cap.max_inline_data;
	char *to = queue_pair->inline_bytes + queue_pair->posted % queue_pair->capacity * most;

	*part = (struct part){.bytes = to, .offset = NOT_THERE};
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > most - part->length)
			return EINVAL;
		memcpy(to + part->length, (void *)wr->sg_list[i].addr, wr->sg_list[i].length);
		part->length += wr->sg_list[i].length;
	}
	return 0;
}

/* Makes parts of a request's SGEs; an errno value. */
static int find_parts(struct queue_pair *queue_pair, const struct ibv_send_wr *wr,
		      struct request *request)
{
	struct device_context *device = device_of(queue_pair->qp.context);
	struct part *parts = parts_of(queue_pair, queue_pair->posted);
	int error = 0, must_stage = 0;
	uint64_t bytes = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue_pair->cap.max_send_sge)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE && wr->num_sge) {
		error = copy_inline(queue_pair, wr, parts);
		bytes = parts->length;
		request->part_count = 1;
		must_stage = 1;
	}
	for (int i = 0; i < wr->num_sge && !must_stage; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		struct part *part = &parts[request->part_count];

		if (!sge->length)
			continue;
		*part = (struct part){(const char *)sge->addr, sge->length, NOT_THERE};
		if (region_find(sge->lkey, sge->addr, sge->length, &part->offset))
			return EINVAL;
		bytes += sge->length;
		request->part_count++;
	}
	for (uint32_t i = 0; i < request->part_count; i++)
		must_stage |= request->part_count > 1 || parts[i].offset == NOT_THERE;
	if (error || bytes > MESSAGE_MAX)
		return EINVAL;
	request->length = bytes;
	if (must_stage && bytes && !queue_pair->staging.memory.bytes)
		error = own_allocate(&queue_pair->staging.memory, device->link, STAGING_BYTES);
	return error;
}

/* Queues one request; an errno value. */
static int queue_request(struct queue_pair *queue_pair, const struct ibv_send_wr *wr)
{
	struct request *request;
	int error;

	if (queue_pair->is_libmrc && wr->opcode > IBV_WR_RDMA_WRITE_WITH_IMM)
		return EINVAL;
	if (wr->opcode > IBV_WR_SEND_WITH_IMM)
		return unsupported_opcode(wr->opcode, queue_pair->transport);
	if (queue_pair->posted - queue_pair->done >= queue_pair->capacity)
		return ENOMEM;
	request = &queue_pair->requests[queue_pair->posted % queue_pair->capacity];
	*request = (struct request){
	    .wr_id = wr->wr_id,
	    .remote_address = wr->wr.rdma.remote_addr,
	    .opcode = wr->opcode,
	    .r_key = wr->wr.rdma.rkey,
	    .immediate = ntohl(wr->imm_data),
	    .is_signalled = queue_pair->signals_all || wr->send_flags & IBV_SEND_SIGNALED,
	};
	error = find_parts(queue_pair, wr, request);
	queue_pair->posted += !error;
	return error;
}

/* Frees the places of unsignalled requests that are done, which no poll may ever look for. */
static void reclaim(struct queue_pair *queue_pair)
{
	while (queue_is_done(queue_pair) &&
	       !queue_pair->requests[queue_pair->done % queue_pair->capacity].is_signalled)
		queue_pair->done++;
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct queue_pair *queue_pair = container_of(qp, struct queue_pair, qp);
	int error = 0;

	pthread_mutex_lock(&queue_pair->lock);
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR)
		error = EINVAL;
	for (; wr && !error; wr = wr->next) {
		if (queue_pair->posted - queue_pair->done >= queue_pair->capacity) {
			queue_advance(queue_pair);
			reclaim(queue_pair);
		}
		error = queue_request(queue_pair, wr);
		if (error)
			break;
	}
	if (error)
		*bad = wr;
	queue_advance(queue_pair);
	pthread_mutex_unlock(&queue_pair->lock);
	overrun_look(qp->send_cq);
	return error;
}

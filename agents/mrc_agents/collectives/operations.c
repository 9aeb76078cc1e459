// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The traffic of operations. All are a pipeline round the ring of the group, or an exchange
 * of each with each, or the one and then the other.
 *
 * The ring goes towards the index before, as gloo's does: at step s a rank sends chunk first + s
 * and receives chunk first + s + 1. A slice leaves once the one of the same place a step before has
 * come.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "coll.h"

enum {
	SEGMENT_BYTES = 1 << 20, /* gloo's longest, and how many of them a rank has at least */
	SEGMENTS_PER_RANK = 2,
};

static struct peer *neighbour(const struct operation *operation, int step)
{
	const struct mrc_coll_group *group = operation->group;

	return group->members[(group->index + group->size + step) % group->size];
}

struct piece {
	char *data;
	size_t bytes;
};

/* The data from an offset on up to another; none where that is not behind it. */
static struct piece between(const struct operation *operation, size_t start, size_t end)
{
	if (start >= end)
		return (struct piece){operation->data, 0};
	return (struct piece){operation->data + start, end - start};
}

static size_t least(size_t one, size_t other)
{
	return one < other ? one : other;
}

/* The slice of a ring: the `number`th that is sent, or with ahead = 1 received. */
static struct piece ring_piece(const struct operation *operation, size_t number, int ahead)
{
	const uint32_t payload = payload_bytes(operation->group->coll);
	const size_t chunk =
	    (operation->first_chunk + ahead + number / operation->slices) % operation->group->size;
	const size_t start = chunk * operation->chunk_bytes + number % operation->slices * payload;
	const size_t end = least((chunk + 1) * operation->chunk_bytes, operation->bytes);

	return between(operation, start, least(start + payload, end));
}

static struct piece stream_piece(struct operation *operation, const struct stream *stream)
{
	const size_t left = stream->in_bytes - stream->received;

	return (struct piece){stream->in + stream->received,
			      least(left, payload_bytes(operation->group->coll))};
}

static bool advance_ring(struct mrc_coll *coll, struct operation *operation)
{
	struct peer *to = neighbour(operation, -1);
	bool has_moved = false;

	while (operation->sent < operation->total &&
	       operation->sent < operation->received + operation->slices && can_send(coll, to)) {
		const struct piece piece = ring_piece(operation, operation->sent++, 0);

		coll_send_slice(coll, to, operation, piece.data, piece.bytes);
		has_moved = true;
	}
	return has_moved;
}

static bool advance_exchange(struct mrc_coll *coll, struct operation *operation)
{
	const struct mrc_coll_group *group = operation->group;
	bool has_moved = false;

	for (int step = 1; step < group->size; step++) {
		const int at = (group->index + step) % group->size;
		struct stream *stream = &operation->streams[at];

		while (stream->sent < stream->out_bytes && can_send(coll, group->members[at])) {
			const uint32_t bytes =
			    least(stream->out_bytes - stream->sent, payload_bytes(coll));

			coll_send_slice(coll, group->members[at], operation,
					stream->out + stream->sent, bytes);
			stream->sent += bytes;
			has_moved = true;
		}
	}
	return has_moved;
}

static bool is_ring_complete(const struct operation *operation)
{
	return operation->sent == operation->total && operation->received == operation->total;
}

/* Sends what may be sent now; false: nothing. */
bool coll_advance(struct mrc_coll *coll, struct operation *operation)
{
	bool has_moved = false;

	if (operation->phase == IN_RING) {
		has_moved = advance_ring(coll, operation);
		if (!is_ring_complete(operation))
			return has_moved;
		operation->phase = IN_EXCHANGE;
		coll_take_early(coll, operation); /* what others, further on, have sent already */
	}
	return advance_exchange(coll, operation) || has_moved;
}

static bool is_stream_complete(const struct stream *stream)
{
	return stream->sent == stream->out_bytes && stream->received == stream->in_bytes;
}

bool coll_is_complete(const struct operation *operation)
{
	for (int at = 0; at < operation->group->size; at++)
		if (!is_stream_complete(&operation->streams[at]))
			return false;
	return is_ring_complete(operation);
}

/* True if the operation cannot end before that member of its group does something. */
static bool is_awaited(const struct operation *operation, int at)
{
	const struct peer *peer = operation->group->members[at];

	if (operation->phase == IN_EXCHANGE)
		return !is_stream_complete(&operation->streams[at]);
	if (operation->received < operation->total)
		return peer == neighbour(operation, 1);
	return operation->sent < operation->total && peer == neighbour(operation, -1);
}

/* The next peer that the operation waits for, from *at on, which begins with 0; NULL: no more. */
struct peer *coll_awaited(struct operation *operation, int *at)
{
	while (*at < operation->group->size) {
		struct peer *peer = operation->group->members[*at];
		const bool is_found = peer && is_awaited(operation, *at);

		(*at)++;
		if (is_found)
			return peer;
	}
	return NULL;
}

static int index_of(const struct mrc_coll_group *group, const struct peer *peer)
{
	int at = 0;

	while (at < group->size && group->members[at] != peer)
		at++;
	return at;
}

/* True if the peer calls what this rank calls. */
static bool is_agreed(struct mrc_coll *coll, const struct operation *operation,
		      const struct peer *peer, struct call call)
{
	char theirs[CALL_BYTES], ours[CALL_BYTES];

	if (!memcmp(&call, &operation->call, sizeof(call)))
		return true;
	coll_describe(call, theirs);
	coll_describe(operation->call, ours);
	coll_fail(coll, peer->rank,
		  "rank %d %s where rank %d %s: "
		  "the ranks of a group do not agree on operation or type",
		  peer->rank, theirs, coll->rank, ours);
	return false;
}

/* True if the operation has room for a slice of that size now; what it is for follows. */
static bool is_expected(struct mrc_coll *coll, struct operation *operation, struct peer *peer,
			const struct slice_header *header, struct piece *piece)
{
	const struct mrc_coll_group *group = operation->group;
	const int at = index_of(group, peer);

	*piece = (struct piece){NULL, 0};
	if (operation->phase == IN_RING) {
		if (peer == neighbour(operation, 1) && operation->received < operation->total)
			*piece = ring_piece(operation, operation->received, 1);
	} else if (header->phase == IN_EXCHANGE && at < group->size &&
		   operation->streams[at].received < operation->streams[at].in_bytes) {
		*piece = stream_piece(operation, &operation->streams[at]);
	}
	if (piece->data && piece->bytes == header->bytes)
		return true;
	coll_fail(coll, peer->rank,
		  "rank %d sends %u bytes where %zu are expected: "
		  "the ranks of a group do not agree on operation or sizes",
		  peer->rank, header->bytes, piece->bytes);
	return false;
}

/* Takes a slice in, which has to be what comes next from that peer. */
void coll_take_in(struct mrc_coll *coll, struct operation *operation, struct peer *peer,
		  const struct slice_header *header, const char *payload)
{
	struct piece piece;

	if (!is_agreed(coll, operation, peer, header->call) ||
	    !is_expected(coll, operation, peer, header, &piece))
		return;
	if (operation->phase == IN_RING &&
	    operation->received / operation->slices < (size_t)operation->reducing_steps)
		coll_reduce(piece.data, payload, piece.bytes, operation->call.type,
			    operation->call.reduction);
	else
		memcpy(piece.data, payload, piece.bytes);
	if (operation->phase == IN_RING)
		operation->received++;
	else
		operation->streams[index_of(operation->group, peer)].received += piece.bytes;
}

static bool is_possible(enum mrc_coll_type type, enum mrc_coll_reduction reduction)
{
	return reduction < MRC_COLL_AND || (type >= MRC_COLL_I8 && type <= MRC_COLL_I64);
}

static struct operation *make(struct mrc_coll_group *group, uint64_t number, struct call call,
			      int timeout_ms, uint64_t id)
{
	const size_t streams = group->size * sizeof(struct stream);
	struct operation *operation = calloc(1, sizeof(*operation) + streams);

	if (!operation)
		return NULL;
	operation->group = group;
	operation->number = number;
	operation->call = call;
	operation->id = id;
	operation->timeout_ms = timeout_ms;
	operation->deadline_ns =
	    timeout_ms < 0 ? INT64_MAX : coll_now_ns() + timeout_ms * 1000000LL;
	return operation;
}

static int start(struct operation *operation)
{
	struct mrc_coll *coll = operation->group->coll;
	struct operation **end;

	pthread_mutex_lock(&coll->lock);
	for (end = &coll->started; *end; end = &(*end)->next)
		;
	*end = operation;
	pthread_mutex_unlock(&coll->lock);
	coll_rouse(coll);
	return 0;
}

static void lay_ring(struct operation *operation, void *data, size_t bytes, size_t chunk_bytes,
		     int first_ahead, int steps)
{
	const uint32_t payload = payload_bytes(operation->group->coll);

	operation->data = data;
	operation->bytes = bytes;
	operation->chunk_bytes = chunk_bytes;
	operation->first_chunk = operation->group->index + first_ahead;
	operation->slices = (chunk_bytes + payload - 1) / payload;
	operation->total = operation->slices * steps;
}

/* Bytes of the chunk of a rank, as gloo's ring cuts it: so many segments for each rank. */
static size_t gloo_chunk_bytes(size_t count, int size, size_t element)
{
	const size_t longest = SEGMENT_BYTES / element;
	size_t segments = ((count + longest - 1) / longest + size - 1) / size;

	if (segments < SEGMENTS_PER_RANK)
		segments = SEGMENTS_PER_RANK;
	return (count + segments * size - 1) / (segments * size) * segments * element;
}

/* The data of a chunk of the ring that is in the share of the rank of index `at`. */
static struct piece part(const struct operation *operation, size_t chunk, size_t at)
{
	const size_t share = operation->bytes / operation->group->size;
	const size_t start = chunk * operation->chunk_bytes;

	return between(operation, start < at * share ? at * share : start,
		       least(start + operation->chunk_bytes, (at + 1) * share));
}

/* Lets the exchange give each rank its share, which the ring reduces by gloo's chunks. */
static void lay_shares(struct operation *operation)
{
	const struct mrc_coll_group *group = operation->group;

	for (int at = 0; at < group->size; at++) {
		const struct piece out = part(operation, group->index, at),
				   in = part(operation, at, group->index);

		if (at != group->index)
			operation->streams[at] = (struct stream){
			    .out = out.data,
			    .out_bytes = out.bytes,
			    .in = in.data,
			    .in_bytes = in.bytes,
			};
	}
}

static int start_reduction(struct mrc_coll_group *group, uint64_t number, void *data, size_t count,
			   struct call call, int timeout_ms, uint64_t id)
{
	const bool is_scattered = call.kind == REDUCE_SCATTER;
	const size_t element = coll_element_bytes(call.type), bytes = count * element;
	struct operation *operation;

	if (!is_possible(call.type, call.reduction))
		return EINVAL;
	operation = make(group, number, call, timeout_ms, id);
	if (!operation)
		return ENOMEM;
	operation->reducing_steps = group->size - 1;
	lay_ring(operation, data, bytes, gloo_chunk_bytes(count, group->size, element), 1,
		 (is_scattered ? 1 : 2) * operation->reducing_steps);
	if (is_scattered)
		lay_shares(operation);
	return start(operation);
}

int mrc_coll_all_reduce(struct mrc_coll_group *group, uint64_t number, void *data, size_t count,
			enum mrc_coll_type type, enum mrc_coll_reduction reduction, int timeout_ms,
			uint64_t id)
{
	return start_reduction(group, number, data, count,
			       (struct call){ALL_REDUCE, type, reduction}, timeout_ms, id);
}

int mrc_coll_reduce_scatter(struct mrc_coll_group *group, uint64_t number, void *data,
			    size_t chunk_count, enum mrc_coll_type type,
			    enum mrc_coll_reduction reduction, int timeout_ms, uint64_t id)
{
	return start_reduction(group, number, data, chunk_count * group->size,
			       (struct call){REDUCE_SCATTER, type, reduction}, timeout_ms, id);
}

int mrc_coll_all_gather(struct mrc_coll_group *group, uint64_t number, void *data,
			size_t chunk_bytes, int timeout_ms, uint64_t id)
{
	struct operation *operation =
	    make(group, number, (struct call){.kind = ALL_GATHER}, timeout_ms, id);

	if (!operation)
		return ENOMEM;
	lay_ring(operation, data, chunk_bytes * group->size, chunk_bytes, 0, group->size - 1);
	return start(operation);
}

int mrc_coll_exchange(struct mrc_coll_group *group, uint64_t number, const void *const *out,
		      const size_t *out_bytes, void *const *in, const size_t *in_bytes,
		      int timeout_ms, uint64_t id)
{
	struct operation *operation =
	    make(group, number, (struct call){.kind = EXCHANGE}, timeout_ms, id);

	if (!operation)
		return ENOMEM;
	for (int at = 0; at < group->size; at++)
		if (at != group->index)
			operation->streams[at] = (struct stream){
			    .out = out[at],
			    .out_bytes = out_bytes[at],
			    .in = in[at],
			    .in_bytes = in_bytes[at],
			};
	return start(operation);
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Slices of data through slots of NIC memory, and the credits that say which slots are free. */
#include <string.h>
#include "coll.h"

enum {
	CREDITS = 1u << 31, /* in an immediate: credits come back, no slice */
};

static size_t slot_offset(const struct mrc_coll *coll, uint32_t number)
{
	return (size_t)(number % coll->options.slots) * coll->options.slot_bytes;
}

/* Sends what can_send() lets; the payload may change afterwards. */
void coll_send_slice(struct mrc_coll *coll, struct peer *peer, const struct operation *operation,
		     const void *payload, uint32_t bytes)
{
	const size_t remote = slot_offset(coll, peer->sent), local = remote + slots_bytes(coll);
	const struct slice_header header = {
	    .group = operation->group->number,
	    .number = operation->number,
	    .bytes = bytes,
	    .call = operation->call,
	    .phase = operation->phase,
	};
	char *slot = peer->slots + local;

	memcpy(slot, &header, sizeof(header));
	if (bytes)
		memcpy(slot + sizeof(header), payload, bytes);
	peer->sent++;
	peer->credits--;
	coll_post_write(coll, peer,
			(struct write){
			    .work = SLICE,
			    .local = local,
			    .remote = remote,
			    .bytes = sizeof(header) + bytes,
			    .has_immediate = true,
			});
}

/* Writes nothing to a peer that owes something: its NIC responds, or the QP fails. */
void coll_probe(struct mrc_coll *coll, struct peer *peer)
{
	if (peer->is_probed)
		return;
	peer->is_probed = true;
	coll_post_write(coll, peer, (struct write){.work = PROBE});
}

static void take_slice(struct mrc_coll *coll, struct peer *peer)
{
	const char *slot = peer->slots + slot_offset(coll, peer->arrived++);
	struct slice_header header;

	memcpy(&header, slot, sizeof(header));
	if (header.bytes <= payload_bytes(coll))
		coll_accept_slice(coll, peer, &header, slot + sizeof(header));
	else
		coll_fail(coll, peer->rank, "rank %d has slots of another size", peer->rank);
	if (++peer->owed < (coll->options.slots + 1) / 2 || peer->has_left)
		return;
	coll_post_write(coll, peer,
			(struct write){
			    .work = CREDIT,
			    .has_immediate = true,
			    .immediate = CREDITS | peer->owed,
			});
	peer->owed = 0;
}

/* Takes what a WRITE with immediate of that peer has brought. */
void coll_take_arrival(struct mrc_coll *coll, struct peer *peer, uint32_t immediate)
{
	if (immediate & CREDITS)
		peer->credits += immediate & ~CREDITS;
	else
		take_slice(coll, peer);
}

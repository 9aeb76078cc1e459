// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Messages of operations between ranks. A schedule says which message leaves once which other has
 * arrived: here each is posted as the agent of its NIC would, reduced where it lies, and followed
 * by those that wait for it. Where a work ring is full, messages wait for a completion. Python is
 * called when an operation is over, and where a frozen or dead agent has to post.
 */
#include <stdio.h>
#include <stdlib.h>
#include "api.h"
#include "../collectives/coll.h"

enum {
	FRAMES_PER_RUN = 256, /* that an agent requests at once */
	OWN_ID = 1U << 31,    /* of work requests that no agent has posted; no agent gets so far */
};

/* The schedule and connection of a QP. */
struct end {
	struct mrc_message_schedule *schedule;
	__u32 connection;
};

static struct end *receivers, *senders; /* by NIC and QP */
static __u32 arrived;			/* 1 + the transfer whose arrival is dealt with */
static __u32 qp_count;

void virtual_begin_messages(__u32 nic_count)
{
	qp_count = virtual_find_map("work_ring")->map->count;
	receivers = calloc((size_t)nic_count * qp_count, sizeof(*receivers));
	senders = calloc((size_t)nic_count * qp_count, sizeof(*senders));
	if (!receivers || !senders) {
		perror("virtual time: messages");
		abort();
	}
}

void virtual_end_messages(void)
{
	free(receivers);
	free(senders);
	receivers = senders = 0;
}

static struct mrc_schedule_connection *connection_of(const struct mrc_message_schedule *schedule,
						     __u32 index)
{
	return (struct mrc_schedule_connection *)schedule->connections + index;
}

static const struct mrc_transfer *transfer_of(const struct mrc_message_schedule *schedule,
					      __u32 index)
{
	return (const struct mrc_transfer *)schedule->transfers + index;
}

/* ---- lists of transfers, each in one at most */

static void append(const struct mrc_message_schedule *schedule, __u32 list[2], __u32 index)
{
	__u32 *next = (__u32 *)schedule->next;

	next[index] = 0;
	if (list[0])
		next[list[1] - 1] = index + 1;
	else
		list[0] = index + 1;
	list[1] = index + 1;
}

static __u32 take_first(const struct mrc_message_schedule *schedule, __u32 list[2])
{
	__u32 index = list[0] - 1;

	list[0] = ((const __u32 *)schedule->next)[index];
	return index;
}

/* ---- posting */

/* Returns whether a work ring is full: its oldest request has not completed. */
static int is_full(const struct mrc_work_ring *ring)
{
	const struct mrc_work *oldest = &ring->entries[(ring->tail + 1) % MRC_WORK_RING];

	return oldest->iterations && !oldest->is_completed;
}

/* The work ring of a QP; 0: its agent is frozen or dead. */
static struct mrc_work_ring *open_ring(const struct mrc_schedule_connection *connection)
{
	if (!virtual_is_attended(connection->source_nic))
		return 0;
	virtual_enter_nic(connection->source_nic);
	return virtual_work_ring(connection->source_qp);
}

static void request_frames(__u32 nic, __u32 qp_index, __u32 packets)
{
	for (__u32 frames; packets; packets -= frames) {
		frames = packets < FRAMES_PER_RUN ? packets : FRAMES_PER_RUN;
		virtual_enter_nic(nic);
		virtual_request_tx(qp_index, frames);
		virtual_run_frames(nic, frames);
	}
}

static void post(struct mrc_message_schedule *schedule, __u32 index)
{
	const struct mrc_transfer *transfer = transfer_of(schedule, index);
	struct mrc_schedule_connection *connection = connection_of(schedule, transfer->connection);
	__u32 unit = coll_element_bytes(schedule->element), bytes = transfer->count * unit, packets;
	struct mrc_work_ring *ring = open_ring(connection);

	connection->in_flight++;
	virtual_trace_transfer(MRC_TRACE_POSTED, schedule, index, arrived);
	if (!ring) {
		append(schedule, schedule->unposted, index);
		return;
	}
	ring->entries[ring->tail % MRC_WORK_RING] = (struct mrc_work){
	    .id = OWN_ID | ring->tail,
	    .length = bytes,
	    .iterations = 1,
	    .local_offset = connection->local_offset + transfer->source_start * unit,
	    .local_slots = 1,
	    .remote_offset = transfer->target_start * unit,
	    .remote_slots = 1,
	    .r_key = connection->r_key,
	    .depth = 1,
	    .has_immediate = 1,
	    .immediate = schedule->operation,
	};
	ring->tail++;
	packets = (bytes + connection->pmtu_bytes - 1) / connection->pmtu_bytes;
	request_frames(connection->source_nic, connection->source_qp,
		       packets < connection->window_packets ? packets : connection->window_packets);
}

/* Posts messages of a connection that wait, as far as it has room. */
static void post_waiting(struct mrc_message_schedule *schedule, __u32 index)
{
	struct mrc_schedule_connection *connection = connection_of(schedule, index);

	while (connection->waiting[0] && connection->in_flight < schedule->in_flight_max) {
		const struct mrc_work_ring *ring = open_ring(connection);

		if (ring && is_full(ring))
			return;
		post(schedule, take_first(schedule, connection->waiting));
	}
}

/* Posts a message, or lets it wait until one of its connection has arrived or completed. */
static void send_transfer(struct mrc_message_schedule *schedule, __u32 index)
{
	__u32 connection = transfer_of(schedule, index)->connection;

	append(schedule, connection_of(schedule, connection)->waiting, index);
	post_waiting(schedule, connection);
}

/* ---- arrivals */

static void reduce(const struct mrc_message_schedule *schedule, const struct mrc_transfer *transfer,
		   __u64 region)
{
	__u64 bytes = coll_element_bytes(schedule->element);

	coll_reduce((void *)(region + transfer->reduce_start * bytes),
		    (const void *)(region + transfer->target_start * bytes),
		    transfer->count * bytes, schedule->element, schedule->reduction);
}

void mrc_virtual_take_arrival(struct mrc_message_schedule *schedule, __u32 index)
{
	const __u32 *first = (const __u32 *)schedule->follower_first;
	const __u32 *members = (const __u32 *)schedule->follower_members;
	const struct mrc_transfer *transfer = transfer_of(schedule, index);
	struct mrc_schedule_connection *connection = connection_of(schedule, transfer->connection);

	virtual_trace_transfer(MRC_TRACE_ARRIVED, schedule, index, 0);
	arrived = index + 1;
	schedule->outstanding--;
	connection->in_flight--;
	post_waiting(schedule, transfer->connection);
	if (transfer->reduce_start >= 0)
		reduce(schedule, transfer, connection->target_address);
	for (__u32 i = first[index]; i < first[index + 1]; i++)
		send_transfer(schedule, members[i]);
	arrived = 0;
}

/* Takes a report if it is of a message that a schedule has posted, or expects. */
int virtual_take_message(__u32 nic, const struct mrc_event *event)
{
	const __u32 *first, *members;
	__u32 carried, place, index;
	struct mrc_message_schedule *schedule;
	const struct end *receiver, *sender;

	if (event->kind == MRC_EVENT_COMPLETION && event->a & OWN_ID) {
		sender = &senders[nic * qp_count + event->qp_index];
		if (sender->schedule) {
			post_waiting(sender->schedule, sender->connection);
			if (sender->schedule->unposted[0])
				virtual_call_python();
		}
		return 1;
	}
	if (event->kind != MRC_EVENT_RECEIVE)
		return 0;
	receiver = &receivers[nic * qp_count + event->qp_index];
	schedule = receiver->schedule;
	if (!schedule || !schedule->outstanding)
		return 0;
	first = (const __u32 *)schedule->carried_first + receiver->connection;
	members = (const __u32 *)schedule->carried_members;
	carried = first[1] - first[0];
	place = event->a - 1 - schedule->operation * carried;
	if (place >= carried || event->b != schedule->operation)
		return 0;
	index = members[first[0] + place];
	if (event->d != transfer_of(schedule, index)->count * coll_element_bytes(schedule->element))
		return 0;
	mrc_virtual_take_arrival(schedule, index);
	schedule->end_ns = virtual_now_ns;
	schedule->last_connection = receiver->connection;
	if (!schedule->outstanding || schedule->unposted[0])
		virtual_call_python();
	return 1;
}

/* ---- from one operation to the next */

void mrc_virtual_expect(struct mrc_message_schedule *schedule, int is_expected)
{
	for (__u32 i = 0; i < schedule->connection_count; i++) {
		const struct mrc_schedule_connection *connection = connection_of(schedule, i);

		if (connection->source_nic == VIRTUAL_NO_NIC)
			continue;
		receivers[connection->target_nic * qp_count + connection->target_qp] =
		    (struct end){is_expected ? schedule : 0, i};
		senders[connection->source_nic * qp_count + connection->source_qp] =
		    (struct end){is_expected ? schedule : 0, i};
	}
}

void mrc_virtual_begin_operation(struct mrc_message_schedule *schedule)
{
	const __u32 *members = (const __u32 *)schedule->follower_members;
	__u32 first_count = *(const __u32 *)schedule->follower_first;

	schedule->outstanding = schedule->transfer_count;
	for (__u32 i = 0; i < first_count; i++)
		send_transfer(schedule, members[i]);
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Events of NICs. A QP that requests frames of an attended NIC's agent gets them in no time, here;
 * Python reads all other events. The ring of a NIC whose agent does not read fills up, as
 * the kernel's does.
 */
#include <stdio.h>
#include <stdlib.h>
#include "api.h"

enum {
	REPORTS_FIRST_ROOM = 1024,
	RING_HEADER_BYTES = 8, /* of each record in a ring of the kernel */
};

static struct mrc_virtual_report *reports;
static __u32 report_count, report_room;
static __u32 *unread; /* by NIC, records in its ring */
static __u8 *is_attended;
static struct mrc_event record;

void virtual_begin_reports(__u32 nic_count)
{
	report_count = 0;
	unread = calloc(nic_count, sizeof(*unread));
	is_attended = calloc(nic_count, sizeof(*is_attended));
	if (!unread || !is_attended) {
		perror("virtual time: agents");
		abort();
	}
}

void virtual_end_reports(void)
{
	free(reports);
	free(unread);
	free(is_attended);
	reports = 0;
	unread = 0;
	is_attended = 0;
	report_room = 0;
	report_count = 0;
}

int virtual_is_attended(__u32 nic)
{
	return nic != VIRTUAL_NO_NIC && is_attended[nic];
}

int virtual_has_reports(void)
{
	return report_count != 0;
}

static void add_report(struct mrc_virtual_report report)
{
	if (report_count == report_room) {
		report_room = report_room ? report_room * 2 : REPORTS_FIRST_ROOM;
		reports = realloc(reports, report_room * sizeof(*reports));
		if (!reports) {
			perror("virtual time: reports");
			abort();
		}
	}
	reports[report_count++] = report;
}

void *bpf_ringbuf_reserve(void *ring, __u64 bytes, __u64 flags)
{
	__u32 nic = virtual_entered_nic();

	(void)flags;
	if (!virtual_is_event_ring(ring) || bytes != sizeof(record))
		return 0;
	if ((unread[nic] + 1) * (sizeof(record) + RING_HEADER_BYTES) > virtual_event_room())
		return 0;
	return &record;
}

void bpf_ringbuf_submit(void *submitted, __u64 flags)
{
	const struct mrc_event *event = submitted;
	__u32 nic = virtual_entered_nic();

	(void)flags;
	if (event->kind == MRC_EVENT_KICK && is_attended[nic]) {
		virtual_push(
		    virtual_now_ns, VIRTUAL_EVENT_KICK,
		    (struct virtual_event){.nic = nic, .a = event->qp_index, .b = event->a});
		return;
	}
	unread[nic]++;
	add_report((struct mrc_virtual_report){.nic = nic, .event = *event});
}

void virtual_call_python(void)
{
	add_report((struct mrc_virtual_report){.nic = VIRTUAL_NO_NIC});
}

void virtual_take_messages(void)
{
	__u32 left = 0;

	for (__u32 i = 0; i < report_count; i++) {
		struct mrc_virtual_report report = reports[i];

		if (virtual_is_attended(report.nic) &&
		    virtual_take_message(report.nic, &report.event))
			unread[report.nic]--;
		else
			reports[left++] = report;
	}
	report_count = left;
}

void bpf_ringbuf_discard(void *discarded, __u64 flags)
{
	(void)discarded;
	(void)flags;
}

long bpf_ringbuf_output(void *ring, void *data, __u64 bytes, __u64 flags)
{
	(void)ring;
	(void)data;
	(void)bytes;
	(void)flags;
	return -1;
}

void mrc_virtual_attend(__u32 nic, int attended)
{
	is_attended[nic] = !!attended;
}

const struct mrc_virtual_report *mrc_virtual_reports(__u32 *count)
{
	*count = report_count;
	return reports;
}

void mrc_virtual_take_reports(void)
{
	for (__u32 i = 0; i < report_count; i++)
		if (virtual_is_attended(reports[i].nic))
			unread[reports[i].nic] = 0;
	report_count = 0;
}

void mrc_virtual_empty_ring(__u32 nic)
{
	unread[nic] = 0;
}

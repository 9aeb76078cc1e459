// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The trace of a run that is looked at: records of what a selection names, in the order in which the
 * library came to it. It only reads: results are the same to the byte with it and without.
 */
#include <bpf/bpf_endian.h>
#include <mrc/trace.h>
#include <mrc/wire.h>
#include "api.h"

enum {
	FLOWS_COUNTED = 16, /* in one queue; what others have is in no flow's sum */
	QP_INDEX_MASK = (1 << MRC_QP_INDEX_BITS) - 1,
};

__u32 virtual_trace_kinds;

static struct mrc_trace_selection selected;
static struct mrc_trace_record *records;
static __u64 record_count;
static const struct virtual_map_entry *frames, *qps, *ports;

void mrc_virtual_trace(const struct mrc_trace_selection *selection)
{
	virtual_release(records, selected.records_max * sizeof(*records));
	virtual_trace_kinds = record_count = 0;
	records = 0;
	if (!selection)
		return;
	selected = *selection;
	records = virtual_allocate(selected.records_max * sizeof(*records));
	virtual_trace_kinds = records ? selected.kinds : 0;
	frames = virtual_find_map("queue_frames");
	qps = virtual_find_map("qps");
	ports = virtual_find_map("port_table");
}

const struct mrc_trace_record *mrc_virtual_traced(__u64 *count)
{
	*count = record_count;
	return records;
}

static int is_selected(__u32 host, __u32 qp, __u64 time_ns)
{
	const __u32 *first = (const __u32 *)selected.window_first;
	const __u64 *windows = (const __u64 *)selected.windows;
	__u64 place = (__u64)host * qps->map->count + qp;

	if (time_ns < selected.from_ns || time_ns > selected.until_ns)
		return 0;
	if (!first)
		return 1;
	if (host >= virtual_bytes_of(qps) / qps->instance_bytes || qp >= qps->map->count)
		return 0;
	for (__u32 i = first[place]; i < first[place + 1]; i++)
		if (windows[2 * i] <= time_ns && time_ns <= windows[2 * i + 1])
			return 1;
	return 0;
}

static void add(struct mrc_trace_record record)
{
	if (record_count < selected.records_max)
		records[record_count++] = record;
}

/* The header behind the source route, if there is one; 0: the frame is not of MRC. */
static const struct wire_ipv6 *inner_header(const void *bytes)
{
	const struct wire_ipv6 *ip = bytes + sizeof(struct wire_eth);

	if (ip->next_header == WIRE_NEXT_HEADER_IPV6)
		ip++;
	return ip->next_header == WIRE_NEXT_HEADER_UDP ? ip : 0;
}

const void *virtual_trace_bytes(__u32 id)
{
	return frames->base + (__u64)(id - 1) * frames->map->stride;
}

static __u32 host_of(const __be64 address[2])
{
	return bpf_be64_to_cpu(address[1]) - 1;
}

/* Fills in what the headers say; returns whether the frame is selected. */
static int describe(struct mrc_trace_record *record, const struct mrc_port *port, const void *bytes)
{
	const struct wire_ipv6 *ip = inner_header(bytes);
	const struct wire_udp *udp = (const void *)(ip + 1);
	const struct wire_bth *bth = (const void *)(udp + 1);

	record->place = ((__u8 *)port - ports->base) / ports->map->stride;
	if (!ip || (selected.port != ~0U && selected.port != record->place))
		return 0;
	record->source = host_of((const __be64 *)ip->source);
	record->host = host_of((const __be64 *)ip->destination);
	record->qp = bpf_ntohl(bth->destination_qp) & QP_INDEX_MASK;
	record->psn = bpf_ntohl(bth->flags_psn) & WIRE_PSN_MASK;
	if (record->kind == MRC_TRACE_HOP || record->kind == MRC_TRACE_TAKEN)
		record->what = bth->opcode;
	record->entropy = bpf_ntohl(ip->version_class_flow) << 16 | bpf_ntohs(udp->source);
	return is_selected(record->host, record->qp, record->time_ns);
}

void virtual_trace_frame(struct mrc_trace_record record, const struct mrc_port *port,
			 const void *bytes)
{
	if (bytes) {
		if (describe(&record, port, bytes))
			add(record);
		return;
	}
	record.place = ((__u8 *)port - ports->base) / ports->map->stride;
	if (record.end_ns >= selected.from_ns && record.time_ns <= selected.until_ns)
		add(record);
}

void virtual_trace_queued(struct mrc_trace_record record, const struct mrc_port *port, __u32 id,
			  const struct mrc_queue_descriptors *descriptors, __u32 head)
{
	struct {
		__u32 hosts, bytes;
	} flows[FLOWS_COUNTED];
	__u32 count = 0;

	if (!describe(&record, port, virtual_trace_bytes(id)))
		return;
	for (; head; head = descriptors->entry[head - 1].next) {
		const struct wire_ipv6 *ip = inner_header(virtual_trace_bytes(head));
		__u32 hosts = ~0U, i = 0;

		if (ip)
			hosts = host_of((const __be64 *)ip->source) << 16 |
				(host_of((const __be64 *)ip->destination) & 0xffff);
		while (i < count && flows[i].hosts != hosts)
			i++;
		if (i == FLOWS_COUNTED)
			continue;
		if (i == count) {
			flows[count].hosts = hosts;
			flows[count++].bytes = 0;
		}
		flows[i].bytes += descriptors->entry[head - 1].length_bytes;
		if (flows[i].bytes > record.extra) {
			record.extra = flows[i].bytes;
			record.what = hosts;
		}
	}
	add(record);
}

void virtual_trace_qp(struct mrc_trace_record record, const void *within)
{
	__u64 offset = (const __u8 *)within - qps->base, rest = offset % qps->instance_bytes;
	const struct mrc_qp *qp = within - rest % qps->map->stride;

	record.host = offset / qps->instance_bytes;
	record.qp = rest / qps->map->stride;
	record.source = qp->head.peer_host;
	record.value = qp->cc.cwnd_bytes;
	record.extra = qp->req.inflight;
	if (is_selected(record.host, record.qp, record.time_ns))
		add(record);
}

void virtual_trace_transfer(enum mrc_trace_kind kind, const struct mrc_message_schedule *schedule,
			    __u32 transfer, __u32 what)
{
	__u32 place = ((const struct mrc_transfer *)schedule->transfers)[transfer].connection;
	const struct mrc_schedule_connection *connection =
	    (const struct mrc_schedule_connection *)schedule->connections + place;

	if (virtual_trace_kinds & 1U << kind && virtual_now_ns >= selected.from_ns &&
	    virtual_now_ns <= selected.until_ns)
		add((struct mrc_trace_record){.time_ns = virtual_now_ns,
					      .start_ns = (__u64)schedule,
					      .kind = kind,
					      .place = place,
					      .psn = transfer,
					      .entropy = schedule->operation,
					      .what = what,
					      .source = connection->source_nic,
					      .qp = connection->source_qp,
					      .host = connection->target_nic,
					      .extra = connection->target_qp});
}

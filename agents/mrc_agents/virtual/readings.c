// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Readings of all NICs at once: in Python, map by map, they took as long as the data plane. */
#include "api.h"

static const void *element(const struct virtual_map_entry *map, __u32 nic, __u32 index)
{
	return map->base + map->instance_bytes * nic + (__u64)map->map->stride * index;
}

/* Not if any count reaches 2^56, which is impossible: as Histogram.from_map_values(). */
static void add_histogram(struct mrc_histogram *sum, const struct mrc_histogram *value)
{
	__u64 any = 0;

	for (__u32 i = 0; i < MRC_HISTOGRAM_BUCKETS; i++)
		any |= value->buckets[i];
	if (!any || any >> 56)
		return;
	for (__u32 i = 0; i < MRC_HISTOGRAM_BUCKETS; i++)
		sum->buckets[i] += value->buckets[i];
	sum->sum_ns += value->sum_ns;
	if (value->max_ns > sum->max_ns)
		sum->max_ns = value->max_ns;
}

/* As _QpStates.read() in mrc_testbed/metrics/reader.py. */
static void add_qp(struct mrc_virtual_sums *sums, __u64 *seen, const struct mrc_qp *qp, __u64 tail)
{
	if (!sums->searches && *seen == tail << 1)
		return;
	*seen = tail << 1 | (qp->state == MRC_QP_RTR || qp->state == MRC_QP_RTS);
	for (__u32 i = 0; *seen & 1 && i < MRC_EV_MAX; i++) {
		const struct mrc_ev *ev = &qp->evs.ev[i];

		if (ev->plane < MRC_PLANE_MAX && ev->state < MRC_EV_STATE_COUNT)
			sums->evs[ev->plane * MRC_EV_STATE_COUNT + ev->state]++;
	}
}

void mrc_virtual_read(struct mrc_virtual_sums *sums)
{
	const struct virtual_map_entry *counters = virtual_find_map("nic_counters"),
				       *rtt = virtual_find_map("rtt_histogram"),
				       *messages = virtual_find_map("message_histogram"),
				       *qps = virtual_find_map("qps"),
				       *work = virtual_find_map("work_ring");
	struct mrc_nic_counters *counted = (void *)sums->counters;
	__u64 *seen = (void *)sums->seen;
	const struct mrc_work_ring *ring;
	__u32 nics = virtual_bytes_of(counters) / counters->instance_bytes;

	memset(&sums->message_completion, 0,
	       sizeof(*sums) - offsetof(struct mrc_virtual_sums, message_completion));
	for (__u32 nic = 0; nic < nics; nic++) {
		memcpy(&counted[nic], element(counters, nic, 0), sizeof(*counted));
		add_histogram(&sums->message_completion, element(messages, nic, 0));
		for (__u32 plane = 0; plane < sums->plane_count; plane++)
			add_histogram(&sums->packet_rtt[plane], element(rtt, nic, plane));
		for (__u32 index = 0; index < qps->map->count; index++) {
			ring = element(work, nic, index);
			add_qp(sums, seen++, element(qps, nic, index), ring->tail);
		}
	}
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Maps of the queue engine: one set per lab, pinned beside the fabric's and reused by every NIC
 * object. A shaped lab sizes what is per port by its ports and queue_frames as its pool
 * (mrc_testbed/fabric/data_plane.py); an unshaped lab leaves them at one element.
 */
#ifndef MRC_QUEUE_MAPS_H
#define MRC_QUEUE_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/abi.h>
#include <mrc/lossless_abi.h>
#include <mrc/map.h>
#include <mrc/queue_abi.h>

INDEX_MAP(ARRAY, queue_frames, struct mrc_queue_frame, 1);
MMAPABLE_ARRAY(queue_descriptors, struct mrc_queue_descriptors, 1);
INDEX_MAP(ARRAY, queue_pool, struct mrc_queue_pool, 1);
INDEX_MAP(ARRAY, queue_ports, struct mrc_queue_port, 1);
MMAPABLE_ARRAY(queue_settings, struct mrc_queue_settings, 1);
MMAPABLE_ARRAY(queue_delays, struct mrc_queue_delays, 1);
MMAPABLE_ARRAY(queue_state, struct mrc_queue_state, 1);
MMAPABLE_ARRAY(lossless_settings, struct mrc_lossless_settings, 1);
MMAPABLE_ARRAY(lossless_links, struct mrc_lossless_link, 1);
MMAPABLE_ARRAY(queue_drainer, struct mrc_queue_drainer, 1);

/* Index of the drainer that is pinned to a CPU; where there is one alone, 0 everywhere. */
INDEX_MAP(ARRAY, queue_cpus, __u32, MRC_QUEUE_CPUS_MAX);

struct queue_wake_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* By drainer, a ring that it makes when it starts. A record carries nothing: its arrival wakes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct queue_wake_ring);
} queue_wakes SEC(".maps");

#endif

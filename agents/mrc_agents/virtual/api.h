/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interface of mrc_agents/bpf/virtual.py. One lab at a time, one thread: maps and time are
 * globals.
 *
 *   mrc_virtual_set_entries()...  mrc_virtual_begin()  mrc_virtual_run()...  mrc_virtual_end()
 */
#ifndef VIRTUAL_API_H
#define VIRTUAL_API_H

#include "virtual.h"

#define API __attribute__((visibility("default")))

/* The number of elements that a map will have. Returns 0, -1 for a map that there is not. */
API int mrc_virtual_set_entries(const char *map, __u32 count);

/* Makes all maps, zeroed; time is 1 ns. Returns 0, or -1 with errno if there is no memory. */
API int mrc_virtual_begin(const struct mrc_virtual_lab *lab);
/* Frees everything; addresses of maps are void from now on. */
API void mrc_virtual_end(void);

/* Where a map is; `nic` matters for maps of NICs only. Returns 0, -1 for one that there is not. */
API int mrc_virtual_find_map(const char *map, __u32 nic, struct mrc_virtual_map *found);

API __u64 mrc_virtual_now(void);

/*
 * Runs until a time, until a NIC reports something, or for so many events. Returns the time; that
 * of the last event unless until_ns was reached.
 */
API __u64 mrc_virtual_run(__u64 until_ns, __u64 events_max);

/* Runs the NIC's program on live frames, for the request in the map `kick`. */
API void mrc_virtual_run_nic(__u32 nic, __u32 frames);

/* Lets a frame of background traffic enter the queue of a port, as load.bpf.c does. */
API void mrc_virtual_load(__u32 port_id, const void *frame, __u32 bytes);

/* Sets whether the far ends of a port's link see light; what is on it is lost if not. */
API void mrc_virtual_set_carrier(__u32 port_id, int is_up);

/*
 * Sets whether an agent provides frames to QPs that request them. It does so at once; without one
 * the request is among the NIC's reports.
 */
API void mrc_virtual_attend(__u32 nic, int is_attended);

/* Reports of NICs, oldest first; until the next run. `count` of them. */
API const struct mrc_virtual_report *mrc_virtual_reports(__u32 *count);
/* Forgets them. Those of NICs that nobody attends go on filling their rings. */
API void mrc_virtual_take_reports(void);
/* Somebody has read the ring of a NIC that was not attended. */
API void mrc_virtual_empty_ring(__u32 nic);

/*
 * Messages of operations. A schedule stays where it is, with its arrays, as long as it is used. That
 * an operation's `outstanding` has become 0, or a message is unposted, a report of VIRTUAL_NO_NIC
 * says, unless Python called.
 */
API void mrc_virtual_begin_operation(struct mrc_message_schedule *schedule);
/* A message has arrived, which was reported: what waits for it is posted. */
API void mrc_virtual_take_arrival(struct mrc_message_schedule *schedule, __u32 transfer);
/* Takes arrivals of a schedule's messages as soon as NICs of the lab report them, or not any more. */
API void mrc_virtual_expect(struct mrc_message_schedule *schedule, int is_expected);

/*
 * Records what a selection names from now on, in place of what was recorded before; 0: nothing. Its
 * windows stay where they are as long as it lasts.
 */
API void mrc_virtual_trace(const struct mrc_trace_selection *selection);
/* The records so far, as long as nothing runs; *count of them. Full, if not of all. */
API const struct mrc_trace_record *mrc_virtual_traced(__u64 *count);

API void mrc_virtual_read(struct mrc_virtual_sums *sums);
API void mrc_virtual_read_totals(struct mrc_virtual_totals *totals);

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Trace points: what becomes of frames and QPs, for a run in virtual time that is looked at
 * (docs/explanation/virtual-time.md, "Trace"). In programs of a kernel they are nothing.
 */
#ifndef MRC_TRACE_H
#define MRC_TRACE_H

#include <linux/types.h>
#include <mrc/abi.h>

#ifdef MRC_VIRTUAL

#include <mrc/queue_abi.h>
#include <mrc/virtual_abi.h>

extern __u32 virtual_trace_kinds; /* bit by enum mrc_trace_kind; 0: nobody looks */

/* Adds a record of a frame at a port, or of no frame. */
void virtual_trace_frame(struct mrc_trace_record record, const struct mrc_port *port,
			 const void *bytes);
/* Adds a record of frame `id`, which waits behind those from `head` on. */
void virtual_trace_queued(struct mrc_trace_record record, const struct mrc_port *port, __u32 id,
			  const struct mrc_queue_descriptors *descriptors, __u32 head);
/* Adds a record of a QP, which is given by anything that lies within it. */
void virtual_trace_qp(struct mrc_trace_record record, const void *within);
const void *virtual_trace_bytes(__u32 id); /* of a frame in the pool */

#define TRACE_RECORD(of_kind, ...) ((struct mrc_trace_record){.kind = of_kind, ##__VA_ARGS__})
#define TRACE(kind, call)                                                                          \
	do {                                                                                       \
		if (virtual_trace_kinds & 1U << (kind))                                            \
			call;                                                                      \
	} while (0)
#define TRACE_FRAME(kind, port, bytes, ...)                                                        \
	TRACE(kind, virtual_trace_frame(TRACE_RECORD(kind, __VA_ARGS__), port, bytes))
#define TRACE_QUEUED(port, id, descriptors, head, ...)                                             \
	TRACE(MRC_TRACE_QUEUED, virtual_trace_queued(TRACE_RECORD(MRC_TRACE_QUEUED, __VA_ARGS__),  \
						     port, id, descriptors, head))
#define TRACE_QP(kind, within, ...)                                                                \
	TRACE(kind, virtual_trace_qp(TRACE_RECORD(kind, __VA_ARGS__), within))

#else

#define TRACE_FRAME(kind, ...) ((void)0)
#define TRACE_QUEUED(...)      ((void)0)
#define TRACE_QP(kind, ...)    ((void)0)

#endif
#endif

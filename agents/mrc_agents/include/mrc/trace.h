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

/* A frame at a port: `id` in the pool or, if that is 0, its bytes. */
void virtual_trace_frame(enum mrc_trace_kind kind, const struct mrc_port *port, __u32 id,
			 const void *bytes, __u64 time_ns, __u64 start_ns, __u64 end_ns, __u32 what,
			 __u32 value);
/* A frame that waits behind those from `head` on. */
void virtual_trace_queued(const struct mrc_port *port,
			  const struct mrc_queue_descriptors *descriptors, __u32 head, __u32 id,
			  __u64 time_ns, __u32 depth_bytes);
/* A QP, given by anything that lies within it. */
void virtual_trace_qp(enum mrc_trace_kind kind, const void *within, __u32 psn, __u64 time_ns,
		      __u64 start_ns, __u32 entropy, __u32 what);

#define TRACE(kind, function, ...)                                                                 \
	do {                                                                                       \
		if (virtual_trace_kinds & 1U << (kind))                                            \
			function(__VA_ARGS__);                                                     \
	} while (0)
#define TRACE_FRAME(kind, ...) TRACE(kind, virtual_trace_frame, kind, __VA_ARGS__)
#define TRACE_QUEUED(...)      TRACE(MRC_TRACE_QUEUED, virtual_trace_queued, __VA_ARGS__)
#define TRACE_QP(kind, ...)    TRACE(kind, virtual_trace_qp, kind, __VA_ARGS__)

#else

#define TRACE_FRAME(kind, ...) ((void)0)
#define TRACE_QUEUED(...)      ((void)0)
#define TRACE_QP(kind, ...)    ((void)0)

#endif
#endif

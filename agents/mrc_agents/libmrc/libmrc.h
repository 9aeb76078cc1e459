/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * libmrc over the verbs library. A struct mrc_cq is a struct ibv_cq, mrc_qp an ibv_qp, and so on:
 * only their names differ, and what libmrc adds to them is in verbs.h.
 */
#ifndef MRC_LIBMRC_H
#define MRC_LIBMRC_H

#include <errno.h>
#include <mrc_ctl.h>
#include "../verbs/verbs.h"

struct mrc_context {
	struct ibv_context *verbs;
	size_t
	    ev_event_bytes; /* from one struct mrc_ctl_ev_event to the next, as the program has it */
	uint32_t users;	    /* CQs and hints; atomic */
};

/* For functions that return 0, or -1 with errno. */
static inline int result(int error)
{
	if (error)
		errno = error;
	return error ? -1 : 0;
}

/* For functions that return errno values, which callers look for in errno as well. */
static inline int error_of(int error)
{
	if (error)
		errno = error;
	return error;
}

void hint_use(struct mrc_qp_hint *hint, int change);

static inline void context_use(struct mrc_context *context, int change)
{
	__atomic_add_fetch(&context->users, change, __ATOMIC_RELAXED);
}

static inline struct completion_queue *queue_of_mrc(struct mrc_cq *cq)
{
	return queue_of((struct ibv_cq *)cq);
}

#endif

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Operations that MRC does not have: READ, ATOMIC and all that serves them, and rdma_cm. None of
 * libibverbs may be missing here: the genuine function would get an object of ours. Nobody looks at
 * parameters, so none are declared.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

void complain(const char *format, ...);

#define REFUSES_WITH_ERRNO(name)                                                                   \
	EXPORT int name(void);                                                                     \
	int name(void)                                                                             \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return EOPNOTSUPP;                                                                 \
	}
#define REFUSES_WITH_NULL(name)                                                                    \
	EXPORT void *name(void);                                                                   \
	void *name(void)                                                                           \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return NULL;                                                                       \
	}

REFUSES_WITH_NULL(ibv_create_ah)
REFUSES_WITH_NULL(ibv_create_ah_from_wc)
REFUSES_WITH_ERRNO(ibv_init_ah_from_wc)
REFUSES_WITH_ERRNO(ibv_destroy_ah)
REFUSES_WITH_ERRNO(ibv_resolve_eth_l2_from_gid)
REFUSES_WITH_ERRNO(ibv_attach_mcast)
REFUSES_WITH_ERRNO(ibv_detach_mcast)
REFUSES_WITH_ERRNO(ibv_rereg_mr)
REFUSES_WITH_NULL(ibv_reg_dmabuf_mr)
REFUSES_WITH_ERRNO(ibv_resize_cq)
REFUSES_WITH_NULL(ibv_qp_to_qp_ex)
REFUSES_WITH_ERRNO(ibv_query_ece)
REFUSES_WITH_ERRNO(ibv_set_ece)
REFUSES_WITH_NULL(ibv_import_device)
REFUSES_WITH_NULL(ibv_import_pd)
REFUSES_WITH_ERRNO(ibv_unimport_pd)
REFUSES_WITH_NULL(ibv_import_mr)
REFUSES_WITH_ERRNO(ibv_unimport_mr)
REFUSES_WITH_NULL(ibv_import_dm)
REFUSES_WITH_ERRNO(ibv_unimport_dm)

/* Packets of a message arrive in any order. */
EXPORT int ibv_query_qp_data_in_order(void);
int ibv_query_qp_data_in_order(void)
{
	return 0;
}

/*
 * Programs of librdmacm begin by it, and it has no more than errno to say why not. UCX tries it in
 * every program, and does without.
 */
EXPORT void *rdma_create_event_channel(void);
void *rdma_create_event_channel(void)
{
	static bool said;
	Dl_info caller;

	if (dladdr(__builtin_return_address(0), &caller) && !strstr(caller.dli_fname, "/libuct_") &&
	    !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		complain("there is no rdma_cm: let the program exchange addresses by TCP");
	errno = ENODEV;
	return NULL;
}

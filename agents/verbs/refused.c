// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Operations that MRC does not have: READ, ATOMIC and all that serves them. None may be
 * missing here: the genuine function would get an object of ours. Nobody looks at parameters, so
 * none are declared.
 */
#include <errno.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

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

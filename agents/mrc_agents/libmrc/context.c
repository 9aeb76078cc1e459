// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Versions, devices, contexts, and hints, which are stored only. */
#include <stdlib.h>
#include "libmrc.h"

struct mrc_qp_hint {
	struct mrc_context *context;
	struct mrc_qp_hint_attr attr;
	uint32_t users; /* QPs; atomic */
};

enum {
	HINTS_MAX = 1024, /* what a device reports; nothing limits them */
	HINT_ATTRIBUTES = MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_SEND_PEERS |
			  MRC_QP_HINT_NUM_REMOTE_RECV_PEERS | MRC_QP_HINT_VENDOR_CFG,
	EV_EVENT_BYTES_1_0_0 = 48, /* before it had a state */
};

EXPORT void mrc_query_version(uint32_t *current, uint32_t *last_supported, uint32_t *vendor,
			      uint32_t *last_supported_vendor)
{
	if (current)
		*current = MRC_API_CURRENT_VERSION;
	if (last_supported)
		*last_supported = MRC_API_LAST_SUPPORTED_VERSION;
	if (vendor)
		*vendor = MRC_VENDOR_API_CURRENT_VERSION;
	if (last_supported_vendor)
		*last_supported_vendor = MRC_VENDOR_API_LAST_SUPPORTED_VERSION;
}

EXPORT int mrc_query_device(struct ibv_context *context, struct mrc_device_attr *attr,
			    int *supported)
{
	*attr = (struct mrc_device_attr){
	    .mrc_protocol_version = MRC_PROTOCOL_VERSION_1,
	    .wimm_attr = {.max_wimm = MRC_WIMM_MAX, .max_wimm_dest = MRC_WIMM_MAX},
	    .mpr_attr = {.max_mpr = MRC_MPR_MAX, .mpr_resolution = 1},
	    .qp_attr = {.max_qp_hint = HINTS_MAX},
	    .cap = MRC_DEVICE_CAP_TRIM_NACK | MRC_DEVICE_CAP_DYNAMIC_MPR,
	};
	if (supported)
		*supported = device_is_ours(context);
	return 0;
}

EXPORT int mrc_query_device_ex(struct ibv_context *context,
			       struct mrc_context *mcontext __attribute__((unused)),
			       struct mrc_device_attr *attr, int *supported)
{
	return mrc_query_device(context, attr, supported);
}

EXPORT struct mrc_context *mrc_create_context(struct ibv_context *verbs,
					      struct mrc_context_attr *attr)
{
	uint32_t version = attr ? attr->mrc_api_version_used : 0;
	struct mrc_context *context;

	if (!verbs || !device_is_ours(verbs) || version > MRC_API_CURRENT_VERSION) {
		errno = verbs && device_is_ours(verbs) ? ENOTSUP : EINVAL;
		return NULL;
	}
	context = calloc(1, sizeof(*context));
	if (!context)
		return NULL;
	context->verbs = verbs;
	context->ev_event_bytes = version && version < MRC_API_VER(1, 0, 1)
				      ? EV_EVENT_BYTES_1_0_0
				      : sizeof(struct mrc_ctl_ev_event);
	return context;
}

EXPORT int mrc_destroy_context(struct mrc_context *context)
{
	if (context->users)
		return result(EBUSY);
	free(context);
	return 0;
}

EXPORT struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *context,
					      struct mrc_qp_hint_init_attr *init)
{
	struct mrc_qp_hint *hint = calloc(1, sizeof(*hint));

	if (!hint)
		return NULL;
	hint->context = context;
	hint->attr = init->attr;
	context_use(context, 1);
	return hint;
}

EXPORT int mrc_destroy_qp_hint(struct mrc_qp_hint *hint)
{
	if (!hint || hint->users)
		return result(hint ? EBUSY : EINVAL);
	context_use(hint->context, -1);
	free(hint);
	return 0;
}

void hint_use(struct mrc_qp_hint *hint, int change)
{
	if (hint)
		__atomic_add_fetch(&hint->users, change, __ATOMIC_RELAXED);
}

static int copy_hint(struct mrc_qp_hint_attr *to, const struct mrc_qp_hint_attr *from, int mask)
{
	if (mask & ~HINT_ATTRIBUTES)
		return result(EINVAL);
	if (mask & MRC_QP_HINT_NUM_QPS_PER_PEER)
		to->num_qps_per_peer = from->num_qps_per_peer;
	if (mask & MRC_QP_HINT_NUM_SEND_PEERS)
		to->num_send_peers = from->num_send_peers;
	if (mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS)
		to->num_remote_recv_peers = from->num_remote_recv_peers;
	if (mask & MRC_QP_HINT_VENDOR_CFG)
		memcpy(to->vendor_cfg, from->vendor_cfg, sizeof(to->vendor_cfg));
	return 0;
}

EXPORT int mrc_query_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask)
{
	return copy_hint(attr, &hint->attr, mask);
}

EXPORT int mrc_modify_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask)
{
	return copy_hint(&hint->attr, attr, mask);
}

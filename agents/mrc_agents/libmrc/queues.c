// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Channels, CQs and QPs: those of the verbs library, with what libmrc has besides. */
#include <sys/epoll.h>
#include <unistd.h>
#include "libmrc.h"

enum {
	TIMEOUT_MAX = 24,
	LINEAR_MAX = 7,
	EXPONENTIAL_MAX = 25,
	PROFILES = MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID,
	QP_ATTRIBUTES = MRC_QP_MAX_WIMM | MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR | MRC_QP_MPR_DEST |
			MRC_QP_TIMEOUT | PROFILES | MRC_QP_HINT | MRC_QP_RETRY_CNT | MRC_QP_CAP,
	QP_CAPS = MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED | MRC_QP_CAP_DYNAMIC_MPR |
		  MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED,
	SEND_OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	/* Attributes that MRC's QPs have otherwise, or not at all. */
	NOT_OF_MRC = IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		     IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
		     IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE,
};

EXPORT int mrc_create_comp_channel(struct mrc_context *context, struct mrc_comp_channel **channel)
{
	*channel = (struct mrc_comp_channel *)ibv_create_comp_channel(context->verbs);
	return *channel ? 0 : errno;
}

EXPORT int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel, int *fd)
{
	*fd = ((struct ibv_comp_channel *)channel)->fd;
	return 0;
}

EXPORT int mrc_destroy_comp_channel(struct mrc_comp_channel *channel)
{
	return error_of(ibv_destroy_comp_channel((struct ibv_comp_channel *)channel));
}

EXPORT struct mrc_cq *mrc_create_cq(struct mrc_context *context, int cqe, void *cq_context,
				    struct mrc_comp_channel *channel, int comp_vector)
{
	struct ibv_cq *cq = ibv_create_cq(context->verbs, cqe, cq_context,
					  (struct ibv_comp_channel *)channel, comp_vector);

	if (!cq)
		return NULL;
	queue_of(cq)->owner = context;
	context_use(context, 1);
	return (struct mrc_cq *)cq;
}

EXPORT int mrc_destroy_cq(struct mrc_cq *cq)
{
	struct mrc_context *owner = queue_of_mrc(cq)->owner;
	int ev_events = queue_of_mrc(cq)->ev_events;
	int error = ibv_destroy_cq((struct ibv_cq *)cq);

	if (error)
		return error_of(error);
	if (ev_events)
		close(ev_events - 1);
	context_use(owner, -1);
	return 0;
}

EXPORT int mrc_poll_cq(struct mrc_cq *cq, int count, struct ibv_wc *wc)
{
	return poll_cq((struct ibv_cq *)cq, count, wc);
}

EXPORT int mrc_req_notify_cq(struct mrc_cq *cq, int solicited_only)
{
	const struct completion_queue *queue = queue_of_mrc(cq);

	if (queue->ev_events && queue->cq.channel)
		return error_of(channel_arm(queue, EPOLL_CTL_MOD));
	return req_notify_cq((struct ibv_cq *)cq, solicited_only);
}

EXPORT int mrc_get_cq_event(struct mrc_comp_channel *channel, struct mrc_cq **cq, void **cq_context)
{
	return ibv_get_cq_event((struct ibv_comp_channel *)channel, (struct ibv_cq **)cq,
				cq_context);
}

EXPORT void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int count)
{
	ibv_ack_cq_events((struct ibv_cq *)cq, count);
}

/* struct mrc_async_event is struct ibv_async_event by other names. */
EXPORT int mrc_get_async_event(struct mrc_context *context, struct mrc_async_event *event)
{
	return ibv_get_async_event(context->verbs, (struct ibv_async_event *)event);
}

EXPORT void mrc_ack_async_event(struct mrc_async_event *event)
{
	ibv_ack_async_event((struct ibv_async_event *)event);
}

EXPORT struct mrc_qp *mrc_create_qp(struct mrc_context *context, struct mrc_qp_init_attr *init)
{
	struct ibv_qp_init_attr wanted = {
	    .qp_context = init->qp_context,
	    .send_cq = (struct ibv_cq *)init->send_cq,
	    .recv_cq = (struct ibv_cq *)init->recv_cq,
	    .cap = init->cap,
	    .qp_type = IBV_QPT_RC,
	    .sq_sig_all = init->sq_sig_all,
	};
	struct ibv_qp *qp;

	if (!init->pd || init->pd->context != context->verbs || !init->send_cq || !init->recv_cq ||
	    queue_of_mrc(init->send_cq)->ev_events || queue_of_mrc(init->recv_cq)->ev_events ||
	    init->protocol_version & ~MRC_PROTOCOL_VERSION_1) {
		errno = EINVAL;
		return NULL;
	}
	if (init->send_ops_flags & ~(uint64_t)SEND_OPS) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	qp = queue_pair_create(init->pd, &wanted, MRC_APPLICATION_MRC);
	if (!qp)
		return NULL;
	init->cap = wanted.cap;
	container_of(qp, struct queue_pair, qp)->is_libmrc = 1;
	return (struct mrc_qp *)qp;
}

EXPORT int mrc_destroy_qp(struct mrc_qp *qp)
{
	struct mrc_qp_hint *hint =
	    container_of((struct ibv_qp *)qp, struct queue_pair, qp)->mrc.qp_hint;
	int error = ibv_destroy_qp((struct ibv_qp *)qp);

	if (!error)
		hint_use(hint, -1);
	return error_of(error);
}

/* An errno value for attributes that no QP can have, or not with this change of state. */
static int check(const struct mrc_qp_attr *attr, int mask, int is_init)
{
	if (mask & ~QP_ATTRIBUTES || (mask & PROFILES && !is_init) ||
	    (mask & MRC_QP_EV_PROFILE_ID && attr->profile.ev_profile_id > UINT32_MAX) ||
	    (mask & MRC_QP_CC_PROFILE_ID && attr->profile.cc_profile_id > UINT32_MAX) ||
	    (mask & MRC_QP_MAX_WIMM && attr->wimm.max_wimm > MRC_WIMM_MAX) ||
	    (mask & MRC_QP_MAX_WIMM_DEST && attr->wimm.max_wimm_dest > MRC_WIMM_MAX) ||
	    (mask & MRC_QP_MPR && (!attr->mpr.mpr || attr->mpr.mpr > MRC_MPR_MAX)) ||
	    (mask & MRC_QP_MPR_DEST && (!attr->mpr.mpr_dest || attr->mpr.mpr_dest > MRC_MPR_MAX)) ||
	    (mask & MRC_QP_TIMEOUT && attr->timeout > TIMEOUT_MAX) ||
	    (mask & MRC_QP_RETRY_CNT &&
	     (attr->retry.linear_cnt > LINEAR_MAX || attr->retry.exp_cnt > EXPONENTIAL_MAX)) ||
	    (mask & MRC_QP_CAP && attr->cap & ~QP_CAPS))
		return EINVAL;
	return 0;
}

EXPORT int mrc_modify_qp(struct mrc_qp *mqp, struct ibv_qp_attr *vattr, int vmask,
			 struct mrc_qp_attr *attr, int mask)
{
	struct ibv_qp *qp = (struct ibv_qp *)mqp;
	struct queue_pair *queue_pair = container_of(qp, struct queue_pair, qp);
	int is_init = vmask & IBV_QP_STATE && vattr->qp_state == IBV_QPS_INIT;
	struct mrc_qp_hint *hint = queue_pair->mrc.qp_hint;
	const struct ibv_qp_attr unchanged = {0};
	int error = mask ? check(attr, mask, is_init) : 0;

	if (!error)
		error = queue_pair_modify(qp, vmask ? vattr : &unchanged, vmask & ~NOT_OF_MRC, attr,
					  mask);
	if (!error && mask & MRC_QP_HINT) {
		hint_use(attr->qp_hint, 1);
		hint_use(hint, -1);
	}
	return error_of(error);
}

EXPORT int mrc_query_qp(struct mrc_qp *mqp, struct ibv_qp_attr *vattr, int vmask,
			struct mrc_qp_attr *attr, int mask, struct mrc_qp_init_attr *init)
{
	struct ibv_qp *qp = (struct ibv_qp *)mqp;
	struct ibv_qp_init_attr known_init;
	struct ibv_qp_attr known;

	ibv_query_qp(qp, &known, 0, &known_init);
	if (vmask)
		*vattr = known;
	if (mask)
		*attr = container_of(qp, struct queue_pair, qp)->mrc;
	if (init)
		*init = (struct mrc_qp_init_attr){
		    .qp_context = qp->qp_context,
		    .send_cq = (struct mrc_cq *)qp->send_cq,
		    .recv_cq = (struct mrc_cq *)qp->recv_cq,
		    .cap = known_init.cap,
		    .sq_sig_all = known_init.sq_sig_all,
		    .pd = qp->pd,
		    .send_ops_flags = SEND_OPS,
		    .protocol_version = MRC_PROTOCOL_VERSION_1,
		};
	return 0;
}

EXPORT int mrc_get_qpn(struct mrc_qp *qp, uint32_t *qpn)
{
	*qpn = ((struct ibv_qp *)qp)->qp_num;
	return 0;
}

/* Data lies where its WRITE put it: SGEs of receives are not used. */
EXPORT int mrc_post_recv(struct mrc_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int error = 0;

	for (; wr && !error; wr = wr->next) {
		struct ibv_recv_wr one = {.wr_id = wr->wr_id}, *failed;

		error = post_recv((struct ibv_qp *)qp, &one, &failed);
		if (error)
			*bad = wr;
	}
	return error_of(error);
}

EXPORT int mrc_post_send(struct mrc_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return error_of(post_send((struct ibv_qp *)qp, wr, bad));
}

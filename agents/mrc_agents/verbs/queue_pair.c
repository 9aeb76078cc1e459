// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Queue pairs: creating them, changing their state, ending them. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <mrc/qp_abi.h>
#include "verbs.h"

enum {
	PSN_MASK = 0xffffff,
	PLANES_MAX = 16, /* a GID may name any plane of the peer */
	PROFILES = MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID,
};

static uint32_t at_least_one(uint32_t count)
{
	return count ? count : 1;
}

static void free_queue_pair(struct queue_pair *queue_pair)
{
	own_free(&queue_pair->staging.memory);
	own_free(&queue_pair->mailbox);
	pthread_mutex_destroy(&queue_pair->lock);
	receive_queue_free(&queue_pair->receives);
	free(queue_pair->requests);
	free(queue_pair->parts);
	free(queue_pair->inline_bytes);
	free(queue_pair);
}

/* Queues of the size that was asked for; an errno value. */
static int allocate_queues(struct queue_pair *queue_pair, const struct ibv_qp_cap *cap)
{
	struct shared_queue *shared = queue_pair->shared;

	if (cap->max_send_wr > QUEUE_MAX || cap->max_recv_wr > QUEUE_MAX ||
	    cap->max_send_sge > SGE_MAX || cap->max_recv_sge > SGE_MAX ||
	    cap->max_inline_data > INLINE_MAX)
		return EINVAL;
	queue_pair->cap = (struct ibv_qp_cap){
	    .max_send_wr = at_least_one(cap->max_send_wr),
	    .max_recv_wr = shared ? shared->queue.capacity : at_least_one(cap->max_recv_wr),
	    .max_send_sge = at_least_one(cap->max_send_sge),
	    .max_recv_sge = shared ? shared->queue.max_sge : at_least_one(cap->max_recv_sge),
	    .max_inline_data = cap->max_inline_data,
	};
	cap = &queue_pair->cap;
	queue_pair->capacity = cap->max_send_wr;
	queue_pair->requests = calloc(cap->max_send_wr, sizeof(*queue_pair->requests));
	queue_pair->parts =
	    calloc((size_t)cap->max_send_wr * cap->max_send_sge, sizeof(*queue_pair->parts));
	queue_pair->inline_bytes = malloc((size_t)cap->max_send_wr * cap->max_inline_data + 1);
	if (receive_queue_allocate(&queue_pair->receives, cap->max_recv_wr, cap->max_recv_sge) ||
	    !queue_pair->requests || !queue_pair->parts || !queue_pair->inline_bytes)
		return ENOMEM;
	return 0;
}

/* Has the NIC take SENDs; an errno value. */
int queue_pair_open_mailbox(struct queue_pair *queue_pair)
{
	struct agent_link *link = device_of(queue_pair->qp.context)->link;
	int error;

	if (queue_pair->mailbox.bytes)
		return 0;
	error = own_allocate(&queue_pair->mailbox, link, MRC_MAILBOX_BYTES);
	if (error)
		return error;
	__atomic_store_n(&queue_pair->ring->mailbox, 1 + queue_pair->mailbox.offset / PAGE_BYTES,
			 __ATOMIC_RELEASE);
	return 0;
}

/* Ends a QP of which a message was too long for its receive. With the lock held. */
void queue_pair_fail(struct queue_pair *queue_pair)
{
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_MODIFY_QP,
	    .qpn = queue_pair->qp.qp_num,
	    .state = MRC_QP_ERROR,
	};
	struct mrc_application_reply reply;

	queue_enter_error(queue_pair);
	if (!queue_failure(queue_pair))
		link_call(device_of(queue_pair->qp.context)->link, &request, &reply, NULL);
}

static void use_cq(struct ibv_cq *cq, int change)
{
	queue_of(cq)->users += change;
}

/* Takes a QP back that nobody sees any more. */
static void end_queue_pair(struct queue_pair *queue_pair)
{
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_DESTROY_QP,
	    .qpn = queue_pair->qp.qp_num,
	};
	struct mrc_application_reply reply;

	/* Of an agent that is gone nothing is left to take back. */
	link_call(device_of(queue_pair->qp.context)->link, &request, &reply, NULL);
	free_queue_pair(queue_pair);
}

/* Creates a QP in RESET; NULL with errno. */
struct ibv_qp *queue_pair_create(struct ibv_pd *pd, struct ibv_qp_init_attr *init,
				 uint32_t transport)
{
	struct device_context *device = device_of(pd->context);
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_CREATE_QP,
	    .pd = number_of(pd),
	    .transport = transport,
	};
	struct mrc_application_reply reply;
	struct queue_pair *queue_pair;
	int error;

	if (!init->send_cq || !init->recv_cq) {
		errno = EINVAL;
		return NULL;
	}
	if (init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UC) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	queue_pair = calloc(1, sizeof(*queue_pair));
	if (!queue_pair)
		return NULL;
	pthread_mutex_init(&queue_pair->lock, NULL);
	if (init->srq)
		queue_pair->shared = container_of(init->srq, struct shared_queue, srq);
	error = allocate_queues(queue_pair, &init->cap);
	if (!error)
		error = link_call(device->link, &request, &reply, NULL);
	if (error) {
		free_queue_pair(queue_pair);
		errno = error;
		return NULL;
	}
	init->cap = queue_pair->cap;
	queue_pair->signals_all = init->sq_sig_all;
	queue_pair->transport = transport;
	queue_pair->window_packets = 1;
	queue_pair->mrc = (struct mrc_qp_attr){
	    .mpr = {MRC_MPR_MAX, MRC_MPR_MAX},
	    .wimm = {MRC_WIMM_MAX, MRC_WIMM_MAX},
	};
	queue_pair->pmtu_bytes = device->link->hello.pmtu_bytes;
	queue_pair->ring = (struct mrc_work_ring *)(device->link->rings +
						    device->link->ring_stride *
							(reply.qpn % (1U << MRC_QP_INDEX_BITS)));
	queue_pair->qp = (struct ibv_qp){
	    .context = pd->context,
	    .qp_context = init->qp_context,
	    .pd = pd,
	    .send_cq = init->send_cq,
	    .recv_cq = init->recv_cq,
	    .srq = init->srq,
	    .qp_num = reply.qpn,
	    .state = IBV_QPS_RESET,
	    .qp_type = init->qp_type,
	};
	pthread_mutex_init(&queue_pair->qp.mutex, NULL);
	pthread_cond_init(&queue_pair->qp.cond, NULL);
	queue_pair->end = (struct object_event){
	    .event = {.element.qp = &queue_pair->qp,
		      .event_type = init->srq ? IBV_EVENT_QP_LAST_WQE_REACHED : IBV_EVENT_QP_FATAL},
	    .mutex = &queue_pair->qp.mutex,
	    .cond = &queue_pair->qp.cond,
	    .acknowledged = &queue_pair->qp.events_completed,
	};
	error = queue_pair->shared ? queue_pair_open_mailbox(queue_pair) : 0;
	if (error) {
		end_queue_pair(queue_pair);
		errno = error;
		return NULL;
	}
	pthread_mutex_lock(&device->lock);
	use_cq(init->send_cq, 1);
	use_cq(init->recv_cq, 1);
	if (queue_pair->shared)
		queue_pair->shared->users++;
	queue_pair->next = device->queue_pairs;
	device->queue_pairs = queue_pair;
	completion_join(queue_pair);
	pthread_mutex_unlock(&device->lock);
	return &queue_pair->qp;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	return queue_pair_create(pd, init, device_of(pd->context)->transport);
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct queue_pair *queue_pair = container_of(qp, struct queue_pair, qp), **link;
	struct device_context *device = device_of(qp->context);

	pthread_mutex_lock(&device->lock);
	for (link = &device->queue_pairs; *link != queue_pair;)
		link = &(*link)->next;
	*link = queue_pair->next;
	overrun_leave(queue_pair);
	use_cq(qp->send_cq, -1);
	use_cq(qp->recv_cq, -1);
	if (queue_pair->shared)
		queue_pair->shared->users--;
	pthread_mutex_unlock(&device->lock);
	events_forget(device, &queue_pair->end);
	end_queue_pair(queue_pair);
	return 0;
}

/* The peer's host by its GID; -1 if that is no host of a lab. */
int64_t host_of(const struct device_context *device, const union ibv_gid *gid)
{
	uint64_t plane = be64toh(gid->global.subnet_prefix) - device->link->hello.inner_prefix;
	uint64_t number = be64toh(gid->global.interface_id);

	return plane < PLANES_MAX && number && number <= UINT32_MAX ? (int64_t)number - 1 : -1;
}

/* Checks the change of state and translates it; returns an errno value. */
static int translate(struct queue_pair *queue_pair, const struct ibv_qp_attr *attr, int mask,
		     struct mrc_application_request *request)
{
	int needed = IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	enum ibv_qp_state from = queue_pair->qp.state;
	struct device_context *device = device_of(queue_pair->qp.context);
	int64_t host;

	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		if (from != IBV_QPS_RESET && from != IBV_QPS_INIT)
			return EINVAL;
		if (request->given & PROFILES)
			request->state = MRC_QP_INIT; /* else the agent has it so */
		return 0;
	case IBV_QPS_RTR:
		host = host_of(device, &attr->ah_attr.grh.dgid);
		if (from != IBV_QPS_INIT || (mask & needed) != needed || !attr->ah_attr.is_global)
			return EINVAL;
		if (host < 0) {
			complain("the peer's GID is that of no host of this lab");
			return EINVAL;
		}
		request->state = MRC_QP_RTR;
		request->peer_host = host;
		request->peer_qpn = attr->dest_qp_num;
		request->psn = attr->rq_psn & PSN_MASK;
		return 0;
	case IBV_QPS_RTS:
		if (from == IBV_QPS_RTS)
			return 0;
		if (from != IBV_QPS_RTR || !(mask & IBV_QP_SQ_PSN))
			return EINVAL;
		request->state = MRC_QP_RTS;
		request->psn = attr->sq_psn & PSN_MASK;
		return 0;
	case IBV_QPS_ERR:
		request->state = MRC_QP_ERROR;
		return 0;
	case IBV_QPS_RESET:
		if (from == IBV_QPS_RESET)
			return 0;
		complain("a QP cannot return to RESET: destroy it and create another");
		return EOPNOTSUPP;
	default:
		return EOPNOTSUPP;
	}
}

#define KEEP(bit, field)                                                                           \
	if (mask & (bit))                                                                          \
	known->field = attr->field

static void remember(struct queue_pair *queue_pair, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *known = &queue_pair->attr;

	queue_pair->given |= mask;
	KEEP(IBV_QP_AV, ah_attr);
	KEEP(IBV_QP_DEST_QPN, dest_qp_num);
	KEEP(IBV_QP_RQ_PSN, rq_psn);
	KEEP(IBV_QP_SQ_PSN, sq_psn);
	KEEP(IBV_QP_PATH_MTU, path_mtu);
	KEEP(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	KEEP(IBV_QP_PORT, port_num);
	KEEP(IBV_QP_TIMEOUT, timeout);
	KEEP(IBV_QP_RETRY_CNT, retry_cnt);
	KEEP(IBV_QP_RNR_RETRY, rnr_retry);
	KEEP(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
}

/* Keeps what a program sets by libmrc, of which each step to RTS takes its own. */
static void remember_mrc(struct queue_pair *queue_pair, const struct mrc_qp_attr *attr, int mask)
{
	struct mrc_qp_attr *known = &queue_pair->mrc;

	queue_pair->mrc_given |= mask;
	KEEP(MRC_QP_MAX_WIMM, wimm.max_wimm);
	KEEP(MRC_QP_MAX_WIMM_DEST, wimm.max_wimm_dest);
	KEEP(MRC_QP_MPR, mpr.mpr);
	KEEP(MRC_QP_MPR_DEST, mpr.mpr_dest);
	KEEP(MRC_QP_TIMEOUT, timeout);
	KEEP(MRC_QP_EV_PROFILE_ID, profile.ev_profile_id);
	KEEP(MRC_QP_CC_PROFILE_ID, profile.cc_profile_id);
	KEEP(MRC_QP_HINT, qp_hint);
	KEEP(MRC_QP_RETRY_CNT, retry);
	KEEP(MRC_QP_CAP, cap);
}

static uint8_t if_given(const struct queue_pair *queue_pair, int bit, uint8_t value)
{
	return queue_pair->given & bit ? value : MRC_APPLICATION_NOT_GIVEN;
}

/* Fills in the limits of the QP for the NIC, as far as the program has set them. */
static void fill_limits(const struct queue_pair *queue_pair,
			struct mrc_application_request *request)
{
	const struct ibv_qp_attr *known = &queue_pair->attr;
	const struct mrc_qp_attr *mrc = &queue_pair->mrc;

	request->is_writable = !!(known->qp_access_flags & IBV_ACCESS_REMOTE_WRITE);
	request->timeout = if_given(queue_pair, IBV_QP_TIMEOUT, known->timeout);
	request->retry_count = if_given(queue_pair, IBV_QP_RETRY_CNT, known->retry_cnt);
	request->rnr_retry = if_given(queue_pair, IBV_QP_RNR_RETRY, known->rnr_retry);
	request->min_rnr_timer = if_given(queue_pair, IBV_QP_MIN_RNR_TIMER, known->min_rnr_timer);
	request->given = queue_pair->mrc_given;
	request->ev_profile = mrc->profile.ev_profile_id;
	request->cc_profile = mrc->profile.cc_profile_id;
	request->max_wimm = mrc->wimm.max_wimm;
	request->max_wimm_dest = mrc->wimm.max_wimm_dest;
	request->mpr = mrc->mpr.mpr;
	request->mpr_dest = mrc->mpr.mpr_dest;
	request->mrc_timeout = mrc->timeout;
	request->linear_count = mrc->retry.linear_cnt;
	request->exponential_count = mrc->retry.exp_cnt;
	request->is_mpr_dynamic = !!(mrc->cap & MRC_QP_CAP_DYNAMIC_MPR);
}

/* Changes a QP's state and attributes; `mrc` has those of libmrc in its mask. An errno value. */
int queue_pair_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      const struct mrc_qp_attr *mrc, int mrc_mask)
{
	const int limits = IBV_QP_ACCESS_FLAGS | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			   IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER;
	struct queue_pair *queue_pair = container_of(qp, struct queue_pair, qp);
	struct mrc_application_request request = {
	    .verb = MRC_APPLICATION_MODIFY_QP,
	    .qpn = qp->qp_num,
	    .given = mrc_mask,
	};
	int error = 0, is_connected = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS;
	int given_before = queue_pair->given, mrc_given_before = queue_pair->mrc_given;
	struct ibv_qp_attr attr_before = queue_pair->attr;
	struct mrc_qp_attr mrc_before = queue_pair->mrc;
	struct mrc_application_reply reply;

	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state)
		return EINVAL;
	if (mask & IBV_QP_STATE)
		error = translate(queue_pair, attr, mask, &request);
	if (error)
		return error;
	pthread_mutex_lock(&queue_pair->lock);
	remember(queue_pair, attr, mask);
	remember_mrc(queue_pair, mrc, mrc_mask);
	fill_limits(queue_pair, &request);
	pthread_mutex_unlock(&queue_pair->lock);
	/* In ERROR already, if its work has failed. */
	if (request.state == MRC_QP_ERROR ? !queue_failure(queue_pair)
					  : request.state || (is_connected && mask & limits))
		error = link_call(device_of(qp->context)->link, &request, &reply, NULL);
	pthread_mutex_lock(&queue_pair->lock);
	if (error) {
		queue_pair->attr = attr_before;
		queue_pair->given = given_before;
		queue_pair->mrc = mrc_before;
		queue_pair->mrc_given = mrc_given_before;
	} else if (request.state == MRC_QP_ERROR) {
		queue_advance(queue_pair); /* what had arrived */
		queue_enter_error(queue_pair);
	} else if (mask & IBV_QP_STATE) {
		qp->state = attr->qp_state;
	}
	if (!error && request.state == MRC_QP_RTR) {
		queue_pair->window_packets = reply.window_packets;
		queue_pair->pmtu_bytes = reply.pmtu_bytes;
		queue_advance(queue_pair); /* what a shared queue has is there from now on */
	}
	pthread_mutex_unlock(&queue_pair->lock);
	return error;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return queue_pair_modify(qp, attr, mask, NULL, 0);
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			int mask __attribute__((unused)), struct ibv_qp_init_attr *init)
{
	struct queue_pair *queue_pair = container_of(qp, struct queue_pair, qp);

	pthread_mutex_lock(&queue_pair->lock);
	if (queue_failure(queue_pair))
		queue_enter_error(queue_pair);
	*attr = queue_pair->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = queue_pair->cap;
	*init = (struct ibv_qp_init_attr){
	    .qp_context = qp->qp_context,
	    .send_cq = qp->send_cq,
	    .recv_cq = qp->recv_cq,
	    .srq = qp->srq,
	    .cap = queue_pair->cap,
	    .qp_type = qp->qp_type,
	    .sq_sig_all = queue_pair->signals_all,
	};
	pthread_mutex_unlock(&queue_pair->lock);
	return 0;
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Two QPs of one host that are connected to each other, for programs that test the verbs library. */
#ifndef VERBS_LOOP_H
#define VERBS_LOOP_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *context;

/* Ends the program unless what it did has worked. */
static void need(int is_so, const char *what)
{
	if (is_so)
		return;
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static struct ibv_pd *open_nic(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	need(devices && devices[0], "a device");
	context = ibv_open_device(devices[0]);
	need(context != NULL, "ibv_open_device");
	return ibv_alloc_pd(context);
}

static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_qp_init_attr init, int access)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	need(qp && !ibv_modify_qp(qp, &attr, mask), "INIT");
	return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer, struct ibv_qp_attr attr)
{
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_2048;
	attr.dest_qp_num = peer->qp_num;
	attr.rq_psn = attr.sq_psn = 7;
	attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
	need(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), "ibv_query_gid");
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	attr.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY),
	     "RTS");
}

static struct ibv_wc complete(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		;
	return wc;
}

#endif

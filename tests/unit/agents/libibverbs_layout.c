// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The binary interface of libibverbs.so.1 that programs were compiled against, whatever header the
 * verbs library was: 64-bit, rdma-core 44. To be compiled.
 */
#include <infiniband/verbs.h>
#include <stddef.h>

#define SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#define PLACE(type, member, bytes)                                                                 \
	_Static_assert(offsetof(struct type, member) == (bytes), #type "." #member)

SIZE(ibv_device, 664);
PLACE(ibv_device, node_type, 16);
PLACE(ibv_device, name, 24);
PLACE(ibv_device, dev_name, 88);
PLACE(ibv_device, ibdev_path, 408);

SIZE(ibv_context, 328);
PLACE(ibv_context, ops, 8);
PLACE(ibv_context, ops.poll_cq, 96);
PLACE(ibv_context, ops.req_notify_cq, 104);
PLACE(ibv_context, ops.post_send, 208);
PLACE(ibv_context, ops.post_recv, 216);
PLACE(ibv_context, cmd_fd, 264);
PLACE(ibv_context, async_fd, 268);
PLACE(ibv_context, num_comp_vectors, 272);
PLACE(ibv_context, abi_compat, 320);

SIZE(verbs_context, 648);
PLACE(verbs_context, query_port, 0);
PLACE(verbs_context, query_device_ex, 216);
PLACE(verbs_context, sz, 312);
PLACE(verbs_context, context, 320);

SIZE(ibv_pd, 16);
SIZE(ibv_mr, 48);
PLACE(ibv_mr, addr, 16);
PLACE(ibv_mr, lkey, 36);
PLACE(ibv_mr, rkey, 40);

SIZE(ibv_comp_channel, 16);
PLACE(ibv_comp_channel, fd, 8);

SIZE(ibv_cq, 128);
PLACE(ibv_cq, channel, 8);
PLACE(ibv_cq, cqe, 28);
PLACE(ibv_cq, comp_events_completed, 120);

SIZE(ibv_qp, 160);
PLACE(ibv_qp, send_cq, 24);
PLACE(ibv_qp, qp_num, 52);
PLACE(ibv_qp, state, 56);
PLACE(ibv_qp, qp_type, 60);

/* The structure that by-symbol callers of ibv_query_port() have room for. */
PLACE(ibv_port_attr, port_cap_flags2, 48);

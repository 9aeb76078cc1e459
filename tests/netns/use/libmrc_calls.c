// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* libmrc on one host: `libmrc_calls CASE` prints what went otherwise than it should, or `ok`. */
#include <arpa/inet.h>
#include <mrc_ctl.h>
#include "verbs_loop.h"

enum { DEPTH = 8, BYTES = 40000 };

static struct mrc_context *mrc;
static struct ibv_pd *pd;
static struct ibv_mr *region;
static struct mrc_cq *sends, *receives;
static unsigned char memory[2 * BYTES];

static void expect(int is_so, const char *what)
{
	if (is_so)
		return;
	printf("%s (errno %d)\n", what, errno);
	exit(1);
}

/* A call by each of the API's conventions fails as it says. */
#define FAILS_BY_ERRNO(call, error) expect((errno = 0, (call) == -1) && errno == (error), #call)
#define FAILS_BY_VALUE(call, error) expect((call) == (error), #call)
#define FAILS_BY_NULL(call, error) expect((errno = 0, !(call)) && errno == (error), #call)

static struct mrc_qp *new_mrc_qp(uint64_t ops, int version)
{
	struct mrc_qp_init_attr init = {
	    .send_cq = sends,
	    .recv_cq = receives,
	    .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH},
	    .pd = pd,
	    .send_ops_flags = ops,
	    .protocol_version = version,
	};
	struct mrc_qp *qp = mrc_create_qp(mrc, &init);

	expect(!qp || init.cap.max_send_wr >= DEPTH, "capacities are written back");
	return qp;
}

static int move(struct mrc_qp *qp, enum ibv_qp_state state, struct mrc_qp_attr *attr, int mask, struct mrc_qp *peer)
{
	struct ibv_qp_attr vattr = {
	    .qp_state = state,
	    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	    .path_mtu = IBV_MTU_4096,
	    .rq_psn = 7,
	    .sq_psn = 7,
	    .retry_cnt = 14, /* as programs of OCP give it, above IB's */
	    .ah_attr = {.is_global = 1, .port_num = 1},
	};
	int steps[] = {
	    [IBV_QPS_INIT] = IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | IBV_QP_PKEY_INDEX,
	    [IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU,
	    [IBV_QPS_RTS] = IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT,
	    [IBV_QPS_SQE] = 0,
	    [IBV_QPS_ERR] = 0,
	};

	expect(!ibv_query_gid(context, 1, 3, &vattr.ah_attr.grh.dgid), "GID index 3");
	if (peer)
		mrc_get_qpn(peer, &vattr.dest_qp_num);
	return mrc_modify_qp(qp, &vattr, IBV_QP_STATE | steps[state], attr, mask);
}

static void connect_both(struct mrc_qp *qp, struct mrc_qp *peer)
{
	struct mrc_qp_attr attr = {.mpr = {4, 4}, .wimm = {DEPTH, DEPTH}, .timeout = 10, .retry = {2, 2}};

	expect(!move(qp, IBV_QPS_INIT, NULL, 0, NULL), "INIT");
	expect(!move(qp, IBV_QPS_RTR, &attr, MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST, peer), "RTR");
	expect(!move(qp, IBV_QPS_RTS, &attr, MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT, NULL),
	       "RTS");
}

static int post(struct mrc_qp *qp, enum ibv_wr_opcode opcode, uint64_t id, size_t bytes, int flags, uint32_t rkey)
{
	struct ibv_sge part = {(uintptr_t)memory, bytes, region->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = id,
	    .opcode = opcode,
	    .send_flags = flags,
	    .imm_data = htonl(id),
	    .sg_list = &part,
	    .num_sge = 1,
	    .wr.rdma = {.remote_addr = (uintptr_t)memory + BYTES, .rkey = rkey},
	}, *bad = NULL;
	int error = mrc_post_send(qp, &wr, &bad);

	expect(!error == !bad, "bad is the request that was not posted");
	return error;
}

static void post_receive(struct mrc_qp *qp, uint64_t id)
{
	struct ibv_sge unused = {(uintptr_t)memory, 4, region->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &unused, .num_sge = 1}, *bad;

	expect(!mrc_post_recv(qp, &wr, &bad), "mrc_post_recv");
}

static struct ibv_wc take(struct mrc_cq *cq)
{
	struct ibv_wc wc;
	int count;

	while (!(count = mrc_poll_cq(cq, 1, &wc)))
		;
	expect(count == 1, "mrc_poll_cq");
	return wc;
}

static void check_versions(void)
{
	struct mrc_context_attr newer = {.mrc_api_version_used = MRC_API_VER(1, 0, 2)};
	struct mrc_context_attr number_one = {.mrc_api_version_used = MRC_PROTOCOL_VERSION_1};
	uint32_t current = 0, last = 1;
	struct mrc_context *other;
	struct mrc_device_attr attr;
	int supported = 0;

	mrc_query_version(&current, &last, NULL, NULL);
	expect(current == MRC_API_CURRENT_VERSION && !last, "mrc_query_version");
	expect(!mrc_query_device(context, &attr, &supported) && supported == 1, "mrc_query_device");
	expect(!mrc_query_device_ex(context, mrc, &attr, &supported) && supported == 1, "mrc_query_device_ex");
	expect(attr.mpr_attr.max_mpr >= 1 && attr.wimm_attr.max_wimm >= 1, "limits");
	FAILS_BY_NULL(mrc_create_context(context, &newer), ENOTSUP);
	other = mrc_create_context(context, &number_one);
	expect(other && !mrc_destroy_context(other), "the version of mrc_example");
	FAILS_BY_ERRNO(mrc_destroy_context(mrc), EBUSY);
}

static void check_refusals(void)
{
	struct mrc_qp *qp = new_mrc_qp(IBV_QP_EX_WITH_RDMA_WRITE, MRC_PROTOCOL_VERSION_0);
	struct mrc_qp_hint_init_attr hints = {.attr = {.num_qps_per_peer = 2}};
	struct mrc_qp_attr attr = {.timeout = 25, .qp_hint = mrc_create_qp_hint(mrc, &hints)};
	struct ibv_qp_attr vattr = {.cur_qp_state = IBV_QPS_RTS};
	struct mrc_qp_hint_attr found;

	FAILS_BY_NULL(mrc_create_cq(mrc, 0, NULL, NULL, 0), EINVAL);
	FAILS_BY_NULL(mrc_create_cq(mrc, 16, NULL, NULL, 1), EINVAL);
	FAILS_BY_NULL(new_mrc_qp(IBV_QP_EX_WITH_SEND, MRC_PROTOCOL_VERSION_1), EOPNOTSUPP);
	FAILS_BY_NULL(new_mrc_qp(0, 2), EINVAL);
	FAILS_BY_VALUE(mrc_destroy_cq(sends), EBUSY);
	FAILS_BY_VALUE(post(qp, IBV_WR_RDMA_WRITE, 1, 8, 0, region->rkey), EINVAL);
	FAILS_BY_VALUE(move(qp, IBV_QPS_RTS, NULL, 0, NULL), EINVAL);
	FAILS_BY_VALUE(mrc_modify_qp(qp, &vattr, IBV_QP_CUR_STATE, NULL, 0), EINVAL);
	FAILS_BY_VALUE(mrc_modify_qp(qp, NULL, 0, &attr, MRC_QP_TIMEOUT), EINVAL);
	FAILS_BY_VALUE(mrc_modify_qp(qp, NULL, 0, &attr, MRC_QP_VENDOR_CFG), EINVAL);
	attr.profile.ev_profile_id = 3;
	FAILS_BY_VALUE(mrc_modify_qp(qp, NULL, 0, &attr, MRC_QP_EV_PROFILE_ID), EINVAL);
	FAILS_BY_VALUE(move(qp, IBV_QPS_INIT, &attr, MRC_QP_EV_PROFILE_ID, NULL), EINVAL); /* not ONLINE */
	expect(!move(qp, IBV_QPS_INIT, &attr, MRC_QP_HINT, NULL), "INIT with a hint");
	FAILS_BY_ERRNO(mrc_destroy_qp_hint(attr.qp_hint), EBUSY);
	FAILS_BY_ERRNO(mrc_query_qp_hint(attr.qp_hint, &found, 1 << 20), EINVAL);
	expect(!mrc_query_qp_hint(attr.qp_hint, &found, MRC_QP_HINT_NUM_QPS_PER_PEER) && found.num_qps_per_peer == 2,
	       "mrc_query_qp_hint");
	expect(!mrc_destroy_qp(qp) && !mrc_destroy_qp_hint(attr.qp_hint), "the end of a hint");
}

static void check_transfers(void)
{
	struct mrc_qp *qp = new_mrc_qp(0, 0), *peer = new_mrc_qp(0, 0);
	struct mrc_qp_init_attr init;
	struct ibv_qp_attr vattr;
	struct mrc_qp_attr attr;
	struct ibv_wc wc;

	for (uint64_t id = 0; id < DEPTH; id++) {
		if (!id) {
			connect_both(peer, qp);
			connect_both(qp, peer);
		}
		post_receive(peer, 100 + id);
	}
	expect(!mrc_query_qp(qp, &vattr, IBV_QP_STATE, &attr, MRC_QP_MPR | MRC_QP_RETRY_CNT, &init), "mrc_query_qp");
	expect(vattr.qp_state == IBV_QPS_RTS && attr.mpr.mpr == 4 && attr.retry.exp_cnt == 2 && init.pd == pd,
	       "a query has what was set");
	FAILS_BY_VALUE(post(qp, IBV_WR_SEND, 1, 8, 0, 0), EINVAL);
	FAILS_BY_VALUE(post(qp, IBV_WR_RDMA_READ, 1, 8, 0, region->rkey), EINVAL);
	for (size_t at = 0; at < BYTES; at++)
		memory[at] = at * 7;
	for (uint64_t id = 1; id <= DEPTH; id++) /* one completion frees the places of all before it */
		expect(!post(qp, id % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM, id, BYTES - id,
			     id == DEPTH ? IBV_SEND_SIGNALED : 0, region->rkey),
		       "mrc_post_send");
	wc = take(sends);
	expect(wc.wr_id == DEPTH && !wc.status && wc.opcode == IBV_WC_RDMA_WRITE, "the last is completed");
	for (uint64_t id = 2; id <= DEPTH; id += 2) {
		wc = take(receives);
		expect(wc.wr_id == 100 + id / 2 - 1 && ntohl(wc.imm_data) == id && wc.byte_len == BYTES - id &&
			   wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags & IBV_WC_WITH_IMM,
		       "immediates arrive in order");
	}
	expect(!memcmp(memory, memory + BYTES, BYTES - 1), "bytes");
	expect(!mrc_destroy_qp(qp) && !mrc_destroy_qp(peer), "mrc_destroy_qp");
}

static void check_failure(void)
{
	struct mrc_qp *qp = new_mrc_qp(0, 0), *peer = new_mrc_qp(0, 0);
	struct mrc_async_event event;

	connect_both(peer, qp);
	connect_both(qp, peer);
	expect(!post(qp, IBV_WR_RDMA_WRITE, 1, 8, 0, region->rkey ^ 1), "mrc_post_send");
	expect(!mrc_get_async_event(mrc, &event) && event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == qp,
	       "QP_FATAL");
	mrc_ack_async_event(&event);
	expect(take(sends).status == IBV_WC_REM_ACCESS_ERR, "an unsignalled request that fails is completed");
	expect(!post(qp, IBV_WR_RDMA_WRITE, 2, 8, 0, region->rkey), "a post in ERROR");
	expect(take(sends).status == IBV_WC_WR_FLUSH_ERR, "it is flushed");
	expect(!move(peer, IBV_QPS_ERR, NULL, 0, NULL), "ERR");
	post_receive(peer, 3);
	expect(take(receives).status == IBV_WC_WR_FLUSH_ERR, "a receive in ERROR");
	expect(!mrc_destroy_qp(qp) && !mrc_destroy_qp(peer), "mrc_destroy_qp");
}

static void modify_ev(uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask)
{
	expect(!mrc_ctl_modify_ev_profile(mrc, id, attr, mask), "mrc_ctl_modify_ev_profile");
}

static void check_formats(void)
{
	struct mrc_ctl_ev_fmt_field widths[] = {{16}, {12}}, found[2] = {{0}};
	struct mrc_ctl_ev_fmt_profile_attr attr = {
	    .profile_state = MRC_CTL_PROFILE_OFFLINE,
	    .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6,
	    .ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, widths, 2},
	};
	int all = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP;

	FAILS_BY_ERRNO(mrc_ctl_modify_ev_fmt_profile(mrc, 5, &attr, all), EOPNOTSUPP);
	attr.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV;
	expect(!mrc_ctl_modify_ev_fmt_profile(mrc, 5, &attr, all), "a format");
	attr = (struct mrc_ctl_ev_fmt_profile_attr){.profile_state = MRC_CTL_PROFILE_ONLINE,
						    .ev_fmt_op = {MRC_CTL_EV_FMT_OP_QUERY_FIELDS, found, 1}};
	FAILS_BY_ERRNO(mrc_ctl_query_ev_fmt_profile(mrc, 5, &attr, MRC_CTL_EV_FMT_PROFILE_OP), E2BIG);
	expect(attr.ev_fmt_op.fmt_field_count == 2, "the length that is needed");
	expect(!mrc_ctl_query_ev_fmt_profile(mrc, 5, &attr, MRC_CTL_EV_FMT_PROFILE_OP) && found[1].width == 12,
	       "widths");
	expect(attr.profile_state == MRC_CTL_PROFILE_ONLINE && !attr.ev_fmt_mode, "what was not asked for stays");
	expect(!mrc_ctl_modify_ev_fmt_profile(mrc, 5, &attr, MRC_CTL_EV_FMT_PROFILE_STATE), "ONLINE");
}

static void check_ev_profile(int ports)
{
	struct mrc_ctl_ev_op_entry entries[16] = {{.state = MRC_CTL_EV_GOOD}};
	struct mrc_ctl_ev_profile_attr attr = {
	    .profile_state = MRC_CTL_PROFILE_OFFLINE,
	    .ev_mode = MRC_CTL_EV_MODE_EXP,
	    .ev_fmt_profile_id = 5,
	    .ev_count = ports,
	    .ev_op = {MRC_CTL_EV_OP_REPLACE_EV, entries, ports},
	};

	for (int i = 0; i < ports; i++) {
		entries[i].ev_new = (struct mrc_ctl_ev){.val = {7}, .port = i + 1};
		entries[i].state = MRC_CTL_EV_GOOD;
	}
	modify_ev(5, &attr,
		  MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
		      MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_EV_OP);
	entries[0].ev = entries[0].ev_new;
	entries[0].state = MRC_CTL_EV_DENIED;
	attr.ev_op.op = MRC_CTL_EV_OP_MODIFY_EV_STATE;
	attr.ev_op.entry_count = 1;
	modify_ev(5, &attr, MRC_CTL_EV_PROFILE_EV_OP);
	entries[0].state = 0;
	attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_STATE;
	expect(!mrc_ctl_query_ev_profile(mrc, 5, &attr, MRC_CTL_EV_PROFILE_EV_OP), "QUERY_EV_STATE");
	expect(entries[0].state == MRC_CTL_EV_DENIED && entries[0].ev.val[0] == 7, "a state");
	entries[0].ev.val[0] = 8;
	FAILS_BY_ERRNO(mrc_ctl_query_ev_profile(mrc, 5, &attr, MRC_CTL_EV_PROFILE_EV_OP), ENOENT);
	attr.ev_op = (typeof(attr.ev_op)){MRC_CTL_EV_OP_QUERY_EV_ARRAY, entries, ports};
	expect(!mrc_ctl_query_ev_profile(mrc, 5, &attr, MRC_CTL_EV_PROFILE_EV_OP) && attr.ev_op.entry_count == ports,
	       "QUERY_EV_ARRAY");
	expect(entries[ports - 1].ev.port == ports && entries[ports - 1].ev.val[0] == 7, "the last EV");
	attr.profile_state = MRC_CTL_PROFILE_ONLINE; /* it lacks MIN_ACTIVE and EVENT_MASK */
	FAILS_BY_ERRNO(mrc_ctl_modify_ev_profile(mrc, 5, &attr, MRC_CTL_EV_PROFILE_STATE), EINVAL);
	attr.profile_state = MRC_CTL_PROFILE_INIT;
	modify_ev(5, &attr, MRC_CTL_EV_PROFILE_STATE);
}

static void check_control(void)
{
	struct mrc_ctl_ep_req probe = {.req_id = 9, .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV, .req_ev.port = 1};
	struct mrc_ctl_cc_profile_attr cc = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .algorithm = "dcqcn"};
	struct mrc_ctl_port_attr port = {.port_admin_state = MRC_CTL_PORT_ADMIN_DISABLED};
	int count, mask = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM;
	struct mrc_ctl_device_attr limits;
	struct mrc_ctl_ev_event event;
	struct mrc_ctl_ep_rsp response;

	expect(!mrc_ctl_query_device(context, &limits) && limits.ev.ev_max_profiles > 15, "mrc_ctl_query_device");
	expect(!mrc_ctl_query_port(mrc, 1, &port, 0) && !port.port_admin_state, "what was not asked for stays");
	expect(!mrc_ctl_query_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) && port.port_admin_state, "a port");
	FAILS_BY_ERRNO(mrc_ctl_query_port(mrc, 0, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
	check_formats();
	check_ev_profile(__builtin_popcount(limits.phy_port_mask));
	for (int state = MRC_CTL_PROFILE_OFFLINE; state >= MRC_CTL_PROFILE_INIT; state--) {
		struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = state};

		expect(!mrc_ctl_modify_ev_fmt_profile(mrc, 5, &attr, MRC_CTL_EV_FMT_PROFILE_STATE), "back to INIT");
	}
	FAILS_BY_ERRNO(mrc_ctl_modify_cc_profile(mrc, 5, &cc, mask), EINVAL);
	cc.algorithm = NULL;
	expect(!mrc_ctl_modify_cc_profile(mrc, 5, &cc, mask), "no algorithm");
	cc = (struct mrc_ctl_cc_profile_attr){.algorithm = "kept"};
	expect(!mrc_ctl_query_cc_profile(mrc, 5, &cc, MRC_CTL_CC_PROFILE_STATE) && cc.profile_state == 1 && cc.algorithm,
	       "a CC profile");
	cc.profile_state = MRC_CTL_PROFILE_INIT;
	expect(!mrc_ctl_modify_cc_profile(mrc, 5, &cc, MRC_CTL_CC_PROFILE_STATE), "INIT");
	FAILS_BY_VALUE(mrc_ctl_poll_ev_event(sends, 1, &event), -EINVAL);
	expect(!ibv_query_gid(context, 1, 0, &probe.dgid), "ibv_query_gid");
	probe.dgid.raw[15]++; /* the next host */
	FAILS_BY_ERRNO(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, &probe, 1, 1, &response, &count),
		       ENOTSUP);
	expect(!mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, &probe, 1, 1u << 31, &response, &count),
	       "EV_PROBE");
	expect(count == 1 && response.req_id == 9 && response.port == 1 && response.rtt > 0, "a response");
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		void (*check)(void);
	} cases[] = {{"versions", check_versions},
		     {"refusals", check_refusals},
		     {"transfers", check_transfers},
		     {"failure", check_failure},
		     {"control", check_control}};

	pd = open_nic();
	mrc = mrc_create_context(context, NULL);
	expect(mrc != NULL, "mrc_create_context");
	region = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	sends = mrc_create_cq(mrc, 64, NULL, NULL, 0);
	receives = mrc_create_cq(mrc, 64, NULL, NULL, 0);
	expect(region && sends && receives, "CQs and memory");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (argc == 2 && !strcmp(argv[1], cases[i].name))
			cases[i].check();
	expect(!mrc_destroy_cq(sends) && !mrc_destroy_cq(receives) && !mrc_destroy_context(mrc), "the end");
	puts("ok");
	return 0;
}

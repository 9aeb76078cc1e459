/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* libmrc's control API, for a controller with CAP_NET_ADMIN; see mrc.h. */
#ifndef MRC_CTL_H
#define MRC_CTL_H

#include <mrc.h>
#include <mrc_ctl_api_ver.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MRC_CTL_MAX_VENDOR_CFG_SIZE 128
#define MRC_CTL_EV_MAX_BYTES	    32
#define MRC_CTL_EV_UNPOPULATED                                                                     \
	((struct mrc_ctl_ev){                                                                      \
	    .val = {0},                                                                            \
	    .port = 0,                                                                             \
	})

enum mrc_ctl_protocol_version {
	MRC_CTL_PROTOCOL_VERSION_0 = 0,
	MRC_CTL_PROTOCOL_VERSION_1 = 1,
};

enum mrc_ctl_attr_opt {
	MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE = 1 << 0,
	MRC_CTL_OPT_CAP_CC_PROFILE_MODIFY_ONLINE = 1 << 1,
	MRC_CTL_OPT_CAP_EV_EVENT = 1 << 2,
	MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE = 1 << 3,
	MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT = 1 << 4,
	MRC_CTL_OPT_CAP_EP_OP_EV_PROBE = 1 << 5,
};

enum mrc_ctl_port_attr_mask {
	MRC_CTL_PORT_ADMIN_STATE = 1 << 0,
};

enum mrc_ctl_ev_fmt_op {
	MRC_CTL_EV_FMT_OP_MODIFY_FIELDS = 0,
	MRC_CTL_EV_FMT_OP_QUERY_FIELDS = 1,
};

enum mrc_ctl_ev_fields_op {
	MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS = 0,
	MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS = 1,
};

enum mrc_ctl_ep_op_type {
	MRC_CTL_EP_OP_EV_PROBE = 0,
	MRC_CTL_EP_OP_PORT_STATUS_UPDATE = 1,
};

typedef uint8_t mrc_ctl_ev_t[MRC_CTL_EV_MAX_BYTES];

struct mrc_ctl_device_attr {
	uint32_t mrc_ctl_protocol_version;
	struct {
		uint32_t ev_max_fmt_profiles;
		uint32_t ev_max_profiles;
		uint32_t ev_max_count; /* of all profiles together */
		uint32_t ev_free_count;
		uint32_t ev_max_count_profile;
		uint32_t ev_count_align;
		uint32_t ev_max_width; /* bits */
		uint32_t ev_fmt_mode_mask;
		uint32_t ev_mode_mask;
		uint32_t ev_op_max_entries;
	} ev;
	struct {
		uint32_t cc_max_profiles;
		const char **algorithms; /* the library's; NULL ends it */
	} cc;
	uint32_t phy_port_mask; /* bit 1: port 1 */
	uint32_t opt_attr;	/* bits of enum mrc_ctl_attr_opt */
};

struct mrc_ctl_port_attr {
	enum mrc_ctl_port_admin_state port_admin_state;
};

struct mrc_ctl_ev_fmt_field {
	uint8_t width; /* bits */
};

struct mrc_ctl_ev_fmt_profile_attr {
	enum mrc_ctl_profile_state profile_state;
	enum mrc_ctl_profile_state cur_profile_state;
	enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
	struct {
		enum mrc_ctl_ev_fmt_op op;
		struct mrc_ctl_ev_fmt_field *fmt_fields;
		int fmt_field_count;
	} ev_fmt_op;
	uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

struct mrc_ctl_ev {
	mrc_ctl_ev_t val; /* STEV, UDP: a uint32_t; SRv6: 16 bytes of address, 16 of a segment */
	uint8_t port;	  /* from 1 */
};

struct mrc_ctl_ev_field {
	uint32_t width;
	uint32_t init_val;
	uint32_t min_val;
	uint32_t max_val;
	uint32_t mask;
};

struct mrc_ctl_ev_op_entry {
	struct mrc_ctl_ev ev;
	struct mrc_ctl_ev ev_new;
	enum mrc_ctl_ev_state state;
	uint32_t flags;
};

struct mrc_ctl_ev_profile_attr {
	enum mrc_ctl_profile_state profile_state;
	enum mrc_ctl_profile_state cur_profile_state;
	enum mrc_ctl_ev_mode ev_mode;
	uint64_t ev_fmt_profile_id;
	uint32_t ev_count;
	uint32_t ev_min_active;
	int ev_event_mask;
	struct {
		enum mrc_ctl_ev_op op;
		struct mrc_ctl_ev_op_entry *entries;
		int entry_count;
	} ev_op;
	struct {
		enum mrc_ctl_ev_fields_op op;
		struct mrc_ctl_ev_field *fields;
		int field_count;
	} ev_fields_op;
	uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

struct mrc_ctl_cc_profile_attr {
	enum mrc_ctl_profile_state profile_state;
	enum mrc_ctl_profile_state cur_profile_state;
	const char *algorithm; /* NULL: none, a fixed window */
	const void *cc_config; /* of uet-1.0-nscc: struct mrc_ctl_cc_nscc_cfg */
	uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

struct mrc_ctl_cc_nscc_cfg { /* bytes and ns */
	uint8_t disable_qa;
	uint32_t adjust_bytes_threshold;
	uint32_t adjust_period_threshold;
	uint32_t base_rtt;
	float eta;
	float fi;
	float fi_scale;
	float gamma;
	float max_md_jump;
	uint32_t max_cwnd;
	uint8_t qa_gate;
	uint32_t qa_threshold;
	uint32_t target_delay;
};

struct mrc_ctl_ev_event {
	uint64_t profile_id;
	struct mrc_ctl_ev ev;
	uint32_t drop_count;
#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
	enum mrc_ctl_ev_state state;
#endif
};

struct mrc_ctl_ep_req {
	uint16_t req_id;
	union ibv_gid sgid;
	union ibv_gid dgid;
	enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
	struct mrc_ctl_ev req_ev;
	union {
		struct {
			uint32_t port_status;
		} port_status_update;
	} op;
};

struct mrc_ctl_ep_rsp {
	uint16_t req_id;
	uint8_t port;
	unsigned int rtt; /* ns */
	uint8_t adj_svc_time;
};

#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
int mrc_ctl_query_device_ex(struct ibv_context *context, struct mrc_context *mcontext,
			    struct mrc_ctl_device_attr *attr, int *supported);
#endif
int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *attr);
void mrc_ctl_query_version(uint32_t *current, uint32_t *last_supported, uint32_t *vendor,
			   uint32_t *last_supported_vendor);
int mrc_ctl_query_port(struct mrc_context *context, uint8_t port, struct mrc_ctl_port_attr *attr,
		       int mask);
int mrc_ctl_modify_port(struct mrc_context *context, uint8_t port, struct mrc_ctl_port_attr *attr,
			int mask);
int mrc_ctl_modify_ev_fmt_profile(struct mrc_context *context, uint64_t id,
				  struct mrc_ctl_ev_fmt_profile_attr *attr, int mask);
int mrc_ctl_query_ev_fmt_profile(struct mrc_context *context, uint64_t id,
				 struct mrc_ctl_ev_fmt_profile_attr *attr, int mask);
int mrc_ctl_modify_ev_profile(struct mrc_context *context, uint64_t id,
			      struct mrc_ctl_ev_profile_attr *attr, int mask);
int mrc_ctl_query_ev_profile(struct mrc_context *context, uint64_t id,
			     struct mrc_ctl_ev_profile_attr *attr, int mask);
int mrc_ctl_modify_cc_profile(struct mrc_context *context, uint64_t id,
			      struct mrc_ctl_cc_profile_attr *attr, int mask);
int mrc_ctl_query_cc_profile(struct mrc_context *context, uint64_t id,
			     struct mrc_ctl_cc_profile_attr *attr, int mask);
struct mrc_cq *mrc_ctl_create_ev_event_cq(struct mrc_context *context, int cqe, void *cq_context,
					  struct mrc_comp_channel *channel, int comp_vector);
int mrc_ctl_poll_ev_event(struct mrc_cq *cq, int count, struct mrc_ctl_ev_event *events);
int mrc_ctl_ep_batch_send_wait(struct mrc_context *context, uint8_t tc,
			       enum mrc_ctl_ep_op_type type, struct mrc_ctl_ep_req *requests,
			       int count, uint32_t timeout_ns, struct mrc_ctl_ep_rsp *responses,
			       int *response_count);

#ifdef __cplusplus
}
#endif

#endif

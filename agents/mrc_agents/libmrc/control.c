// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The control API: its structures become messages, which the NIC agent checks and carries out. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "libmrc.h"

enum {
	OPTIONS = MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE | MRC_CTL_OPT_CAP_EV_EVENT |
		  MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT | MRC_CTL_OPT_CAP_EP_OP_EV_PROBE,
};

/* Puts what a query has found into the structure of the caller, who asked for it by its bit. */
#define FILL(bit, member, value)                                                                   \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			attr->member = (value);                                                    \
	} while (0)

static const char *algorithms[] = {"uet-1.0-nscc", NULL};

static int send_control(const struct mrc_context *context, struct mrc_control *control)
{
	return link_control(device_of(context->verbs)->link, control);
}

static uint32_t number_of_ev(const struct mrc_ctl_ev *ev)
{
	uint32_t number;

	memcpy(&number, ev->val, sizeof(number));
	return number;
}

static struct mrc_ctl_ev ev_of(uint32_t number, uint8_t port)
{
	struct mrc_ctl_ev ev = {.port = port};

	memcpy(ev.val, &number, sizeof(number));
	return ev;
}

/* ---- device and ports ------------------------------------------------------------------------ */

EXPORT void mrc_ctl_query_version(uint32_t *current, uint32_t *last_supported, uint32_t *vendor,
				  uint32_t *last_supported_vendor)
{
	mrc_query_version(current, last_supported, vendor, last_supported_vendor);
}

EXPORT int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *attr)
{
	struct mrc_control control = {.object = MRC_CONTROL_DEVICE, .is_query = 1};
	const uint32_t *words = control.words;
	int error;

	if (!device_is_ours(context))
		return result(ENOTSUP);
	error = link_control(device_of(context)->link, &control);
	if (error)
		return result(error);
	*attr = (struct mrc_ctl_device_attr){
	    .mrc_ctl_protocol_version = MRC_CTL_PROTOCOL_VERSION_1,
	    .ev =
		{
		    .ev_max_fmt_profiles = words[MRC_CONTROL_FORMATS_MAX],
		    .ev_max_profiles = words[MRC_CONTROL_PROFILES_MAX],
		    .ev_max_count = words[MRC_CONTROL_EVS_MAX],
		    .ev_free_count = words[MRC_CONTROL_EVS_FREE],
		    .ev_max_count_profile = words[MRC_CONTROL_EVS_PER_PROFILE],
		    .ev_count_align = words[MRC_CONTROL_EV_ALIGN],
		    .ev_max_width = words[MRC_CONTROL_EV_WIDTH],
		    .ev_fmt_mode_mask = MRC_CTL_EV_FMT_MODE_STEV | MRC_CTL_EV_FMT_MODE_UDP,
		    .ev_mode_mask =
			MRC_CTL_EV_MODE_AUTO | MRC_CTL_EV_MODE_EXP | MRC_CTL_EV_MODE_GEN,
		    .ev_op_max_entries = MRC_EV_MAX,
		},
	    .cc =
		{
		    .cc_max_profiles = words[MRC_CONTROL_CC_PROFILES_MAX],
		    .algorithms = words[MRC_CONTROL_HAS_NSCC] ? algorithms : algorithms + 1,
		},
	    .phy_port_mask = words[MRC_CONTROL_PORT_MASK],
	    .opt_attr = OPTIONS,
	};
	return 0;
}

EXPORT int mrc_ctl_query_device_ex(struct ibv_context *context,
				   struct mrc_context *mcontext __attribute__((unused)),
				   struct mrc_ctl_device_attr *attr, int *supported)
{
	int is_ours = device_is_ours(context);

	if (supported)
		*supported = is_ours;
	return is_ours ? mrc_ctl_query_device(context, attr) : 0;
}

EXPORT int mrc_ctl_query_port(struct mrc_context *context, uint8_t port,
			      struct mrc_ctl_port_attr *attr, int mask)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_PORT, .is_query = 1, .id = port, .mask = mask};
	int error = send_control(context, &control);

	if (!error)
		FILL(MRC_CTL_PORT_ADMIN_STATE, port_admin_state, control.state);
	return result(error);
}

EXPORT int mrc_ctl_modify_port(struct mrc_context *context, uint8_t port,
			       struct mrc_ctl_port_attr *attr, int mask)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_PORT, .id = port, .mask = mask, .state = attr->port_admin_state};

	return result(send_control(context, &control));
}

/* ---- EV formats ------------------------------------------------------------------------------ */

EXPORT int mrc_ctl_modify_ev_fmt_profile(struct mrc_context *context, uint64_t id,
					 struct mrc_ctl_ev_fmt_profile_attr *attr, int mask)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_EV_FORMAT,
	    .id = id,
	    .mask = mask,
	    .state = attr->profile_state,
	    .cur_state = attr->cur_profile_state,
	    .mode = attr->ev_fmt_mode,
	};

	if (mask & MRC_CTL_EV_FMT_PROFILE_OP) {
		if (attr->ev_fmt_op.op != MRC_CTL_EV_FMT_OP_MODIFY_FIELDS ||
		    attr->ev_fmt_op.fmt_field_count < 1)
			return result(EINVAL);
		if (attr->ev_fmt_op.fmt_field_count > MRC_CONTROL_FIELDS)
			return result(E2BIG);
		control.field_count = attr->ev_fmt_op.fmt_field_count;
		for (uint32_t i = 0; i < control.field_count; i++)
			control.fields[i].width = attr->ev_fmt_op.fmt_fields[i].width;
	}
	return result(send_control(context, &control));
}

EXPORT int mrc_ctl_query_ev_fmt_profile(struct mrc_context *context, uint64_t id,
					struct mrc_ctl_ev_fmt_profile_attr *attr, int mask)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_EV_FORMAT, .is_query = 1, .id = id, .mask = mask};
	int error, room = attr->ev_fmt_op.fmt_field_count;

	if (mask & MRC_CTL_EV_FMT_PROFILE_OP &&
	    attr->ev_fmt_op.op != MRC_CTL_EV_FMT_OP_QUERY_FIELDS)
		return result(EINVAL);
	error = send_control(context, &control);
	if (error)
		return result(error);
	FILL(MRC_CTL_EV_FMT_PROFILE_STATE, profile_state, control.state);
	FILL(MRC_CTL_EV_FMT_PROFILE_CUR_STATE, cur_profile_state, control.state);
	FILL(MRC_CTL_EV_FMT_PROFILE_MODE, ev_fmt_mode, control.mode);
	if (!(mask & MRC_CTL_EV_FMT_PROFILE_OP))
		return 0;
	attr->ev_fmt_op.fmt_field_count = control.field_count;
	if ((int)control.field_count > room)
		return result(E2BIG);
	for (uint32_t i = 0; i < control.field_count; i++)
		attr->ev_fmt_op.fmt_fields[i].width = control.fields[i].width;
	return 0;
}

/* ---- EV profiles ----------------------------------------------------------------------------- */

/* Puts what an operation on EVs or fields is about into a message; an errno value. */
static int put_items(struct mrc_control *control, const struct mrc_ctl_ev_profile_attr *attr)
{
	int has_entries = !!(control->mask & MRC_CTL_EV_PROFILE_EV_OP);
	int has_fields = !!(control->mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP);

	if (has_entries && has_fields)
		return EINVAL;
	if (has_entries) {
		int is_query = attr->ev_op.op >= MRC_CTL_EV_OP_QUERY_EV_STATE;

		if (is_query != (int)control->is_query || attr->ev_op.entry_count < 0)
			return EINVAL;
		if (attr->ev_op.op != MRC_CTL_EV_OP_QUERY_EV_ARRAY &&
		    attr->ev_op.entry_count > MRC_EV_MAX)
			return E2BIG;
		control->op = attr->ev_op.op;
		control->entry_count =
		    attr->ev_op.entry_count < MRC_EV_MAX ? attr->ev_op.entry_count : MRC_EV_MAX;
		if (control->op == MRC_CTL_EV_OP_QUERY_EV_ARRAY)
			return 0;
		for (uint32_t i = 0; i < control->entry_count; i++) {
			const struct mrc_ctl_ev_op_entry *entry = &attr->ev_op.entries[i];

			control->entries[i] = (struct mrc_control_entry){
			    .ev = number_of_ev(&entry->ev),
			    .port = entry->ev.port,
			    .ev_new = number_of_ev(&entry->ev_new),
			    .port_new = entry->ev_new.port,
			    .state = entry->state,
			    .flags = entry->flags,
			};
		}
	}
	if (has_fields) {
		if ((attr->ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS) !=
			(int)control->is_query ||
		    attr->ev_fields_op.field_count < 0)
			return EINVAL;
		if (control->is_query)
			return 0;
		if (attr->ev_fields_op.field_count > MRC_CONTROL_FIELDS)
			return E2BIG;
		control->field_count = attr->ev_fields_op.field_count;
		memcpy(control->fields, attr->ev_fields_op.fields,
		       control->field_count * sizeof(*control->fields));
	}
	return 0;
}

EXPORT int mrc_ctl_modify_ev_profile(struct mrc_context *context, uint64_t id,
				     struct mrc_ctl_ev_profile_attr *attr, int mask)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_EV_PROFILE,
	    .id = id,
	    .mask = mask,
	    .state = attr->profile_state,
	    .cur_state = attr->cur_profile_state,
	    .mode = attr->ev_mode,
	    .format_id =
		attr->ev_fmt_profile_id > UINT32_MAX ? UINT32_MAX : attr->ev_fmt_profile_id,
	    .count = attr->ev_count,
	    .min_active = attr->ev_min_active,
	    .event_mask = attr->ev_event_mask,
	};
	int error = put_items(&control, attr);

	return result(error ? error : send_control(context, &control));
}

/* Copies what a query of EVs or fields has found; an errno value. */
static int get_items(const struct mrc_control *control, struct mrc_ctl_ev_profile_attr *attr)
{
	int room = attr->ev_op.entry_count;

	if (control->mask & MRC_CTL_EV_PROFILE_EV_OP) {
		attr->ev_op.entry_count = control->entry_count;
		if ((int)control->entry_count > room)
			return E2BIG;
		for (uint32_t i = 0; i < control->entry_count; i++) {
			const struct mrc_control_entry *entry = &control->entries[i];

			if (control->op == MRC_CTL_EV_OP_QUERY_EV_ARRAY)
				attr->ev_op.entries[i].ev = ev_of(entry->ev, entry->port);
			attr->ev_op.entries[i].state = entry->state;
		}
	}
	if (control->mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) {
		room = attr->ev_fields_op.field_count;
		attr->ev_fields_op.field_count = control->field_count;
		if ((int)control->field_count > room)
			return E2BIG;
		memcpy(attr->ev_fields_op.fields, control->fields,
		       control->field_count * sizeof(*control->fields));
	}
	return 0;
}

EXPORT int mrc_ctl_query_ev_profile(struct mrc_context *context, uint64_t id,
				    struct mrc_ctl_ev_profile_attr *attr, int mask)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_EV_PROFILE, .is_query = 1, .id = id, .mask = mask};
	int error = put_items(&control, attr);

	if (!error)
		error = send_control(context, &control);
	if (error)
		return result(error);
	FILL(MRC_CTL_EV_PROFILE_STATE, profile_state, control.state);
	FILL(MRC_CTL_EV_PROFILE_CUR_STATE, cur_profile_state, control.state);
	FILL(MRC_CTL_EV_PROFILE_MODE, ev_mode, control.mode);
	FILL(MRC_CTL_EV_PROFILE_FMT_ID, ev_fmt_profile_id, control.format_id);
	FILL(MRC_CTL_EV_PROFILE_COUNT, ev_count, control.count);
	FILL(MRC_CTL_EV_PROFILE_MIN_ACTIVE, ev_min_active, control.min_active);
	FILL(MRC_CTL_EV_PROFILE_EVENT_MASK, ev_event_mask, control.event_mask);
	return result(get_items(&control, attr));
}

/* ---- CC profiles ----------------------------------------------------------------------------- */

EXPORT int mrc_ctl_modify_cc_profile(struct mrc_context *context, uint64_t id,
				     struct mrc_ctl_cc_profile_attr *attr, int mask)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_CC_PROFILE,
	    .id = id,
	    .mask = mask,
	    .state = attr->profile_state,
	    .cur_state = attr->cur_profile_state,
	};

	if (mask & MRC_CTL_CC_PROFILE_ALGORITHM) {
		control.mode = attr->algorithm != NULL;
		if (attr->algorithm && strcmp(attr->algorithm, algorithms[0]))
			return result(EINVAL);
	}
	if (mask & MRC_CTL_CC_PROFILE_CONFIG) {
		if (!attr->cc_config)
			return result(EINVAL);
		memcpy(control.words, attr->cc_config, sizeof(struct mrc_ctl_cc_nscc_cfg));
	}
	return result(send_control(context, &control));
}

EXPORT int mrc_ctl_query_cc_profile(struct mrc_context *context, uint64_t id,
				    struct mrc_ctl_cc_profile_attr *attr, int mask)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_CC_PROFILE, .is_query = 1, .id = id, .mask = mask};
	int error = send_control(context, &control);

	if (error)
		return result(error);
	FILL(MRC_CTL_CC_PROFILE_STATE, profile_state, control.state);
	FILL(MRC_CTL_CC_PROFILE_CUR_STATE, cur_profile_state, control.state);
	FILL(MRC_CTL_CC_PROFILE_ALGORITHM, algorithm, control.mode ? algorithms[0] : NULL);
	if (mask & MRC_CTL_CC_PROFILE_CONFIG && attr->cc_config)
		memcpy((void *)attr->cc_config, control.words, sizeof(struct mrc_ctl_cc_nscc_cfg));
	return 0;
}

/* ---- EV events and probes -------------------------------------------------------------------- */

EXPORT struct mrc_cq *mrc_ctl_create_ev_event_cq(struct mrc_context *context, int cqe,
						 void *cq_context, struct mrc_comp_channel *channel,
						 int comp_vector)
{
	struct mrc_application_request request = {.verb = MRC_APPLICATION_WATCH_EVS};
	struct agent_link *link = device_of(context->verbs)->link;
	struct mrc_application_reply reply;
	struct mrc_cq *cq;
	int error, socket;

	cq = mrc_create_cq(context, cqe, cq_context, channel, comp_vector);
	if (!cq)
		return NULL;
	error = link_call(link, &request, &reply, &socket);
	if (!error) {
		queue_of_mrc(cq)->ev_events = 1 + socket;
		error = channel ? channel_arm(queue_of_mrc(cq), EPOLL_CTL_ADD) : 0;
	}
	if (error) {
		mrc_destroy_cq(cq);
		errno = error;
		return NULL;
	}
	return cq;
}

EXPORT int mrc_ctl_poll_ev_event(struct mrc_cq *cq, int count, struct mrc_ctl_ev_event *events)
{
	const struct completion_queue *queue = queue_of_mrc(cq);
	size_t stride = queue->owner->ev_event_bytes;
	struct mrc_control_event change;
	int taken = 0;

	if (!queue->ev_events)
		return -EINVAL;
	while (taken < count && recv(queue->ev_events - 1, &change, sizeof(change), MSG_DONTWAIT) ==
				    sizeof(change)) {
		const struct mrc_ctl_ev_event event = {
		    .profile_id = change.profile_id,
		    .ev = ev_of(change.ev, change.port),
		    .drop_count = change.drop_count,
		    .state = change.state,
		};

		memcpy((char *)events + taken++ * stride, &event, stride);
	}
	return taken;
}

/* Fills in a message of probes; an errno value. */
static int put_probes(const struct mrc_context *context, const struct mrc_ctl_ep_req *requests,
		      int count, struct mrc_control *control)
{
	for (int i = 0; i < count; i++) {
		int64_t host = host_of(device_of(context->verbs), &requests[i].dgid);

		if (host < 0)
			return EINVAL;
		if (requests[i].ev_fmt_mode & MRC_CTL_EV_FMT_MODE_SRV6)
			return ENOTSUP;
		control->entries[i] = (struct mrc_control_entry){
		    .peer = host,
		    .ev = number_of_ev(&requests[i].req_ev),
		    .port = requests[i].req_ev.port,
		};
	}
	return 0;
}

EXPORT int mrc_ctl_ep_batch_send_wait(struct mrc_context *context,
				      uint8_t tc __attribute__((unused)),
				      enum mrc_ctl_ep_op_type type, struct mrc_ctl_ep_req *requests,
				      int count, uint32_t timeout_ns,
				      struct mrc_ctl_ep_rsp *responses, int *response_count)
{
	struct mrc_control control = {
	    .object = MRC_CONTROL_PROBE, .entry_count = count, .timeout_ns = timeout_ns};
	int error;

	*response_count = 0;
	if (type != MRC_CTL_EP_OP_EV_PROBE)
		return result(ENOTSUP); /* agents announce ports by themselves */
	if (count < 1 || count > MRC_EV_MAX)
		return result(count < 1 ? EINVAL : ENOMEM);
	error = put_probes(context, requests, count, &control);
	if (!error)
		error = send_control(context, &control);
	if (error)
		return result(error);
	for (int i = 0; i < count; i++)
		if (control.entries[i].rtt_ns)
			responses[(*response_count)++] = (struct mrc_ctl_ep_rsp){
			    .req_id = requests[i].req_id,
			    .port = requests[i].req_ev.port,
			    .rtt = control.entries[i].rtt_ns,
			};
	return result(*response_count < count ? ETIMEDOUT : 0);
}

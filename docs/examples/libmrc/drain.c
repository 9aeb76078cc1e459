// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A controller, which needs CAP_NET_ADMIN. `drain PROFILE set-up` brings an EV profile ONLINE, for programs to
 * name; `drain PROFILE release` brings it back to INIT. `drain PROFILE deny PORT` takes the EVs of a port, which
 * leads to a plane, out of use before work on that plane; `drain PROFILE allow PORT` brings them back. QPs that
 * use the profile follow at once.
 */
#include <errno.h>
#include <mrc_ctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVS_WANTED = 32 };

static void need(int is_so, const char *what)
{
	if (is_so)
		return;
	perror(what);
	exit(1);
}

static void set_up(struct mrc_context *context, struct ibv_context *device, uint64_t profile)
{
	struct mrc_ctl_ev_profile_attr attr = {.ev_mode = MRC_CTL_EV_MODE_AUTO,
					       .ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD};
	struct mrc_ctl_device_attr limits;

	need(!mrc_ctl_query_device(device, &limits), "mrc_ctl_query_device");
	attr.ev_count = (EVS_WANTED + limits.ev.ev_count_align - 1) / limits.ev.ev_count_align;
	attr.ev_count *= limits.ev.ev_count_align;
	attr.ev_min_active = attr.ev_count / 4;
	attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
	need(!mrc_ctl_modify_ev_profile(context, profile, &attr,
					MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE |
					    MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
					    MRC_CTL_EV_PROFILE_EVENT_MASK),
	     "to OFFLINE");
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	need(!mrc_ctl_modify_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_STATE), "to ONLINE");
	printf("profile %lu: %u EVs\n", profile, attr.ev_count);
}

static void release(struct mrc_context *context, uint64_t profile)
{
	struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE};

	need(!mrc_ctl_modify_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_STATE), "to OFFLINE");
	attr.profile_state = MRC_CTL_PROFILE_INIT;
	need(!mrc_ctl_modify_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_STATE), "to INIT");
}

static void change(struct mrc_context *context, uint64_t profile, int port, enum mrc_ctl_ev_state state)
{
	struct mrc_ctl_ev_profile_attr attr = {.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY};
	int chosen = 0;

	/* The first query says how long the array has to be. */
	need(mrc_ctl_query_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_EV_OP) && errno == E2BIG,
	     "the number of EVs");
	attr.ev_op.entries = calloc(attr.ev_op.entry_count, sizeof(*attr.ev_op.entries));
	need(!mrc_ctl_query_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_EV_OP), "the EVs");
	for (int i = 0; i < attr.ev_op.entry_count; i++)
		if (attr.ev_op.entries[i].ev.port == port) {
			attr.ev_op.entries[chosen].ev = attr.ev_op.entries[i].ev;
			attr.ev_op.entries[chosen++].state = state;
		}
	attr.ev_op.op = MRC_CTL_EV_OP_MODIFY_EV_STATE;
	attr.ev_op.entry_count = chosen;
	need(!mrc_ctl_modify_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_EV_OP), "the change");
	printf("%d EVs of port %d are %s\n", chosen, port, state == MRC_CTL_EV_DENIED ? "denied" : "allowed");
	free(attr.ev_op.entries);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device = list && *list ? ibv_open_device(*list) : NULL;
	struct mrc_context *context = device ? mrc_create_context(device, NULL) : NULL;
	uint64_t profile;

	need(context != NULL, "no MRC device");
	if (argc < 3) {
		fprintf(stderr, "usage: drain PROFILE set-up | release | deny PORT | allow PORT\n");
		return 2;
	}
	profile = strtoull(argv[1], NULL, 10);
	if (!strcmp(argv[2], "set-up"))
		set_up(context, device, profile);
	else if (!strcmp(argv[2], "release"))
		release(context, profile);
	else if (argc > 3)
		change(context, profile, atoi(argv[3]),
		       strcmp(argv[2], "deny") ? MRC_CTL_EV_GOOD : MRC_CTL_EV_DENIED);
	mrc_destroy_context(context);
	ibv_close_device(device);
	ibv_free_device_list(list);
	return 0;
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * `events COUNT` prints so many changes of EVs, of all programs of the host, and beside them the asynchronous
 * events of the port. It waits on a completion channel and in mrc_get_async_event(), and needs CAP_NET_ADMIN.
 */
#include <mrc_ctl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int is_so, const char *what)
{
	if (is_so)
		return;
	perror(what);
	exit(1);
}

static void *follow_port(void *context)
{
	struct mrc_async_event event;

	while (!mrc_get_async_event(context, &event)) {
		printf("%s, port %d\n", ibv_event_type_str(event.event_type), event.element.port_num);
		fflush(stdout);
		mrc_ack_async_event(&event);
	}
	return NULL;
}

static void print(const struct mrc_ctl_ev_event *event)
{
	uint32_t ev;

	memcpy(&ev, event->ev.val, sizeof(ev));
	printf("profile %lu: EV %08x of port %u is %s", event->profile_id, ev, event->ev.port,
	       event->state == MRC_CTL_EV_GOOD ? "good" : "assumed bad");
	printf(event->drop_count ? ", %u packets lost\n" : "\n", event->drop_count);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device = list && *list ? ibv_open_device(*list) : NULL;
	struct mrc_context *context = device ? mrc_create_context(device, NULL) : NULL;
	int left = argc > 1 ? atoi(argv[1]) : 1, count;
	struct mrc_ctl_ev_event changes[16];
	struct mrc_comp_channel *channel;
	struct mrc_cq *cq, *ready;
	pthread_t follower;
	void *cq_context;

	need(context != NULL, "no MRC device");
	need(!mrc_create_comp_channel(context, &channel), "mrc_create_comp_channel");
	cq = mrc_ctl_create_ev_event_cq(context, 256, NULL, channel, 0);
	need(cq != NULL, "mrc_ctl_create_ev_event_cq");
	need(!pthread_create(&follower, NULL, follow_port, context), "pthread_create");
	puts("following");
	fflush(stdout);
	while (left > 0) {
		need(!mrc_req_notify_cq(cq, 0), "mrc_req_notify_cq");
		need(!mrc_get_cq_event(channel, &ready, &cq_context), "mrc_get_cq_event");
		mrc_ack_cq_events(ready, 1);
		while (left > 0 && (count = mrc_ctl_poll_ev_event(ready, 16, changes)) > 0)
			for (int i = 0; i < count && left > 0; i++, left--)
				print(&changes[i]);
	}
	return 0;
}

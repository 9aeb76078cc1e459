/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Accounting of the ingress buffer of a switch under flow control, and its updates to the port that
 * fills it, here called upstream. They reach it one propagation delay later.
 */
#ifndef MRC_QUEUE_UPSTREAM_H
#define MRC_QUEUE_UPSTREAM_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <queue/lossless.h>
#include <queue/schedule.h>
#include <queue/time.h>
#include <queue/view.h>

/*
 * Id of the port that sent the frame at hand to this switch, 0 when no flow control holds that one:
 * also for what a NIC sends, which has not come in by anybody's link.
 */
static __always_inline __u32 upstream_of(struct xdp_md *ctx)
{
	__u32 ingress_id = ctx->ingress_ifindex - MRC_IFINDEX_BASE, sender_id;
	struct mrc_port *ingress = bpf_map_lookup_elem(&port_table, &ingress_id);
	struct mrc_lossless_settings *flow;

	if (!ingress || ingress->kind == MRC_PORT_NIC)
		return 0;
	sender_id = ingress->peer_port;
	flow = bpf_map_lookup_elem(&lossless_settings, &sender_id);
	return flow && flow->flow_control ? sender_id + 1 : 0;
}

/* True if a frame may come to wait here. With credits, room was found before it was sent. */
static __always_inline int upstream_has_room(__u32 upstream, __u32 bytes)
{
	__u32 sender_id = upstream - 1;
	struct mrc_lossless_settings *flow = bpf_map_lookup_elem(&lossless_settings, &sender_id);
	struct mrc_lossless_link *link = bpf_map_lookup_elem(&lossless_links, &sender_id);

	return !flow || !link || flow->flow_control != MRC_FLOW_PFC ||
	       pfc_has_room(flow, link, bytes);
}

/* Time at which the sender gets what the far end of its link signals at time_ns. */
static __always_inline __u64 upstream_update_ns(const struct port_view *sender, __u64 time_ns)
{
	__u32 far_id = sender->port->peer_port;
	struct mrc_port *far = bpf_map_lookup_elem(&port_table, &far_id);

	return time_ns + (far ? far->delay_ns : 0);
}

/*
 * Bytes came to wait in the buffer at time_ns; with credits they did so when they were sent.
 * Global, as are the next ones, so that the verifier looks at it once.
 */
__noinline int ingress_charge(__u32 upstream, __u32 bytes, __u64 time_ns)
{
	struct port_view sender;
	__u64 update_ns;

	if (!port_find(upstream - 1, &sender, 1) || sender.flow->flow_control != MRC_FLOW_PFC)
		return 0;
	update_ns = upstream_update_ns(&sender, time_ns);
	bpf_spin_lock(&sender.queue->lock);
	pfc_charge(sender.flow, sender.link, bytes, update_ns);
	bpf_spin_unlock(&sender.queue->lock);
	return 0;
}

/* Bytes left the buffer at time_ns. */
__noinline int ingress_release(__u32 upstream, __u32 bytes, __u64 time_ns)
{
	struct port_events events;
	struct port_view sender;
	__u64 update_ns;

	if (!port_find(upstream - 1, &sender, 1))
		return 0;
	update_ns = upstream_update_ns(&sender, time_ns);
	bpf_spin_lock(&sender.queue->lock);
	if (sender.flow->flow_control == MRC_FLOW_PFC)
		pfc_release(sender.flow, sender.link, bytes, update_ns);
	else
		credit_release(sender.link, bytes, update_ns);
	port_plan(&sender, time_ns, &events);
	bpf_spin_unlock(&sender.queue->lock);
	port_schedule(&sender, upstream - 1, &events);
	return 0;
}

/* The half of lossless_catch_up() that needs the port's lock; the rest is in lossless_scratch. */
__noinline int lossless_begin_due(__u32 port_id, __u64 until_ns)
{
	__u32 zero = 0;
	struct lossless_releases *releases = bpf_map_lookup_elem(&lossless_scratch, &zero);
	struct port_events events;
	struct port_view view;
	int is_behind;

	if (!releases)
		return 0;
	releases->count = 0;
	if (!port_find(port_id, &view, 1))
		return 0;
	bpf_spin_lock(&view.queue->lock);
	is_behind = lossless_serve(&view, releases, until_ns);
	port_plan(&view, until_ns, &events);
	bpf_spin_unlock(&view.queue->lock);
	port_schedule(&view, port_id, &events);
	return is_behind;
}

/* The other half: updates the ports whose frames have left the buffer. */
__noinline int lossless_release_begun(void)
{
	__u32 zero = 0;
	struct lossless_releases *releases = bpf_map_lookup_elem(&lossless_scratch, &zero);

	if (!releases)
		return 0;
	for (__u32 i = 0; i < LOSSLESS_STEPS_MAX && i < releases->count; i++)
		ingress_release(releases->entry[i].upstream, releases->entry[i].bytes,
				releases->entry[i].time_ns);
	return 0;
}

/*
 * Serves a port under flow control up to until_ns. Returns 1 when there is more to begin than it
 * could begin in one go: the drainer goes on, or call again. Inlined, so that its two halves share
 * the stack.
 */
static __always_inline int lossless_catch_up(__u32 port_id, __u64 until_ns)
{
	int is_behind = lossless_begin_due(port_id, until_ns);

	lossless_release_begun();
	return is_behind;
}

/*
 * A switch is done with a frame. Credit that no descriptor took over goes back: the frame never
 * entered the buffer. And the drainer may send one more.
 */
__noinline int upstream_post_process(struct xdp_md *ctx)
{
	struct mrc_frame_time *time = frame_time(ctx);
	struct mrc_lossless_link *link;
	__u32 upstream, sender_id;

	if (!time)
		return 0;
	upstream = upstream_of(ctx);
	if (!upstream)
		return 0;
	sender_id = upstream - 1;
	link = bpf_map_lookup_elem(&lossless_links, &sender_id);
	if (link)
		__sync_fetch_and_add(&link->seen, 1);
	if (time->credit_bytes)
		ingress_release(upstream, time->credit_bytes, time->arrival_ns);
	return 0;
}

#endif

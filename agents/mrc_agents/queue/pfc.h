/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Priority flow control of one link (IEEE 802.1Qbb): the far end pauses the sender's data class
 * when its ingress buffer holds xoff_bytes, and lets it go on at xon_bytes.
 *
 * A pause holds until it is lifted; a real one would be repeated before its quanta run out. A frame
 * that carries it takes no time of the transmitter and arrives one propagation delay later.
 * All under the lock of the sending port.
 */
#ifndef MRC_QUEUE_PFC_H
#define MRC_QUEUE_PFC_H

#include <linux/types.h>
#include <queue/update.h>

static __always_inline void pfc_note_paused(struct mrc_lossless_link *link, __u64 time_ns)
{
	if (!link->paused_since_ns)
		link->paused_since_ns = time_ns;
}

/* Ends the account of a pause that neither the buffer nor force upholds any more. */
static __always_inline void pfc_note_resumed(struct mrc_lossless_link *link, __u64 time_ns)
{
	if (link->is_pause_sent || link->is_forced || !link->paused_since_ns)
		return;
	if (time_ns > link->paused_since_ns)
		link->paused_ns += time_ns - link->paused_since_ns;
	link->paused_since_ns = 0;
}

/* True if bytes more fit into the buffer of the far end. */
static __always_inline int pfc_has_room(const struct mrc_lossless_settings *settings,
					const struct mrc_lossless_link *link, __u32 bytes)
{
	return link->buffered_bytes + (__s32)bytes <= (__s32)settings->buffer_bytes;
}

/* A frame has come to wait at the far end; what it says to that arrives at update_ns. */
static __always_inline void pfc_charge(const struct mrc_lossless_settings *settings,
				       struct mrc_lossless_link *link, __u32 bytes, __u64 update_ns)
{
	link->buffered_bytes += bytes;
	if (link->buffered_bytes > (__s32)link->buffered_peak_bytes)
		link->buffered_peak_bytes = link->buffered_bytes;
	if (link->is_pause_sent || link->buffered_bytes < (__s32)settings->xoff_bytes)
		return;
	link->is_pause_sent = 1;
	link->pause_frames++;
	/* room is left for what ends the pause; without it the last of these is taken back, and the
	 * pause before it goes on */
	if (update_free(link) >= 2)
		update_append(link, update_ns, 1);
	else
		link->update_tail--;
	pfc_note_paused(link, update_ns);
}

/* A frame that waited there has begun to leave. */
static __always_inline void pfc_release(const struct mrc_lossless_settings *settings,
					struct mrc_lossless_link *link, __u32 bytes,
					__u64 update_ns)
{
	link->buffered_bytes -= bytes;
	if (!link->is_pause_sent || link->buffered_bytes > (__s32)settings->xon_bytes)
		return;
	link->is_pause_sent = 0;
	link->resume_frames++;
	update_append(link, update_ns, 0);
	pfc_note_resumed(link, update_ns);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Shared by the parts of the library: one fabric, its NICs, the queue of their events. */
#ifndef VIRTUAL_H
#define VIRTUAL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/abi.h>
#include <mrc/queue_abi.h>
#include <mrc/virtual_abi.h>

/* Not a NIC. */
#define VIRTUAL_NO_NIC (~0U)

/* ---- programs.c: the programs, and what of them the rest must know */

enum virtual_map_kind {
	VIRTUAL_FABRIC,
	VIRTUAL_NIC,
	VIRTUAL_SCRATCH,
};

struct virtual_map_entry {
	const char *name;
	struct virtual_map *map;
	enum virtual_map_kind kind;
	__u32 type;
	__u32 value_bytes;
	__u32 declared_count; /* max_entries of the source */
	__u32 count;	      /* as the topology wants it; 0: as declared */
	__u8 *base;	      /* of all instances */
	__u64 instance_bytes;
};

extern struct virtual_map_entry virtual_maps[];
extern const __u32 virtual_map_count;

int nic(struct xdp_md *ctx);
int forward(struct xdp_md *ctx);
int load(struct xdp_md *ctx);
int upstream_post_process(struct xdp_md *ctx);
void virtual_set_config(const void *config, __u32 bytes);
const struct mrc_port *virtual_port(__u32 port_id);
/* Shows virtual_observe() the frame that has crossed the link of an entry's port, if one has. */
void virtual_show_arrival(__u32 entry);
/* Requests frames of a QP from the entered NIC's program: it builds them in live frames. */
void virtual_request_tx(__u32 qp_index, __u32 frames);
struct mrc_work_ring *virtual_work_ring(__u32 qp_index); /* of the entered NIC */
__u32 virtual_event_room(void);				 /* bytes of a NIC's ring of events */
int virtual_is_event_ring(const void *ring);

/* ---- maps.c */
void virtual_enter_nic(__u32 nic);
__u32 virtual_entered_nic(void);
struct virtual_map_entry *virtual_find_map(const char *name);
void *virtual_allocate(__u64 bytes); /* zeros; 0: there is no room */
void virtual_release(void *memory, __u64 bytes);

/* ---- events.c */
enum virtual_event_kind {
	VIRTUAL_EVENT_PORT,  /* a: entry of the wheel */
	VIRTUAL_EVENT_TIMER, /* nic, a: generation, timer */
	VIRTUAL_EVENT_KICK,  /* nic, a: QP, b: frames */
};

struct virtual_event {
	__u64 time_ns;
	__u64 order; /* of events at one time; the kind in the lowest two bits */
	__u32 nic;
	__u32 a;
	union {
		struct bpf_timer *timer;
		__u32 b;
	};
};

void virtual_push(__u64 time_ns, enum virtual_event_kind kind, struct virtual_event event);
/* Takes the next event that is due by until_ns; 0 when there is none. */
int virtual_pop(__u64 until_ns, struct virtual_event *event);
void virtual_begin_events(__u64 seed, int shuffles_ties);
void virtual_end_events(void);
extern struct mrc_virtual_totals virtual_totals;

/* ---- timers.c */
void virtual_run_timer(const struct virtual_event *event);

/* ---- reports.c */
void virtual_begin_reports(__u32 nic_count);
void virtual_end_reports(void);
int virtual_has_reports(void);
int virtual_is_attended(__u32 nic);
/* Lets the loop return to Python although no NIC has reported anything. */
void virtual_call_python(void);
/* Takes those of messages of schedules; what that brings about may be reported in turn. */
void virtual_take_messages(void);

/* ---- messages.c */
void virtual_begin_messages(__u32 nic_count);
void virtual_end_messages(void);
int virtual_take_message(__u32 nic, const struct mrc_event *event);

/* ---- trace.c; more of it is in mrc/trace.h */
void virtual_trace_transfer(enum mrc_trace_kind kind, const struct mrc_message_schedule *schedule,
			    __u32 transfer, __u32 what);

/* ---- frames.c */
void virtual_begin_frames(const __u32 *nic_of_port, __u32 port_count);
void virtual_end_frames(void);
void virtual_run_port(__u32 entry);
void virtual_run_frames(__u32 nic, __u32 frames);

/* ---- rates.c */
int virtual_begin_rates(__u32 port_count);
void virtual_end_rates(void);
void virtual_observe(__u32 port_id, __u32 frame, const struct mrc_queue_descriptor *descriptor);

/* ---- payload.c */
__u64 virtual_bytes_of(const struct virtual_map_entry *entry); /* of all NICs */
int virtual_begin_payload(enum mrc_virtual_payload mode);
void virtual_end_payload(void);
__u32 virtual_frame_stride(__u32 stride, enum mrc_virtual_payload mode);

#endif

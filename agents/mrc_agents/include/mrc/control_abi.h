/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Messages of libmrc's control API between the library and the NIC agent: a struct mrc_control
 * behind the request of verb MRC_APPLICATION_CONTROL, and behind its reply.
 */
#ifndef MRC_CONTROL_ABI_H
#define MRC_CONTROL_ABI_H

#include <linux/types.h>
#include <mrc/limit_abi.h>

enum mrc_control_limit {
	MRC_CONTROL_FIELDS = 8, /* of an EV format */
	MRC_CONTROL_WORDS = 16,
};

enum mrc_control_object {
	MRC_CONTROL_DEVICE = 0, /* query only: words as enum mrc_control_word */
	/* fields[].width; a query has their number in field_count */
	MRC_CONTROL_EV_FORMAT = 1,
	MRC_CONTROL_EV_PROFILE = 2,
	/* words: struct mrc_ctl_cc_nscc_cfg, a word each; mode 0: no algorithm */
	MRC_CONTROL_CC_PROFILE = 3,
	MRC_CONTROL_PORT = 4, /* id: from 1; state: enum mrc_ctl_port_admin_state */
	/* entries: ev, port, peer; the reply has their rtt_ns, 0: none came in timeout_ns */
	MRC_CONTROL_PROBE = 5,
};

/* Places in words[] of MRC_CONTROL_DEVICE. */
enum mrc_control_word {
	MRC_CONTROL_FORMATS_MAX = 0,
	MRC_CONTROL_PROFILES_MAX = 1,
	MRC_CONTROL_EVS_MAX = 2,
	MRC_CONTROL_EVS_FREE = 3,
	MRC_CONTROL_EVS_PER_PROFILE = 4,
	MRC_CONTROL_EV_ALIGN = 5,
	MRC_CONTROL_EV_WIDTH = 6,
	MRC_CONTROL_CC_PROFILES_MAX = 7,
	MRC_CONTROL_PORT_MASK = 8, /* bit 1: port 1 */
	MRC_CONTROL_HAS_NSCC = 9,
};

/* As struct mrc_ctl_ev_field. */
struct mrc_control_field {
	__u32 width;
	__u32 init_val;
	__u32 min_val;
	__u32 max_val;
	__u32 mask;
};

struct mrc_control_entry {
	__u32 ev;
	__u32 ev_new;
	__u32 state; /* enum mrc_ctl_ev_state */
	__u32 peer;  /* index of a host */
	__u32 rtt_ns;
	__u8 port; /* from 1; 0 with ev 0: MRC_CTL_EV_UNPOPULATED */
	__u8 port_new;
	__u16 flags; /* enum mrc_ctl_ev_op_flags */
};

struct mrc_control {
	__u64 id;
	__u32 object; /* enum mrc_control_object */
	__u32 is_query;
	__u32 mask;  /* what is given or asked for, as the API's mask for the object has it */
	__u32 state; /* enum mrc_ctl_profile_state */
	__u32 cur_state;
	__u32 mode; /* enum mrc_ctl_ev_fmt_mode, mrc_ctl_ev_mode */
	__u32 format_id;
	__u32 count;
	__u32 min_active;
	__u32 event_mask; /* enum mrc_ctl_ev_state */
	__u32 op;	  /* enum mrc_ctl_ev_op */
	__u32 entry_count;
	__u32 field_count;
	__u32 timeout_ns;
	__u32 words[MRC_CONTROL_WORDS];
	struct mrc_control_field fields[MRC_CONTROL_FIELDS];
	struct mrc_control_entry entries[MRC_EV_MAX];
};

/* Record of the socket of MRC_APPLICATION_WATCH_EVS: an EV of a profile has changed its state. */
struct mrc_control_event {
	__u32 profile_id;
	__u32 ev;
	__u32 port; /* from 1 */
	__u32 drop_count;
	__u32 state; /* enum mrc_ctl_ev_state */
};

#endif

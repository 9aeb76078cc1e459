/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queue pairs of the reliable connection: RoCEv2 and what is built from it
 * (docs/explanation/transports.md). They share numbers, work rings, regions, events and counters
 * with the NIC's MRC queue pairs.
 */
#ifndef MRC_RC_ABI_H
#define MRC_RC_ABI_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <mrc/dcqcn_abi.h>
#include <mrc/limit_abi.h>
#include <mrc/qp_abi.h>
#include <mrc/work_abi.h>

enum mrc_rc_format {
	MRC_DSCP_RC = 26, /* data and acknowledgements of a reliable connection: never trimmed */
};

/* One packet under way, tx[psn % MRC_PSN_RING]. */
struct mrc_rc_slot {
	__u64 sent_ns;
	__u32 local_offset;
	__u32 remote_offset;
	__u32 message_bytes;
	__u16 length;
	__u8 opcode;
	__u8 work_index;
	__u8 is_resent;
	__u8 plane;
	__u8 pad0[6];
};

/* The requester. PSNs are free-running, the wire carries the low 24 bits. */
struct mrc_rc_req {
	__u32 window_packets; /* under way at most, whatever the rate allows; <= MRC_PSN_RING */
	__u32 ev_count;	      /* 1: one path. More: packets take turns, one EV after the other */
	__u32 next_psn;	      /* to be sent next: below max_psn, again */
	__u32 max_psn;	      /* one above the highest ever sent */
	__u32 una_psn;	      /* oldest whose acknowledgement has not been accounted for */
	__u32 acked_psn;      /* one above the highest acknowledged */
	__u32 next_ev;
	__u32 loss;	   /* enum mrc_loss: why packets below max_psn are sent again */
	__u32 is_rnr_wait; /* RNR: nothing leaves until rnr_until_ns */
	__u32 pad0;
	__u64 doorbell_ns; /* when a program last rang; 0: never */
	__u64 acked_bytes; /* payload */
	struct mrc_work_cursor work;
	__u32 evs[MRC_EV_MAX];
	struct mrc_rc_slot tx[MRC_PSN_RING];
};

/* The responder. */
struct mrc_rc_resp {
	__u32 cnp_interval_ns; /* least time between two CNPs */
	__u32 expected_psn;
	__u64 cnp_ns;	/* when the last CNP left */
	__u64 write_va; /* where the message being received goes on */
	__u32 write_r_key;
	__u32 write_left_bytes; /* of it; 0: none is under way */
	__u32 write_bytes;	/* its length */
	__u32 is_nak_sent;	/* and nothing in order has come since */
	__u32 completed_messages;
	__u32 delivered; /* WRITEs with immediate reported to the agent; free-running */

	/* is_any_order: of the PSNs from expected_psn on */
	__u32 delivered_psn;	  /* immediates below have been reported */
	__u32 waiting_immediates; /* taken, not yet reported */
	__u32 first_expected;	  /* the first PSN ever */
	__u32 pad0;
	__u32 placings[MRC_PSN_RING]; /* see place_begin() */
	__u64 received_bits[MRC_PSN_WORDS];
	__u64 immediate_bits[MRC_PSN_WORDS]; /* from delivered_psn on */
	struct mrc_immediate immediates[MRC_PSN_RING];
};

/*
 * A QP, requester and responder. Everything below `lock` changes only while it is held, but for the
 * parameters; user space writes a QP only in RESET.
 */
struct mrc_rc_qp {
	struct bpf_spin_lock lock;
	__u32 state; /* enum mrc_qp_state */
	struct bpf_timer timer;
	struct mrc_qp_head head;
	__u32 is_any_order; /* packets may overtake one another: each says where it goes */
	struct mrc_dcqcn_parameters cc;
	struct mrc_dcqcn dcqcn;
	struct mrc_rc_resp resp;
	struct mrc_rc_req req; /* last, as that of MRC */
};

#endif

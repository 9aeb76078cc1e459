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

/*
 * A QP, requester and responder. Everything below `lock` changes only while it is held, but for the
 * parameters; user space writes a QP only in RESET.
 */
struct mrc_rc_qp {
	struct bpf_spin_lock lock;
	__u32 state; /* enum mrc_qp_state */
	struct bpf_timer timer;

	/* identity and parameters, fixed from INIT on */
	__u32 qpn;
	__u32 peer_qpn;
	__u32 peer_host;
	__u32 is_local;	   /* both hosts on the same T0 */
	__u64 template_hi; /* carrier with plane and uplink 0; see carrier_fill() */
	__u64 template_lo;
	__u64 rto_ns;
	__u32 cnp_interval_ns; /* responder: least time between two CNPs */
	__u32 pmtu_bytes;
	__u32 window_packets; /* under way at most, whatever the rate allows; <= MRC_PSN_RING */
	__u32 retry_limit;
	__u32 ev_count; /* 1: one path. More: packets take turns, one EV after the other */
	struct mrc_dcqcn_parameters cc;
	__u32 is_any_order; /* packets may overtake one another: each says where it goes */
	__u64 give_up_ns;   /* without an acknowledgement, in place of retry_limit; 0: that */
	__u64 rnr_timer_ns; /* before a packet that found no receive is sent again */
	__u32 rnr_limit;    /* times in a row; MRC_RNR_FOREVER: no limit */
	__u32 pd;	    /* protection domain of the regions that the peer may write to */
	__u32 is_writable;  /* the peer may write at all */
	__u32 pad0;

	/* requester; PSNs are free-running, the wire carries the low 24 bits */
	struct mrc_dcqcn dcqcn;
	__u32 next_psn;	 /* to be sent next: below max_psn, again */
	__u32 max_psn;	 /* one above the highest ever sent */
	__u32 una_psn;	 /* oldest whose acknowledgement has not been accounted for */
	__u32 acked_psn; /* one above the highest acknowledged */
	__u32 next_ev;
	__u32 retries;
	__u32 is_kick_pending; /* a TX kick was requested, or is running */
	__u32 is_timer_armed;
	__u32 loss;	   /* enum mrc_loss: why packets below max_psn are sent again */
	__u32 is_rnr_wait; /* RNR: nothing leaves until rnr_until_ns */
	__u32 rnr_retries; /* waits in a row */
	__u32 pad1;
	__u64 rnr_until_ns;
	__u64 progress_ns;	/* last acknowledgement of something new, or RNR NAK */
	__u64 doorbell_ns;	/* when a program last rang; 0: never */
	__u64 stalled_ns;	/* progress_ns before the first of the time-outs in a row */
	__u64 timer_expired_ns; /* when the timer last expired or was started */
	__u64 acked_bytes;	/* payload */
	struct mrc_work_cursor work;
	__u32 evs[MRC_EV_MAX];
	struct mrc_rc_slot tx[MRC_PSN_RING];

	/* responder */
	__u64 cnp_ns;	/* when the last CNP left */
	__u64 write_va; /* where the message being received goes on */
	__u32 write_r_key;
	__u32 write_left_bytes; /* of it; 0: none is under way */
	__u32 write_bytes;	/* its length */
	__u32 expected_psn;
	__u32 is_nak_sent; /* and nothing in order has come since */
	__u32 completed_messages;
	__u32 delivered; /* WRITEs with immediate reported to the agent; free-running */
	/* responder: of the PSNs from expected_psn on, received_bits with is_any_order alone */
	__u32 delivered_psn;	      /* immediates below have been reported */
	__u32 waiting_immediates;     /* taken, not yet reported */
	__u32 first_expected;	      /* the first PSN ever */
	__u32 placings[MRC_PSN_RING]; /* see place_begin() */
	__u64 received_bits[MRC_PSN_WORDS];
	__u64 immediate_bits[MRC_PSN_WORDS]; /* from delivered_psn on */
	struct mrc_immediate immediates[MRC_PSN_RING];
};

#endif

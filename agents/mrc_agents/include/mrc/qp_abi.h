/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A QP of a NIC, requester and responder, with its EVs. */
#ifndef MRC_QP_ABI_H
#define MRC_QP_ABI_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <mrc/limit_abi.h>
#include <mrc/cc_abi.h>
#include <mrc/work_abi.h>

enum mrc_qp_state {
	MRC_QP_RESET = 0,
	MRC_QP_INIT = 1,
	MRC_QP_RTR = 2,
	MRC_QP_RTS = 3,
	MRC_QP_ERROR = 4,
};

enum mrc_ev_state {
	MRC_EV_UNUSED = 0,
	MRC_EV_GOOD = 1,
	MRC_EV_SKIP = 2,
	MRC_EV_ASSUMED_BAD = 3,
	MRC_EV_DENIED = 4,
	MRC_EV_STATE_COUNT = 5,
};

enum mrc_ev_reason {
	MRC_REASON_NONE = 0,
	MRC_REASON_LOSS = 1,	/* later acknowledgements passed a packet on it */
	MRC_REASON_TIMEOUT = 2, /* retransmission time-out */
	MRC_REASON_PROBE = 3,	/* enough EV probes acknowledged in a row */
	MRC_REASON_ECN = 4,
	MRC_REASON_TRIM = 5,
	MRC_REASON_ADMIN = 6,
	MRC_REASON_ADVICE = 7, /* SACK with ALWAYS_SKIP */
	MRC_REASON_TURN = 8,   /* its turn came: one turn lost */
	MRC_REASON_LATE = 9,   /* what was found lost on it had only been late */
	MRC_REASON_COUNT = 10,
};

struct mrc_ev {
	__u32 entropy;
	__u8 state; /* enum mrc_ev_state */
	__u8 reason;
	__u8 plane;
	__u8 probe_successes;
	__u32 position;	 /* where order[] holds this EV */
	__u32 bad_count; /* times it became ASSUMED_BAD */
	__u64 changed_ns;
	__u64 tx_packets;
	__u64 lost_packets;
	__u64 marks;
	__u32 rtt_ns;		/* last sample */
	__u32 is_probe_pending; /* the last EV probe on it has no response yet */
	__u32 outstanding;	/* packets on it neither acknowledged nor declared lost */
	__u32 path;		/* that it names, paths[]; several EVs may name one */
};

/*
 * ev_transitions[plane], per-CPU array: how often an EV went from one state to another for a
 * reason, at (from * MRC_EV_STATE_COUNT + to) * MRC_REASON_COUNT + reason.
 */
struct mrc_ev_transitions {
	__u64 value[MRC_EV_STATE_COUNT * MRC_EV_STATE_COUNT * MRC_REASON_COUNT];
};

/*
 * EVs of one plane occupy order[plane * evs_per_plane ...): first active_count active ones, then
 * backup_count GOOD spares, then the rest (ASSUMED_BAD, DENIED).
 */
struct mrc_ev_plane {
	__u16 active_count;
	__u16 backup_count;
	__u16 cursor;
	__u16 target_active;
	__u32 outstanding; /* packets on it neither acknowledged nor declared lost */
	__u32 pad0;
	__u64 suspect_uplinks; /* bit uplink % 64: an EV on it fell and none has come back since */
};

/*
 * A path, and its packets that are under way. Head and tail are slots of tx[], older and newer
 * paths; none of the four means anything while nothing is outstanding.
 */
struct mrc_path {
	__u16 head;  /* sent first */
	__u16 tail;  /* sent last */
	__u16 older; /* neighbours in the list of paths in use, by last acknowledgement */
	__u16 newer;
	__u32 outstanding;
	__u32 last_ack;	 /* qp.acked_total at its last acknowledgement, or first use since */
	__u16 passed;	 /* packets sent after the head that arrived while the head is missing */
	__u8 is_dead;	 /* found idle, and nothing acknowledged on it since */
	__u8 skipped_ev; /* of the EVs that name it the one last put into SKIP */
};

/* One outstanding packet, tx[psn % MRC_PSN_RING]. */
struct mrc_tx_slot {
	__u64 sent_ns;	     /* when the NIC's port was given it */
	__u32 port_wait_ns;  /* from then on until the port began to send it */
	__u32 acked_at_send; /* qp.acked_total when it left */
	__u32 local_offset;  /* in the NIC's memory */
	__u32 remote_offset; /* RETH.va */
	__u16 length;
	__u16 msn;
	__u8 work_index;
	__u8 ev_index;
	__u8 opcode;
	__u8 retransmissions;
	__u8 loss; /* enum mrc_loss: how the last loss was found */
	__u8 path; /* that its EV named when it left */
	__u16 rqmsn;
	__u16 path_prev; /* slots: neighbours among the packets under way on its path */
	__u16 path_next;
	__u16 window_packets; /* that the window let go when it left */
	__u16 order;	      /* of all packets sent, modulo 2^16 */
	__u16 lost_at;	      /* that EV's lost_packets then, modulo 2^16 */
	__u8 lost_ev;	      /* which left when the first transmission was declared lost */
	__u8 has_lost_ev;
};

/* Why a packet is sent again. */
enum mrc_loss {
	MRC_LOSS_NONE = 0,
	MRC_LOSS_SACK,	  /* later acknowledgements passed it */
	MRC_LOSS_TIMEOUT, /* nothing was acknowledged for too long */
	MRC_LOSS_NACK,	  /* the responder refused it */
	MRC_LOSS_ACK,	  /* not lost: retransmitted to request a transport ACK */
	MRC_LOSS_TLP,	  /* perhaps lost: retransmitted as a tail loss probe */
};

/* A WRITE with immediate that has arrived whole, by its number % MRC_WIMM_MAX. */
struct mrc_immediate {
	__u32 immediate;
	__u32 length;
	__u32 r_key;
};

/* An EV of one plane on which the peer is known to be reached. */
struct mrc_ack_path_ev {
	__u32 entropy;
	__u32 is_good; /* else none is known */
	__u32 probe;   /* id of the probe under way, + 1 << 16; 0: none */
	__u32 probed;  /* the EV that it is on */
};

/*
 * The common part of a QP of MRC and a reliable connection: identity and parameters, fixed from INIT
 * on (a program may change limits and is_writable), and the clock of the requester.
 */
struct mrc_qp_head {
	__u32 qpn;
	__u32 peer_qpn;
	__u32 peer_host;
	__u32 distance;	   /* tier that joins both hosts; 0: they share their T0s */
	__u64 template_hi; /* carrier with plane and uplink 0; see carrier_fill() */
	__u64 template_lo;
	__u32 pmtu_bytes;
	__u32 pd;	   /* protection domain of the regions that the peer may write to */
	__u32 is_writable; /* the peer may write at all */
	__u32 retry_limit;
	__u32 rnr_limit; /* times in a row; MRC_RNR_FOREVER: no limit */
	__u32 pad0;
	__u64 rto_ns;
	__u64 give_up_ns;   /* without an acknowledgement, in place of retry_limit; 0: that */
	__u64 rnr_timer_ns; /* before a packet that found no receive is sent again */

	/* the requester's clock */
	__u32 retries;
	__u32 rnr_retries;
	__u32 is_kick_pending; /* a TX kick was requested, or is running */
	__u32 is_timer_armed;
	__u64 rnr_until_ns;
	__u64 progress_ns;  /* last acknowledgement of something new */
	__u64 stalled_ns;   /* last acknowledgement before the time-outs counted by `retries` */
	__u64 timer_due_ns; /* when the timer is to expire next */
};

/* The requester: what is sent, and what is sent again. */
struct mrc_req {
	__u32 pmtu_shift;    /* log2 of pmtu_bytes */
	__u32 requests_sack; /* set BTH.a where it would run dry */
	__u32 mpr_psns;	     /* PSNs above the left edge that may be used */
	__u32 max_wimm;	     /* WRITEs with immediate that may be outstanding */
	__u32 next_psn;	     /* free-running; the wire carries the low 24 bits */
	__u32 inflight;	     /* packets sent, neither acknowledged nor declared lost */
	__u32 lost_count;
	__u32 held_count;	/* packets that found no receive, and wait for rnr_until_ns */
	__u32 is_ack_requested; /* a packet was retransmitted to request the missing ACK */
	__u32 next_plane;	/* may equal plane_count or more: wraps */
	__u32 rto_retx_left;	/* retransmissions that may leave though the window is full */
	__u32 next_rqmsn;	/* WRITEs with immediate begun; free-running */
	__u32 outstanding_wimm; /* of them, not yet acknowledged */
	__u32 sent_order;	/* packets sent, retransmissions among them; free-running */
	__u64 last_sent_ns;	/* when the last packet leaves the NIC's port */
	__u64 timer_kick_ns;	/* when it last requested a TX kick */
	__u64 idle_since_ns;	/* since when much of the window lies idle; 0: it does not */
	__s64 idle_min_bytes;	/* window unused since the timer's last TX kick */
	struct mrc_work_cursor work;
	__u64 wimm_messages;		/* bit msn % 64: the message has an immediate */
	__u64 lost_bits[MRC_PSN_WORDS]; /* by psn % ring: to be retransmitted */
	__u64 held_bits[MRC_PSN_WORDS]; /* by psn % ring: to be so at rnr_until_ns */
	struct mrc_tx_slot tx[MRC_PSN_RING];
};

/* The completer: what is acknowledged, and what is found lost. */
struct mrc_comp {
	__u32 loss_threshold_acks; /* other acknowledgements that prove a packet lost */
	__u32 reorder_packets;	   /* that may overtake another on one path */
	__u32 linear_count;	   /* time-outs in a row before the time-out doubles */
	__u32 exponential_count;   /* times it doubles at most */
	__u32 byte_time_ps;	   /* serialisation of a byte, all links of a path together */
	__u32 pad0;
	__u64 rto_min_ns;     /* floor of the measured RTO; rto_ns: it is not measured */
	__u64 pto_min_ns;     /* floor of the silence before a tail loss probe; 0: none is sent */
	__u64 reo_wnd_min_ns; /* floor of RACK's reordering window; 0: no RACK */

	/* what has been acknowledged */
	__u32 una_psn;	      /* oldest unacknowledged */
	__u32 peer_cack_next; /* one above the highest cumulative acknowledgement seen */
	__u32 acked_total;
	__u32 acked_msn;	   /* messages acknowledged by a transport ACK, 16 bits */
	__u64 acked_bytes;	   /* payload */
	__u64 acked_nominal_bytes; /* what CC_STATE would count of the packets known to be there */

	/* round-trip time */
	__u64 rtt_ns;  /* the last measured */
	__u32 srtt_ns; /* 0: there has been no sample */
	__u32 rttvar_ns;
	__u32 srtt_fraction;   /* of a ns, in units of 2^-32 */
	__u32 rttvar_fraction; /* the same */

	/* RACK and TLP */
	__u16 is_tlp_due;    /* the timer has requested a TX kick for a tail loss probe */
	__u16 tlp_count;     /* sent since something was last acknowledged */
	__u32 tlp_ev;	     /* that the packet which the last one repeats was sent on before */
	__u16 rack_order;    /* RACK: of the acknowledged packet that was sent last, and once */
	__u8 reo_wnd_steps;  /* by which its reordering window has grown */
	__u8 reo_wnd_losses; /* that RACK has to find before it shrinks again */
	__u32 pad1;
	__u64 acked_bits[MRC_PSN_WORDS]; /* by psn % ring: acknowledged */
};

/* The paths of a requester. Those with packets under way are a list, by last acknowledgement. */
struct mrc_paths {
	__u32 is_shared; /* EVs name paths that other QPs of the NIC use as well */
	__u32 nic_base;	 /* place in nic_paths of the path by plane 0 and uplink 0 */
	__u32 way_count; /* paths of a plane, hence places from one to the next */
	__u32 busy;	 /* with packets under way */
	__u16 oldest;
	__u16 newest;
	struct mrc_path path[MRC_EV_MAX];
};

/* The EVs of a requester, plane by plane. */
struct mrc_ev_table {
	__u32 plane_count;
	__u32 per_plane;
	__u32 min_active; /* EVs never fall below this many active ones */
	__u32 probe_success_target;
	__u32 active_total;
	__u32 active_planes;	/* bit i: plane i has active EVs */
	__u32 peer_port_mask;	/* bit i: the peer says that its port to plane i works */
	__u32 peer_sack_down;	/* bit i: its newest SACK says that its port to plane i does not */
	__u32 peer_port_update; /* request id of the update that said so, + 1 << 16; 0: none */
	__u32 pad0;
	struct mrc_ev_plane planes[MRC_PLANE_MAX];
	__u64 own[MRC_EV_OWN_WORDS]; /* the EV selector's: ev_own() */
	__u8 order[MRC_EV_MAX];
	struct mrc_ev ev[MRC_EV_MAX];
};

/* The responder. */
struct mrc_resp {
	__u32 mpr_dest_psns;	/* PSNs above cack_psn that are tracked */
	__u32 max_wimm_dest;	/* WRITEs with immediate that are held back */
	__u32 sack_every;	/* packets per SACK */
	__u32 is_mpr_dynamic;	/* both ends change the PSN range by SACK.mpr */
	__u32 tracked_psns;	/* above cack_psn: what bitmap there is, at most mpr_dest_psns */
	__u32 tracked_from_psn; /* cack_next from which on no more are tracked */
	__u32 cack_next;	/* first PSN not yet received; cack_psn = cack_next - 1 */
	__u32 max_received;
	__u64 received_bytes; /* nominal bytes */
	struct mrc_cc_responder cc_responder;
	__u32 received_above; /* packets received above cack_psn */
	__u32 sack_count;
	__u32 unsacked;		    /* packets received since the last SACK */
	__u32 is_ack_owed;	    /* messages completed, but not yet acknowledged */
	__u32 completed_messages;   /* in order, free-running */
	__u32 completed_psn;	    /* last PSN of the last of them */
	__u32 completed_wimm;	    /* of them, those with immediate; free-running */
	__u32 delivered_wimm;	    /* of those, reported to the agent */
	__u32 penalty;		    /* that SACKs request, in 1/128 of the bytes received */
	__u32 restores_left;	    /* SACKs that are still to say that a penalty has ended */
	__u64 nak_ns;		    /* when a packet was last refused as not expected */
	__u64 ack_path_probe_ns;    /* when MRC_ACK_PATH_SPACING packets had come last */
	__u32 ack_path_rtt_ns;	    /* of the last ACK-path probe; 0: none was acknowledged */
	__u32 ack_path_next_plane;  /* plane of the next one; may be one too high: wraps */
	__u32 since_ack_path_probe; /* packets */
	__u32 first_expected;	    /* the first PSN ever */
	struct mrc_ack_path_ev ack_path[MRC_PLANE_MAX];
	__u32 placings[MRC_PSN_RING]; /* see place_begin() */
	__u64 received_bits[MRC_PSN_WORDS];
	__u64 end_bits[MRC_PSN_WORDS];	/* by psn % ring: received, and the last of its message */
	__u64 wimm_bits[MRC_PSN_WORDS]; /* of these: with immediate */
	struct mrc_immediate immediates[MRC_WIMM_MAX];
};

/*
 * A QP, requester and responder. Everything below `lock` changes only while it is held, but for the
 * fields that say otherwise; user space writes a QP only in RESET. Linux 6.1 finds lock and timer only
 * at the top.
 */
struct mrc_qp {
	struct bpf_spin_lock lock;
	__u32 state; /* enum mrc_qp_state */
	struct bpf_timer timer;
	struct mrc_qp_head head;
	struct mrc_cc_parameters cc_parameters;
	__u16 ev_profile; /* 1 + number of the EV profile that it was created with; 0: none */
	__u16 cc_profile; /* likewise, of the CC profile */
	struct mrc_cc cc;
	struct mrc_comp comp;
	struct mrc_paths paths;
	struct mrc_ev_table evs;
	struct mrc_resp resp;
	struct mrc_req req; /* last: the offset of an instruction does not reach beyond its tx[] */
};

#endif

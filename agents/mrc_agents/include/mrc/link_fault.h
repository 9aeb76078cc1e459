/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The effect of a link's faults on a frame that leaves through its port. Called where frames leave,
 * by emit.h (unshaped) and drain.h (shaped), and only for ports with mrc_port.is_faulted.
 *
 * Every rule looks at every frame it is about, whatever the others do to it: so the n-th frame
 * has the same verdict under a rule in every run with the same seed, alone or among other faults.
 */
#ifndef MRC_LINK_FAULT_H
#define MRC_LINK_FAULT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <mrc/draw.h>
#include <mrc/fabric_maps.h>
#include <mrc/map.h>
#include <mrc/wire.h>

enum {
	FAULT_FLIP_SLOTS = 8, /* bytes looked at per rule: neighbouring bits lie in 5 at most */
};

struct fault_lock {
	struct bpf_spin_lock lock;
	__u32 pad0;
};

/* By port id: frames of a port may leave on several CPUs at once. */
INDEX_MAP(ARRAY, fault_locks, struct fault_lock, 1);

/* The verdict on one frame. */
struct fault_verdict {
	__u32 drop; /* enum mrc_port_counter; 0: it is not lost */
	__u32 is_altered;
	__u32 is_duplicated;
	__u32 is_reordered_by; /* index of the rule + 1: that of the longest time */
	__u64 delay_ns;
	__u64 reorder_ns;
	__u32 flipped_bits[MRC_FAULT_RULES]; /* by rule; 0: it flips none */
	__u32 flip_draw[MRC_FAULT_RULES];
};

/* The verdict on the frame that this CPU is sending. */
INDEX_MAP(PERCPU_ARRAY, fault_verdicts, struct fault_verdict, 1);

/* The fields of a frame that rules match. */
struct fault_view {
	__u32 entropy;
	__u32 is_mrc;	 /* it carries an EV */
	__u32 bth_bytes; /* in front of the BTH; 0: it has no iCRC that would tell a flipped bit */
};

/*
 * True if a rule acts at now_ns. It ends by itself, so that its end needs no process; in the n-th
 * period of a flap the outage begins by draw n of the flap's seed. acts() of
 * mrc_testbed/fabric/port_fault.py is the same in Python.
 */
static __always_inline int fault_acts(const struct mrc_fault_rule *rule, __u64 now_ns)
{
	__u64 every_ns = rule->every_ns, period, late_ns;

	if (!*(volatile const __u32 *)&rule->action || (rule->end_ns && now_ns >= rule->end_ns))
		return 0;
	if (!every_ns)
		return 1;
	now_ns -= rule->begin_ns;
	period = now_ns / every_ns;
	/* scaled down first, or 4.3 s of it overflow */
	late_ns = (rule->late_ns >> 8) * seeded_draw(rule->flap_seed, period) >> 24;
	return now_ns - period * every_ns - late_ns < rule->down_ns;
}

/* True if a rule hits the frame. Under the lock. */
static __always_inline int fault_hits(const struct mrc_fault_rule *rule,
				      struct mrc_fault_account *account, __u32 traffic_class,
				      __u64 now_ns, __u64 *sequence)
{
	__u64 chance_q32;
	__u32 seed = rule->seed, draw;

	if (account->id != rule->id) {
		__builtin_memset(account, 0, sizeof(*account));
		account->id = rule->id;
	}
	*sequence = account->matched_frames++ * 4;
	chance_q32 = account->is_in_burst ? rule->burst_chance_q32 : rule->chance_q32;
	if (rule->burst_begins_q32) {
		draw = seeded_draw(seed, *sequence + 1);
		if (draw < (account->is_in_burst ? rule->burst_ends_q32 : rule->burst_begins_q32))
			account->is_in_burst ^= 1;
	}
	if (seeded_draw(seed, *sequence) >= chance_q32)
		return 0;
	account->hit_frames++;
	if (traffic_class != MRC_CLASS_DATA)
		return 1;
	/* EV probes on a dead path are meant to be lost, and say nothing about who still uses it */
	account->hit_data_frames++;
	if (!account->first_hit_ns)
		account->first_hit_ns = now_ns;
	account->last_hit_ns = now_ns;
	return 1;
}

/* Writes what a rule that hit does into the verdict. Under the lock. */
static __always_inline void fault_apply(struct fault_verdict *verdict,
					const struct mrc_fault_rule *rule, __u32 index,
					__u64 sequence)
{
	__u64 jitter_ns;
	__u32 draw;

	switch (rule->action) {
	case MRC_FAULT_DOWN:
		verdict->drop = MRC_PC_DROP_LINK_DOWN;
		return;
	case MRC_FAULT_LOSE:
		if (!verdict->drop)
			verdict->drop = MRC_PC_DROP_LOSS;
		return;
	case MRC_FAULT_CORRUPT:
		verdict->flipped_bits[index] = rule->flipped_bits;
		verdict->flip_draw[index] = seeded_draw(rule->seed, sequence + 2);
		break;
	case MRC_FAULT_DUPLICATE:
		verdict->is_duplicated = 1;
		break;
	case MRC_FAULT_DELAY:
		draw = seeded_draw(rule->seed, sequence + 2);
		/* from -jitter to +jitter; scaled down first, or two seconds of it overflow */
		jitter_ns = (rule->jitter_ns >> 8) * 2 * draw >> 24;
		verdict->delay_ns += rule->time_ns + jitter_ns - rule->jitter_ns;
		break;
	case MRC_FAULT_REORDER:
		if (rule->time_ns > verdict->reorder_ns) {
			verdict->reorder_ns = rule->time_ns;
			verdict->is_reordered_by = index + 1;
		}
		break;
	default:
		return;
	}
	verdict->is_altered = 1;
}

/*
 * Decides what the faults of a port do to a frame, and counts it. The verdict is in
 * fault_verdicts[0]. Returns the reason of a drop, or 0.
 */
static __noinline __u32 fault_decide(__u32 port_id, __u32 traffic_class, __u32 entropy,
				     __u32 is_mrc)
{
	__u32 zero = 0;
	struct mrc_port_fault *fault = bpf_map_lookup_elem(&port_fault, &port_id);
	struct mrc_fault_accounts *accounts = bpf_map_lookup_elem(&fault_accounts, &port_id);
	struct fault_lock *guard = bpf_map_lookup_elem(&fault_locks, &port_id);
	struct fault_verdict *verdict = bpf_map_lookup_elem(&fault_verdicts, &zero);
	__u64 now_ns = bpf_ktime_get_ns();

	if (!fault || !accounts || !guard || !verdict)
		return 0;
	__builtin_memset(verdict, 0, sizeof(*verdict));
	bpf_spin_lock(&guard->lock);
	for (__u32 i = 0; i < MRC_FAULT_RULES; i++) {
		const struct mrc_fault_rule *rule = &fault->rule[i];
		__u64 sequence;

		if (!fault_acts(rule, now_ns))
			continue;
		if (!(rule->classes >> traffic_class & 1))
			continue;
		if (rule->ev_mask && (!is_mrc || (entropy & rule->ev_mask) != rule->ev_value))
			continue;
		if (fault_hits(rule, &accounts->rule[i], traffic_class, now_ns, &sequence))
			fault_apply(verdict, rule, i, sequence);
	}
	bpf_spin_unlock(&guard->lock);
	if (verdict->drop)
		port_count(port_id, verdict->drop, 1);
	return verdict->drop;
}

/*
 * Reads the fields that rules match from a frame. One IPv6 header or two; the EV is in the last
 * one's flow label and in the UDP source port.
 */
static __always_inline void fault_see(struct fault_view *view, const void *bytes, const void *end)
{
	const struct wire_ipv6 *outer = bytes + sizeof(struct wire_eth), *ip = outer;
	const void *bth = bytes + sizeof(struct wire_stack) - sizeof(struct wire_bth);
	const struct wire_udp *udp;
	__u32 dscp;

	view->is_mrc = view->bth_bytes = view->entropy = 0;
	if ((const void *)(outer + 1) > end ||
	    *(const __be16 *)(bytes + 12) != bpf_htons(WIRE_ETH_P_IPV6))
		return;
	if (outer->next_header == WIRE_NEXT_HEADER_IPV6)
		ip = outer + 1;
	else
		bth -= sizeof(struct wire_ipv6);
	udp = (const void *)(ip + 1);
	if ((const void *)(udp + 1) > end || ip->next_header != WIRE_NEXT_HEADER_UDP)
		return;
	view->is_mrc = 1;
	view->entropy = bpf_ntohl(ip->version_class_flow) << 16 | bpf_ntohs(udp->source);
	dscp = bpf_ntohl(outer->version_class_flow) >> 22 & 0x3f;
	/* a trimmed frame has lost its iCRC: nothing would tell that it was corrupted */
	if (dscp != MRC_DSCP_TRIMMED && dscp != MRC_DSCP_TRIMMED_LASTHOP)
		view->bth_bytes = bth - bytes;
}

/* A byte that a rule flips bits of. */
struct fault_flip {
	__u32 offset; /* from the frame's first byte */
	__u8 mask;    /* 0: no more */
};

/* The index-th byte that rule flips in a frame with room_bytes from `begin` on. */
static __always_inline struct fault_flip fault_flip_at(const struct fault_verdict *verdict,
						       __u32 rule, __u32 index, __u32 begin,
						       __u32 room_bytes)
{
	__u32 bits = verdict->flipped_bits[rule];
	struct fault_flip flip = {};
	__u64 first;

	if (!bits || bits > MRC_FAULT_FLIPPED_MAX)
		return flip;
	first = (__u64)verdict->flip_draw[rule] * (room_bytes * 8 - bits + 1) >> 32;
	flip.offset = begin + first / 8 + index;
	flip.mask = ((1ULL << bits) - 1) << (first & 7) >> (8 * index);
	return flip;
}

/* Bytes behind the BTH in which bits may flip; 0: none may. */
static __always_inline __u32 fault_room_bytes(__u32 bth_bytes, __u32 length_bytes)
{
	__u32 room_bytes = length_bytes - bth_bytes - sizeof(struct wire_bth);

	if (!bth_bytes || room_bytes < MRC_FAULT_FLIPPED_MAX / 8 ||
	    room_bytes > MRC_FRAME_BYTES_MAX)
		return 0;
	return room_bytes;
}

/* Flips what the verdict says in a frame that is about to leave. */
static __noinline int fault_corrupt(struct xdp_md *ctx, __u32 bth_bytes)
{
	struct fault_verdict *verdict;
	__u64 frame_bytes = ctx->data_end - ctx->data;
	__u32 zero = 0, room_bytes;

	barrier_var(frame_bytes); /* or clang subtracts one pointer at a time */
	room_bytes = fault_room_bytes(bth_bytes, frame_bytes);
	verdict = bpf_map_lookup_elem(&fault_verdicts, &zero);
	if (!verdict || !room_bytes)
		return 0;
	for (__u32 i = 0; i < MRC_FAULT_RULES * FAULT_FLIP_SLOTS; i++) {
		struct fault_flip flip =
		    fault_flip_at(verdict, i / FAULT_FLIP_SLOTS, i % FAULT_FLIP_SLOTS,
				  bth_bytes + sizeof(struct wire_bth), room_bytes);
		__u8 byte;

		if (!flip.mask || bpf_xdp_load_bytes(ctx, flip.offset, &byte, 1))
			continue;
		byte ^= flip.mask;
		bpf_xdp_store_bytes(ctx, flip.offset, &byte, 1);
	}
	return 0;
}

/*
 * Applies the faults of a port whose link has no delay and no queue: loses or corrupts the frame.
 * Returns the counter of the drop, or 0.
 */
static __always_inline __u32 link_fault_apply(struct xdp_md *ctx, __u32 port_id,
					      __u32 traffic_class)
{
	__u32 zero = 0, drop;
	struct fault_verdict *verdict;
	struct fault_view view;

	fault_see(&view, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	drop = fault_decide(port_id, traffic_class, view.entropy, view.is_mrc);
	if (drop)
		return drop;
	verdict = bpf_map_lookup_elem(&fault_verdicts, &zero);
	if (verdict && verdict->is_altered)
		fault_corrupt(ctx, view.bth_bytes);
	return 0;
}

#endif

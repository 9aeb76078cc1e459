// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A reliable connection in XDP, as RoCEv2 has it: one path per QP, in order, go-back-N, DCQCN; with
 * several EVs the same over sprayed packets (docs/explanation/transports.md). The NIC's program
 * calls this one for packets with opcodes of the reliable connection, and for TX kicks of such a
 * QP.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <mrc/abi.h>
#include <mrc/wire.h>
#include <mrc/usid.h>
#include <mrc/psn.h>
#include <mrc/histogram.h>
#include <mrc/fabric_maps.h>
#include <mrc/emit.h>
#include "comp.h"
#include "ctrl.h"
#include "req.h"
#include "resp.h"

/* The frame becomes a packet of the QP, if it has one to send. */
static __always_inline int rc_on_transmit(__u32 qp_index, struct tx_desc *desc)
{
	desc->qp_index = qp_index;
	desc->now_ns = bpf_ktime_get_ns();
	desc->model_ns = desc->now_ns;
	if (!rc_next_packet(qp_index))
		return XDP_DROP;
	nic_count(MRC_NC_KICK_PACKETS, 1);
	return MRC_STAGE_SEND_DATA;
}

/*
 * A program rings for each request. What the agent is about to send, and what acknowledgements
 * carry while the window is all but full, is left to them: packets of this CPU would overtake
 * theirs, and the peer takes packets in order only. In an unshaped lab a sixth was sent again.
 */
static __always_inline int rc_on_doorbell(__u32 qp_index, struct tx_desc *desc)
{
	struct mrc_rc_qp *qp = rc_find(qp_index);
	__u32 inflight, room;

	if (!qp)
		return XDP_DROP;
	inflight = qp->req.next_psn - qp->req.acked_psn;
	room = rc_packets_allowed(qp);
	if (qp->req.acked_psn != qp->req.max_psn &&
	    (qp->head.is_kick_pending || room <= (inflight + room) / RC_IDLE_SHARE))
		return XDP_DROP;
	qp->req.doorbell_ns = bpf_ktime_get_ns();
	return rc_on_transmit(qp_index, desc);
}

static __always_inline int rc_on_kick(struct xdp_md *ctx)
{
	struct mrc_kick *request = lookup0(&kick);
	struct mrc_doorbell *doorbell = frame_head(ctx, sizeof(*doorbell));
	struct tx_desc *desc = lookup0(&tx_descs);
	struct mrc_rc_qp *qp;
	int verdict;

	if (!request || !desc)
		return XDP_DROP;
	if (doorbell && doorbell->magic == MRC_DOORBELL_RC_MAGIC)
		return rc_on_doorbell(doorbell->qp_index, desc);
	if (request->mode == MRC_KICK_RC_COMMAND)
		return rc_ctrl_run(request);
	qp = rc_find(request->qp_index);
	if (!qp)
		return XDP_DROP;
	request->frames_left--;
	qp->head.is_kick_pending = request->frames_left != 0;
	if (!request->frames_left)
		rc_rto_timer_check(request->qp_index);
	verdict = rc_on_transmit(request->qp_index, desc);
	if (verdict == XDP_DROP)
		qp->head.is_kick_pending = 0;
	return verdict;
}

/* The NIC's program has checked the stack, up to and including its lengths. */
static __always_inline int rc_on_frame(struct xdp_md *ctx)
{
	__u32 ingress_id = ctx->ingress_ifindex - MRC_IFINDEX_BASE;
	struct mrc_port *port = bpf_map_lookup_elem(&port_table, &ingress_id);
	struct wire_stack *head = frame_head(ctx, sizeof(*head));

	if (!port || !head)
		return nic_drop(MRC_NC_DROP_MALFORMED);
	switch (head->bth.opcode) {
	case RC_WRITE_FIRST:
	case RC_WRITE_MIDDLE:
	case RC_WRITE_LAST:
	case RC_WRITE_LAST_IMMEDIATE:
	case RC_WRITE_ONLY:
	case RC_WRITE_ONLY_IMMEDIATE:
		return rc_on_write(ctx, port->plane);
	case RC_ACKNOWLEDGE:
		return rc_on_ack(ctx, 0);
	case RC_CNP:
		return rc_on_ack(ctx, 1);
	default:
		return nic_drop(MRC_NC_DROP_OPCODE);
	}
}

/* Takes a frame through one stage before MRC_STAGE_TRANSMIT; returns the next one. */
static __always_inline int rc_run_stage(struct xdp_md *ctx, int stage)
{
	struct tx_desc *desc = lookup0(&tx_descs);

	if (!desc)
		return XDP_DROP;
	switch (stage) {
	case MRC_STAGE_COMPLETE:
		return rc_stage_complete(desc);
	case MRC_STAGE_NEXT_PACKET:
		return rc_next_packet(desc->qp_index) ? MRC_STAGE_SEND_DATA : XDP_DROP;
	case MRC_STAGE_SEND_DATA:
		return rc_xmit_data(ctx);
	default:
		return rc_xmit_response(ctx);
	}
}

SEC("xdp")
int rc(struct xdp_md *ctx)
{
	int next = nic_is_kick(ctx) ? rc_on_kick(ctx) : rc_on_frame(ctx);

#pragma clang loop unroll(full)
	for (int stage = MRC_STAGE_COMPLETE; stage <= MRC_STAGE_SEND_RESPONSE; stage++) {
		if (next == stage)
			next = rc_run_stage(ctx, stage);
	}
	return next >= MRC_STAGE_TRANSMIT ? nic_xmit(ctx, next) : next;
}

char _license[] SEC("license") = "Dual BSD/GPL";

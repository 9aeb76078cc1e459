// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A NIC in XDP: requester and responder of Multipath Reliable Connection
 * (docs/reference/protocol.md).
 *
 * Two things run this program. A frame that arrives on a port is data to place, feedback that
 * becomes the next data packet, or a probe. A live-frame run of BPF_PROG_TEST_RUN (a "kick", whose
 * frames come from loopback) is a TX kick: the agent provides frames for the first window of a QP,
 * for window that no ACK will clock out, for probes. An application provides frames by doorbells.
 * There is no other way to start a send.
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
#include "endpoint.h"
#include "icrc.h"
#include "link_probe.h"
#include "nic_maps.h"
#include "packet.h"
#include "probe.h"
#include "rc/wire.h"
#include "recovery.h"
#include "req.h"
#include "resp.h"
#include "rto_timer.h"
#include "sack.h"
#include "stage.h"
#include "xmit.h"

/* Indices of nic_transports. */
enum nic_transport {
	NIC_TRANSPORT_RC = 0,
};

/* The frame becomes a packet of the QP, if it has one to send. */
static __always_inline int on_transmit(__u32 qp_index, struct tx_desc *desc)
{
	struct mrc_qp *qp = bpf_map_lookup_elem(&qps, &qp_index);

	if (!qp)
		return XDP_DROP;
	desc->qp_index = qp_index;
	desc->now_ns = bpf_ktime_get_ns();
	desc->model_ns = desc->now_ns;
	if (qp->comp.is_tlp_due)
		tlp_send_probe(qp_index, desc->now_ns);
	if (!build_next_packet(qp_index)) {
		qp->head.is_kick_pending = 0;
		return XDP_DROP;
	}
	nic_count(MRC_NC_KICK_PACKETS, 1);
	return MRC_STAGE_SEND_DATA;
}

static __always_inline int on_kick(struct xdp_md *ctx)
{
	struct mrc_kick *request = lookup0(&kick);
	struct mrc_doorbell *doorbell = frame_head(ctx, sizeof(*doorbell));
	struct tx_desc *desc = lookup0(&tx_descs);
	struct mrc_qp *qp;
	__u32 qp_index;

	if (!request || !desc)
		return XDP_DROP;
	if (doorbell && doorbell->magic == MRC_DOORBELL_MAGIC)
		return on_transmit(doorbell->qp_index, desc);
	if (doorbell && doorbell->magic == MRC_DOORBELL_RC_MAGIC)
		return MRC_STAGE_CALL_RC;
	if (ctx->ingress_ifindex != NIC_KICK_IFINDEX)
		return XDP_DROP;
	if (request->mode == MRC_KICK_PROBE)
		return send_probe(ctx);
	if (request->mode == MRC_KICK_COMMAND)
		return ctrl_run(request);
	if (request->mode == MRC_KICK_RC || request->mode == MRC_KICK_RC_COMMAND)
		return MRC_STAGE_CALL_RC;
	if (request->mode == MRC_KICK_LINK_PROBE)
		return send_link_probe(ctx);
	qp_index = request->qp_index;
	qp = bpf_map_lookup_elem(&qps, &qp_index);
	if (!qp)
		return XDP_DROP;
	/* More frames of this call follow, unless this is the last: no kick is needed. */
	request->frames_left--;
	qp->head.is_kick_pending = request->frames_left != 0;
	if (!request->frames_left)
		rto_timer_check(qp_index);
	return on_transmit(qp_index, desc);
}

static __always_inline int on_frame(struct xdp_md *ctx)
{
	__u32 ingress_id = ctx->ingress_ifindex - MRC_IFINDEX_BASE;
	struct mrc_nic_control *control;
	struct mrc_nic_config *config;
	struct wire_stack *head;
	struct mrc_port *port;
	__u64 plane;
	__u32 dscp, opcode;
	int verdict;

	config = lookup0(&nic_config);
	control = lookup0(&nic_control);
	port = bpf_map_lookup_elem(&port_table, &ingress_id);
	if (!config || !control || !port)
		return XDP_PASS;
	plane = port->plane;
	verdict = tunnel_rx(ctx, config, plane);
	if (verdict)
		return verdict;
	head = frame_head(ctx, sizeof(*head));
	if (!head)
		return nic_drop(MRC_NC_DROP_MALFORMED);
	if (head->inner.next_header != WIRE_NEXT_HEADER_UDP ||
	    bpf_be64_to_cpu(head->inner.destination[0]) != config->inner_prefix + plane ||
	    bpf_be64_to_cpu(head->inner.destination[1]) != config->host_index + 1ULL ||
	    head->udp.destination != bpf_htons(config->udp_port) ||
	    head->bth.p_key != bpf_htons(WIRE_P_KEY_DEFAULT))
		return nic_drop(MRC_NC_DROP_NOT_OURS);
	if (!stack_has_known_versions(head))
		return nic_drop(MRC_NC_DROP_MALFORMED);
	dscp = bpf_ntohl(head->outer.version_class_flow) >> 22 & 63;
	if ((dscp == MRC_DSCP_TRIMMED || dscp == MRC_DSCP_TRIMMED_LASTHOP) &&
	    head->bth.opcode >= WIRE_WRITE_FIRST && head->bth.opcode <= WIRE_WRITE_ONLY_IMMEDIATE)
		return on_trimmed(ctx, plane, dscp);
	if (!stack_lengths_agree(ctx, head))
		return nic_drop(MRC_NC_DROP_LENGTH);
	opcode = head->bth.opcode;
	if (!has_right_icrc(ctx, control))
		return nic_drop(MRC_NC_DROP_ICRC);

	switch (opcode) {
	case WIRE_WRITE_FIRST:
	case WIRE_WRITE_MIDDLE:
	case WIRE_WRITE_LAST:
	case WIRE_WRITE_LAST_IMMEDIATE:
	case WIRE_WRITE_ONLY:
	case WIRE_WRITE_ONLY_IMMEDIATE:
		return on_write(ctx, plane);
	case WIRE_SACK:
		return on_sack(ctx);
	case WIRE_ACKNOWLEDGE:
		return on_ack(ctx);
	case WIRE_NACK:
		return on_nack(ctx);
	case WIRE_PROBE:
		return on_probe(ctx, plane);
	case WIRE_ENDPOINT_REQUEST:
		return on_endpoint_request(ctx, plane);
	case WIRE_ENDPOINT_RESPONSE:
		return on_endpoint_response(ctx, plane);
	case WIRE_LINK_PROBE:
		return on_link_probe(ctx);
	default:
		return rc_has_opcode(opcode) ? MRC_STAGE_CALL_RC : nic_drop(MRC_NC_DROP_OPCODE);
	}
}

/* Takes a frame through one stage before MRC_STAGE_TRANSMIT; returns the next one. */
static __always_inline int nic_run_stage(struct xdp_md *ctx, int stage)
{
	struct tx_desc *desc = lookup0(&tx_descs);

	if (!desc)
		return XDP_DROP;
	switch (stage) {
	case MRC_STAGE_CALL_RC:
		bpf_tail_call_static(ctx, &nic_transports, NIC_TRANSPORT_RC);
		return nic_drop(MRC_NC_DROP_OPCODE); /* the lab has no such program */
	case MRC_STAGE_JUDGE_EVS:
		return stage_judge_evs(desc->qp_index);
	case MRC_STAGE_COMPLETE:
		return stage_complete(desc);
	case MRC_STAGE_DETECT_LOSS:
		return stage_detect_loss(desc);
	case MRC_STAGE_NEXT_PACKET:
		return build_next_packet(desc->qp_index) ? MRC_STAGE_SEND_DATA : XDP_DROP;
	case MRC_STAGE_SEND_DATA:
		return xmit_data(ctx);
	case MRC_STAGE_SEND_RESPONSE:
		return xmit_response(ctx);
	default:
		return xmit_ack_path_probe(ctx);
	}
}

SEC("xdp")
int nic(struct xdp_md *ctx)
{
	int next = nic_is_kick(ctx) ? on_kick(ctx) : on_frame(ctx);

	/* Unrolled: only a constant stage costs the verifier no more than its own code. */
#pragma clang loop unroll(full)
	for (int stage = MRC_STAGE_CALL_RC; stage <= MRC_STAGE_SEND_ACK_PATH_PROBE; stage++) {
		if (next == stage)
			next = nic_run_stage(ctx, stage);
	}
	return next >= MRC_STAGE_TRANSMIT ? nic_xmit(ctx, next) : next;
}

char _license[] SEC("license") = "Dual BSD/GPL";

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The stages of a frame in a NIC, as Linux's driver rxe has them in COMPST_* and RESPST_*. */
#ifndef MRC_STAGE_ABI_H
#define MRC_STAGE_ABI_H

/*
 * What comes next with a frame. A stage leads to later ones only; what one leaves for another is in
 * a per-CPU map, which is named here. A function that returns a stage may return an XDP verdict
 * instead, which is smaller than all stages: the frame is done with.
 */
enum mrc_stage {
	/* The program of reliable connections takes the frame over, from its start. */
	MRC_STAGE_CALL_RC = 16,
	/* The SACK in sack_ctxs tells something about EVs. */
	MRC_STAGE_JUDGE_EVS,
	/* Feedback for the QP in tx_descs may complete messages. */
	MRC_STAGE_COMPLETE,
	/* It may also prove that packets are lost. */
	MRC_STAGE_DETECT_LOSS,
	/* The QP in tx_descs may have a packet to send. */
	MRC_STAGE_NEXT_PACKET,
	/* The frame becomes the data packet in tx_descs. */
	MRC_STAGE_SEND_DATA,
	/* The frame becomes the response in rx_responses, or in rc_responses. */
	MRC_STAGE_SEND_RESPONSE,
	/* The frame becomes an EV probe for the QP in rx_responses (ack_path.h). */
	MRC_STAGE_SEND_ACK_PATH_PROBE,
	/* This and above, see stage_transmit(): the frame is complete but for its iCRC. */
	MRC_STAGE_TRANSMIT = 256,
};

#endif

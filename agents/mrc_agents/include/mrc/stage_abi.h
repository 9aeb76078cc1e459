/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The stages of a frame in a NIC, as Linux's driver rxe has them in COMPST_* and RESPST_*. */
#ifndef MRC_STAGE_ABI_H
#define MRC_STAGE_ABI_H

/*
 * The next step for a frame. A stage leads to later ones only; what it leaves for them is in
 * per-CPU maps. A function that returns a stage may return an XDP verdict instead, which is smaller
 * than all stages: the frame is done with.
 */
enum mrc_stage {
	MRC_STAGE_CALL_RC = 16,	 /* the program of reliable connections takes the frame over */
	MRC_STAGE_JUDGE_EVS,	 /* the SACK in sack_ctxs says something about EVs */
	MRC_STAGE_COMPLETE,	 /* feedback for the QP in tx_descs may complete messages ... */
	MRC_STAGE_DETECT_LOSS,	 /* ... and prove packets lost */
	MRC_STAGE_NEXT_PACKET,	 /* that QP may have a packet to send */
	MRC_STAGE_SEND_DATA,	 /* the frame becomes the data packet in tx_descs */
	MRC_STAGE_SEND_RESPONSE, /* it becomes the response in rx_responses or rc_responses */
	MRC_STAGE_SEND_ACK_PATH_PROBE, /* it becomes an EV probe for the QP in rx_responses */
	MRC_STAGE_TRANSMIT = 256, /* and above, see stage_transmit(): only the iCRC is missing */
};

#endif

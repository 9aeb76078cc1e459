// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The doorbell: frames for the NIC's program, which become packets of a QP as far as its window
 * allows. A few go by the interface MRC_DOORBELL_IFINDEX, about a microsecond for each; many by a
 * live run, which takes ten before its first one.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <mrc/nic_abi.h>
#include "verbs.h"

enum {
	FRAMES_PER_RUN = 64, /* of one batch: pages of a second one would hold old packets */
	FEW_FRAMES = 12,
};

/* Opens a queue of the interface; -1: the host has none, or this process may not. */
int doorbell_open(void)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE};
	int queue;

	if (!if_indextoname(MRC_DOORBELL_IFINDEX, request.ifr_name))
		return -1;
	/* Without O_NONBLOCK the kernel would make a socket buffer of each frame first. */
	queue = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (queue >= 0 && ioctl(queue, TUNSETIFF, &request)) {
		close(queue);
		queue = -1;
	}
	return queue;
}

/*
 * Provides frames. Those that are not taken are no loss: the agent looks at every QP once a second,
 * and sends what is there.
 */
void doorbell_ring(struct queue_pair *queue_pair, uint32_t frames)
{
	const struct agent_link *link = device_of(queue_pair->qp.context)->link;
	uint32_t frame[MRC_FRAME_BYTES_MAX / sizeof(uint32_t)] = {
	    queue_pair->transport == MRC_APPLICATION_ROCEV2 ? MRC_DOORBELL_RC_MAGIC
							    : MRC_DOORBELL_MAGIC,
	    queue_pair->qp.qp_num & ((1U << MRC_QP_INDEX_BITS) - 1)};
	union bpf_attr attr;

	while (link->doorbell >= 0 && frames && frames <= FEW_FRAMES) {
		if (write(link->doorbell, frame, sizeof(frame)) < 0)
			break;
		frames--;
	}
	while (frames) {
		uint32_t count = frames < FRAMES_PER_RUN ? frames : FRAMES_PER_RUN;

		memset(&attr, 0, sizeof(attr));
		attr.test.prog_fd = link->program;
		attr.test.data_in = (uintptr_t)frame;
		attr.test.data_size_in = sizeof(frame);
		attr.test.repeat = count;
		attr.test.batch_size = count;
		attr.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
		if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr)))
			return;
		frames -= count;
	}
}

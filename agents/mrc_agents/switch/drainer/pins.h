/* SPDX-License-Identifier: Apache-2.0 */
/* The pins that the drainer opens from a lab's bpffs folder, and whether they are still there. */
#ifndef DRAINER_PINS_H
#define DRAINER_PINS_H

#include <stdbool.h>
#include <mrc/queue_abi.h>

struct pins {
	const char *folder;
	int program_fd; /* the switch program: on a live frame it drains */
	int wake_fd;	/* ring buffer: readable when a push wakes the drainer */
	int watch_fd;	/* inotify: readable when something in the folder changed */
	int claim_fd;	/* held as long as this process drains the lab */
	struct mrc_queue_drainer *drainer; /* this one's state */
};

/*
 * Opens everything in `folder` as drainer `index` of the lab; where there are several, the process
 * is bound to a CPU. On failure says why on stderr and returns false.
 */
bool pins_open(struct pins *pins, const char *folder, unsigned index);

/* Reads what watch_fd has to say. Returns false when the program's pin is gone. */
bool pins_remain(struct pins *pins);

#endif

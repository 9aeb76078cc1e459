/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mrc-drainer: runs the queue engine of one lab. Nothing in the kernel can send by itself, so this
 * process runs the switch program on live frames whenever a frame is due, and sleeps in between.
 * All state is in the lab's maps: killed and started again, it goes on where it was.
 *
 * Flags, exit statuses and the engine itself: docs/explanation/queue-engine.md.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "pins.h"
#include "serve.h"

enum {
	NICE = -10, /* late frames cost a lab more than a late prompt */
};

enum {
	EXIT_USAGE = 2, /* flags not understood */
	EXIT_PINS = 3,	/* the lab's pins cannot be used */
	EXIT_RUN = 1,	/* the kernel refused to run the program, or the process cannot be set up */
};

static void stop(int signal_number)
{
	(void)signal_number;
	is_stopping = 1;
}

static int ignore_record(void *context, void *data, size_t size)
{
	(void)context;
	(void)data;
	(void)size;
	return 0;
}

/* A real-time class would be throttled for 50 ms at a time; a nice value is not. */
static bool raise_priority(void)
{
	int fd, length;

	if (setpriority(PRIO_PROCESS, 0, NICE))
		return false;
	/* where sessions are scheduled as groups, a nice value counts within its session only */
	if (getsid(0) != getpid())
		return true;
	fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	length = dprintf(fd, "%d", NICE);
	close(fd);
	return length > 0;
}

/* Signals, timers and scheduling of this process. */
static bool set_up_process(void)
{
	struct sigaction action = {.sa_handler = stop};
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	if (sigaction(SIGTERM, &action, NULL) || sigaction(SIGINT, &action, NULL) ||
	    sigprocmask(SIG_BLOCK, &blocked, NULL))
		return false;
	if (!raise_priority())
		fprintf(stderr,
			"mrc-drainer: stays at normal priority, frames may leave late: %s\n",
			strerror(errno));
	/* the default slack of 50 us would be added to every sleep */
	return !prctl(PR_SET_TIMERSLACK, 1) && !prctl(PR_SET_NAME, "mrc-drainer");
}

static void usage(FILE *to)
{
	fputs("usage: mrc-drainer --pins FOLDER [--index NUMBER]\n"
	      "Sends the frames of a shaped lab when they are due.\n"
	      "  --pins FOLDER   the lab's bpf/fabric folder on a bpffs\n"
	      "  --index NUMBER  which of the lab's drainers it is, from 0; 0 if left out\n"
	      "Ends on SIGTERM or SIGINT, and when the pins are removed.\n",
	      to);
}

struct arguments {
	const char *folder;
	unsigned index;
};

static bool parse_index(const char *text, unsigned *index)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*index = value;
	return text[0] >= '0' && text[0] <= '9' && !*end && value < MRC_QUEUE_DRAINERS_MAX;
}

static struct arguments parse(int argc, char **argv)
{
	static const struct option options[] = {{"pins", required_argument, NULL, 'p'},
						{"index", required_argument, NULL, 'i'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct arguments given = {0};
	bool is_understood = true;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'p':
			given.folder = optarg;
			break;
		case 'i':
			is_understood = is_understood && parse_index(optarg, &given.index);
			break;
		case 'h':
			usage(stdout);
			exit(EXIT_SUCCESS);
		default:
			is_understood = false;
		}
	}
	if (!is_understood || !given.folder || optind != argc) {
		usage(stderr);
		exit(EXIT_USAGE);
	}
	return given;
}

int main(int argc, char **argv)
{
	struct arguments given = parse(argc, argv);
	struct pins pins = {0};
	struct ring_buffer *wake;
	int error;

	if (!pins_open(&pins, given.folder, given.index))
		return EXIT_PINS;
	wake = ring_buffer__new(pins.wake_fd, ignore_record, NULL, NULL);
	if (!wake) {
		fprintf(stderr, "mrc-drainer: cannot read the wake-up ring: %s\n", strerror(errno));
		return EXIT_PINS;
	}
	if (!set_up_process()) {
		fprintf(stderr, "mrc-drainer: cannot set up the process: %s\n", strerror(errno));
		return EXIT_RUN;
	}
	error = serve(&pins, wake);
	if (!error)
		return EXIT_SUCCESS;
	fprintf(stderr, "mrc-drainer: the kernel refused a live-frame run: %s\n", strerror(error));
	return EXIT_RUN;
}

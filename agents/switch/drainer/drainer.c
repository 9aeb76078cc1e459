/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mrc-drainer: runs the queue engine of one lab. Nothing in the kernel can send by itself, so this
 * process runs the switch program on live frames whenever a frame is due, and sleeps in between.
 * All state is in the lab's maps: killed and started again, it goes on where it was.
 *
 * Flags, exit statuses and the engine itself: docs/queue-engine.md.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "pins.h"

enum {
	EXIT_USAGE = 2, /* flags not understood */
	EXIT_PINS = 3,	/* the lab's pins cannot be used */
	EXIT_RUN = 1,	/* the kernel refused to run the program */
};

/*
 * A call into the kernel costs about 10 us and leaves work for RCU behind, a run in it that finds
 * nothing due 60 ns: so calls begin before a frame is due, and grow long while frames are dense.
 */
enum {
	SPIN_NS = 20000,       /* how long it looks for work before it sleeps */
	CALL_EARLY_NS = 6000,  /* what a call needs until its first run */
	WAKE_EARLY_NS = 10000, /* and what a sleeper needs to be back */
	RUNS_MIN = 64,	       /* runs per call */
	RUNS_MAX = 2048,
	RUNS_PER_FRAME = 64,	  /* a call with more empty runs per frame than this was too long */
	BATCH_RUNS = 8,		  /* frames leave together, at the end of this many runs */
	SLEEP_MAX_NS = 100000000, /* the wheel's position must not fall far behind the clock */
	CALLS_PER_LOOK = 64, /* calls between two looks at signals and pins, when it never sleeps */
	NICE = -10,	     /* late frames cost a lab more than a late prompt */
};

static volatile sig_atomic_t is_stopping;

static void stop(int signal_number)
{
	(void)signal_number;
	is_stopping = 1;
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* End of the first bucket that may hold a port: nothing is due before. UINT64_MAX: wheel empty. */
static uint64_t next_event_ns(const struct mrc_queue_drainer *drainer)
{
	const volatile uint64_t *words = (const volatile uint64_t *)drainer->words;
	uint64_t scan = *(const volatile uint64_t *)&drainer->scan;
	unsigned slot = scan % MRC_QUEUE_BUCKETS, first = slot / 64, turn = (first + 1) % 64;
	uint64_t bits = words[first] >> slot % 64;
	uint64_t summary = *(const volatile uint64_t *)&drainer->summary;
	unsigned distance;

	if (*(const volatile uint32_t *)&drainer->current)
		return 0;
	if (bits) {
		distance = __builtin_ctzll(bits);
	} else {
		summary = summary >> turn | summary << (64 - turn) % 64;
		if (!summary)
			return UINT64_MAX;
		turn = (turn + __builtin_ctzll(summary)) % 64;
		bits = words[turn];
		if (!bits) /* a bit set for nothing; a run clears it */
			return 0;
		distance = (turn * 64 + __builtin_ctzll(bits) - slot) % MRC_QUEUE_BUCKETS;
	}
	return (scan + distance + 1) << MRC_QUEUE_BUCKET_SHIFT;
}

/* Waits for a wake-up, a signal, a change of the pins or the time. Returns false when to stop. */
static bool wait_until(struct pins *pins, struct ring_buffer *wake, uint64_t until_ns)
{
	struct pollfd sources[] = {
	    {.fd = pins->wake_fd, .events = POLLIN},
	    {.fd = pins->watch_fd, .events = POLLIN},
	};
	uint64_t now_ns = clock_ns(), rest_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec rest = {.tv_sec = rest_ns / 1000000000, .tv_nsec = rest_ns % 1000000000};
	sigset_t none;

	sigemptyset(&none);
	/* signals are blocked but here: none is missed between a look at them and sleep */
	if (ppoll(sources, 2, &rest, &none) > 0) {
		ring_buffer__consume(wake);
		if (sources[1].revents && !pins_remain(pins))
			return false;
	}
	return !is_stopping;
}

/*
 * Sleeps until the next event. A push that comes between the look at the wheel and sleep would be
 * missed, so what is slept for is made known first, then the wheel is looked at again.
 */
static bool sleep_until_event(struct pins *pins, struct ring_buffer *wake)
{
	struct mrc_queue_drainer *drainer = pins->drainer;
	_Atomic(__u64) *wake_at_ns = (_Atomic(__u64) *)&drainer->wake_at_ns;
	uint64_t event_ns = next_event_ns(drainer), until_ns;
	bool goes_on = true;

	if (event_ns < WAKE_EARLY_NS)
		return true;
	until_ns = clock_ns() + SLEEP_MAX_NS;
	if (event_ns - WAKE_EARLY_NS < until_ns)
		until_ns = event_ns - WAKE_EARLY_NS;
	atomic_store(wake_at_ns, event_ns);
	if (next_event_ns(drainer) >= event_ns)
		goes_on = wait_until(pins, wake, until_ns);
	atomic_store(wake_at_ns, 0);
	return goes_on;
}

/* Looks for work for a while. Returns true when some is due, false when it is time to sleep. */
static bool spin_for_event(const struct mrc_queue_drainer *drainer)
{
	uint64_t give_up_ns = clock_ns() + SPIN_NS;

	for (;;) {
		uint64_t event_ns = next_event_ns(drainer), now_ns = clock_ns();

		if (event_ns <= now_ns + CALL_EARLY_NS)
			return true;
		if (now_ns >= give_up_ns && event_ns - now_ns > SPIN_NS)
			return false;
	}
}

/* Runs the program on `runs` live frames. Returns 0 or an errno. */
static int drain(int program_fd, unsigned runs)
{
	static char frame[MRC_QUEUE_FRAME_BYTES]; /* longest first: pages keep their room */
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = sizeof(frame),
		    .repeat = runs, .flags = BPF_F_TEST_XDP_LIVE_FRAMES,
		    .batch_size = runs < BATCH_RUNS ? runs : BATCH_RUNS);

	if (!bpf_prog_test_run_opts(program_fd, &options))
		return 0;
	return errno == EINTR || errno == EAGAIN ? 0 : errno;
}

/*
 * Moves the wheel's position near to now. It would get there bucket by bucket, in order, but that
 * order is of no use to frames that waited for a drainer longer than this.
 */
static void catch_up(struct mrc_queue_drainer *drainer)
{
	uint64_t earliest = (clock_ns() - SLEEP_MAX_NS) >> MRC_QUEUE_BUCKET_SHIFT;
	_Atomic(__u64) *scan = (_Atomic(__u64) *)&drainer->scan;

	if (atomic_load(scan) < earliest)
		atomic_store(scan, earliest);
}

static int serve(struct pins *pins, struct ring_buffer *wake)
{
	const struct mrc_queue_drainer *drainer = pins->drainer;
	const volatile uint64_t *taken = (const volatile uint64_t *)&drainer->taken;
	unsigned runs = RUNS_MIN, calls = 0;

	catch_up(pins->drainer);
	for (;;) {
		uint64_t before = *taken, sent;
		int error = drain(pins->program_fd, runs);

		if (error) {
			fprintf(stderr, "mrc-drainer: the kernel refused a live-frame run: %s\n",
				strerror(error));
			return EXIT_RUN;
		}
		sent = *taken - before;
		runs = sent * RUNS_PER_FRAME >= runs ? runs * 2 : runs / 2;
		runs = runs < RUNS_MIN ? RUNS_MIN : runs > RUNS_MAX ? RUNS_MAX : runs;
		if (!spin_for_event(drainer)) {
			if (!sleep_until_event(pins, wake))
				return EXIT_SUCCESS;
			calls = 0;
		} else if (++calls % CALLS_PER_LOOK == 0 && !wait_until(pins, wake, 0)) {
			return EXIT_SUCCESS;
		}
	}
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
	fputs("usage: mrc-drainer --pins FOLDER\n"
	      "Sends the frames of a shaped lab when they are due.\n"
	      "  --pins FOLDER  the lab's bpf/fabric folder on a bpffs\n"
	      "Ends on SIGTERM or SIGINT, and when the pins are removed.\n",
	      to);
}

static const char *parse_pins(int argc, char **argv)
{
	static const struct option options[] = {
	    {"pins", required_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'}, {0}};
	const char *folder = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'p':
			folder = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(EXIT_SUCCESS);
		default:
			usage(stderr);
			exit(EXIT_USAGE);
		}
	}
	if (!folder || optind != argc) {
		usage(stderr);
		exit(EXIT_USAGE);
	}
	return folder;
}

int main(int argc, char **argv)
{
	struct pins pins = {0};
	struct ring_buffer *wake;

	if (!pins_open(&pins, parse_pins(argc, argv)))
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
	return serve(&pins, wake);
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "serve.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include <bpf/bpf.h>

/*
 * A call into the kernel costs about 10 us and leaves work for RCU behind, a run in it that finds
 * nothing due 60 ns: so calls begin before a frame is due, and grow long while frames are dense.
 */
enum {
	SPIN_NS = 20000,       /* how long it looks for work before it sleeps */
	CALL_EARLY_NS = 6000,  /* what a call needs until its first run */
	WAKE_EARLY_NS = 10000, /* and what a sleeper needs to be back */
	ECO_REST_NS = 100000,  /* from one waking to the next, to save the core */
	LOOK_NS = 1000000,     /* between two looks at signals and pins while it never sleeps */
	RUNS_MIN = 64,	       /* runs per call */
	RUNS_MAX = 2048,
	RUNS_PER_FRAME = 64,	  /* a call with more empty runs per frame than this was too long */
	RUNS_PER_FRAME_ECO = 2,	  /* where all that a call finds is due when it begins */
	BATCH_RUNS = 8,		  /* frames leave together, at the end of this many runs */
	SLEEP_MAX_NS = 100000000, /* the wheel's position must not fall far behind the clock */
	CALLS_PER_LOOK = 64,	  /* as LOOK_NS, while there is work all the time */
};

volatile sig_atomic_t is_stopping;

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint32_t mode_of(const struct mrc_queue_drainer *drainer)
{
	return *(const volatile uint32_t *)&drainer->mode;
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

/*
 * Waits for a signal, a change of the pins or the time; where `wake` is given, for a wake-up too.
 * Returns false when to stop.
 */
static bool wait_until(struct pins *pins, struct ring_buffer *wake, uint64_t until_ns)
{
	struct pollfd sources[] = {
	    {.fd = pins->watch_fd, .events = POLLIN},
	    {.fd = pins->wake_fd, .events = POLLIN},
	};
	uint64_t now_ns = clock_ns(), rest_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec rest = {.tv_sec = rest_ns / 1000000000, .tv_nsec = rest_ns % 1000000000};
	sigset_t none;

	sigemptyset(&none);
	/* signals are blocked but here: none is missed between a look at them and sleep */
	if (ppoll(sources, wake ? 2 : 1, &rest, &none) > 0) {
		if (wake)
			ring_buffer__consume(wake);
		if (sources[0].revents && !pins_remain(pins))
			return false;
	}
	return !is_stopping;
}

/*
 * Sleeps until early_ns before the next event. A push that comes between the look at the wheel and
 * sleep would be missed, so what is slept for is made known first, then the wheel is looked at
 * again.
 */
static bool sleep_until_event(struct pins *pins, struct ring_buffer *wake, uint64_t early_ns)
{
	struct mrc_queue_drainer *drainer = pins->drainer;
	_Atomic(__u64) *wake_at_ns = (_Atomic(__u64) *)&drainer->wake_at_ns;
	uint64_t event_ns = next_event_ns(drainer), until_ns;
	bool is_serving = true;

	if (event_ns < WAKE_EARLY_NS)
		return true;
	until_ns = clock_ns() + SLEEP_MAX_NS;
	if (event_ns - early_ns < until_ns)
		until_ns = event_ns - early_ns;
	atomic_store(wake_at_ns, event_ns);
	if (next_event_ns(drainer) >= event_ns)
		is_serving = wait_until(pins, wake, until_ns);
	atomic_store(wake_at_ns, 0);
	return is_serving;
}

/*
 * Looks for work until give_up_ns. Returns true when some is due, or about to be; false when it is
 * time to sleep.
 */
static bool spin_for_event(const struct mrc_queue_drainer *drainer, uint64_t give_up_ns)
{
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

/* Looks for work all the time. Returns false when to stop. */
static bool wait_precisely(struct pins *pins, struct ring_buffer *wake)
{
	while (!spin_for_event(pins->drainer, clock_ns() + LOOK_NS))
		if (mode_of(pins->drainer) != MRC_DRAINER_PRECISE || !wait_until(pins, wake, 0))
			return !is_stopping;
	return true;
}

/*
 * Rests for what is left of ECO_REST_NS since the last waking, deaf to wake-ups, then as long as
 * nothing is due. Returns false when to stop.
 */
static bool wait_eco(struct pins *pins, struct ring_buffer *wake, uint64_t *woken_ns)
{
	bool is_serving =
	    wait_until(pins, NULL, *woken_ns + ECO_REST_NS) && sleep_until_event(pins, wake, 0);

	*woken_ns = clock_ns();
	return is_serving;
}

int serve(struct pins *pins, struct ring_buffer *wake)
{
	struct mrc_queue_drainer *drainer = pins->drainer;
	const volatile uint64_t *taken = (const volatile uint64_t *)&drainer->taken;
	unsigned runs = RUNS_MIN, calls = 0;
	uint64_t woken_ns = clock_ns();

	catch_up(drainer);
	for (;;) {
		uint64_t before = *taken, sent;
		int error = drain(pins->program_fd, runs);
		uint32_t mode = mode_of(drainer);
		bool is_serving = true, is_dense;

		if (error)
			return error;
		sent = *taken - before;
		is_dense =
		    sent * (mode == MRC_DRAINER_ECO ? RUNS_PER_FRAME_ECO : RUNS_PER_FRAME) >= runs;
		runs = is_dense ? runs * 2 : runs / 2;
		runs = runs < RUNS_MIN ? RUNS_MIN : runs > RUNS_MAX ? RUNS_MAX : runs;
		if (++calls % CALLS_PER_LOOK == 0)
			is_serving = wait_until(pins, wake, 0);
		else if (mode == MRC_DRAINER_PRECISE)
			is_serving = wait_precisely(pins, wake);
		else if (mode == MRC_DRAINER_ECO && !is_dense)
			is_serving = wait_eco(pins, wake, &woken_ns);
		else if (mode == MRC_DRAINER_AUTO && !spin_for_event(drainer, clock_ns() + SPIN_NS))
			is_serving = sleep_until_event(pins, wake, WAKE_EARLY_NS);
		if (!is_serving)
			return 0;
	}
}

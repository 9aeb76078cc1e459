// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Registration of any memory, while the program goes on: `verbs_pages CASE`. A peer on the same host writes to each region. Prints
 * "right" if all of it is as if the pages had stayed where they were.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs_written.h"

enum {
	PAGE = 4096,
	WRITERS = 2,
	REGIONS = 600,
	LARGE = 40 << 20, /* more than the NIC has at first */
};

/* Buffers of a heap lie side by side, and the second of two begins on the last page of the first. */
static void neighbours(void)
{
	char *heap = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t middle = BYTES / 2 + 100;
	struct ibv_mr *first, *last, *all;

	memset(heap, 7, BYTES);
	first = registered(heap + 16, middle - 16);
	last = registered(heap + middle, BYTES - middle - 16);
	need(heap[0] == 7 && heap[BYTES - 1] == 7, "bytes around them");
	all = registered(heap, BYTES);
	need_written(first);
	need_written(last);
	need_written(all);
	need(!ibv_dereg_mr(first) && !ibv_dereg_mr(all), "ibv_dereg_mr");
	need_written(last);
	need(!ibv_dereg_mr(last), "ibv_dereg_mr of the last one");
}

/* Islands first, then the sea around them: pages that are in no row in the NIC's memory. */
static void scattered(void)
{
	char *heap = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *islands[8], *all;

	memset(heap, 7, BYTES);
	for (int i = 7; i >= 0; i--)
		islands[i] = registered(heap + i * (BYTES / 8) + 3 * PAGE + 5, PAGE);
	need(heap[0] == 7 && heap[3 * PAGE] == 7, "bytes around them");
	all = registered(heap + 1, BYTES - 2);
	need_written(all);
	for (int i = 0; i < 8; i++)
		need_written(islands[i]);
	need(write_to(all, 3 * PAGE - 1000, 2000) == IBV_WC_SUCCESS, "a WRITE across islands");
	need(!memcmp(heap + 1 + 3 * PAGE - 1000, from, 2000), "what was written across them");
	need(!ibv_dereg_mr(all) && write_to(islands[0], 0, 8) == IBV_WC_SUCCESS, "islands that stay");
}

static void own_stack(void)
{
	char buffer[3 * PAGE];
	struct ibv_mr *mr;
	pid_t child;
	int status;

	memset(buffer, 7, sizeof(buffer));
	mr = registered(buffer + 10, sizeof(buffer) - 20);
	need(buffer[0] == 7 && buffer[sizeof(buffer) - 1] == 7, "bytes around it");
	need_written(mr);
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	child = fork();
	if (!child) {
		memset(buffer, 9, sizeof(buffer));
		_exit(buffer[5] == 9 ? 0 : 1);
	}
	need(waitpid(child, &status, 0) == child && !status, "a child");
	need(buffer[0] == 7 && buffer[10] == 1, "the parent's stack");
}

/* A child has its own copy of private memory, and the same shared memory. */
static void children(void)
{
	char *alone = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *private_mr = registered(alone, BYTES), *shared_mr = registered(shared, BYTES);
	int status;
	pid_t child;

	memset(alone, 7, BYTES);
	child = fork();
	if (!child) {
		int is_copy = alone[0] == 7 && alone[BYTES - 1] == 7;

		memset(alone, 9, BYTES);
		shared[5] = 9;
		_exit(is_copy ? 0 : 1);
	}
	need(waitpid(child, &status, 0) == child && !status, "a child");
	need(alone[0] == 7 && shared[5] == 9, "what a child stored");
	need_written(private_mr);
	need_written(shared_mr);
}

static void shared_memory(void)
{
	int file = memfd_create("shared", 0), id = shmget(IPC_PRIVATE, BYTES, 0600);
	char *segment = shmat(id, NULL, 0), *mapped;
	struct ibv_mr *mr;
	int ends[2], status;
	pid_t child;
	char byte;

	need(segment != (void *)-1 && !shmctl(id, IPC_RMID, NULL), "shmat");
	mr = registered(segment, BYTES);
	need_written(mr);
	need(!ftruncate(file, BYTES) && !pipe(ends), "ftruncate");
	mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	child = fork();
	if (!child) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) ? 1 : 0);
	}
	need(!ibv_reg_mr(pd, mapped, BYTES, REMOTE) && errno == EOPNOTSUPP, "memory that a child has as well");
	close(ends[1]);
	need(waitpid(child, &status, 0) == child && !status, "a child");
	need_written(registered(mapped, BYTES));
}

static void read_only(void)
{
	char *memory = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, 0);

	need(mr != NULL, "memory to be read");
	need(!ibv_reg_mr(pd, memory, BYTES, REMOTE) && errno == EFAULT, "read-only memory, to be written");
	need(!ibv_dereg_mr(mr) && !munmap(memory, BYTES), "ibv_dereg_mr");
	need(!ibv_reg_mr(pd, memory, BYTES, 0) && errno == EFAULT, "memory that is not there");
}

/* More regions than a table has room for at first, and more bytes in all than the NIC had. */
static void many(void)
{
	struct ibv_mr **regions = calloc(REGIONS, sizeof(*regions));
	char *memory = mmap(NULL, (size_t)REGIONS * 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < REGIONS; i++)
		regions[i] = registered(memory + (size_t)i * 2 * PAGE, PAGE);
	for (int i = 0; i < REGIONS; i += 97)
		need_written(regions[i]);
	for (int i = 0; i < REGIONS; i++)
		need(!ibv_dereg_mr(regions[i]), "ibv_dereg_mr");
}

/* The heap of a thread, which the C library shrinks when much of it is freed. */
static void *use_heap(void *argument)
{
	char *buffers[40];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 40; i++) {
			struct ibv_mr *mr;

			buffers[i] = malloc(60000);
			memset(buffers[i], i, 60000);
			mr = registered(buffers[i], 60000);
			need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
		}
		for (int i = 39; i >= 0; i--) {
			need(buffers[i][0] == (char)i && buffers[i][59999] == (char)i, "bytes of a heap");
			free(buffers[i]);
		}
	}
	return argument;
}

static void heap_of_a_thread(void)
{
	pthread_t thread;

	need(!pthread_create(&thread, NULL, use_heap, NULL) && !pthread_join(thread, NULL), "a thread");
}

/* Everything may lie across the borders of chunks; a child has its own copy of all of it. */
static void large(void)
{
	char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *moved;
	struct ibv_mr *mr, *again;
	pid_t child;
	int status;

	memset(memory, 7, LARGE);
	mr = registered(memory + 5, LARGE - 10);
	for (int i = 0; i < LARGE; i++)
		need(memory[i] == 7, "what there was");
	for (size_t at = 0; at + BYTES <= mr->length; at += BYTES - 333)
		need(write_to(mr, at, BYTES - 333) == IBV_WC_SUCCESS && !memcmp((char *)mr->addr + at, from, BYTES - 333),
		     "a WRITE");
	again = registered(memory, LARGE);
	need(write_to(again, LARGE - BYTES, BYTES) == IBV_WC_SUCCESS && !memcmp(memory + LARGE - BYTES, from, BYTES),
	     "a WRITE to the region over it");
	child = fork();
	if (!child) {
		int is_copy = !memcmp(memory + LARGE - BYTES, from, BYTES);

		memset(memory, 9, LARGE);
		_exit(is_copy ? 0 : 1);
	}
	need(waitpid(child, &status, 0) == child && !status, "a child");
	need(!memcmp(memory + LARGE - BYTES, from, BYTES), "what a child did not store");
	need(!ibv_dereg_mr(mr) && !ibv_dereg_mr(again) && !munmap(memory, LARGE), "munmap");
	for (int i = 0; i < 3; i++) { /* or the NIC would run out of memory */
		moved = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mr = registered(moved, LARGE);
		need(write_to(mr, 3, BYTES) == IBV_WC_SUCCESS && !memcmp(moved + 3, from, BYTES), "a WRITE to the next one");
		need(!ibv_dereg_mr(mr) && !munmap(moved, LARGE), "munmap of the next one");
	}
}

/* Memory that was moved is registered where it is if it can be one page of the NIC alone. */
static void moved(void)
{
	char *small = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *large, *elsewhere;
	struct ibv_mr *mr;

	memset(small, 7, BYTES);
	need(!ibv_dereg_mr(registered(small, BYTES)), "ibv_dereg_mr");
	small = mremap(small, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
		       mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	need(small != MAP_FAILED && small[BYTES - 1] == 7, "mremap");
	need_written(registered(small, BYTES));
	large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = registered(large, LARGE);
	memset(large, 8, LARGE);
	elsewhere = mremap(large + LARGE / 2, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			   mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	need(elsewhere != MAP_FAILED && !ibv_reg_mr(pd, elsewhere, PAGE, REMOTE) && errno == EOPNOTSUPP,
	     "a page that may be one of several");
	need(!ibv_dereg_mr(mr) && !munmap(large, LARGE), "munmap");
	for (int i = 0; i < 3; i++) {
		large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mr = registered(large, LARGE);
		memset(large, 9, LARGE);
		need(elsewhere[0] == 8 && elsewhere[PAGE - 1] == 8, "what was moved and not registered again");
		need(!ibv_dereg_mr(mr) && !munmap(large, LARGE), "munmap of the next one");
	}
}

/* ---- threads that store into what is registered ----------------------------------------------- */

static char *counted;
static int is_over;

struct writer {
	pthread_t thread;
	uint64_t stored;
	int place;
};

/* Counts in memory, and beside it in a register. */
static void *count(void *argument)
{
	struct writer *writer = argument;
	volatile uint64_t *cells = (uint64_t *)counted;

	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		uint64_t at = writer->stored % (BYTES / sizeof(*cells) / WRITERS) * WRITERS + writer->place;

		cells[at]++;
		writer->stored++;
	}
	return NULL;
}

static void writing_threads(void)
{
	struct writer writers[WRITERS] = {0};
	uint64_t stored = 0, kept = 0;

	while (wanted > 0) {
		counted = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		is_over = 0;
		for (int i = 0; i < WRITERS; i++) {
			writers[i].place = i;
			need(!pthread_create(&writers[i].thread, NULL, count, &writers[i]), "pthread_create");
		}
		for (int i = 0; i < 500; i++) {
			size_t at = i * 7919u % (BYTES / PAGE - 8) * PAGE;
			struct ibv_mr *mr = registered(counted + at, 8 * PAGE);

			need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
			wanted--;
		}
		__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < WRITERS; i++)
			pthread_join(writers[i].thread, NULL);
		for (size_t i = 0; i < BYTES / sizeof(uint64_t); i++)
			kept += ((uint64_t *)counted)[i];
		need(!munmap(counted, BYTES), "munmap");
	}
	for (int i = 0; i < WRITERS; i++)
		stored += writers[i].stored;
	need(stored == kept, "stores that were lost");
}

/* Has the kernel store into the page on which a region ends. */
static void *read_bytes(void *place)
{
	unsigned char sent = 0;
	int ends[2];

	need(!pipe(ends), "pipe");
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		sent++;
		need(write(ends[1], &sent, 1) == 1 && read(ends[0], place, 1) == 1, "read(2)");
		need(*(unsigned char *)place == sent, "what was read");
		wanted--;
	}
	close(ends[0]);
	close(ends[1]);
	return NULL;
}

static void reading_thread(void)
{
	pthread_t thread;

	while (wanted > 0) {
		char *memory = mmap(NULL, 4 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct ibv_mr *mr;

		is_over = 0;
		need(!pthread_create(&thread, NULL, read_bytes, memory + 4 * BYTES - 1), "pthread_create");
		mr = registered(memory, 4 * BYTES - 100);
		__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
		need(!pthread_join(thread, NULL) && !ibv_dereg_mr(mr) && !munmap(memory, 4 * BYTES), "ibv_dereg_mr");
	}
}

int main(int argument_count, char **arguments)
{
	static const struct test_case cases[] = {
	    {"neighbours", neighbours}, {"scattered", scattered}, {"own-stack", own_stack},
	    {"children", children},	    {"shared-memory", shared_memory}, {"read-only", read_only},
	    {"many", many}, {"heap-of-a-thread", heap_of_a_thread}, {"large", large}, {"moved", moved},
	    {"writing-threads", writing_threads}, {"reading-thread", reading_thread},
	};

	(void)argument_count;
	return run_case(cases, sizeof(cases) / sizeof(*cases), arguments);
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* fork() of a program that has registered memory, as verbs_pages.c tests registration. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs_written.h"

enum { PAGE = 4096 };

static void (*in_between)(void), (*first_in_child)(void);
static struct ibv_mr *target, *held[2];
static int round_number;

/* ---- handlers of the program's own: the library's run before them, and after ----------------- */

static void call_in_between(void)
{
	if (in_between)
		in_between();
}

static void call_in_child(void)
{
	if (first_in_child)
		first_in_child();
}

/* The status of a child that has done what is asked. */
static int status_of(pid_t child)
{
	int status = 0;

	need(child > 0 && waitpid(child, &status, 0) == child, "fork()");
	return status;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* While the process forks, it stores, sends and receives. */
static void use_stack(void)
{
	char *bytes = held[0]->addr;

	bytes[5] = round_number;
	need(write_from(held[0], target, 0, PAGE) == IBV_WC_SUCCESS && !memcmp(target->addr, bytes, PAGE),
	     "what is sent while it forks");
	need(write_to(held[0], PAGE, 100) == IBV_WC_SUCCESS, "a WRITE while it forks");
}

static void own_stack(void)
{
	char buffer[3 * PAGE];

	held[0] = registered(buffer, sizeof(buffer));
	target = registered(malloc(sizeof(buffer)), sizeof(buffer));
	need_written(held[0]);
	in_between = use_stack;
	for (int i = 0; i < wanted; i++) {
		pid_t child;

		round_number = i % 100;
		memset(buffer, 7, sizeof(buffer));
		child = fork();
		if (!child) {
			int is_copy = buffer[0] == 7 && buffer[5] == round_number;

			memset(buffer, 9, sizeof(buffer));
			_exit(is_copy ? 0 : 1);
		}
		need(!status_of(child), "a child's copy");
		need(buffer[0] == 7 && buffer[sizeof(buffer) - 1] == 7, "the parent's stack");
		need(buffer[5] == round_number && !memcmp(buffer + PAGE, from, 100), "what came while it forked");
		buffer[6] = 8;
		need(write_from(held[0], target, 0, sizeof(buffer)) == IBV_WC_SUCCESS, "a WRITE from the stack");
		need(!memcmp(target->addr, buffer, sizeof(buffer)), "what was sent");
		need_written(held[0]);
	}
}

static pthread_barrier_t barrier;

/* The C library keeps records of its own beside the first bytes of a thread's heap. */
static void *hold(void *argument)
{
	char buffer[256], *heap = malloc(256);

	held[0] = registered(memset(buffer, 7, 256), 256);
	held[1] = registered(memset(heap, 7, 256), 256);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return argument;
}

static void other_thread(void)
{
	sigset_t all, blocked;
	pthread_t thread;
	void *result;

	pthread_barrier_init(&barrier, NULL, 2);
	need(!pthread_create(&thread, NULL, hold, held), "pthread_create");
	pthread_barrier_wait(&barrier);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (int i = 0; i < wanted; i++) {
		pid_t child = fork();

		for (int each = 0; !child && each < 2; each++) {
			if (*(char *)held[each]->addr != (i ? 1 : 7))
				_exit(1);
			memset(held[each]->addr, 9, 256);
		}
		if (!child)
			_exit(0);
		need(!status_of(child), "a child's copy");
		need_written(held[0]);
		need_written(held[1]);
	}
	need(!pthread_sigmask(SIG_SETMASK, NULL, &blocked) && sigismember(&blocked, SIGSEGV), "blocked signals");
	pthread_barrier_wait(&barrier);
	need(!pthread_join(thread, &result) && result == held, "the end of a thread");
}

/* ---- other processes ------------------------------------------------------------------------- */

static pid_t siblings[2];

/* One executes another program, the other does not. */
static void start_siblings(void)
{
	char *const command[] = {"sleep", "60", NULL};

	need(!posix_spawnp(&siblings[0], "sleep", NULL, NULL, command, environ), "posix_spawnp");
	siblings[1] = _Fork();
	if (!siblings[1]) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
}

static void die(void)
{
	raise(SIGKILL);
}

/* A child that is killed at once, while other processes have all descriptors of its parent. */
static void siblings_that_stay(void)
{
	struct ibv_mr *mr = registered(malloc(BYTES), BYTES);

	in_between = start_siblings;
	first_in_child = die;
	for (int i = 0; i < wanted; i++) {
		need(WTERMSIG(status_of(fork())) == SIGKILL, "a child that dies");
		need_written(mr);
		for (int each = 0; each < 2; each++)
			need(!kill(siblings[each], SIGKILL) && WTERMSIG(status_of(siblings[each])) == SIGKILL, "kill");
	}
}

static void *register_much(void *is_over)
{
	while (!__atomic_load_n((int *)is_over, __ATOMIC_RELAXED))
		ibv_dereg_mr(ibv_reg_mr(pd, from, 1, 0));
	return NULL;
}

/* Children see what is registered, and register, while a thread of their parent goes on. */
static void fork_beside(void *(*run)(void *))
{
	struct ibv_mr *mr = registered(malloc(BYTES), BYTES);
	pthread_t thread;
	int is_over = 0;

	need_written(mr);
	need(!pthread_create(&thread, NULL, run, &is_over), "pthread_create");
	for (int i = 0; i < wanted; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(120);
			_exit(!memcmp(mr->addr, from, BYTES) && ibv_reg_mr(pd, from, 1, 0) ? 0 : 1);
		}
		need(!status_of(child), "a child");
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	need(!pthread_join(thread, NULL), "pthread_join");
}

static void registering_thread(void)
{
	fork_beside(register_much);
}

static void *unmap_much(void *is_over)
{
	while (!__atomic_load_n((int *)is_over, __ATOMIC_RELAXED)) {
		void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		need(!ibv_dereg_mr(registered(memory, BYTES)) && !munmap(memory, BYTES), "munmap");
	}
	return NULL;
}

static void unmapping_thread(void)
{
	fork_beside(unmap_much);
}

/* ---- what fails is said ---------------------------------------------------------------------- */

/* Without memory for its copy a child ends, and its parent goes on. */
static void no_memory(void)
{
	struct ibv_mr *mr = registered(malloc(8 * BYTES), 8 * BYTES);
	FILE *sizes = fopen("/proc/self/statm", "r");
	struct rlimit usual, limit, none = {0};
	unsigned long pages = 0;
	pid_t child;

	need(sizes && fscanf(sizes, "%lu", &pages) == 1 && !fclose(sizes), "statm");
	need(!getrlimit(RLIMIT_AS, &usual) && !setrlimit(RLIMIT_CORE, &none), "getrlimit");
	limit = (struct rlimit){pages * PAGE + 4 * BYTES, usual.rlim_max};
	need(!setrlimit(RLIMIT_AS, &limit), "setrlimit");
	child = fork();
	if (!child)
		_exit(0);
	need(WTERMSIG(status_of(child)) == SIGABRT, "a child without memory");
	need(!setrlimit(RLIMIT_AS, &usual), "setrlimit");
	need(write_to(mr, BYTES, BYTES) == IBV_WC_SUCCESS && !memcmp((char *)mr->addr + BYTES, from, BYTES), "a WRITE");
}

int main(int argument_count, char **arguments)
{
	static const struct test_case cases[] = {
	    {"own-stack", own_stack},	      {"other-thread", other_thread},
	    {"siblings", siblings_that_stay}, {"registering", registering_thread},
	    {"no-memory", no_memory},	      {"unmapping", unmapping_thread},
	};

	(void)argument_count;
	pthread_atfork(call_in_between, NULL, call_in_child);
	return run_case(cases, sizeof(cases) / sizeof(*cases), arguments);
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * fork() of a process some of whose pages are the NIC's. The kernel gives a child none of them. The
 * parent copies them before, and the child puts the copies there: it has the same memory, and
 * nothing that it stores is seen by its parent.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include "stretch.h"

enum { STACK_BYTES = 1 << 20 };

/* A page, behind which is what the pages of a piece hold. */
struct copy {
	struct copy *next;
	struct piece piece;
};

static struct copy *copies;
static int is_short;	 /* some could not be made */
static int is_unwatched; /* an errno value */
static pid_t parent;	 /* 0: faults are not caught */
static struct sigaction action_before;
static sigset_t mask_before;

static void put_in_place(void)
{
	struct copy *copy;

	while ((copy = copies)) {
		char *bytes = (char *)copy + PAGE_BYTES;
		const struct piece piece = copy->piece;

		copies = copy->next;
		/* A thread of the parent may have mapped something else there meanwhile. */
		if (map_memory((void *)piece.start, piece.bytes,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			       -1, 0))
			is_short |= mprotect(bytes, piece.bytes, piece.protection) ||
				    move_memory(bytes, piece.bytes, (void *)piece.start);
		else
			is_short |= errno != EEXIST;
		unmap_memory(copy, PAGE_BYTES + piece.bytes);
	}
}

/* The C library of a child uses the heap before it calls a handler. */
static void on_fault(int signal)
{
	if (getpid() != parent && copies)
		put_in_place();
	else
		sigaction(signal, &action_before, NULL);
}

/* Copies a piece, unless a thread unmaps some of it meanwhile: then a child has nothing there. */
static void copy_piece(const struct piece *piece)
{
	struct copy *copy =
	    map_memory(NULL, PAGE_BYTES + piece->bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec from = {(void *)piece->start, piece->bytes};
	struct iovec to = {(char *)copy + PAGE_BYTES, piece->bytes};
	ssize_t length;

	is_short |= !copy;
	if (!copy)
		return;
	if (!(piece->protection & PROT_READ))
		mprotect(from.iov_base, piece->bytes, PROT_READ);
	*copy = (struct copy){copies, *piece};
	length = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	is_short |= length < 0 && errno != EFAULT;
	if ((size_t)length == piece->bytes)
		copies = copy;
	else
		unmap_memory(copy, PAGE_BYTES + piece->bytes);
	if (!(piece->protection & PROT_READ))
		mprotect(from.iov_base, piece->bytes, piece->protection);
}

/*
 * Handlers of others may use the heap, and allocators are locked by theirs: what is registered when
 * the library is loaded copies last, allocates nothing, and puts the copies in place first.
 */
static void copy_pages(void)
{
	const struct sigaction action = {.sa_handler = on_fault};
	struct piece piece;
	sigset_t faults;
	uintptr_t at = 0;

	is_short = 0;
	while (pages_are_there() && piece_next(&at, &piece))
		copy_piece(&piece);
	if (!copies)
		return;
	parent = getpid();
	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	pthread_sigmask(SIG_UNBLOCK, &faults, &mask_before);
	sigaction(SIGSEGV, &action, &action_before);
}

static void drop_copies(void)
{
	struct copy *copy;

	if (parent) {
		sigaction(SIGSEGV, &action_before, NULL);
		pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
	}
	parent = 0;
	while ((copy = copies)) {
		copies = copy->next;
		unmap_memory(copy, PAGE_BYTES + copy->piece.bytes);
	}
}

static void use_copies(void)
{
	put_in_place();
	drop_copies();
	if (!is_short)
		return;
	complain("a child of fork() ends: it has no memory for a copy of what is registered");
	abort();
}

static __attribute__((constructor)) void watch_first(void)
{
	is_unwatched = pthread_atfork(copy_pages, drop_copies, use_copies);
}

/* Locks that a child needs, or that stand still while the pages are copied. */
static void lock_all(void)
{
	pthread_mutex_lock(&registering);
	pthread_mutex_lock(&pages_changing);
	links_lock();
}

static void unlock_all(void)
{
	links_unlock();
	pthread_mutex_unlock(&pages_changing);
	pthread_mutex_unlock(&registering);
}

static void in_child(void)
{
	stretches = NULL;
	link_leave_all();
	unlock_all();
}

static void watch_last(void)
{
	is_unwatched |= pthread_atfork(lock_all, unlock_all, in_child);
}

/* Has the C library call for each fork(), before a lock is taken that a child needs; an errno
 * value. */
int forks_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_last);
	return is_unwatched;
}

/* ---- the stack --------------------------------------------------------------------------------
 * It may be the NIC's, and a child needs one at once. So the thread stands elsewhere meanwhile.
 */

static pid_t (*genuine)(void);

static __thread struct stand {
	ucontext_t here, there;
	pid_t child;
} * stand;

static void fork_there(void)
{
	stand->child = genuine();
}

/* In the place of the C library's, which its forkpty(3) and daemon(3) do not call here. */
EXPORT pid_t fork(void)
{
	struct stand *own;
	pid_t child;

	if (!genuine) /* two threads that look for it find the same */
		genuine = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
	if (!pages_are_there())
		return genuine();
	stand = own =
	    map_memory(NULL, STACK_BYTES, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!own)
		return -1;
	getcontext(&own->there);
	own->there.uc_stack.ss_sp = own + 1;
	own->there.uc_stack.ss_size = STACK_BYTES - sizeof(*own);
	own->there.uc_link = &own->here;
	makecontext(&own->there, fork_there, 0);
	swapcontext(&own->here, &own->there);
	child = own->child;
	unmap_memory(own, STACK_BYTES);
	return child;
}

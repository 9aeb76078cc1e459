// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * dlopen of libibverbs: NCCL and its kin load it at run time, and look its functions up in the
 * handle, where a preloaded library does not stand in front. So they get a handle of this library.
 * The genuine one is among what this is linked with, so what is missing here is found behind it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include "verbs.h"

typedef void *(*dlopen_function)(const char *name, int flags);

static int is_libibverbs(const char *name)
{
	const char *slash = strrchr(name, '/');

	if (slash)
		name = slash + 1;
	return !strcmp(name, "libibverbs.so") || !strcmp(name, "libibverbs.so.1");
}

/* The caller's RUNPATH says where a library is looked for, and the return address who the caller
 * is: the call must be a jump, which leaves the program's address where it is. */
EXPORT void *dlopen(const char *name, int flags)
{
	static dlopen_function genuine;
	Dl_info own;

	if (!genuine) /* two threads that look for it find the same */
		genuine = (dlopen_function)dlsym(RTLD_NEXT, "dlopen");
	if (name && is_libibverbs(name) && dladdr((void *)is_libibverbs, &own))
		name = own.dli_fname;
	__attribute__((musttail)) return genuine(name, flags);
}

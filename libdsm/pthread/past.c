// SPDX-License-Identifier: BSD-2-Clause
/*
 * past.c - libdsm's own calls go past the interposers.
 *
 * The loader binds libdsm to the first definition of a name, as it does the program: to one of this
 * library or of libdsm-syscall.so, which finds out by its caller, at each call, that it has nothing
 * to do. Here these names are bound to the C library instead, except for those by which the two
 * libraries keep account of what libdsm does.
 */
#include "shim.h"

#include <link.h>
#include <string.h>

#include "interpose/files.h"
#include "parts.h"
#include "util/bound.h"

/*
 * exit() ends the job, pthread_cancel() may interrupt a thread at once, and mappings lie in this
 * rank's range of addresses.
 */
static bool past_keeps(const char *name)
{
	static const char *const kept[] = { "exit", "pthread_cancel", "mmap", "mmap64", "munmap" };
	size_t i;

	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!strcmp(name, kept[i]))
			return true;
	return dsm_files_accounts && dsm_files_accounts(name);
}

static bool past_is_interposer(const char *path)
{
	return strstr(path, "/libdsm-pthread.") || strstr(path, "/libdsm-syscall.");
}

static void past_bind_name(const char *name, void **where, void *libc)
{
	void *first = dlsym(RTLD_DEFAULT, name), *past;
	Dl_info definer;

	if (!first || !dladdr(first, &definer) || !past_is_interposer(definer.dli_fname) ||
	    past_keeps(name))
		return;
	past = dlsym(libc, name);
	if (past)
		bound_set(where, past);
}

/* The loader's list is locked meanwhile, which dlsym() must not meet: take a copy. */
static int past_copy_libdsm(struct dl_phdr_info *info, size_t size, void *out)
{
	(void)size;
	if (!strstr(info->dlpi_name, "/libdsm."))
		return 0;
	*(struct dl_phdr_info *)out = *info;
	return 1;
}

void past_bind(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	struct dl_phdr_info libdsm;

	if (!libc)
		return;
	if (dl_iterate_phdr(past_copy_libdsm, &libdsm))
		bound_each(&libdsm, past_bind_name, libc);
	dlclose(libc);
}

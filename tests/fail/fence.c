// SPDX-License-Identifier: BSD-2-Clause
/*
 * fence.c - rank 1 is killed at the last moment: in dsm_finalize(), when it has said goodbye and
 * waits for the others.
 */
#include <dsm.h>

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

static int victim;

int PMIx_Fence_nb(const void *procs, size_t n, const void *info, size_t ninfo, void *done,
		  void *arg);

/* The runtime calls this one, in dsm_init() and then in dsm_finalize(). */
int PMIx_Fence_nb(const void *procs, size_t n, const void *info, size_t ninfo, void *done,
		  void *arg)
{
	int (*real)(const void *, size_t, const void *, size_t, void *, void *);

	*(void **)&real = dlsym(RTLD_NEXT, "PMIx_Fence_nb");
	if (victim)
		kill(getpid(), SIGKILL);
	return real(procs, n, info, ninfo, done, arg);
}

int main(void)
{
	if (dsm_init(NULL))
		return 2;
	victim = dsm_rank() == 1;
	return dsm_finalize() ? 3 : 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * ucp_api.c - finds UCX, and sets it up.
 *
 * Called by the thread that opens a transport. Settings in the user's environment take precedence;
 * those set here are removed again, so that programs started by this one do not inherit them.
 */
#include "net/ucx/ucp_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

#include "net/redirect.h"
#include "util/log.h"

static struct {
	const char *name, *value;
	int ours; /* set by this file */
		  /* clang-format off */
} settings[] = {
	/*
	 * Excludes sysv (segments without a file cannot show that their owner died) and RDMA
	 * devices (net/verbs uses them).
	 */
	{ "UCX_TLS", "posix,cma,tcp", 0 },
	{ "UCX_MODULES", "cma", 0 }, /* belongs to it: other modules only cost time and memory */
	/* stdout belongs to the program, and descriptor 2 may do so: see ucp_api_line(). */
	{ "UCX_LOG_FILE", "stderr", 0 },
	/* Signals and address space belong to the fault backends. */
	{ "UCX_ERROR_SIGNALS", "", 0 },
	{ "UCX_HANDLE_ERRORS", "none", 0 },
	{ "UCX_MEM_EVENTS", "n", 0 },
	{ "UCX_MEM_MMAP_HOOK_MODE", "none", 0 },
	{ "UCX_MEM_MALLOC_HOOKS", "n", 0 },
	{ "UCX_MEM_MALLOC_RELOC", "n", 0 },
	{ "UCX_MEM_DYNAMIC_MMAP_THRESH", "n", 0 },
	{ "UCX_MEMTYPE_CACHE", "n", 0 },
	{ "UCX_VFS_ENABLE", "n", 0 },
	{ "UCX_LOG_LEVEL", "fatal", 0 }, /* the runtime itself reports lost peers */
	{ "UCX_WARN_UNUSED_ENV_VARS", "n", 0 },
	/*
	 * Shared memory: checked for dead peers, so that endpoints report errors; 0.7 MiB of
	 * buffers instead of 4, as 64 ranks must fit into the 64 MiB that containers give /dev/shm;
	 * names unlinked at once.
	 */
	{ "UCX_POSIX_ERROR_HANDLING", "y", 0 },
	{ "UCX_POSIX_RX_BUFS_GROW", "80", 0 }, /* the queue's 64 in one segment */
	{ "UCX_POSIX_USE_PROC_LINK", "y", 0 },
	/*
	 * Nothing is announced before it is sent: UCX would wait for an answer of the receiver, and
	 * so for a thread of a node that computes, without sending any less.
	 */
	{ "UCX_RNDV_THRESH", "inf", 0 },
	/* Connecting to a host that is down would block every thread. */
	{ "UCX_KEEPALIVE_INTERVAL", "2s", 0 },
	{ "UCX_TCP_CONN_NB", "y", 0 },
	{ "UCX_TCP_MAX_NUM_EPS", "inf", 0 },
};
/* clang-format on */

enum { TLS = 0, MODULES = 1, LOG_FILE = 2 };
#define NSETTINGS (sizeof(settings) / sizeof(*settings))

bool ucp_api_settings_put(void)
{
	size_t i;

	for (i = 0; i < NSETTINGS; i++)
		if (!getenv(settings[i].name) && (i != MODULES || settings[TLS].ours))
			settings[i].ours = !setenv(settings[i].name, settings[i].value, 0);
	return settings[TLS].ours;
}

void ucp_api_settings_take(void)
{
	size_t i;

	for (i = 0; i < NSETTINGS; i++) {
		if (settings[i].ours)
			unsetenv(settings[i].name);
		settings[i].ours = 0;
	}
}

/* If UCX was loaded with the program, its handlers are installed: restore the signals. */
static void free_signals(void)
{
	static const int numbers[] = { SIGILL, SIGSEGV, SIGBUS, SIGFPE };
	struct sigaction now, none = { .sa_handler = SIG_DFL };
	size_t i;
	Dl_info info;

	for (i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (sigaction(numbers[i], NULL, &now) || now.sa_handler == SIG_DFL ||
		    now.sa_handler == SIG_IGN)
			continue;
		if (dladdr((void *)now.sa_handler, &info) && info.dli_fname &&
		    strstr(info.dli_fname, "/libucs."))
			sigaction(numbers[i], &none, NULL);
	}
}

/*
 * UCX prints to descriptor 2, which may be a file of the program by now. So its lines become
 * libdsm's, but for that of an error for which UCX ends the process. Any thread, also in a handler
 * of a signal.
 */
static ucs_log_func_rc_t ucp_api_line(const char *file, unsigned int line, const char *function,
				      ucs_log_level_t level,
				      const ucs_log_component_config_t *component,
				      const char *format, va_list ap)
{
	static const char *const names[] = { "fatal", "error", "warning", "diag", "info", "debug" };
	const char *name = strrchr(file, '/');
	char text[800];

	(void)function;
	(void)component;
	vsnprintf(text, sizeof(text), format, ap);
	log_line("UCX: %s: %s:%u: %s",
		 level < sizeof(names) / sizeof(names[0]) ? names[level] : "trace",
		 name ? name + 1 : file, line, text);
	return UCS_LOG_FUNC_RC_STOP;
}

/*
 * With settings of the user about where lines go, or which of them end the process, UCX prints
 * itself.
 */
static void take_lines(void *lib)
{
	void (*push)(ucs_log_func_t handler);

	*(void **)&push = dlsym(lib, "ucs_log_push_handler");
	if (push && settings[LOG_FILE].ours && !getenv("UCX_LOG_LEVEL_TRIGGER"))
		push(ucp_api_line);
}

int ucp_api_load(const struct ucp_api **api)
{
	static struct ucp_api table;
	static int loaded;
	void *lib;

	if (loaded) {
		*api = &table;
		return 0;
	}
	/* never closed: UCX does not support that */
	lib = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		log_line("UCX is missing: %s; install the package libucx0", dlerror());
		return -ENODEV;
	}
/* clang-format off */
#define X(name) \
	*(void **)&table.name = dlsym(lib, #name); \
	if (!table.name) { \
		log_line("UCX has no function " #name "; version 1.12 or later is needed"); \
		return -ENODEV; \
	}
	/* clang-format on */
	UCP_FUNCTIONS(X)
#undef X
	free_signals();
	redirect_malloc();
	take_lines(lib);
	loaded = 1;
	*api = &table;
	return 0;
}

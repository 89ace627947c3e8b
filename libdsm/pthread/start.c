// SPDX-License-Identifier: BSD-2-Clause
/*
 * start.c - the program's process becomes a rank before its first constructor runs, and leaves the
 * job after its last destructor.
 *
 * Rank 0 runs the program: constructors, main() on a shared stack, exit handlers. The other ranks
 * stay in this library's constructor, where their first thread waits for the end; pthread_create()
 * makes their threads. When the program ends, even if threads still run, all ranks leave the job
 * together and end at once, without running destructors.
 *
 * exit(), quick_exit() and _exit() in a thread of another rank are executed by rank 0, which has
 * the handlers of atexit() and at_quick_exit().
 */
#include "shim.h"

#include "interpose/files.h"
#include "interpose/print.h"
#include "interpose/raw_syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc.h"
#include "atomics.h"
#include "callbacks.h"
#include "copies.h"
#include "futex.h"
#include "libraries.h"
#include "lookup.h"
#include "maps.h"
#include "masks.h"
#include "opened.h"
#include "parts.h"
#include "pending.h"
#include "processors.h"
#include "signals.h"
#include "space.h"
#include "statics.h"
#include "streams.h"
#include "thread.h"
#include "util/sizes.h"

#define INSIDE "DSM_PTHREAD_INSIDE" /* a program started by the program is no rank */
#define CODE_MAX 8
#define MAIN_STACK (8ul << 20) /* at least: with an unlimited stack size, threads get 2 MiB */

struct shim shim;
struct team *team;

struct code {
	const char *low, *high;
};
/* of the program, of libdsm, of the C library, of zlib and libnuma */
static struct code code[CODE_MAX], runtime, c_library, zlib, numa;
static unsigned int codes, own_codes; /* own: of the executable, which is first */

void start_print(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	print_message(dsm_files_stderr ? dsm_files_stderr() : STDERR_FILENO, "libdsm-pthread",
		      shim.pid ? shim.rank : -1, format, ap);
	va_end(ap);
}

int start_cannot(const char *what)
{
	start_print("%s does not work across ranks", what);
	return ENOSYS;
}

static bool is_within(const struct code *c, const char *at)
{
	return at >= c->low && at < c->high;
}

/* Is it in one of the first n? */
static bool is_code(const char *at, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (is_within(&code[i], at))
			return true;
	return false;
}

bool is_program(const void *caller)
{
	return is_code(caller, codes) || (shim.shares_libraries && libraries_has_code(caller)) ||
		(callbacks_depth && is_within(&c_library, caller)) ||
		(opened_depth && opened_has_code(caller));
}

bool is_executable(const void *at)
{
	return is_code(at, own_codes);
}

bool is_rank(void)
{
	const long none[6] = { 0 };

	return raw_syscall(SYS_getpid, none) == shim.pid;
}

bool is_runtime(const void *caller)
{
	const char *at = caller;

	return at >= runtime.low && at < runtime.high;
}

bool is_library_of_program(const void *caller)
{
	return (is_within(&zlib, caller) || is_within(&numa, caller)) && dsm_self().id;
}

/*
 * This library counts, too: a call from it may end in a jump to malloc(), whose caller then seems
 * to be here.
 */
static int note_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	const bool is_libdsm = strstr(info->dlpi_name, "/libdsm."),
		   is_libc = strstr(info->dlpi_name, "/libc.so."),
		   is_zlib = strstr(info->dlpi_name, "/libz.so."),
		   is_numa = strstr(info->dlpi_name, "/libnuma.so.");
	int i, *n = arg;

	(void)size;
	if ((*n)++ && !is_libdsm && !is_libc && !is_zlib && !is_numa &&
	    !strstr(info->dlpi_name, "/libstdc++.") && !strstr(info->dlpi_name, "/libdsm-pthread."))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		const char *low = (const char *)(info->dlpi_addr + h->p_vaddr);
		const struct code found = { low, low + h->p_memsz };

		if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
			continue;
		if (is_libdsm)
			runtime = found;
		else if (is_libc)
			c_library = found;
		else if (is_zlib)
			zlib = found;
		else if (is_numa)
			numa = found;
		else if (codes < CODE_MAX)
			code[codes++] = found;
	}
	if (*n == 1)
		own_codes = codes;
	return 0;
}

/* _exit() of this process. It may be called where dlsym() must not be. */
static void end_process(int s) __attribute__((noreturn));
static void end_process(int s)
{
	for (;;)
		syscall(SYS_exit_group, s);
}

/* Libraries that this library itself needs, or that note_code() has recorded as the program's. */
static bool is_known(const char *name)
{
	static const char *const known[] = { "libdsm",     "libc.",     "libm.",
					     "libstdc++.", "libgcc_s.", "libpthread." };
	unsigned int i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(name, known[i], strlen(known[i])))
			return true;
	return false;
}

/* Is it linked to the executable by its own request? */
static bool is_needed(const char *name)
{
	const ElfW(Dyn) *const dynamic = _r_debug.r_map->l_ld, *d;
	const char *strings = NULL;

	for (d = dynamic; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = (const char *)d->d_un.d_ptr;
	for (d = dynamic; strings && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED && !strcmp(strings + d->d_un.d_val, name))
			return !is_known(name);
	return false;
}

void thread_log_stays(const void *caller)
{
	static void *said[CODE_MAX];
	struct link_map *map = NULL;
	const char *name;
	Dl_info info;
	void *none;
	int i;

	if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !map->l_name)
		return;
	name = strrchr(map->l_name, '/');
	name = name ? name + 1 : map->l_name;
	if (!is_needed(name))
		return;
	for (i = 0; i < CODE_MAX; i++) {
		none = NULL;
		if (__atomic_compare_exchange_n(&said[i], &none, map, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			break;
		if (none == map)
			return;
	}
	if (i == CODE_MAX)
		return;
	start_print("threads that %s creates stay on this rank, see dsm-cc(1)", name);
}

static void start_give_up(const char *what, int err)
{
	start_print("%s: %s", what, dsm_strerror(err));
	end_process(70);
}

static void start_must(const char *what, int err)
{
	if (err)
		start_give_up(what, err);
}

/* The addresses of shared memory. */
static void find_shared(dsm_region_t *globals)
{
	/* the same, or the second begins where the first ends */
	struct dsm_region_info heap, upper;
	void *p = dsm_malloc(1), *q = dsm_malloc_program(0, 1, 0);

	if (!p || !q || dsm_region_query(p, &heap) || dsm_region_query(q, &upper))
		start_give_up("no shared heap (DSM_HEAP)", ENOMEM);
	dsm_free(p);
	dsm_free(q);
	shim.heap = heap.base;
	shim.heap_end = (char *)upper.base + upper.size;
	shim.weak = upper.consistency == DSM_CONSISTENCY_RELEASE;
	if (globals) {
		shim.globals = dsm_region_base(globals);
		shim.globals_end = shim.globals + dsm_region_size(globals);
	}
}

static void make_team(void)
{
	const size_t bytes = KEYS * sizeof(struct key);
	struct key *keys;

	if (shim.rank == 0) {
		team = dsm_aligned_alloc(PAGE_BYTES, sizeof(*team));
		keys = dsm_aligned_alloc(PAGE_BYTES, bytes);
		if (!team || !keys)
			start_give_up("no shared heap (DSM_HEAP)", ENOMEM);
		memset(team, 0, sizeof(*team));
		memset(keys, 0, bytes);
		team->keys = keys;
		team->live = 1;
		start_must("environment", environment_start());
		start_must("statics", statics_start());
		start_must("streams of C++", iostreams_start());
		team->pid = shim.pid;
		start_must("signals", signals_make() ? 0 : -ENOMEM);
		start_must("random numbers", random_start());
		start_must("processors", processors_start());
		start_must("dsm_sem_init", dsm_sem_init(&team->exits, 0));
		start_must("dsm_sem_init", dsm_sem_init(&team->over, 0));
	}
	if (shim.rank == 0)
		stacks_start();
	start_must("mappings", maps_start());
	start_must("dsm_broadcast", dsm_broadcast(&team, sizeof(team), 0));
	if (shim.rank)
		stacks_start();
	start_must("environment", environment_join());
	statics_join();
	iostreams_join();
	processors_note();
	shim.keys = team->keys;
	shim.leader = team->pid;
}

static void start_await_end(void)
{
	dsm_sem_t over = team->over;

	dsm_wait_label(DSM_WAIT_IDLE, NULL, 0);
	while (dsm_sem_wait(&over) == -EINTR)
		;
}

/* A rank other than 0 waits until the program is over. */
static void start_serve(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	block_signals(); /* this thread is not the program's */
	start_await_end();
	fflush(NULL);
	dsm_quit();
	end_process(0);
}

enum ending { RUNS_ON, BY_EXIT, BY_QUICK_EXIT, AT_ONCE };

static pid_t ender; /* rank 0: the thread that runs exit() or quick_exit(); 0: none. Atomic */

static void sleep_forever(void) __attribute__((noreturn));
static void sleep_forever(void)
{
	for (;;)
		pause();
}

/*
 * Rank 0. Returns in the one thread that ends the program, also in a handler that it runs; the
 * first call decides.
 */
static void begin_end(enum ending how, int s)
{
	uint32_t none = RUNS_ON;

	if (__atomic_load_n(&ender, __ATOMIC_SEQ_CST) == gettid())
		return;
	if (!__atomic_compare_exchange_n(&team->how, &none, how, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		sleep_forever();
	team->status = (uint32_t)s;
	__atomic_store_n(&ender, gettid(), __ATOMIC_SEQ_CST);
	callbacks_begin_last();
}

/*
 * A thread of its own, since the handlers of exit() may take any time, and _exit() does not wait
 * for them.
 */
static void *run_exit(void *how)
{
	__atomic_store_n(&ender, gettid(), __ATOMIC_SEQ_CST);
	callbacks_begin_last();
	if ((intptr_t)how == BY_EXIT)
		exit((int)team->status);
	quick_exit((int)team->status);
}

/* Another rank has told rank 0. */
static void *exits(void *arg)
{
	dsm_sem_t wanted = team->exits;
	pthread_t t;

	dsm_wait_label(DSM_WAIT_IDLE, NULL, 0);
	while (!dsm_sem_wait(&wanted)) {
		void *how = (void *)(intptr_t)__atomic_load_n(&team->how, __ATOMIC_SEQ_CST);

		if ((intptr_t)how == AT_ONCE)
			_exit((int)team->status);
		if (NEXT(pthread_create)(&t, NULL, run_exit, how))
			run_exit(how);
	}
	return arg;
}

static int status;           /* exit status of rank 0 */
static char status_file[64]; /* where dsmrun reads it; empty: it has not started this rank */

/*
 * mpirun treats a status other than 0 as a failure, and then sleeps for two seconds. So dsmrun gets
 * it by a file. Returns the status of this process.
 */
static int tell_status(int s)
{
	char word[16];
	const int n = snprintf(word, sizeof(word), "%d\n", s);
	long fd, written;

	if (!s || !*status_file)
		return s;
	fd = syscall(SYS_open, status_file, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return s;
	written = syscall(SYS_write, fd, word, n);
	syscall(SYS_close, fd);
	return written == n ? 0 : s;
}

static void note_status(int s, void *arg)
{
	(void)arg;
	status = s;
}

static void quick_end(void);

static bool is_shared_here(const void *p)
{
	return is_shared(p);
}

/* Descriptors and streams of the program are rank 0's. */
static void share_files(void)
{
	const struct files_program p = { .is_shared = is_shared_here,
					 .alloc = shared_alloc,
					 .stream_open = streams_open,
					 .stream_has = streams_has,
					 .stream_note = streams_note,
					 .stream_clear = streams_clear,
					 .refused = &team->refused,
					 .calls = calls_begin,
					 .calls_end = calls_end };

	if (dsm_files_start)
		start_must("more than 1,024 threads before the start", dsm_files_start(&p));
}

/* Of descriptors, to the program. */
static void give_numbers(void)
{
	if (dsm_files_after)
		dsm_files_after();
}

static void note_status_file(void)
{
	const char *file = getenv("DSMRUN_STATUS");

	if (file && strlen(file) < sizeof(status_file))
		strcpy(status_file, file);
	unsetenv("DSMRUN_STATUS");
}

__attribute__((constructor)) static void start_begin(void)
{
	dsm_region_t *globals = NULL;
	uint64_t signals;
	pthread_t t;
	int n = 0, err;

	if (getenv(INSIDE)) {
		libraries_leave();
		return;
	}
	if (alloc_is_replaced())
		end_process(70);
	past_bind();
	faults_catch();
	if (dsm_files_before)
		dsm_files_before();
	places_note();
	start_must("dsm_init", dsm_init(NULL));
	dl_iterate_phdr(note_code, &n);
	shim.pid = getpid();
	note_status_file();
	faults_chain();
	shim.rank = dsm_rank();
	shim.size = dsm_size();
	setenv(INSIDE, "1", 1);
	if (shim.size == 1) {
		libraries_leave();
		give_numbers();
		return;
	}
	report_signals();
	shim.one_node = dsm_nodes() == 1;
	shim.shares_maps = !getenv("DSM_MMAP") || !strcmp(getenv("DSM_MMAP"), "1");
	copies_separate();
	iostreams_construct();
	start_must("the program's variables", dsm_adopt_globals(&globals));
	find_shared(globals);
	if (libraries_share() || places_compare() || features_compare())
		end_process(70);
	make_team();
	signals_share();
	start_must("names", lookup_start());
	start_must("futexes", futex_start());
	start_must("atomic operations", atomics_start());
	start_must("addresses", space_start());
	dsm_fault_hook(maps_fault);
	share_files();
	shim.active = true; /* set before another rank can make a thread here */
	start_must("dsm_barrier", dsm_barrier());
	start_must("signals", pending_start());
	give_numbers();
	if (shim.rank)
		start_serve();
	/* registered first, so run last */
	start_must("at_quick_exit", at_quick_exit(quick_end) ? -ENOMEM : 0);
	/* the program's threads should get them */
	signals = block_signals();
	err = NEXT(pthread_create)(&t, NULL, exits, NULL);
	masks_let_signals(signals);
	start_must("no thread", -err);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* A refused call must not pass for success. */
static int final_status(uint32_t refused)
{
	return status || !refused ? status : FILES_STATUS;
}

static void start_leave(void *arg)
{
	const uint32_t refused = __atomic_load_n(&team->refused, __ATOMIC_RELAXED);
	dsm_sem_t over = team->over;

	(void)arg;
	callbacks_end_last();
	dsm_sem_post(&over, (uint32_t)shim.size); /* one post may be for main() */
	dsm_quit();
	end_process(tell_status(final_status(refused)));
}

/* Rank 0, once: several threads may call _exit(), or one may while another is in exit(). */
static void leave_once(void) __attribute__((noreturn));
static void leave_once(void)
{
	static uint32_t leaving;

	if (!__atomic_exchange_n(&leaving, 1, __ATOMIC_SEQ_CST))
		dsm_call(start_leave, NULL);
	sleep_forever();
}

__attribute__((destructor)) static void start_end(void)
{
	if (shim.active && shim.rank == 0) {
		libraries_finish();
		fflush(NULL);
		leave_once();
	}
	if (!shim.active && dsm_size() == 1)
		dsm_finalize();
}

/* The handler of at_quick_exit(). */
static void quick_end(void)
{
	leave_once();
}

struct asked {
	enum ending how;
	int status;
};

static void start_ask(void *arg)
{
	struct asked a = *(struct asked *)arg;
	dsm_sem_t wanted = team->exits;
	uint32_t how = RUNS_ON;

	/* _exit() does not wait for an exit() that runs. */
	while (!__atomic_compare_exchange_n(&team->how, &how, a.how, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST))
		if (a.how != AT_ONCE || how == AT_ONCE)
			return;
	team->status = (uint32_t)a.status;
	dsm_sem_post(&wanted, 1);
}

void last_ended(void)
{
	struct asked a = { BY_EXIT, 0 };

	dsm_call(start_ask, &a);
}

static void ask_rank_0(enum ending how, int s) __attribute__((noreturn));
static void ask_rank_0(enum ending how, int s)
{
	struct asked a = { how, s };

	dsm_call(start_ask, &a);
	sleep_forever();
}

/* Does the program call it, in a job of several ranks? */
static bool ends_job(const void *caller)
{
	return caller_is_ours(caller) && is_rank();
}

EXPORT void exit(int s)
{
	if (shim.active && shim.rank) {
		fflush(NULL);
		ask_rank_0(BY_EXIT, s);
	}
	if (shim.active && is_rank())
		begin_end(BY_EXIT, s);
	NEXT(exit)(s);
	__builtin_unreachable();
}

EXPORT void quick_exit(int s)
{
	if (ends_job(CALLER) && shim.rank)
		ask_rank_0(BY_QUICK_EXIT, s);
	if (ends_job(CALLER))
		begin_end(BY_QUICK_EXIT, s);
	status = s;
	NEXT(quick_exit)(s);
	__builtin_unreachable();
}

static void exit_at_once(int s, const void *caller) __attribute__((noreturn));
static void exit_at_once(int s, const void *caller)
{
	if (!ends_job(caller))
		end_process(s);
	if (shim.rank)
		ask_rank_0(AT_ONCE, s);
	status = s;
	leave_once();
}

EXPORT void _exit(int s)
{
	exit_at_once(s, CALLER);
}

EXPORT void _Exit(int s)
{
	exit_at_once(s, CALLER);
}

/* ---- main() ---------------------------------------------------------------------------------- */

static int (*program_main)(int, char **, char **);

struct words {
	int argc;
	char **argv, **envp;
};

static void *call_main(void *arg)
{
	struct words *w = arg;

	return (void *)call_program((void *)program_main, w->argc, (long)w->argv, (long)w->envp);
}

static void *begin_main(void *arg)
{
	return run_as_main(call_main, arg);
}

/* Other threads may read them, so copy them to shared memory. */
static char **share_words(char **words, int n)
{
	char **out = dsm_calloc((size_t)n + 1, sizeof(*out));
	int i;

	for (i = 0; out && i < n; i++) {
		out[i] = dsm_malloc(strlen(words[i]) + 1);
		if (!out[i])
			return words;
		strcpy(out[i], words[i]);
	}
	return out ? out : words;
}

static int run_main(int argc, char **argv, char **envp)
{
	struct dsm_thread_options opt = { .shared_stack = 1 };
	struct words w = { argc, argv, shim.active ? environ : envp };
	void *result = NULL;

	if (!shim.active)
		return program_main(argc, argv, envp);
	opt.stack_size = team->stack_size > MAIN_STACK ? team->stack_size : MAIN_STACK;
	w.argv = share_words(argv, argc);
	/* here: the C library runs destructors before handlers that came before main() */
	on_exit(note_status, NULL);
	start_must("main()", dsm_run(&opt, begin_main, &w, &result));
	if (main_has_left()) {
		start_await_end();
		sleep_forever();
	}
	/* the C library calls an exit() that is not ours */
	begin_end(BY_EXIT, (int)(intptr_t)result);
	return (int)(intptr_t)result;
}

EXPORT int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
			     void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
			     void *stack_end);
EXPORT int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
			     void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
			     void *stack_end)
{
	program_main = main;
	return NEXT(__libc_start_main)(run_main, argc, argv, init, fini, rtld_fini, stack_end);
}

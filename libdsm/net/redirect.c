// SPDX-License-Identifier: BSD-2-Clause
/*
 * redirect.c - makes the libraries of UCX and of verbs allocate from a heap of the runtime
 * (net/own.h).
 *
 * They have no hook for that. They call malloc() and the like through their own tables of
 * addresses, in which this file replaces entries, as UCX itself does in other libraries to notice
 * unmapping. Memory that they had before, or got from the C library (strdup() in there), is
 * recognised by its address and returned to its origin.
 *
 * The libraries free each other's memory: a provider frees what libibverbs has allocated. So a
 * library that they load is redirected at once, whoever uses it.
 */
#include "net/redirect.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/own.h"
#include "net/stream.h"
#include "util/bound.h"
#include "util/ends.h"

static void *redirect_get(size_t size)
{
	void *p = own_alloc(size, 0);

	if (!p)
		errno = ENOMEM;
	return p;
}

static void *get_zeroed(size_t n, size_t size)
{
	size_t bytes;
	void *p;

	p = __builtin_mul_overflow(n, size, &bytes) ? NULL : own_zalloc(bytes);
	if (!p)
		errno = ENOMEM;
	return p;
}

static void redirect_put(void *p)
{
	if (own_is(p))
		own_free(p);
	else
		free(p);
}

static void *get_again(void *was, size_t size)
{
	void *p;

	if (was && !own_is(was))
		return realloc(was, size);
	if (was && !size) {
		own_free(was);
		return NULL;
	}
	p = own_realloc(was, size);
	if (!p)
		errno = ENOMEM;
	return p;
}

static void *get_aligned(size_t align, size_t size)
{
	void *p = own_alloc(size, align);

	if (!p)
		errno = ENOMEM;
	return p;
}

static int get_posix(void **out, size_t align, size_t size)
{
	void *p = own_alloc(size, align);

	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

static char *copy_some(const char *s, size_t n)
{
	size_t length = strnlen(s, n);
	char *p = redirect_get(length + 1);

	if (p) {
		memcpy(p, s, length);
		p[length] = 0;
	}
	return p;
}

static char *redirect_copy(const char *s)
{
	return copy_some(s, SIZE_MAX);
}

/* vasprintf() and asprintf(), as the compiler calls them for _FORTIFY_SOURCE. */
static int print_all(char **out, int flag, const char *format, va_list args)
{
	va_list again;
	int n;

	(void)flag;
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	*out = n < 0 ? NULL : redirect_get((size_t)n + 1);
	return *out ? vsnprintf(*out, (size_t)n + 1, format, args) : -1;
}

static int redirect_print(char **out, int flag, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = print_all(out, flag, format, args);
	va_end(args);
	return n;
}

static void *load(const char *file, int mode)
{
	void *library = dlopen(file, mode);

	redirect_malloc();
	return library;
}

/* ---- thread-local variables ----------------------------------------------------------------- */

/*
 * The loader allocates thread-local memory of a late library when a thread first uses it, which may
 * be in a miss. So this file does it instead: one block per library and thread. The thread that
 * loads UCX keeps what it has.
 */
#define LIBRARIES 8

struct tls_index {
	unsigned long module, offset;
};

static struct {
	unsigned long module;
	const void *image;
	size_t image_size, size, align;
} libraries[LIBRARIES];
static unsigned int n_libraries;
static void *(*loaders_tls)(struct tls_index *);

struct blocks {
	bool loaders; /* this thread uses the loader's blocks */
	char *of[LIBRARIES];
};
static __thread struct blocks blocks __attribute__((tls_model("initial-exec")));

static void redirect_thread_ends(void)
{
	unsigned int i;

	for (i = 0; i < LIBRARIES; i++) {
		own_free(blocks.of[i]);
		blocks.of[i] = NULL;
	}
}

static char *make_block(unsigned int i)
{
	char *p = own_alloc(libraries[i].size, libraries[i].align);

	if (!p)
		abort(); /* the loader does the same */
	memset(p, 0, libraries[i].size);
	memcpy(p, libraries[i].image, libraries[i].image_size);
	ends_note();
	blocks.of[i] = p;
	return p;
}

static void *get_tls(struct tls_index *t)
{
	unsigned int i, n = __atomic_load_n(&n_libraries, __ATOMIC_ACQUIRE);

	for (i = 0; i < n && libraries[i].module != t->module; i++)
		;
	if (blocks.loaders || i == n)
		return loaders_tls(t);
	return (blocks.of[i] ? blocks.of[i] : make_block(i)) + t->offset;
}

static void note_tls(const struct dl_phdr_info *info, const ElfW(Phdr) * p)
{
	unsigned int i;

	for (i = 0; i < n_libraries && libraries[i].module != info->dlpi_tls_modid; i++)
		;
	if (i < n_libraries || i == LIBRARIES)
		return;
	libraries[i].module = info->dlpi_tls_modid;
	libraries[i].image = (const void *)(info->dlpi_addr + p->p_vaddr);
	libraries[i].image_size = p->p_filesz;
	libraries[i].size = p->p_memsz;
	libraries[i].align = p->p_align;
	__atomic_store_n(&n_libraries, i + 1, __ATOMIC_RELEASE);
}

/* ---- tables --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void *ours;
	/* clang-format off */
} functions[] = {
	{ "malloc", (void *)redirect_get },
	{ "calloc", (void *)get_zeroed },
	{ "realloc", (void *)get_again },
	{ "free", (void *)redirect_put },
	{ "memalign", (void *)get_aligned },
	{ "aligned_alloc", (void *)get_aligned },
	{ "posix_memalign", (void *)get_posix },
	{ "__tls_get_addr", (void *)get_tls },
	{ "strdup", (void *)redirect_copy },
	{ "__strdup", (void *)redirect_copy },
	{ "strndup", (void *)copy_some },
	{ "__strndup", (void *)copy_some },
	{ "__vasprintf_chk", (void *)print_all },
	{ "__asprintf_chk", (void *)redirect_print },
	{ "dlopen", (void *)load },
	{ "fopen", (void *)stream_open },
	{ "fclose", (void *)stream_close },
};
/* clang-format on */

static void *ours_for(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(name, functions[i].name))
			return functions[i].ours;
	return NULL;
}

/*
 * Parts of their paths. A provider is loaded from libibverbs' directory, or as a library that the
 * program uses itself.
 */
static const char *const paths[] = {
	"/libucp.", "/libuct.",  "/libucs.",  "/libucm.", "/ucx/libuc", "/libibverbs.",
	"-rdmav",   "/libmlx4.", "/libmlx5.", "/libefa.", "/libmana.",  "/libhns.",
};

static bool is_redirected(const char *path)
{
	size_t i;

	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (strstr(path, paths[i]))
			return true;
	return false;
}

static void redirect_name(const char *name, void **where, void *arg)
{
	void *ours = ours_for(name);

	(void)arg;
	if (ours)
		bound_set(where, ours);
}

static int redirect_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	size_t i;

	(void)size;
	if (!info->dlpi_name || !is_redirected(info->dlpi_name))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			note_tls(info, &info->dlpi_phdr[i]);
	bound_each(info, redirect_name, arg);
	return 0;
}

static bool redirect_begin(void)
{
	void *(*tls)(struct tls_index *);

	if (loaders_tls)
		return true;
	tls = (void *(*)(struct tls_index *))dlsym(RTLD_DEFAULT, "__tls_get_addr");
	if (!tls || ends_call(ENDS_NET, redirect_thread_ends))
		/* nothing is redirected; only a miss that interrupts malloc() fails */
		return false;
	stream_prepare();
	loaders_tls = tls;
	blocks.loaders = true;
	return true;
}

void redirect_malloc(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	unsigned int i;

	pthread_mutex_lock(&lock);
	if (redirect_begin())
		dl_iterate_phdr(redirect_object, NULL);
	for (i = 0; blocks.loaders && i < n_libraries; i++)
		loaders_tls(&(struct tls_index){ .module = libraries[i].module });
	pthread_mutex_unlock(&lock);
}

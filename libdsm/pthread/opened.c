// SPDX-License-Identifier: BSD-2-Clause
/*
 * opened.c - libraries that the program opens: dlopen() and its like.
 *
 * Rank 0 opens them for all ranks: a library is loaded once, its constructors run there once, and
 * handles are those of rank 0's loader. Then it is a part of the program, as libraries.c has it.
 * Its addresses are in rank 0's range (space.c), where the others have nothing: so each gets a copy
 * of code and constants, as rank 0's loader has made them, and all adopt the variables. So do
 * libraries that are loaded because it needs them, also those of the system.
 *
 * The other ranks' loaders do not know it. So its functions are bound at once, it is never
 * unloaded, its unwind tables are registered, and opened_tls.c finds its thread-local variables.
 * What ranks cannot share stays on rank 0, with a message; an access by another rank is then
 * reported as to other private memory.
 *
 * Its constructors run inside the loader, before the variables are shared. Their calls count as the
 * program's: what they allocate is shared. Before the first of them creates a thread, opens a
 * library, or makes an object of synchronisation of which the C library has another idea, their own
 * is shared.
 *
 * A library that is no part of the program opens its libraries as ever. The loader finds a file by
 * who calls dlopen(), and dlsym(RTLD_NEXT) goes on behind its caller; therefore calls that are not
 * for this file are jumps to the loader's functions.
 */
#include "opened.h"

#include "shim.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "everywhere.h"
#include "interpose/raw_syscall.h"
#include "library.h"
#include "opened_tls.h"
#include "parts.h"
#include "space.h"
#include "statics.h"
#include "util/sizes.h"

#include <link.h>
#include <sys/syscall.h>

#define SEGMENTS 8

__thread unsigned int opened_depth;

/* ---- can ranks share it? --------------------------------------------------------------------- */

/* A call of dlopen() at rank 0, on the stack of its thread. */
struct opening {
	struct opening *outer;
	unsigned int known, loaded; /* libraries before, and with its own once it is decided */
	bool late;                  /* not all of its functions can be bound */
	bool deep;                  /* RTLD_DEEPBIND: it does not find libdsm's functions */
	bool decided;
	const struct link_map *fault; /* what ranks cannot share; NULL: nothing */
	char why[160];
};

static __thread struct opening *opening __attribute__((tls_model("initial-exec")));

/* One thread at a time opens. A constructor may open, too. Before the loader's lock. */
static pthread_mutex_t opened_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static unsigned int opened_loaded(void)
{
	const struct link_map *m;
	unsigned int n = 0;

	for (m = _r_debug.r_map; m; m = m->l_next)
		n++;
	return n;
}

/* The first that was loaded since. The loader appends. */
static const struct link_map *first_new(const struct opening *o)
{
	const struct link_map *m;
	unsigned int n = o->known;

	for (m = _r_debug.r_map; m && n; m = m->l_next)
		n--;
	return m;
}

/* The name of a library that it needs, and that was loaded after the start, for this rank alone. */
static const char *private_need(const struct link_map *m, unsigned int known)
{
	const struct link_map *other;
	const char *name;
	unsigned int next = 0, i;
	struct library l;

	while ((name = library_need(m, &next)))
		for (other = _r_debug.r_map, i = 0; other && i < known; other = other->l_next, i++)
			if (space_owner((const void *)other->l_addr) >= 0 &&
			    library_is_called(other, name) &&
			    !(library_read(other, &l) && libraries_has_code(l.code)))
				return name;
	return NULL;
}

static void find_fault(struct opening *o, const struct link_map *m)
{
	const char *name = library_name(m), *trust = getenv("DSM_ATOMICS"), *why;
	struct library l;

	if (library_is_excepted(name) || library_is_ours(name))
		strcpy(o->why, "it is never a part of a program");
	else if (!library_read(m, &l))
		strcpy(o->why, "its header is not in memory");
	else if ((why = opened_tls_fault(m)))
		strcpy(o->why, why);
	else if (o->late)
		strcpy(o->why, "not all functions that it calls are found (RTLD_NOW)");
	else if (o->deep)
		strcpy(o->why, "it is opened with RTLD_DEEPBIND");
	else if (shim.weak && (!trust || strcmp(trust, "trust")))
		strcpy(o->why,
		       "with release consistency, nobody has looked for atomic instructions in it (DSM_ATOMICS=trust)");
	else if ((why = private_need(m, o->known)))
		snprintf(o->why, sizeof(o->why), "it needs %s, of which each rank has its own",
			 why);
	else
		return;
	o->fault = m;
}

/*
 * Decided once, when all are loaded: a library is of no use without those that it needs. What a
 * constructor opens comes behind them, and is decided by a call of its own.
 */
static bool can_share(struct opening *o)
{
	const struct link_map *m;

	if (o->decided)
		return !o->fault;
	o->decided = true;
	o->loaded = opened_loaded();
	for (m = first_new(o); m && !o->fault; m = m->l_next)
		find_fault(o, m);
	return !o->fault;
}

bool opened_has_code(const void *caller)
{
	unsigned int n = opening->known;
	const char *at = caller;
	const struct link_map *m;
	struct library l;

	for (m = first_new(opening); m; m = m->l_next, n++)
		if (library_read(m, &l) && at >= l.code && at < l.code_end)
			return can_share(opening) && n < opening->loaded;
	return false;
}

/* ---- what the other ranks get ---------------------------------------------------------------- */

/* In the heap, while the ranks take it. */
struct opened {
	uintptr_t low, high;
	const char *code, *code_end, *frames; /* .eh_frame; NULL: none is found */
	char *data, *data_end;
	struct opened_tls tls;
	unsigned int segments;
	struct segment {
		uintptr_t low, high;
		size_t at; /* in bytes */
		int prot;
	} segment[SEGMENTS];
	char bytes[] __attribute__((aligned(16)));
};

static int prot_of(const ElfW(Phdr) * h)
{
	return (h->p_flags & PF_R ? PROT_READ : 0) | (h->p_flags & PF_X ? PROT_EXEC : 0);
}

/* By the table to search it, of which only where it leads counts. */
static const char *find_frames(const char *table)
{
	int32_t distance;

	/* version 1, a distance of four bytes from itself */
	if (table[0] != 1 || table[1] != 0x1b)
		return NULL;
	memcpy(&distance, table + 4, sizeof(distance));
	return table + 4 + distance;
}

/* Pages of a segment, without the variables behind them. */
static bool add_segment(struct opened *s, uintptr_t low, uintptr_t high, int prot, size_t *bytes)
{
	if (s->data && low < (uintptr_t)s->data_end && high > (uintptr_t)s->data)
		high = (uintptr_t)s->data;
	if (low >= high)
		return true;
	if (s->segments == SEGMENTS)
		return false;
	s->segment[s->segments++] = (struct segment){ low, high, *bytes, prot };
	*bytes += high - low;
	return true;
}

/* Returns the number of bytes that it takes; 0: it is not known where it is. */
static size_t opened_describe(const struct library *l, struct opened *s)
{
	const ElfW(Phdr) * h;
	size_t bytes = 0;
	int i, n;

	*s = (struct opened){ .low = UINTPTR_MAX,
			      .code = l->code,
			      .code_end = l->code_end,
			      .data = l->data,
			      .data_end = l->data_end };
	h = library_headers(l->map, &n);
	for (i = 0; i < n; i++) {
		const uintptr_t at = l->map->l_addr + h[i].p_vaddr, low = at & ~(PAGE_BYTES - 1),
				high = (at + h[i].p_memsz + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);

		if (h[i].p_type == PT_GNU_EH_FRAME)
			s->frames = find_frames((const char *)at);
		if (h[i].p_type != PT_LOAD || !h[i].p_memsz)
			continue;
		s->low = low < s->low ? low : s->low;
		s->high = high > s->high ? high : s->high;
		if (!add_segment(s, low, high, prot_of(&h[i]), &bytes))
			return 0;
	}
	return space_owner((const void *)s->low) == shim.rank ? bytes : 0;
}

static struct opened *opened_pack(const struct library *l)
{
	struct opened head, *s;
	size_t bytes = opened_describe(l, &head);
	unsigned int i;

	if (bytes && opened_tls_lead(l->map, &head.tls))
		return NULL;
	s = bytes ? dsm_malloc(sizeof(head) + bytes) : NULL;
	if (!s)
		return NULL;
	memcpy(s, &head, sizeof(head));
	for (i = 0; i < head.segments; i++)
		memcpy(s->bytes + head.segment[i].at, (const void *)head.segment[i].low,
		       head.segment[i].high - head.segment[i].low);
	return s;
}

/* ---- each rank ------------------------------------------------------------------------------- */

extern void __register_frame(const void *begin);

static bool opened_map(uintptr_t low, uintptr_t high)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	return raw_syscall(SYS_mmap,
			   (const long[6]){ (long)low, (long)(high - low), PROT_READ | PROT_WRITE,
					    flags, -1 }) == (long)low;
}

/* Another rank than 0: what is not variables. */
static void *opened_place(void *arg)
{
	const struct opened *shared = arg, s = *shared;
	unsigned int i;

	for (i = 0; i < s.segments; i++) {
		const struct segment *g = &s.segment[i];

		if (!opened_map(g->low, g->high))
			return (void *)(intptr_t)-errno;
		memcpy((void *)g->low, shared->bytes + g->at, g->high - g->low);
		if (raw_syscall(SYS_mprotect,
				(const long[6]){ (long)g->low, (long)(g->high - g->low), g->prot }))
			return (void *)(intptr_t)-errno;
	}
	if (s.data && !opened_map((uintptr_t)s.data, (uintptr_t)s.data_end))
		return (void *)(intptr_t)-errno;
	return NULL;
}

static void *opened_remove(void *arg)
{
	const struct opened s = *(const struct opened *)arg;

	return (void *)(intptr_t)space_close((void *)s.low, s.high - s.low);
}

/* All ranks at the same time. */
static int opened_take(const struct opened *shared, const struct link_map *map)
{
	const struct opened s = *shared;
	const struct library l = { .map = map,
				   .code = s.code,
				   .code_end = s.code_end,
				   .data = s.data,
				   .data_end = s.data_end };
	int err = s.data ? libraries_adopt(s.data, s.data_end) : 0;

	if (!err && !map)
		err = opened_tls_add(&s.tls);
	if (!err && !map && s.frames)
		__register_frame(s.frames);
	return err ? err : libraries_add(&l);
}

static void *take_there(void *arg)
{
	return (void *)(intptr_t)opened_take(arg, NULL);
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

/* Once a rank waits for the others, all must come. */
static int opened_take_all(struct opened *s, const struct link_map *map)
{
	const struct dsm_thread_options quiet = { .signals_blocked = 1 };
	dsm_thread_t *t = dsm_calloc((size_t)shim.size, sizeof(*t));
	int r, err = t ? 0 : -ENOMEM;

	for (r = 1; r < shim.size && !err; r++)
		err = dsm_spawn(&t[r], r, &quiet, take_there, s);
	if (err)
		dsm_abort(70, "ranks cannot share %s: %s", map->l_name, dsm_strerror(err));
	err = opened_take(s, map);
	for (r = 1; r < shim.size; r++) {
		void *result = NULL;
		int failed = dsm_join(t[r], &result);

		failed = failed ? failed : (int)(intptr_t)result;
		err = err ? err : failed;
	}
	dsm_free(t);
	return err;
}

static int opened_share(const struct link_map *m)
{
	struct opened *s;
	struct library l;
	int err;

	if (!library_read(m, &l))
		return -EINVAL;
	iostreams_lead();
	s = opened_pack(&l);
	if (!s)
		return -ENOMEM;
	err = everywhere_run(opened_place, s);
	if (!err)
		err = opened_take_all(s, m);
	if (err)
		everywhere_run(opened_remove, s);
	/* it is not unloaded, for the others have a copy */
	if (!err)
		NEXT(dlopen)(m->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
	dsm_free(s);
	return err;
}

/* All that this call has loaded, and that are not shared yet. */
static void opened_share_new(struct opening *o)
{
	unsigned int n = can_share(o) ? o->loaded - o->known : 0;
	const struct link_map *m;
	struct library l;
	int err = 0;

	for (m = first_new(o); m && n && !err; m = m->l_next, n--) {
		if (library_read(m, &l) && libraries_has_code(l.code))
			continue;
		err = opened_share(m);
		if (err) {
			snprintf(o->why, sizeof(o->why), "%s", dsm_strerror(err));
			o->fault = m;
		}
	}
}

static void settle(void *arg)
{
	opened_share_new(arg);
}

void opened_settle(void)
{
	if (opened_depth)
		dsm_call(settle, opening);
}

void opened_settle_for(const void *object)
{
	const char *at = object;
	const struct link_map *m;
	struct library l;

	for (m = opened_depth ? first_new(opening) : NULL; m; m = m->l_next)
		if (library_read(m, &l) && at >= l.data && at < l.data_end) {
			opened_settle();
			return;
		}
}

static void opened_report(const struct opening *o)
{
	if (o->fault)
		start_print(
			"dlopen(): ranks cannot share %s: %s. It stays on this rank, and threads of other ranks must not use it; "
			"DSM_OWN_LIBRARIES=rank gives each rank variables of its own, see dsm-cc(1)",
			o->fault->l_name, o->why);
}

/* ---- where the loader looks for it ----------------------------------------------------------- */

/* In the folders of the caller's file, as the loader would for that caller. */
static const char *search_folders(const char *file, const Dl_serinfo *list, char *path)
{
	unsigned int i;

	for (i = 0; i < list->dls_cnt; i++)
		if (!(list->dls_serpath[i].dls_flags & LA_SER_DEFAULT) &&
		    snprintf(path, PATH_MAX, "%s/%s", list->dls_serpath[i].dls_name, file) <
			    PATH_MAX &&
		    !raw_syscall(SYS_access, (const long[6]){ (long)path, R_OK }))
			return path;
	return file;
}

/* The length of $ORIGIN or ${ORIGIN}; 0: it is something else. */
static size_t origin_length(const char *at)
{
	const size_t begin = at[0] != '$' ? 0 : at[1] == '{' ? 2 : 1, end = begin + 6;

	if (!begin || strncmp(at + begin, "ORIGIN", 6))
		return 0;
	if (begin == 2)
		return at[end] == '}' ? end + 1 : 0;
	return isalnum((unsigned char)at[end]) || at[end] == '_' ? 0 : end;
}

/* The folder of the caller's file: of the executable, the loader may not know it. */
static void origin_of(struct link_map *map, char *folder)
{
	long n;

	if (*map->l_name) {
		if (dlinfo(map, RTLD_DI_ORIGIN, folder))
			*folder = 0;
		return;
	}
	n = raw_syscall(SYS_readlink,
			(const long[6]){ (long)"/proc/self/exe", (long)folder, PATH_MAX - 1 });
	folder[n > 0 ? n : 0] = 0;
	if (strrchr(folder, '/'))
		*strrchr(folder, '/') = 0;
}

/* What is too long is cut off, and is then too long for the kernel. */
static const char *put_origin(const char *file, struct link_map *map, char *path)
{
	char folder[PATH_MAX];
	size_t used = 0, n;

	origin_of(map, folder);
	while (*file && used < PATH_MAX) {
		n = origin_length(file);
		used += (size_t)snprintf(path + used, PATH_MAX + 1 - used, "%.*s", n ? PATH_MAX : 1,
					 n ? folder : file);
		file += n ? n : 1;
	}
	return path;
}

static bool opened_is_loaded(const char *file)
{
	void *loaded = NEXT(dlopen)(file, RTLD_LAZY | RTLD_NOLOAD);

	return loaded && !NEXT(dlclose)(loaded);
}

static const char *opened_find(const char *file, const void *caller, char *path)
{
	struct link_map *map = NULL;
	Dl_serinfo size, *list;
	const char *found = file;
	Dl_info info;

	if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return file;
	if (strchr(file, '/'))
		return strchr(file, '$') ? put_origin(file, map, path) : file;
	if (opened_is_loaded(file) || dlinfo(map, RTLD_DI_SERINFOSIZE, &size))
		return file;
	list = malloc(size.dls_size);
	if (!list)
		return file;
	*list = size;
	if (!dlinfo(map, RTLD_DI_SERINFO, list))
		found = search_folders(file, list, path);
	free(list);
	return found;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* On the stack of the caller, which is shared, or in the heap. */
struct opened_call {
	enum { OPEN, SYMBOL, CLOSE } what;
	int mode, status;
	const void *caller;
	void *handle; /* or what is returned */
	char *error;  /* shared; NULL: none */
	bool none;    /* no file */
	char text[PATH_MAX];
};

static __thread char *opened_error; /* for dlerror() */

static void *opened_next_symbol(void *handle, const char *name);

static void *open_at_once(struct opening *o, const char *file, int mode)
{
	void *handle = NEXT(dlopen)(file, (mode & ~RTLD_LAZY) | RTLD_NOW);

	if (handle || (mode & RTLD_NOW))
		return handle;
	o->late = true; /* before its constructors run */
	return NEXT(dlopen)(file, mode);
}

static void *open_here(const char *file, int mode, const void *caller)
{
	struct opening o = { .outer = opening, .deep = mode & RTLD_DEEPBIND };
	char path[PATH_MAX + 1];
	void *handle;

	file = opened_find(file, caller, path);
	pthread_mutex_lock(&opened_lock);
	if (o.outer)
		opened_share_new(o.outer); /* what it opens may need it */
	o.known = opened_loaded();
	opening = &o;
	opened_depth++;
	handle = open_at_once(&o, file, mode);
	opened_depth--;
	if (handle)
		opened_share_new(&o);
	opening = o.outer;
	pthread_mutex_unlock(&opened_lock);
	if (handle)
		opened_report(&o);
	return handle;
}

/* What dlsym() finds for next_of() takes the place of an error: so look it up before there is one.
 */
static char *(*loader_error(void))(void)
{
	return NEXT(dlerror);
}

/* At rank 0, on the private stack: the loader gives the kernel addresses on it. */
static void opened_carry_out(void *arg)
{
	struct opened_call *out = arg, c = *out;
	char *error;

	loader_error()();
	switch (c.what) {
	case OPEN:
		c.handle =
			c.none ? NEXT(dlopen)(NULL, c.mode) : open_here(c.text, c.mode, c.caller);
		break;
	case SYMBOL: c.handle = opened_next_symbol(c.handle, c.text); break;
	case CLOSE: c.status = NEXT(dlclose)(c.handle); break;
	}
	error = loader_error()();
	out->error = string_intern(error);
	out->handle = c.handle;
	out->status = c.status;
}

/* For another rank. A variable of this thread is in the memory of no library. */
static void *opened_serve(void *arg)
{
	struct opened_call *c = arg;
	Dl_info info;

	opened_carry_out(arg);
	if (c->what == SYMBOL && c->handle && !dladdr(c->handle, &info)) {
		start_cannot("dlsym() of a thread-local variable by another rank than 0");
		c->handle = NULL;
		c->error =
			string_intern("ranks cannot share the address of a thread-local variable");
	}
	return NULL;
}

/* Of the program. */
static void opened_call(struct opened_call *c)
{
	int state;

	if (shim.rank) {
		if (everywhere_call(0, opened_serve, c, sizeof(*c))) {
			c->handle = NULL;
			c->status = -1;
			c->error = string_intern("rank 0 cannot carry it out");
		}
	} else {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		dsm_call(opened_carry_out, c);
		pthread_setcancelstate(state, &state);
	}
	opened_error = c->error;
}

static bool opened_text(struct opened_call *c, const char *text)
{
	c->none = !text;
	if (!text || strlen(text) < sizeof(c->text)) {
		strcpy(c->text, text ? text : "");
		return true;
	}
	opened_error = string_intern("the name is too long");
	return false;
}

static void *opened_by(const char *file, int mode, const void *caller)
{
	struct opened_call c = { .what = OPEN, .mode = mode, .caller = caller };

	if (!opened_text(&c, file))
		return NULL;
	opened_call(&c);
	return c.handle;
}

/* ---- functions of the loader ----------------------------------------------------------------- */

/* Does the program call it, for whose libraries rank 0's loader answers? */
static bool opened_is_for(const void *caller)
{
	return libraries_are_shared() && caller_is_ours(caller) && is_rank();
}

/* The loader's dlsym(), which next_of() needs itself. */
static void *loader_find(const struct next *n)
{
	void *at = dlvsym(RTLD_NEXT, n->name, n->version);

	if (!at)
		at = dlvsym(RTLD_NEXT, n->name, "GLIBC_2.2.5");
	if (!at)
		dsm_abort(70, "the C library has no %s()", n->name);
	return at;
}

static void *(*loader_symbol(void))(void *, const char *)
{
	return NEXT_BY(void *(*)(void *, const char *), "dlsym", "GLIBC_2.34", loader_find);
}

static void *opened_next_symbol(void *handle, const char *name)
{
	return loader_symbol()(handle, name);
}

__attribute__((used)) static void *opened_open(const char *file, int mode)
{
	return opened_by(file, mode, CALLER);
}

__attribute__((used)) static void *opened_mopen(Lmid_t space, const char *file, int mode)
{
	if (space == LM_ID_BASE)
		return opened_by(file, mode, CALLER);
	start_cannot("dlmopen() of another namespace");
	opened_error = string_intern("another namespace does not work across ranks");
	return NULL;
}

/* In the order of loading, rank 0's libraries come behind those of all ranks. */
__attribute__((used)) static void *opened_symbol(void *handle, const char *name)
{
	struct opened_call c = { .what = SYMBOL, .handle = handle };
	void *at = handle == RTLD_DEFAULT ? opened_next_symbol(handle, name) : NULL;

	if (at || !opened_text(&c, name))
		return at;
	loader_error()(); /* not of this rank's */
	opened_call(&c);
	return c.handle;
}

/* Where a call goes on: to the function above, or to the loader's. */
__attribute__((used)) static void *route_open(const char *file, int mode, const void *caller)
{
	(void)mode;
	loader_error();
	if (opened_is_for(caller))
		return (void *)opened_open;
	if (!shim.active && file && !opened_is_loaded(file))
		libraries_note_open(caller);
	return (void *)NEXT(dlopen);
}

__attribute__((used)) static void *route_mopen(Lmid_t space, const char *file, const void *caller)
{
	(void)space;
	(void)file;
	loader_error();
	return opened_is_for(caller) ? (void *)opened_mopen : (void *)NEXT(dlmopen);
}

__attribute__((used)) static void *route_symbol(void *handle, const char *name, const void *caller)
{
	(void)name;
	if (handle == RTLD_NEXT)
		return (void *)loader_symbol();
	loader_error();
	return (shim.rank || handle != RTLD_DEFAULT) && opened_is_for(caller)
		? (void *)opened_symbol
		: (void *)loader_symbol();
}

/* With the arguments, and the address to which the function returns, as they are. */
#define ROUTED(name, route)                                                                     \
	__asm__(".text\n\t.p2align 4\n\t.globl " #name "\n\t.type " #name ", @function\n" #name \
		":\n\t.cfi_startproc\n"                                                         \
		"\tpush %rdi\n\t.cfi_adjust_cfa_offset 8\n"                                     \
		"\tpush %rsi\n\t.cfi_adjust_cfa_offset 8\n"                                     \
		"\tpush %rdx\n\t.cfi_adjust_cfa_offset 8\n"                                     \
		"\tmov 24(%rsp), %rdx\n\tcall " #route "\n"                                     \
		"\tpop %rdx\n\t.cfi_adjust_cfa_offset -8\n"                                     \
		"\tpop %rsi\n\t.cfi_adjust_cfa_offset -8\n"                                     \
		"\tpop %rdi\n\t.cfi_adjust_cfa_offset -8\n"                                     \
		"\tjmp *%rax\n\t.cfi_endproc\n\t.size " #name ", . - " #name)

ROUTED(dlopen, route_open);
ROUTED(dlmopen, route_mopen);
ROUTED(dlsym, route_symbol);

EXPORT int dlclose(void *handle)
{
	struct opened_call c = { .what = CLOSE, .handle = handle };

	loader_error();
	if (!opened_is_for(CALLER))
		return NEXT(dlclose)(handle);
	opened_call(&c);
	return c.status;
}

EXPORT char *dlerror(void)
{
	char *error = opened_error;

	opened_error = NULL;
	return error ? error : loader_error()();
}

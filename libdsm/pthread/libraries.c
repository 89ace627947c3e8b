// SPDX-License-Identifier: BSD-2-Clause
/*
 * libraries.c - the program's own shared libraries (DSM_OWN_LIBRARIES): their variables are
 * adopted as the executable's are, and their calls count as the program's. So their threads run on
 * all ranks, and what they allocate is shared.
 *
 * They are what the executable needs or LD_PRELOAD names, and what these need, outside the system's
 * folders (of which dsmrun has the same list) or, with DSM_OWN_LIBRARIES=share, in these as well;
 * what the program opens (opened.c); and the runtimes of OpenMP and Fortran in any case. Others
 * stay private to each rank: those that the runtime needs too, for it must not depend on shared
 * memory; those of the C library and of compilers, whose functions this library interposes;
 * allocators, of whose memory only the rank that maps it knows; and libraries that wait by system
 * calls of their own.
 *
 * A library that cannot be shared is refused by name: its variables would differ between ranks.
 *
 * Their constructors run on each rank, most of them before the start. What they allocate then is at
 * the same addresses in `early`, which becomes shared with the variables: as with these, the values
 * of rank 0 remain.
 *
 * The table is made when the first constructor allocates memory or at the start, by the only
 * thread. Later, a thread at a time adds what the program opens; others read without a lock.
 */
#include "libraries.h"

#include "shim.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "alloc.h"
#include "binding.h"
#include "library.h"
#include "util/sizes.h"

#define LOADED_MAX 1024u
#define LIBRARIES_MAX 400u /* ranges of adopted memory are 512 */
#define EARLY (4ul << 20)  /* for constructors */
#define GRAIN 16u          /* as in alloc.c */
#define EARLY_LISTS 64u    /* of freed memory */

/* Which libraries are shared: DSM_OWN_LIBRARIES. */
enum extent { EXTENT_RANK, EXTENT_OUTSIDE, EXTENT_SHARE };

static struct library libraries[LIBRARIES_MAX];
static unsigned int count; /* atomic; an entry is written before the count that includes it */
static bool found;
static bool adopted;       /* some are; atomic */
static enum extent extent; /* once they are found */
/* whose constructors have done what they must not; NULL: none */
static const struct library *overflows, *threads, *openers;
static const char *low_code, *high_code; /* of all; atomic */
static struct {
	const char *low, *high;
} cxx; /* libstdc++'s code: it allocates for its callers */

static char early[EARLY] __attribute__((aligned(PAGE_BYTES)));
static size_t early_used;

/* In front of what libraries_early() returns: struct head of alloc.c, whose second word is NULL
 * there. Freed memory is in the list that its room selects: all ranks do the same. */
struct early_head {
	size_t size;
	struct early_head *next;
};
static struct early_head *early_free[EARLY_LISTS];

/* ---- which they are -------------------------------------------------------------------------- */

enum { BY_PROGRAM = 1, BY_RUNTIME = 2 };

static struct {
	const struct link_map *map;
	uint8_t needed;
} loaded[LOADED_MAX];
static unsigned int loads;

/* Who needs library i needs all that it needs. The runtime's own are nobody else's. */
static void note_needed(unsigned int i, uint8_t by)
{
	const char *name;
	unsigned int k, next = 0;

	if ((loaded[i].needed & by) ||
	    (by == BY_PROGRAM && library_is_ours(library_name(loaded[i].map))))
		return;
	loaded[i].needed |= by;
	while ((name = library_need(loaded[i].map, &next)))
		for (k = 1; k < loads; k++)
			if (library_is_called(loaded[k].map, name))
				note_needed(k, by);
}

static void libraries_append(const struct library *l)
{
	libraries[count] = *l;
	if (!low_code || l->code < low_code)
		__atomic_store_n(&low_code, l->code, __ATOMIC_RELAXED);
	if (l->code_end > high_code)
		__atomic_store_n(&high_code, l->code_end, __ATOMIC_RELAXED);
	__atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
}

static void note_library(const struct link_map *m)
{
	struct library l;

	if (count < LIBRARIES_MAX && library_read(m, &l))
		libraries_append(&l);
}

int libraries_add(const struct library *l)
{
	if (count == LIBRARIES_MAX)
		return -ENOSPC;
	libraries_append(l);
	__atomic_store_n(&adopted, true, __ATOMIC_RELEASE);
	__atomic_store_n(&shim.shares_libraries, true, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Called once, before there are threads and before the program's variables are shared: `environ`
 * may be among them, and then has rank 0's address, and setenv(3) in dsm_init() moves the array.
 */
static const char *libraries_setting(const char *name)
{
	const size_t n = strlen(name);
	char **e;

	/* getenv(3) may allocate memory when it is first called */
	for (e = environ; e && *e; e++)
		if (!strncmp(*e, name, n) && (*e)[n] == '=')
			return *e + n + 1;
	return "";
}

static enum extent libraries_extent(void)
{
	const char *value = libraries_setting("DSM_OWN_LIBRARIES");

	return !strcmp(value, "share")   ? EXTENT_SHARE
		: !strcmp(value, "rank") ? EXTENT_RANK
					 : EXTENT_OUTSIDE;
}

/* Is it one of LD_PRELOAD? The program's user has put it in front of the program. */
static bool is_preloaded(const struct link_map *m, const char *list)
{
	const char *name = library_name(m);
	const size_t n = strlen(name);

	while (*list) {
		const size_t word = strcspn(list, ": ");

		if (n && word >= n && !strncmp(list + word - n, name, n) &&
		    (word == n || list[word - n - 1] == '/'))
			return true;
		list += word + (list[word] != 0);
	}
	return false;
}

static bool extent_has(const struct link_map *m)
{
	return extent == EXTENT_SHARE || (extent == EXTENT_OUTSIDE && !library_is_of_system(m));
}

static void libraries_find(void)
{
	const char *preloaded = libraries_setting("LD_PRELOAD");
	const struct link_map *m;
	struct library l;
	unsigned int i;

	found = true;
	extent = libraries_extent();
	for (m = _r_debug.r_map; m && loads < LOADED_MAX; m = m->l_next)
		loaded[loads++].map = m;
	note_needed(0, BY_PROGRAM);
	for (i = 1; i < loads; i++)
		if (is_preloaded(loaded[i].map, preloaded))
			note_needed(i, BY_PROGRAM);
	for (i = 1; i < loads; i++)
		if (!(loaded[i].needed & BY_PROGRAM))
			note_needed(i, BY_RUNTIME);
	for (i = 1; i < loads; i++) {
		const char *name = library_name(loaded[i].map);

		if (library_is_always_part(name) ||
		    (loaded[i].needed == BY_PROGRAM && !library_is_excepted(name) &&
		     extent_has(loaded[i].map)))
			note_library(loaded[i].map);
		if (!strncmp(name, "libstdc++.", 10) && library_read(loaded[i].map, &l)) {
			cxx.low = l.code;
			cxx.high = l.code_end;
		}
	}
}

static const struct library *library_of(const void *code)
{
	const unsigned int n = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
	const char *at = code;
	unsigned int i;

	if (at < __atomic_load_n(&low_code, __ATOMIC_RELAXED) ||
	    at >= __atomic_load_n(&high_code, __ATOMIC_RELAXED))
		return NULL;
	for (i = 0; i < n; i++)
		if (at >= libraries[i].code && at < libraries[i].code_end)
			return &libraries[i];
	return NULL;
}

bool libraries_has_code(const void *caller)
{
	return library_of(caller);
}

/* ---- before the start ------------------------------------------------------------------------ */

/* The frame that has called libstdc++, and through it this library. */
struct walk {
	bool within;
	const void *caller;
};

static _Unwind_Reason_Code walk_frame(struct _Unwind_Context *frame, void *arg)
{
	const char *at = (const char *)_Unwind_GetIP(frame);
	const bool is_cxx = at >= cxx.low && at < cxx.high;
	struct walk *w = arg;

	if (w->within && !is_cxx) {
		w->caller = at;
		return _URC_END_OF_STACK;
	}
	w->within |= is_cxx;
	return _URC_NO_REASON;
}

/* The library for which this one is called, also through libstdc++; NULL: another one. */
static const struct library *library_behind(const void *caller)
{
	struct walk w = { 0 };

	if (!found)
		libraries_find();
	if (!count || (const char *)caller < cxx.low || (const char *)caller >= cxx.high)
		return library_of(caller);
	_Unwind_Backtrace(walk_frame, &w);
	return library_of(w.caller);
}

void libraries_note_thread(const void *caller)
{
	const struct library *l = library_behind(caller);

	threads = threads ? threads : l;
}

void libraries_note_open(const void *caller)
{
	const struct library *l = library_behind(caller);

	openers = openers ? openers : l;
}

/* What size bytes take: a multiple of GRAIN, at most a quarter more. */
static size_t early_room(size_t size)
{
	const size_t step = size <= 4ul * GRAIN ? GRAIN : 1ul << (61 - __builtin_clzl(size - 1));

	return (size + step - 1) & -step;
}

static struct early_head **early_list(size_t room)
{
	return &early_free[room / GRAIN % EARLY_LISTS];
}

/* What was freed. NULL: nothing of this room. */
static struct early_head *early_take(size_t room)
{
	struct early_head **at = early_list(room), *head;

	while (*at && early_room((*at)->size) != room)
		at = &(*at)->next;
	head = *at;
	if (head)
		*at = head->next;
	return head;
}

/* What was never used. NULL: there is not enough. */
static struct early_head *early_cut(size_t align, size_t room)
{
	const size_t at = (early_used + GRAIN + align - 1) & ~(align - 1);

	if (align > PAGE_BYTES || at > EARLY || room > EARLY - at)
		return NULL;
	early_used = at + room;
	return (struct early_head *)(early + at) - 1;
}

void *libraries_early(size_t align, size_t size, const void *caller)
{
	const struct library *l = adopted ? NULL : library_behind(caller);
	const size_t room = size <= EARLY ? early_room(size) : EARLY + 1;
	struct early_head *head;

	if (!l)
		return NULL;
	head = align <= GRAIN ? early_take(room) : NULL;
	if (!head)
		head = early_cut(align < GRAIN ? GRAIN : align, room);
	if (!head) {
		overflows = l;
		return NULL;
	}
	*head = (struct early_head){ .size = size };
	return head + 1;
}

bool libraries_is_early(const void *p)
{
	const char *at = p;

	return at >= early && at < early + EARLY;
}

void libraries_early_free(void *p)
{
	struct early_head *head = (struct early_head *)p - 1, **list;

	if (!count) /* libraries_leave() */
		return;
	list = early_list(early_room(head->size));
	head->next = *list;
	*list = head;
}

/* ---- the start ------------------------------------------------------------------------------- */

bool libraries_has(const void *p)
{
	const char *at = p;
	unsigned int i, n;

	if (!__atomic_load_n(&adopted, __ATOMIC_ACQUIRE))
		return false;
	if (libraries_is_early(p))
		return true;
	n = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
	for (i = 0; i < n; i++)
		if (at >= libraries[i].data && at < libraries[i].data_end)
			return true;
	return false;
}

int libraries_adopt(char *low, char *high)
{
	const struct dsm_region_options opt = { .block_size = PAGE_BYTES,
						.consistency = DSM_CONSISTENCY_SEQUENTIAL };

	return dsm_region_adopt(low, (size_t)(high - low), &opt, NULL);
}

bool libraries_are_shared(void)
{
	return shim.active && extent != EXTENT_RANK;
}

void libraries_leave(void)
{
	found = true;
	count = 0;
	low_code = high_code = cxx.low = cxx.high = NULL;
}

/* Why this rank cannot share it; NULL: it can. */
static const char *library_fault(const struct library *l)
{
	static char text[200];
	const char *missing = NULL;

	if (l == threads)
		return "one of its constructors creates a thread";
	if (l == openers)
		return "one of its constructors opens a library";
	if (l == overflows)
		return "its constructors allocate more than 4 MiB, or memory aligned to more than a page";
	if (!l->data)
		return NULL;
	if (!l->relro)
		return "it has no RELRO segment (link it with -Wl,-z,relro)";
	if (binding_is_late(l->map))
		missing = binding_complete(l->map);
	if (!missing)
		return NULL;
	snprintf(text, sizeof(text), "no library has its function %s", missing);
	return text;
}

/* True on the rank that says why: rank 0, or those that find what rank 0 does not. */
static int libraries_refuse(const char *name, const char *why)
{
	int32_t err = why ? -ENOTSUP : 0, first = err;
	int failed = dsm_broadcast(&first, sizeof(first), 0);

	if (failed)
		return failed;
	if (err && (!shim.rank || !first))
		start_print("%s: ranks cannot share this library: %s. "
			    "DSM_OWN_LIBRARIES=rank gives each rank variables of its own; "
			    "DSM_OWN_LIBRARIES=outside is the default, see dsm-cc(1)",
			    name, why);
	failed = dsm_reduce(&err, DSM_INT32, DSM_MIN);
	return failed ? failed : err;
}

/* Of what this rank finds alone. */
static int libraries_check(void)
{
	const char *name = "", *why = NULL;
	unsigned int i;

	if (count == LIBRARIES_MAX || loads == LOADED_MAX) {
		name = library_name(loaded[loads - 1].map);
		why = "the program has too many";
	}
	if (count && shim.weak && extent == EXTENT_SHARE) {
		name = libraries[0].map->l_name;
		why = "DSM_OWN_LIBRARIES=share does not work with release consistency";
	}
	for (i = 0; i < count && !why; i++) {
		name = libraries[i].map->l_name;
		why = library_fault(&libraries[i]);
	}
	return libraries_refuse(name, why);
}

static uint64_t hash_words(uint64_t h, const void *at, size_t size)
{
	const uint64_t *w = at;

	for (size /= sizeof(*w); size; size--)
		h = (h ^ *w++) * 0x100000001b3ull;
	return h;
}

/* A segment of notes, which may have the build id; the padding behind it is zeros. */
static bool has_build_id(const char *at, size_t size)
{
	const char *end = at + size;

	while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)at;

		if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && !memcmp(n + 1, "GNU", 4))
			return true;
		at += sizeof(*n) + ((n->n_namesz + 3ul) & ~3ul) + ((n->n_descsz + 3ul) & ~3ul);
		if (at > end)
			return false;
	}
	return false;
}

/*
 * Hash of address, layout, and build id. Without this, libraries with the same layout differ only
 * in their contents.
 */
static uint64_t library_print(const struct link_map *m)
{
	const ElfW(Ehdr) *e = (const ElfW(Ehdr) *)m->l_addr;
	const ElfW(Phdr) *h = (const ElfW(Phdr) *)(m->l_addr + e->e_phoff);
	const int n = e->e_phnum;
	uint64_t print = hash_words(m->l_addr, h, (size_t)n * sizeof(*h));
	bool named = false;
	int i;

	for (i = 0; i < n; i++)
		if (h[i].p_type == PT_NOTE) {
			const char *at = (const char *)(m->l_addr + h[i].p_vaddr);

			named |= has_build_id(at, h[i].p_filesz);
			print = hash_words(print, at, h[i].p_filesz);
		}
	for (i = 0; i < n && !named; i++)
		if (h[i].p_type == PT_LOAD && !(h[i].p_flags & PF_W))
			print = hash_words(print, (const char *)(m->l_addr + h[i].p_vaddr),
					   h[i].p_filesz);
	return print;
}

/* The ranks share addresses, of code too: so they need the same libraries at the same addresses. */
static int libraries_compare(void)
{
	static uint64_t prints[LIBRARIES_MAX], mine[LIBRARIES_MAX];
	const char *name = "", *why = NULL;
	unsigned int i;
	int err;

	for (i = 0; i < count; i++)
		prints[i] = mine[i] = library_print(libraries[i].map);
	err = dsm_broadcast(prints, sizeof(prints), 0);
	if (err)
		return err;
	for (i = 0; i < count && prints[i] == mine[i]; i++)
		;
	if (i < count || (i < LIBRARIES_MAX && prints[i])) {
		name = i < count ? libraries[i].map->l_name : "(none)";
		why = "rank 0 has another one, or has it at another address";
	}
	return libraries_refuse(name, why);
}

/* All ranks adopt as many pages of it. */
static int libraries_adopt_early(void)
{
	uint64_t used = (early_used + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	int err = dsm_reduce(&used, DSM_UINT64, DSM_MAX);

	return err || !used ? err : libraries_adopt(early, early + used);
}

int libraries_share(void)
{
	unsigned int i;
	int err;

	if (!found)
		libraries_find();
	err = libraries_check();
	if (!err)
		err = libraries_compare();
	if (err)
		return err;
	for (i = 0; i < count && !err; i++) {
		const struct library *l = &libraries[i];

		if (l->data)
			err = libraries_adopt(l->data, l->data_end);
		if (err)
			start_print("the variables of %s cannot be shared: %s", l->map->l_name,
				    dsm_strerror(err));
	}
	if (!err)
		err = libraries_adopt_early();
	adopted = shim.shares_libraries = !err && count;
	return err;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void finish_one(const struct link_map *m)
{
	void (**array)(void) = NULL, (*last)(void) = NULL;
	const ElfW(Dyn) * d;
	size_t n = 0;

	for (d = m->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_FINI_ARRAY)
			array = (void (**)(void))(m->l_addr + d->d_un.d_ptr);
		if (d->d_tag == DT_FINI_ARRAYSZ)
			n = d->d_un.d_val / sizeof(*array);
		if (d->d_tag == DT_FINI)
			last = (void (*)(void))(m->l_addr + d->d_un.d_ptr);
	}
	while (array && n--)
		array[n]();
	if (last)
		last();
}

/* Those that need others are before these. */
void libraries_finish(void)
{
	unsigned int i;

	for (i = 0; adopted && i < count; i++)
		finish_one(libraries[i].map);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * libraries.c - the program's own shared libraries (DSM_OWN_LIBRARIES=share): their variables are
 * adopted as the executable's are, and their calls count as the program's. So their threads run on
 * all ranks, and what they allocate is shared.
 *
 * They are what the executable needs, and what these need, without the libraries below: those that
 * the runtime needs as well, for it must not depend on shared memory; those of the C library and
 * of compilers, whose functions this library interposes; allocators, of whose memory only the rank
 * that maps it knows; and libraries that wait by system calls of their own. They stay private to
 * each rank.
 *
 * Their constructors run on each rank, most of them before the start. What they allocate then is at
 * the same addresses in `early`, which becomes shared with the variables: as with these, the values
 * of rank 0 remain.
 *
 * The table is made once, when the first constructor allocates memory or at the start, by the only
 * thread; it does not change then.
 */
#include "libraries.h"

#include "shim.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "util/sizes.h"

#define LOADED_MAX 512u
#define LIBRARIES_MAX 200u   /* ranges of adopted memory are 256 */
#define EARLY (4ul << 20)    /* for constructors */
#define GRAIN 16u            /* as in alloc.c */
#define RESERVE (64ul << 10) /* libstdc++'s first allocation, for exceptions, is larger */

struct library {
	const struct link_map *map;
	const char *code, *code_end; /* from the first to the last executable segment */
	char *data, *data_end;       /* whole pages that are not protected (RELRO); NULL: none */
	bool lazy;
};

static struct library libraries[LIBRARIES_MAX];
static unsigned int count;
static bool found, adopted, overflows;
static const char *low_code, *high_code; /* of all */
static struct {
	const char *low, *high;
} cxx; /* libstdc++'s code: it allocates for its callers */

static char early[EARLY] __attribute__((aligned(PAGE_BYTES)));
static size_t early_used;

/* ---- which they are -------------------------------------------------------------------------- */

enum { BY_PROGRAM = 1, BY_RUNTIME = 2 };

static struct {
	const struct link_map *map;
	uint8_t needed;
} loaded[LOADED_MAX];
static unsigned int loads;

static const char *libraries_name(const struct link_map *m)
{
	const char *slash = strrchr(m->l_name, '/');

	return slash ? slash + 1 : m->l_name;
}

static bool begins_with(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (!strncmp(name, *list, strlen(*list)))
			return true;
	return false;
}

static bool libraries_is_ours(const char *name)
{
	return !strncmp(name, "libdsm", 6);
}

static bool libraries_is_excepted(const char *name)
{
	static const char *const names[] = {
		/* the C library's, and of compilers */
		"ld-linux", "libc.", "libm.", "libmvec.", "libpthread.", "libdl.", "librt.",
		"libresolv.", "libutil.", "libanl.", "libnss_", "libthread_db.", "libgcc_s.",
		"libstdc++.", "libatomic.", "libasan.", "libtsan.", "libubsan.", "liblsan.",
		/* allocators */
		"libjemalloc", "libtcmalloc", "libmimalloc",
		/* system calls of their own */
		"libgomp.", "libomp.", "libiomp", "liburing.", "libaio.", NULL
	};

	return begins_with(name, names);
}

static const char *libraries_strings(const struct link_map *m)
{
	const ElfW(Dyn) * d;

	for (d = m->l_ld; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB && d->d_un.d_ptr > m->l_addr)
			return (const char *)d->d_un.d_ptr;
	return NULL;
}

static bool is_called_so(const struct link_map *m, const char *name)
{
	const char *strings = libraries_strings(m);
	const ElfW(Dyn) * d;

	if (!strcmp(libraries_name(m), name))
		return true;
	for (d = m->l_ld; strings && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_SONAME)
			return !strcmp(strings + d->d_un.d_val, name);
	return false;
}

/* Who needs library i needs all that it needs. The runtime's own are nobody else's. */
static void note_needed(unsigned int i, uint8_t by)
{
	const char *strings = libraries_strings(loaded[i].map);
	const ElfW(Dyn) * d;
	unsigned int k;

	if ((loaded[i].needed & by) ||
	    (by == BY_PROGRAM && libraries_is_ours(libraries_name(loaded[i].map))))
		return;
	loaded[i].needed |= by;
	for (d = loaded[i].map->l_ld; strings && d->d_tag != DT_NULL; d++)
		for (k = 1; d->d_tag == DT_NEEDED && k < loads; k++)
			if (is_called_so(loaded[k].map, strings + d->d_un.d_val))
				note_needed(k, by);
}

/* ---- what they have -------------------------------------------------------------------------- */

static bool is_bound_late(const struct link_map *m)
{
	const ElfW(Dyn) * d;
	bool tables = false;

	for (d = m->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_BIND_NOW ||
		    (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_BIND_NOW)) ||
		    (d->d_tag == DT_FLAGS_1 && (d->d_un.d_val & DF_1_NOW)))
			return false;
		tables |= d->d_tag == DT_JMPREL;
	}
	return tables && (!getenv("LD_BIND_NOW") || !*getenv("LD_BIND_NOW"));
}

/* The segments; false: the file's header is not mapped at its beginning. */
static bool read_library(const struct link_map *m, struct library *out)
{
	const ElfW(Ehdr) *e = (const ElfW(Ehdr) *)m->l_addr;
	const ElfW(Phdr) * h;
	uintptr_t begin = 0, end = 0;
	int i;

	if (!m->l_addr || memcmp(e->e_ident, ELFMAG, SELFMAG))
		return false;
	*out = (struct library){ .map = m, .lazy = is_bound_late(m) };
	h = (const ElfW(Phdr) *)(m->l_addr + e->e_phoff);
	for (i = 0; i < e->e_phnum; i++) {
		const uintptr_t at = m->l_addr + h[i].p_vaddr, high = at + h[i].p_memsz;

		/* the loader protects whole pages */
		if (h[i].p_type == PT_GNU_RELRO)
			begin = high & ~(PAGE_BYTES - 1);
		if (h[i].p_type != PT_LOAD)
			continue;
		if ((h[i].p_flags & PF_X) && !out->code)
			out->code = (const char *)at;
		if (h[i].p_flags & PF_X)
			out->code_end = (const char *)high;
		if ((h[i].p_flags & PF_W) && !begin)
			begin = at & ~(PAGE_BYTES - 1);
		if (h[i].p_flags & PF_W)
			end = (high + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	}
	if (begin < end) {
		out->data = (char *)begin;
		out->data_end = (char *)end;
	}
	return out->code;
}

static void note_library(const struct link_map *m)
{
	struct library *l = &libraries[count];

	if (count == LIBRARIES_MAX || !read_library(m, l))
		return;
	count++;
	if (!low_code || l->code < low_code)
		low_code = l->code;
	if (l->code_end > high_code)
		high_code = l->code_end;
}

static void libraries_find(void)
{
	const struct link_map *m;
	struct library l;
	unsigned int i;

	found = true;
	for (m = _r_debug.r_map; m && loads < LOADED_MAX; m = m->l_next)
		loaded[loads++].map = m;
	note_needed(0, BY_PROGRAM);
	for (i = 1; i < loads; i++)
		if (!(loaded[i].needed & BY_PROGRAM))
			note_needed(i, BY_RUNTIME);
	for (i = 1; i < loads; i++) {
		const char *name = libraries_name(loaded[i].map);

		if (loaded[i].needed == BY_PROGRAM && !libraries_is_excepted(name))
			note_library(loaded[i].map);
		if (!strncmp(name, "libstdc++.", 10) && read_library(loaded[i].map, &l)) {
			cxx.low = l.code;
			cxx.high = l.code_end;
		}
	}
}

static bool libraries_are_wanted(void)
{
	char **e;

	/* getenv(3) may allocate memory when it is first called */
	for (e = environ; e && *e; e++)
		if (!strcmp(*e, "DSM_OWN_LIBRARIES=share"))
			return true;
	return false;
}

bool libraries_has_code(const void *caller)
{
	const char *at = caller;
	unsigned int i;

	if (at < low_code || at >= high_code)
		return false;
	for (i = 0; i < count; i++)
		if (at >= libraries[i].code && at < libraries[i].code_end)
			return true;
	return false;
}

/* ---- before the start ------------------------------------------------------------------------ */

/* libstdc++ itself keeps a reserve for exceptions, for each rank. */
static bool is_reserve(size_t size)
{
	static bool passed;
	const bool first = !passed;

	passed = true;
	return first && size > RESERVE;
}

void *libraries_early(size_t size, const void *caller)
{
	const char *at = caller;
	const size_t whole = (size + 2 * GRAIN - 1) & ~(size_t)(GRAIN - 1);
	size_t *head;

	if (adopted || (!found && !libraries_are_wanted()))
		return NULL;
	if (!found)
		libraries_find();
	if (!libraries_has_code(caller) && (at < cxx.low || at >= cxx.high || is_reserve(size)))
		return NULL;
	if (whole < size || whole > EARLY - early_used) {
		overflows = true;
		return NULL;
	}
	head = (size_t *)(early + early_used);
	early_used += whole;
	head[0] = size; /* struct head of alloc.c */
	head[1] = 0;
	return head + 2;
}

bool libraries_is_early(const void *p)
{
	const char *at = p;

	return at >= early && at < early + EARLY;
}

/* ---- the start ------------------------------------------------------------------------------- */

bool libraries_has(const void *p)
{
	const char *at = p;
	unsigned int i;

	if (!adopted)
		return false;
	if (libraries_is_early(p))
		return true;
	for (i = 0; i < count; i++)
		if (at >= libraries[i].data && at < libraries[i].data_end)
			return true;
	return false;
}

static int libraries_adopt(char *low, char *high)
{
	const struct dsm_region_options opt = { .block_size = PAGE_BYTES,
						.consistency = DSM_CONSISTENCY_SEQUENTIAL };

	return dsm_region_adopt(low, (size_t)(high - low), &opt, NULL);
}

void libraries_leave(void)
{
	found = true;
	count = 0;
	low_code = high_code = cxx.low = cxx.high = NULL;
}

int libraries_share(void)
{
	unsigned int i;
	int err = 0;

	if (!libraries_are_wanted()) {
		libraries_leave();
		return 0;
	}
	if (shim.weak) {
		start_print("DSM_OWN_LIBRARIES=share does not work with release consistency");
		return -ENOTSUP;
	}
	if (!found)
		libraries_find();
	if (overflows || count == LIBRARIES_MAX || loads == LOADED_MAX) {
		start_print(
			overflows
				? "constructors of libraries allocate more than 4 MiB before the start"
				: "the program has too many libraries for DSM_OWN_LIBRARIES=share");
		return -ENOSPC;
	}
	for (i = 0; i < count && !err; i++) {
		struct library *l = &libraries[i];

		if (l->lazy) {
			start_print(
				"the functions of %s are bound when they are called: its variables cannot be shared (set LD_BIND_NOW=1)",
				l->map->l_name);
			return -ENOTSUP;
		}
		if (l->data)
			err = libraries_adopt(l->data, l->data_end);
		if (err)
			start_print("the variables of %s cannot be shared: %s", l->map->l_name,
				    dsm_strerror(err));
	}
	if (!err)
		err = libraries_adopt(early, early + EARLY);
	adopted = shim.shares_libraries = !err;
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

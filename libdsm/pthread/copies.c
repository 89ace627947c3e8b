// SPDX-License-Identifier: BSD-2-Clause
/*
 * copies.c - an executable whose code is not -fPIC holds some variables of the C library itself
 * (copy relocations), and the libraries use those. In the executable they are shared memory. The C
 * library reads `environ` and the others with all signals blocked, where it may miss no block, and
 * stores addresses of its rank's memory in `tzname`. So the libraries get variables of their own
 * again: their entries of the GOT lead to `own`. Those of this library still lead to the
 * executable, and it keeps both equal.
 *
 * The variables are those that libdsm/api/globals.c lets this library keep.
 */
#include "copies.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/kept.h"

#define MOST 8
#define WORDS 2 /* of the largest, tzname */

static struct copy {
	char *at; /* in the executable */
	/* as much as a store of a vector may want */
	uintptr_t own[WORDS] __attribute__((aligned(32)));
} copies[MOST];
static unsigned int count;
static bool refers_sign;

/* Of a loaded file. */
struct tables {
	const Elf64_Rela *rela;
	size_t relas;
	const Elf64_Sym *symbols;
	const char *names;
	uintptr_t low, high; /* what the loader has protected */
};

static void copies_read_dynamic(struct tables *t, const Elf64_Dyn *d)
{
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_RELA: t->rela = (const Elf64_Rela *)d->d_un.d_ptr; break;
		case DT_RELASZ: t->relas = d->d_un.d_val / sizeof(Elf64_Rela); break;
		case DT_SYMTAB: t->symbols = (const Elf64_Sym *)d->d_un.d_ptr; break;
		case DT_STRTAB: t->names = (const char *)d->d_un.d_ptr; break;
		default: break;
		}
	}
}

static struct tables copies_read_tables(const struct dl_phdr_info *info)
{
	struct tables t = { 0 };
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *h = &info->dlpi_phdr[i];
		const uintptr_t at = info->dlpi_addr + h->p_vaddr;

		if (h->p_type == PT_DYNAMIC)
			copies_read_dynamic(&t, (const Elf64_Dyn *)at);
		if (h->p_type == PT_GNU_RELRO) {
			t.low = at;
			t.high = at + h->p_memsz;
		}
	}
	/*
	 * The loader has made addresses of these, but not in a file that it may not write to (the
	 * vdso).
	 */
	if ((uintptr_t)t.rela < info->dlpi_addr)
		t.relas = 0;
	return t;
}

static struct copy *copy_at(const void *p)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (copies[i].at == p)
			return &copies[i];
	return NULL;
}

static void find_copies(const struct tables *t, uintptr_t base)
{
	size_t i;

	for (i = 0; i < t->relas && count < MOST; i++) {
		const Elf64_Sym *s = &t->symbols[ELF64_R_SYM(t->rela[i].r_info)];
		char *at = (char *)(base + t->rela[i].r_offset);

		if (ELF64_R_TYPE(t->rela[i].r_info) != R_X86_64_COPY ||
		    !kept_has(t->names + s->st_name) || copy_at(at) ||
		    s->st_size > sizeof(copies[0].own))
			continue;
		copies[count].at = at;
		memcpy(copies[count++].own, at, s->st_size);
	}
}

static bool copies_has_reference(const struct tables *t, const char *variable)
{
	size_t i;

	for (i = 0; i < t->relas; i++)
		if (ELF64_R_TYPE(t->rela[i].r_info) != R_X86_64_COPY &&
		    !strcmp(t->names + t->symbols[ELF64_R_SYM(t->rela[i].r_info)].st_name,
			    variable))
			return true;
	return false;
}

static void copies_redirect(const struct tables *t, void **slot, void *to)
{
	const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot;
	void *page = (void *)(at & -size);

	if (mprotect(page, size, PROT_READ | PROT_WRITE))
		dsm_abort(70, "the loader's table of a library cannot be changed: %s",
			  strerror(errno));
	*slot = to;
	if (at >= t->low && at < (t->high & -size))
		mprotect(page, size, PROT_READ);
}

/* The first one is the executable. */
static int separate(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct tables t = copies_read_tables(info);
	int *n = arg;
	size_t i;

	(void)size;
	if (!(*n)++) {
		find_copies(&t, info->dlpi_addr);
		refers_sign = copies_has_reference(&t, "signgam");
		return !count;
	}
	if (strstr(info->dlpi_name, "/libdsm-pthread."))
		return 0;
	for (i = 0; i < t.relas; i++) {
		void **slot = (void **)(info->dlpi_addr + t.rela[i].r_offset);
		struct copy *c =
			ELF64_R_TYPE(t.rela[i].r_info) == R_X86_64_GLOB_DAT ? copy_at(*slot) : NULL;

		if (c)
			copies_redirect(&t, slot, c->own);
	}
	return 0;
}

void copies_separate(void)
{
	int n = 0;

	dl_iterate_phdr(separate, &n);
}

void *copies_library(void *p)
{
	struct copy *c = copy_at(p);

	return c ? c->own : p;
}

bool copies_refers_sign(void)
{
	return refers_sign;
}

/* ---- variables that move --------------------------------------------------------------------- */

struct moving {
	const struct copies_move *moves;
	unsigned int n;
};

void *copies_moved(const struct copies_move *moves, unsigned int n, void *p)
{
	char *at = p;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (at >= moves[i].from && at < moves[i].from + moves[i].size)
			return moves[i].to + (at - moves[i].from);
	return p;
}

static int copies_lead(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct tables t = copies_read_tables(info);
	const struct moving *m = arg;
	size_t i;

	(void)size;
	for (i = 0; i < t.relas; i++) {
		const uint64_t type = ELF64_R_TYPE(t.rela[i].r_info);
		void **slot = (void **)(info->dlpi_addr + t.rela[i].r_offset), *to;
		const bool shared =
			((char *)slot >= shim.globals && (char *)slot < shim.globals_end) ||
			libraries_has(slot);

		if ((type != R_X86_64_GLOB_DAT && type != R_X86_64_64) || (shared && shim.rank))
			continue;
		to = copies_moved(m->moves, m->n, *slot);
		if (to == *slot)
			continue;
		if (shared)
			*slot = to;
		else
			copies_redirect(&t, slot, to);
	}
	return 0;
}

void copies_move(const struct copies_move *moves, unsigned int n)
{
	struct moving m = { moves, n };

	dl_iterate_phdr(copies_lead, &m);
}

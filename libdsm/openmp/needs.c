// SPDX-License-Identifier: BSD-2-Clause
/* needs.c - see needs.h. */
#include "needs.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"

#define CALLS 512u /* of OpenMP, by all objects */

struct tables {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * slots, *others; /* what the loader puts addresses of functions into */
	size_t slots_size, others_size;
};

static bool tables_read(const struct dl_phdr_info *info, struct tables *out)
{
	const ElfW(Dyn) *d = NULL;
	int i;

	*out = (struct tables){ 0 };
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)d->d_un.d_ptr;

		if (d->d_tag == DT_PLTRELSZ)
			out->slots_size = d->d_un.d_val;
		else if (d->d_tag == DT_RELASZ)
			out->others_size = d->d_un.d_val;
		else if (d->d_un.d_ptr < info->dlpi_addr)
			continue; /* the kernel's own object, which the loader has not relocated */
		else if (d->d_tag == DT_SYMTAB)
			out->symbols = at;
		else if (d->d_tag == DT_STRTAB)
			out->strings = at;
		else if (d->d_tag == DT_JMPREL)
			out->slots = at;
		else if (d->d_tag == DT_RELA)
			out->others = at;
	}
	return out->symbols && out->strings;
}

/* Names that something calls, and who. */
struct calls {
	bool (*takes)(const char *name);
	unsigned int n;
	struct {
		const char *name, *object;
	} v[CALLS];
};

static void table_search(struct calls *c, const char *object, const struct tables *t,
			 const ElfW(Rela) * r, size_t size)
{
	size_t i, symbol;
	const char *name;

	for (i = 0; r && i < size / sizeof(*r) && c->n < CALLS; i++) {
		symbol = ELF64_R_SYM(r[i].r_info);
		if (!symbol || t->symbols[symbol].st_shndx != SHN_UNDEF ||
		    ELF64_ST_BIND(t->symbols[symbol].st_info) != STB_GLOBAL)
			continue;
		name = t->strings + t->symbols[symbol].st_name;
		if (!c->takes(name))
			continue;
		c->v[c->n].name = name;
		c->v[c->n++].object = object;
	}
}

bool needs_object_is(const char *path, const char *const *beginnings)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (; *beginnings; beginnings++)
		if (!strncmp(name, *beginnings, strlen(*beginnings)))
			return true;
	return false;
}

/* Under a lock of the loader, so nothing is looked up here. */
static int object_search(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const other[] = { "libgomp.", NULL };
	struct calls *c = arg;
	struct tables t;

	(void)size;
	if (needs_object_is(info->dlpi_name, other) || !tables_read(info, &t))
		return 0;
	table_search(c, info->dlpi_name, &t, t.slots, t.slots_size);
	table_search(c, info->dlpi_name, &t, t.others, t.others_size);
	return 0;
}

static bool is_of_tasks(const char *name)
{
	return !strncmp(name, "GOMP_task", 9);
}

bool needs_tasks(void)
{
	struct calls c = { .takes = is_of_tasks };

	dl_iterate_phdr(object_search, &c);
	return c.n;
}

static bool is_of_openmp(const char *name)
{
	return !strncmp(name, "GOMP_", 5) || !strncmp(name, "omp_", 4) ||
		!strncmp(name, "GOACC_", 6);
}

/* A program may have functions of its own with such names. */
static bool only_libgomp_has(const char *name)
{
	static const char *const other[] = { "libgomp.", NULL };
	Dl_info there;
	void *at = dlsym(RTLD_DEFAULT, name);

	return !at || !dladdr(at, &there) || needs_object_is(there.dli_fname, other);
}

void needs_check(void)
{
	struct calls c = { .takes = is_of_openmp };
	unsigned int i;

	dl_iterate_phdr(object_search, &c);
	for (i = 0; i < c.n; i++)
		if (only_libgomp_has(c.v[i].name))
			openmp_die("%s() is not supported, which %s calls", c.v[i].name,
				   *c.v[i].object ? c.v[i].object : "the program");
}

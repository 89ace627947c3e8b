// SPDX-License-Identifier: BSD-2-Clause
/*
 * binding.c - binds the functions of a shared library whose loader would bind each one when it is
 * first called. The table of addresses (.got.plt) is among the library's variables, which become
 * shared memory; there the loader must not write, least of all addresses of its own tables.
 *
 * A lookup is the loader's: the first definition in the order of loading that has the wanted
 * version, or none. dlvsym(3) alone would pass over those without a version, such as this
 * library's own.
 */
#include "shim.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

#define VERSION 0x7fffu /* of an entry of DT_VERSYM; the rest says that it is hidden */

/* Of a loaded file. */
struct names {
	const Elf64_Rela *calls, *others;
	size_t count, other_count; /* of calls, of others */
	const Elf64_Sym *symbols;
	const char *strings;
	const Elf64_Half *versions;  /* of symbols; NULL: none have */
	const Elf64_Verneed *needed; /* versions of other files; NULL: none */
	bool symbolic, now;
};

static void binding_read(const struct link_map *m, struct names *out)
{
	const Elf64_Dyn *d;

	*out = (struct names){ 0 };
	for (d = m->l_ld; d->d_tag != DT_NULL; d++) {
		const uintptr_t at = d->d_un.d_ptr;

		switch (d->d_tag) {
		case DT_JMPREL: out->calls = (const Elf64_Rela *)at; break;
		case DT_PLTRELSZ: out->count = at / sizeof(*out->calls); break;
		case DT_RELA: out->others = (const Elf64_Rela *)at; break;
		case DT_RELASZ: out->other_count = at / sizeof(*out->others); break;
		case DT_SYMTAB: out->symbols = (const Elf64_Sym *)at; break;
		case DT_STRTAB: out->strings = (const char *)at; break;
		case DT_VERSYM: out->versions = (const Elf64_Half *)at; break;
		/* of this one, the loader leaves the number that is in the file */
		case DT_VERNEED: out->needed = (const Elf64_Verneed *)(m->l_addr + at); break;
		case DT_SYMBOLIC: out->symbolic = true; break;
		case DT_BIND_NOW: out->now = true; break;
		case DT_FLAGS:
			out->now |= !!(at & DF_BIND_NOW);
			out->symbolic |= !!(at & DF_SYMBOLIC);
			break;
		case DT_FLAGS_1: out->now |= !!(at & DF_1_NOW); break;
		default: break;
		}
	}
}

bool binding_is_late(const struct link_map *m)
{
	const char *env = getenv("LD_BIND_NOW");
	struct names n;

	binding_read(m, &n);
	return n.calls && n.count && !n.now && (!env || !*env);
}

/* The version of another file's symbol that the library wants; NULL: any. */
static const char *version_of(const struct names *n, size_t symbol)
{
	const Elf64_Half wanted = n->versions ? n->versions[symbol] & VERSION : 0;
	const Elf64_Verneed *v = wanted > VER_NDX_GLOBAL ? n->needed : NULL;

	while (v) {
		const Elf64_Vernaux *a = (const void *)((const char *)v + v->vn_aux);
		unsigned int i;

		for (i = 0; i < v->vn_cnt; i++) {
			if ((a->vna_other & VERSION) == wanted)
				return n->strings + a->vna_name;
			a = (const void *)((const char *)a + a->vna_next);
		}
		v = v->vn_next ? (const void *)((const char *)v + v->vn_next) : NULL;
	}
	return NULL;
}

static const struct link_map *map_of(const void *at)
{
	struct link_map *map = NULL;
	Dl_info info;

	return dladdr1(at, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* Has the definition of `name` at this address no version? */
static bool is_unversioned(const void *at, const char *name)
{
	const struct link_map *map = map_of(at);
	const Elf64_Sym *symbol = NULL;
	struct names n;
	Dl_info info;

	if (!map)
		return false;
	binding_read(map, &n);
	/* the loader has relocated no table of the vdso, to which time(3) leads */
	if ((uintptr_t)n.strings < map->l_addr)
		return false;
	if (!n.versions || strstr(map->l_name, "/libdsm"))
		return true;
	return dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
		!strcmp(n.strings + symbol->st_name, name) &&
		(n.versions[symbol - n.symbols] & VERSION) <= VER_NDX_GLOBAL;
}

/*
 * The library's own definition, if nobody else's may take its place. (dlsym(3) finds symbols of
 * what dlopen(3) has returned only.)
 */
static void *own_function(const struct link_map *m, const struct names *n, size_t symbol)
{
	const Elf64_Sym *s = &n->symbols[symbol];
	void *at = (void *)(m->l_addr + s->st_value);

	if (s->st_shndx == SHN_UNDEF ||
	    !(n->symbolic || ELF64_ST_VISIBILITY(s->st_other) != STV_DEFAULT))
		return NULL;
	return ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC ? ((void *(*)(void))at)() : at;
}

static void *find_function(const struct link_map *m, const struct names *n, size_t symbol)
{
	const char *name = n->strings + n->symbols[symbol].st_name;
	const char *version = version_of(n, symbol);
	void *own = own_function(m, n, symbol), *first, *exact;

	if (own)
		return own;
	first = dlsym(RTLD_DEFAULT, name);
	if (!first || !version || is_unversioned(first, name))
		return first;
	exact = dlvsym(RTLD_DEFAULT, name, version);
	return exact ? exact : first;
}

const char *binding_complete(const struct link_map *m)
{
	const char *missing = NULL;
	struct names n;
	size_t i;

	binding_read(m, &n);
	for (i = 0; i < n.count; i++) {
		const size_t symbol = ELF64_R_SYM(n.calls[i].r_info);
		void **slot = (void **)(m->l_addr + n.calls[i].r_offset), *to;

		/* the rest has been filled in when the library was loaded */
		if (ELF64_R_TYPE(n.calls[i].r_info) != R_X86_64_JUMP_SLOT)
			continue;
		to = find_function(m, &n, symbol);
		if (to)
			*slot = to;
		else if (ELF64_ST_BIND(n.symbols[symbol].st_info) != STB_WEAK && !missing)
			missing = n.strings + n.symbols[symbol].st_name;
	}
	return missing;
}

static int each_of(const struct link_map *m, const struct names *n, const Elf64_Rela *r,
		   size_t count, int (*fn)(const struct reference *, void *), void *arg)
{
	int err = 0;
	size_t i;

	for (i = 0; i < count && !err; i++) {
		const size_t symbol = ELF64_R_SYM(r[i].r_info);
		const struct reference is = {
			.slot = (uintptr_t *)(m->l_addr + r[i].r_offset),
			.type = (unsigned int)ELF64_R_TYPE(r[i].r_info),
			.name = symbol ? n->strings + n->symbols[symbol].st_name : NULL,
		};

		err = fn(&is, arg);
	}
	return err;
}

int binding_each(const struct link_map *m, int (*fn)(const struct reference *, void *), void *arg)
{
	struct names n;
	int err;

	binding_read(m, &n);
	err = each_of(m, &n, n.others, n.other_count, fn, arg);
	return err ? err : each_of(m, &n, n.calls, n.count, fn, arg);
}

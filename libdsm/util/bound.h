/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bound.h - the functions that a loaded library calls in others: the addresses to which the loader
 * has bound their names, and how to bind them to others. x86-64. Do not call it while another
 * thread loads or unloads that library.
 */
#ifndef UTIL_BOUND_H
#define UTIL_BOUND_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct bound_tables {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * rela[2];
	size_t bytes[2];
};

static inline void bound_read(const struct dl_phdr_info *info, const ElfW(Dyn) * d,
			      struct bound_tables *t)
{
	for (; d->d_tag != DT_NULL; d++) {
		/* The loader has replaced the offsets by addresses. */
		const uintptr_t at = d->d_un.d_ptr < info->dlpi_addr
			? info->dlpi_addr + d->d_un.d_ptr
			: d->d_un.d_ptr;

		switch (d->d_tag) {
		case DT_SYMTAB: t->symbols = (const ElfW(Sym) *)at; break;
		case DT_STRTAB: t->strings = (const char *)at; break;
		case DT_JMPREL: t->rela[0] = (const ElfW(Rela) *)at; break;
		case DT_PLTRELSZ: t->bytes[0] = d->d_un.d_val; break;
		case DT_RELA: t->rela[1] = (const ElfW(Rela) *)at; break;
		case DT_RELASZ: t->bytes[1] = d->d_un.d_val; break;
		default: break;
		}
	}
}

/*
 * Call each(name, where, arg) for each name that the library uses; *where: its address, or, with
 * lazy binding, code that finds it.
 */
static inline void bound_each(const struct dl_phdr_info *info,
			      void (*each)(const char *name, void **where, void *arg), void *arg)
{
	struct bound_tables t = { 0 };
	size_t i, k;

	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			bound_read(
				info,
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
				&t);
	for (i = 0; i < 2 && t.symbols && t.strings; i++)
		for (k = 0; k < t.bytes[i] / sizeof(*t.rela[i]); k++) {
			const ElfW(Rela) *r = &t.rela[i][k];
			const unsigned long type = ELF64_R_TYPE(r->r_info);

			if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT)
				each(t.strings + t.symbols[ELF64_R_SYM(r->r_info)].st_name,
				     (void **)(info->dlpi_addr + r->r_offset), arg);
		}
}

/* The loader makes tables read-only after filling them. If the kernel refuses, nothing changes. */
static inline void bound_set(void **where, void *value)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *at = (void *)((uintptr_t)where & ~(page - 1));

	if (*where == value || mprotect(at, page, PROT_READ | PROT_WRITE))
		return;
	__atomic_store_n(where, value, __ATOMIC_RELEASE);
}

#endif

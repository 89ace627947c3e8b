// SPDX-License-Identifier: BSD-2-Clause
/* library.c - what is known of a shared library by its name, and from its headers in memory. */
#include "library.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "util/sizes.h"

const char *library_name(const struct link_map *m)
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

bool library_is_ours(const char *name)
{
	static const char *const names[] = { "libdsm.", "libdsm-pthread.", "libdsm-syscall.",
					     NULL };

	return begins_with(name, names);
}

/*
 * The units of Fortran are known to all threads. libgfortran keeps them by its mutexes; it has
 * atomic instructions for the count of those who wait for a unit, and in random_init(), which
 * release consistency leaves to each node.
 */
bool library_is_always_part(const char *name)
{
	static const char *const names[] = { "libdsm-openmp.", "libgfortran.so.", NULL };

	return begins_with(name, names);
}

bool library_is_excepted(const char *name)
{
	static const char *const names[] = {
		/* the C library's, and of compilers; a program may have a libutil.so, too */
		"ld-linux", "libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0",
		"libdl.so.2", "librt.so.1", "libresolv.so.2", "libutil.so.1", "libanl.so.1",
		"libnss_", "libthread_db.so.1", "libgcc_s.so.1", "libstdc++.so.6", "libatomic.so.1",
		"libasan.so.", "libtsan.so.", "libubsan.so.", "liblsan.so.",
		/* allocators */
		"libjemalloc", "libtcmalloc", "libmimalloc",
		/* what the runtime stands on, also where the program needs it as well */
		"libcqgroup", "librshare.so", "libucm.so", "libucp.so", "libucs.so", "libuct.so",
		"libpmix.so", "libhwloc.so", "libevent", "libibverbs.so", "librdmacm.so",
		/* system calls, devices or threads of their own */
		"libgomp.so", "libomp.so", "libiomp", "liburing.so", "libaio.so.1", "libmpi",
		"libopen-rte.so", "libopen-pal.so", "libfabric.so", "libcuda", "libnccl", NULL
	};

	return begins_with(name, names);
}

bool library_is_of_system(const struct link_map *m)
{
	static const char *const folders[] = { "/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/",
					       NULL };

	return begins_with(m->l_name, folders);
}

static const char *library_strings(const struct link_map *m)
{
	const ElfW(Dyn) * d;

	for (d = m->l_ld; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB && d->d_un.d_ptr > m->l_addr)
			return (const char *)d->d_un.d_ptr;
	return NULL;
}

const char *library_need(const struct link_map *m, unsigned int *i)
{
	const char *strings = library_strings(m);
	const ElfW(Dyn) * d;

	for (d = strings ? m->l_ld + *i : NULL; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED) {
			*i = (unsigned int)(d - m->l_ld) + 1;
			return strings + d->d_un.d_val;
		}
	return NULL;
}

bool library_is_called(const struct link_map *m, const char *name)
{
	const char *strings = library_strings(m), *slash = strrchr(name, '/');
	const ElfW(Dyn) * d;

	/* linked by its path, it has no other name */
	if (!strcmp(library_name(m), slash ? slash + 1 : name))
		return true;
	for (d = m->l_ld; strings && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_SONAME)
			return !strcmp(strings + d->d_un.d_val, name);
	return false;
}

const Elf64_Phdr *library_headers(const struct link_map *m, int *n)
{
	const ElfW(Ehdr) *e = (const ElfW(Ehdr) *)m->l_addr;

	*n = e->e_phnum;
	return (const Elf64_Phdr *)(m->l_addr + e->e_phoff);
}

bool library_read(const struct link_map *m, struct library *out)
{
	const ElfW(Phdr) * h;
	uintptr_t begin = 0, end = 0;
	int i, n;

	if (!m->l_addr || memcmp((const void *)m->l_addr, ELFMAG, SELFMAG))
		return false;
	h = library_headers(m, &n);
	*out = (struct library){ .map = m };
	for (i = 0; i < n; i++) {
		const uintptr_t at = m->l_addr + h[i].p_vaddr, high = at + h[i].p_memsz;

		/* the loader protects whole pages */
		if (h[i].p_type == PT_GNU_RELRO) {
			begin = high & ~(PAGE_BYTES - 1);
			out->relro = true;
		}
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

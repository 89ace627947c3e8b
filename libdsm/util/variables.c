// SPDX-License-Identifier: BSD-2-Clause
/* variables.c - see variables.h. */
#include "util/variables.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util/sys.h"

/* A file that is an executable of this machine; its parts lie within it. */
struct image {
	const char *at;
	size_t size;
};

static bool lies_within(const struct image *m, uint64_t off, uint64_t bytes)
{
	return off <= m->size && bytes <= m->size - off;
}

static const Elf64_Shdr *sections(const struct image *m, unsigned int *n)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)m->at;

	if (m->size < sizeof(*e) || memcmp(e->e_ident, ELFMAG, SELFMAG) ||
	    e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_shentsize != sizeof(Elf64_Shdr) ||
	    e->e_shoff % 8 ||
	    !lies_within(m, e->e_shoff, (uint64_t)e->e_shnum * sizeof(Elf64_Shdr)))
		return NULL;
	*n = e->e_shnum;
	return (const Elf64_Shdr *)(m->at + e->e_shoff);
}

/*
 * By how much the executable was moved when it was loaded: the program headers say where they were
 * meant to be.
 */
static uintptr_t moved_by(void)
{
	const Elf64_Phdr *h = (const Elf64_Phdr *)getauxval(AT_PHDR);
	unsigned long n = getauxval(AT_PHNUM), i;

	for (i = 0; i < n; i++)
		if (h[i].p_type == PT_PHDR)
			return (uintptr_t)h - h[i].p_vaddr;
	return 0;
}

/* Look through one symbol table for variables that overlap [from, to), as linked. */
static void look_through(const struct image *m, const Elf64_Shdr *table, const Elf64_Shdr *strings,
			 uint64_t from, uint64_t to, struct variable *out, const char **name)
{
	const Elf64_Sym *s = (const Elf64_Sym *)(m->at + table->sh_offset);
	size_t n = table->sh_size / sizeof(*s), i;

	for (i = 0; i < n; i++) {
		if (ELF64_ST_TYPE(s[i].st_info) != STT_OBJECT || s[i].st_shndx == SHN_UNDEF ||
		    s[i].st_value >= to || s[i].st_size > UINT64_MAX - s[i].st_value ||
		    s[i].st_value + s[i].st_size <= from || s[i].st_name >= strings->sh_size)
			continue;
		out->n++;
		if (s[i].st_size <= out->size)
			continue;
		out->at = (char *)s[i].st_value;
		out->size = s[i].st_size;
		*name = m->at + strings->sh_offset + s[i].st_name;
	}
}

static int find(const struct image *m, uint64_t from, uint64_t to, struct variable *out, char *name,
		size_t name_size)
{
	unsigned int n = 0, i;
	const Elf64_Shdr *s = sections(m, &n);
	const char *text = NULL;

	for (i = 0; s && i < n; i++) {
		const Elf64_Shdr *strings = s[i].sh_link < n ? &s[s[i].sh_link] : NULL;

		if (s[i].sh_type == SHT_SYMTAB && strings && s[i].sh_offset % 8 == 0 &&
		    lies_within(m, s[i].sh_offset, s[i].sh_size) && strings->sh_size &&
		    lies_within(m, strings->sh_offset, strings->sh_size) &&
		    !m->at[strings->sh_offset + strings->sh_size - 1])
			look_through(m, &s[i], strings, from, to, out, &text);
	}
	if (!text)
		return -ENOENT;
	snprintf(name, name_size, "%s", text);
	return 0;
}

int variables_find(const void *addr, size_t size, struct variable *out, char *name,
		   size_t name_size)
{
	const uintptr_t moved = moved_by(), from = (uintptr_t)addr - moved;
	struct variable found = { 0 };
	struct image m;
	struct stat st;
	int fd = sys_open("/proc/self/exe", O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		err = -errno;
		goto out_fd;
	}
	m.size = (size_t)st.st_size;
	m.at = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (m.at == MAP_FAILED) {
		err = -errno;
		goto out_fd;
	}
	err = find(&m, from, from + size, &found, name, name_size);
	munmap((void *)m.at, m.size);
	if (!err) {
		*out = found;
		out->at += moved;
	}
out_fd:
	sys_close(fd);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* library.h - a shared library as the loader has it. Any thread, while it is loaded; nothing
 * blocks. */
#ifndef PTHREAD_LIBRARY_H
#define PTHREAD_LIBRARY_H

#include <link.h>
#include <stdbool.h>

struct library {
	const struct link_map *map;
	const char *code, *code_end; /* from the first to the last executable segment */
	char *data, *data_end;       /* whole pages that are not protected (RELRO); NULL: none */
	bool relro;
};

/* Read the segments. False: the file's header is not mapped at its beginning. */
bool library_read(const struct link_map *m, struct library *out);
/* The n program headers of a library that library_read() can read. */
const Elf64_Phdr *library_headers(const struct link_map *m, int *n);

/* The name of its file, without folders. */
const char *library_name(const struct link_map *m);
/* What follows i in the list of libraries that it needs, 0 at first. NULL: the list ends. */
const char *library_need(const struct link_map *m, unsigned int *i);
/* Does the loader take it for the library of this name? */
bool library_is_called(const struct link_map *m, const char *name);

/* By its name: part of libdsm itself; never a part of a program. */
bool library_is_ours(const char *name);
/* The runtimes of OpenMP and Fortran, which are parts wherever they are. */
bool library_is_always_part(const char *name);
bool library_is_excepted(const char *name);
/* Is it installed with the system, in the loader's folders or below? */
bool library_is_of_system(const struct link_map *m);

#endif

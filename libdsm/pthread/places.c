// SPDX-License-Identifier: BSD-2-Clause
/*
 * places.c - is each library at one address on all ranks?
 *
 * A pointer to a function, or to what a library keeps for itself, has one value on all ranks. So a
 * library that some rank has at another address than rank 0 would end the program by a signal, at
 * best. The kernel chooses addresses by chance unless dsmrun or setarch tells it not to, and a
 * library that only one rank has, by LD_PRELOAD, moves others.
 *
 * Compared is what was loaded with the program; of the program's own libraries libraries.c compares
 * more. What a rank has alone is its own affair, and what is loaded later is that of opened.c, or
 * private.
 */
#include "shim.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "parts.h"

#define PLACES_MAX 1024u

struct place {
	char name[56]; /* of its file, without a folder; cut */
	uint64_t base;
};

static struct place places[PLACES_MAX];
static uint32_t count;

static int note_place(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = strrchr(info->dlpi_name, '/');

	(void)size;
	(void)arg;
	if (!name) /* the program itself, or the kernel's */
		return 0;
	if (count == PLACES_MAX)
		return 1;
	strncpy(places[count].name, name + 1, sizeof(places->name) - 1);
	places[count++].base = info->dlpi_addr;
	return 0;
}

void places_note(void)
{
	dl_iterate_phdr(note_place, NULL);
}

/* Is it elsewhere here? Says so. Several may have its name. */
static bool is_elsewhere(const struct place *first)
{
	bool has = false;
	uint32_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(places[i].name, first->name)) {
			if (places[i].base == first->base)
				return false;
			has = true;
		}
	if (!has)
		return false;
	start_print(
		"%s is at another address than on rank 0: start the program with dsmrun, or with `setarch -R`, and with the same "
		"libraries on all ranks",
		first->name);
	return true;
}

int places_compare(void)
{
	static struct place first[PLACES_MAX];
	uint32_t i, n = count;
	int32_t differs = 0;
	int err = dsm_broadcast(&n, sizeof(n), 0);

	memcpy(first, places, n * sizeof(*first));
	if (!err)
		err = dsm_broadcast(first, n * sizeof(*first), 0);
	for (i = 0; !err && i < n && !differs; i++)
		differs = is_elsewhere(&first[i]);
	if (!err)
		err = dsm_reduce(&differs, DSM_INT32, DSM_MAX);
	return err ? err : differs ? -EPROTO : 0;
}

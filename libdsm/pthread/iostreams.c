// SPDX-License-Identifier: BSD-2-Clause
/*
 * iostreams.c - the standard stream objects of C++ (std::cout and its like) are variables of the
 * program: with their format, locale, state and buffer, they are the same for all threads.
 *
 * They lie in the .bss of libstdc++, private to each rank, or in the executable (copy relocations),
 * which is shared memory. The former are moved to the heap: all references to them, those of
 * libstdc++ included, are by tables of the loader, which then lead there.
 *
 * The buffers behind them stay in libstdc++, private to each rank and at the same address. While
 * the streams are synchronised with those of C, such a buffer holds nothing but a pointer to a C
 * stream, which is rank 0's on all ranks. std::ios_base::Init constructs buffers and objects. Until
 * GCC 13, programs do so in their constructors, which run on rank 0 only. From then on, libstdc++
 * does so itself. Only the first Init in a process has an effect; so each rank has one.
 *
 * A library of dlopen() is led to the shared objects when it becomes a part of the program; until
 * then, its constructors use those in libstdc++, as other libraries of dlopen() always do.
 */
#include "parts.h"

#include <link.h>
#include <string.h>

#include "copies.h"
#include "util/sizes.h"

#define STREAMS 8
#define ALIGNMENT 64u

struct iostreams {
	uint32_t synchronised; /* what sync_with_stdio() returns. Atomic */
	char objects[] __attribute__((aligned(ALIGNMENT)));
};

/* from: this rank's; to: the same, if the executable has it */
static struct copies_move moves[STREAMS];
static unsigned int streams;

/* The objects of this process. None: no libstdc++ is loaded. */
static void iostreams_find(void)
{
	static const char *const names[STREAMS] = { "_ZSt3cin",   "_ZSt4cout", "_ZSt4cerr",
						    "_ZSt4clog",  "_ZSt4wcin", "_ZSt5wcout",
						    "_ZSt5wcerr", "_ZSt5wclog" };
	unsigned int i;

	for (i = 0; i < STREAMS; i++) {
		char *at = dlsym(RTLD_DEFAULT, names[i]);
		const ElfW(Sym) *symbol = NULL;
		Dl_info info;

		if (at && dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol)
			moves[streams++] = (struct copies_move){ at, at, symbol->st_size };
	}
}

void iostreams_construct(void)
{
	void (*construct)(void *) = dlsym(RTLD_DEFAULT, "_ZNSt8ios_base4InitC1Ev");
	void (*destroy)(void *) = dlsym(RTLD_DEFAULT, "_ZNSt8ios_base4InitD1Ev");
	static char init; /* an object without members */

	if (!construct || !destroy)
		return;
	construct(&init);
	/*
	 * The last one of the program must find that it is the last, and flush the streams. The
	 * other ranks end without it.
	 */
	if (!shim.rank)
		destroy(&init);
	iostreams_find();
}

/*
 * Adjust the addresses in an object that lead to it (an array in ios_base) or to another one
 * (tie()).
 */
static void iostreams_adjust(char *object, size_t size)
{
	char **word = (char **)object;
	size_t i;

	for (i = 0; i < size / sizeof(*word); i++)
		word[i] = copies_moved(moves, streams, word[i]);
}

/* What an object of this size takes. */
static size_t iostreams_space(size_t size)
{
	return (size + ALIGNMENT - 1) & -(size_t)ALIGNMENT;
}

static void iostreams_place(struct iostreams *s)
{
	char *next = s->objects;
	unsigned int i;

	for (i = 0; i < streams; i++) {
		struct copies_move *m = &moves[i];

		if (m->from < shim.globals || m->from >= shim.globals_end)
			m->to = next;
		next += iostreams_space(m->size);
	}
}

int iostreams_start(void)
{
	struct iostreams *s;
	size_t size = 0;
	unsigned int i;

	if (!streams)
		return 0;
	for (i = 0; i < streams; i++)
		size += iostreams_space(moves[i].size);
	s = dsm_aligned_alloc(PAGE_BYTES, sizeof(*s) + size);
	if (!s)
		return -ENOMEM;
	s->synchronised = true;
	iostreams_place(s);
	for (i = 0; i < streams; i++)
		if (moves[i].to != moves[i].from)
			memcpy(moves[i].to, moves[i].from, moves[i].size);
	for (i = 0; i < streams; i++)
		iostreams_adjust(moves[i].to, moves[i].size);
	team->iostreams = s;
	return 0;
}

void iostreams_join(void)
{
	if (!streams || !team->iostreams)
		return;
	if (shim.rank)
		iostreams_place(team->iostreams);
	copies_move(moves, streams);
}

void iostreams_lead(void)
{
	if (streams && team->iostreams)
		copies_move(moves, streams);
}

/*
 * std::ios_base::sync_with_stdio(): the streams stay synchronised. Buffers of their own would be in
 * the memory of the rank that calls this function, and other ranks would find none.
 */
EXPORT bool iostreams_synchronise(bool on) __asm__("_ZNSt8ios_base15sync_with_stdioEb");
EXPORT bool iostreams_synchronise(bool on)
{
	if (shim.active && team->iostreams) {
		if (on)
			return __atomic_load_n(&team->iostreams->synchronised, __ATOMIC_RELAXED);
		return __atomic_exchange_n(&team->iostreams->synchronised, false, __ATOMIC_RELAXED);
	}
	return NEXT_NAMED(bool (*)(bool), "_ZNSt8ios_base15sync_with_stdioEb")(on);
}

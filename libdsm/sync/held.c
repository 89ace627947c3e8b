// SPDX-License-Identifier: BSD-2-Clause
/*
 * held.c - the locks that a thread holds: a hash table of its own, open addressing, at most half full.
 *
 * The first table is in the thread's own storage. What replaces it is mapped, not allocated: the program's malloc() may lie on
 * the shared heap. It goes with the thread.
 */
#include "sync/held.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#define FEW 64u

struct entry {
	uint64_t id; /* 0: free */
	uint32_t info;
	uint32_t pad;
};

static __thread struct {
	uint32_t n, size; /* size 0: none was ever held */
	struct entry *v;
	struct entry few[FEW];
} held __attribute__((tls_model("initial-exec")));

static pthread_key_t key;

static void unmap(void *table)
{
	(void)table;
	munmap(held.v, held.size * sizeof(held.v[0]));
	held.v = held.few;
	held.size = FEW;
	held.n = 0;
}

int held_start(void)
{
	return -pthread_key_create(&key, unmap);
}

static uint32_t place(uint64_t id)
{
	return (uint32_t)(id * 0x9e3779b97f4a7c15u >> 32) & (held.size - 1);
}

static void insert(uint64_t id, uint32_t info)
{
	uint32_t i = place(id);

	while (held.v[i].id)
		i = (i + 1) & (held.size - 1);
	held.v[i] = (struct entry){ .id = id, .info = info };
}

static int grow(void)
{
	uint32_t size = held.size, i;
	struct entry *was = held.v;
	void *more = mmap(NULL, 2 * size * sizeof(*was), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (more == MAP_FAILED)
		return -EAGAIN;
	if (pthread_setspecific(key, more)) {
		munmap(more, 2 * size * sizeof(*was));
		return -EAGAIN;
	}
	held.v = more;
	held.size = 2 * size;
	for (i = 0; i < size; i++)
		if (was[i].id)
			insert(was[i].id, was[i].info);
	if (was != held.few)
		munmap(was, size * sizeof(*was));
	return 0;
}

int held_find(uint64_t id)
{
	uint32_t i;

	if (!held.n)
		return -1;
	for (i = place(id); held.v[i].id; i = (i + 1) & (held.size - 1))
		if (held.v[i].id == id)
			return (int)i;
	return -1;
}

int held_add(uint64_t id, uint32_t info)
{
	int err;

	if (!held.size) {
		held.v = held.few;
		held.size = FEW;
	}
	if (held.n >= held.size / 2) {
		err = grow();
		if (err)
			return err;
	}
	insert(id, info);
	held.n++;
	return 0;
}

uint32_t held_info(int index)
{
	return held.v[index].info;
}

/* What stands behind the gap moves up, unless its own place comes after the gap. */
void held_remove(int index)
{
	const uint32_t mask = held.size - 1;
	uint32_t gap = (uint32_t)index, i = gap;

	for (;;) {
		i = (i + 1) & mask;
		if (!held.v[i].id)
			break;
		if (((i - place(held.v[i].id)) & mask) < ((i - gap) & mask))
			continue;
		held.v[gap] = held.v[i];
		gap = i;
	}
	held.v[gap].id = 0;
	held.n--;
}

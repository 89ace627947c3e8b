// SPDX-License-Identifier: BSD-2-Clause
/*
 * scratch.c - private memory for the duration of a call: on the stack, or mapped. It does not use
 * malloc(): signal handlers call read(2), too.
 *
 * For a call that rank 0 makes, the memory is of the shared heap.
 */
#include "scratch.h"

#include "caller.h"

#include <string.h>
#include <sys/mman.h>

#define ALIGN 512ul            /* direct I/O needs sector alignment */
#define STRING_MAX (2ul << 20) /* of exec(3) and system(3): the kernel's limit is 128 KiB */
#define KEPT 8                 /* mappings that the process keeps for reuse */
#define KEPT_MIN (64ul << 10)
#define KEPT_MAX ((1ul << 20) + ALIGN)
#define PAGE 4096ul /* that can be closed */

struct mapped {
	struct mapped *next;
	size_t size;
};

/* Mappings that no call uses; their pages are allocated. */
static struct mapped *kept[KEPT];

/* Take one that is large enough, by a lock-free exchange, which a signal handler may use, too. */
static struct mapped *scratch_take_kept(size_t size)
{
	struct mapped *m;
	int i;

	for (i = 0; i < KEPT && size <= KEPT_MAX; i++) {
		m = __atomic_exchange_n(&kept[i], NULL, __ATOMIC_ACQUIRE);
		if (m && m->size >= size)
			return m;
		if (m)
			munmap(m, m->size);
	}
	return NULL;
}

static void scratch_keep(struct mapped *m)
{
	struct mapped *none;
	int i;

	for (i = 0; i < KEPT && m->size <= KEPT_MAX; i++) {
		none = NULL;
		if (__atomic_compare_exchange_n(&kept[i], &none, m, false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return;
	}
	munmap(m, m->size);
}

static void *map_private(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
}

static void *scratch_map(struct scratch *s, size_t size)
{
	struct mapped *m;

	if (size + ALIGN < size) {
		errno = ENOMEM;
		return NULL;
	}
	size += ALIGN;
	m = s->shared ? dsm_aligned_alloc(ALIGN, size) : scratch_take_kept(size);
	if (s->shared && !m) {
		errno = ENOMEM;
		return NULL;
	}
	if (!m) {
		size = size < KEPT_MIN ? KEPT_MIN : size;
		m = map_private(size);
		if (m == MAP_FAILED)
			return NULL;
		m->size = size;
	}
	m->next = s->mapped;
	s->mapped = m;
	return (char *)m + ALIGN;
}

bool scratch_misses(const struct scratch *s, const void *p)
{
	return s->shared ? p && !program.is_shared(p) : is_away(p);
}

/* Has the program closed a page of the range to this access (dsm_guard())? */
static bool scratch_forbids(const void *p, size_t size, enum dsm_access access)
{
	const char *at = p, *end = at + size;

	while (p && at < end && (dsm_guard_get(at) & access))
		at += PAGE - (uintptr_t)at % PAGE;
	if (!p || at >= end)
		return false;
	errno = EFAULT;
	return true;
}

static void *scratch_place(struct scratch *s, size_t size, const void *p)
{
	const size_t align = (uintptr_t)p % ALIGN ? 16 : ALIGN,
		     at = (s->used + align - 1) & ~(align - 1);

	if (s->shared || at > ROOM || size > ROOM - at)
		return scratch_map(s, size);
	s->used = at + size;
	return s->room + at;
}

void *scratch_get(struct scratch *s, size_t size, const void *p)
{
	return scratch_forbids(p, size, DSM_WRITE) ? NULL : scratch_place(s, size, p);
}

void *scratch_copy(struct scratch *s, size_t size, const void *p)
{
	void *q;

	if (!s->shared && dsm_needs_pin(p, size) < size) {
		errno = EFAULT;
		return NULL;
	}
	q = scratch_forbids(p, size, DSM_READ) ? NULL : scratch_place(s, size, p);
	return q ? memcpy(q, p, size) : NULL;
}

char *scratch_string(struct scratch *s, const char *p)
{
	size_t len;

	if (!scratch_misses(s, p))
		return (char *)(uintptr_t)p;
	len = strnlen(p, s->shared ? STRING_MAX : dsm_needs_pin(p, STRING_MAX));
	if (len == STRING_MAX) {
		errno = E2BIG;
		return NULL;
	}
	return scratch_copy(s, len + 1, p);
}

char **scratch_strings(struct scratch *s, char *const *p)
{
	char **out;
	size_t n, i;

	for (n = 0; p && p[n]; n++)
		;
	out = scratch_get(s, (n + 1) * sizeof(*out), NULL);
	if (!out)
		return NULL;
	for (i = 0; i < n; i++) {
		out[i] = scratch_string(s, p[i]);
		if (!out[i])
			return NULL;
	}
	out[n] = NULL;
	return out;
}

void scratch_free(void *scratch)
{
	struct scratch *const s = scratch;
	const int saved = errno;

	while (s->mapped) {
		struct mapped *m = s->mapped;

		s->mapped = m->next;
		if (s->shared)
			dsm_free(m);
		else
			scratch_keep(m);
	}
	errno = saved;
}

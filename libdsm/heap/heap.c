// SPDX-License-Identifier: BSD-2-Clause
/*
 * heap.c - a jemalloc arena over the units of the heap that this rank has.
 *
 * jemalloc gets its pages from pages.c, and that from the source of units, outside of jemalloc. It
 * keeps its own records in private memory, and never reads or writes the range. Its zeroing is not
 * used: it does some under the arena's growth lock, and a fault there would wait for other ranks.
 * Memory is zeroed here instead, with no lock held.
 *
 * Threads: any number of the owner's allocate and free, each through a jemalloc thread cache of its
 * own (cache.c). Other processes end allocations by clearing the live bit and putting the address
 * into the ring (ring.c). So does a thread that is in this file already: a signal handler that
 * interrupts it there may miss, and serve frees of other nodes while it waits.
 *
 * Locks, none of which is held over an access to the range:
 *   heap.grow_lock   the thread that takes units for small objects; around a call of the source
 *   heap.drain_lock  the consumers of the ring; around jemalloc's locks
 *   caches.lock      the threads' caches (cache.c); around jemalloc's locks
 *   pages.lock       innermost, in extent hooks
 */
#include "heap/heap.h"

#include "heap/cache.h"
#include "heap/pages.h"
#include "heap/ring.h"
#include "heap/site.h"
#include "heap/units.h"
#include "util/log.h"

#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ALIGN UNIT_BYTES
/*
 * A larger object has units of its own, which jemalloc does not know. jemalloc's size classes are
 * so far apart there that one object could waste a fifth of the heap. It also adds a page to each,
 * so no object could start at a multiple of 2 MiB without a gap, as huge pages and large blocks
 * need.
 */
#define HUGE_FROM ((size_t)4 << 20)

/*
 * taken at once for objects larger than UNIT_SHARE, of which a unit has room for a few; HUGE_FROM
 * fits
 */
#define RUN_UNITS 4u
#define UNIT_SHARE (UNIT_BYTES / 8)
#define USED_AT_ONCE 4096u /* units per query of their source */

/*
 * jemalloc's largest small class. Larger objects are aligned to pages, and jemalloc never allocates
 * those from a thread cache: freeing into one would only hoard them.
 */
#define CACHED_MAX ((size_t)14336)

_Static_assert(sizeof(((struct heap_object *)0)->name) == SITE_NAME, "one length of names");

static struct heap {
	extent_hooks_t hooks;
	struct pages pages;
	const struct heap_source *source;
	struct heap_shared *s;
	uintptr_t base;
	size_t size;
	unsigned arena[2]; /* of the lower part, and of the upper one */
	bool split;        /* there is an upper part */
	/* drains of the ring; those before which source->drained() was called. Atomic */
	uint64_t drains, settled;
	bool owner; /* of a running heap; false in a child made by fork() */
	bool keep_sites;
	bool prepared;    /* the fork handler is installed */
	bool loose;       /* a huge object was freed, and its units are still here; atomic */
	uint64_t growths; /* of the arenas; changed with grow_lock held, atomic */
	pthread_mutex_t drain_lock, grow_lock;
} heap = { .drain_lock = PTHREAD_MUTEX_INITIALIZER, .grow_lock = PTHREAD_MUTEX_INITIALIZER };

/*
 * The largest extent that the current allocation can use; slabs of small objects are far below 2
 * MiB.
 */
static __thread size_t wanted = UNIT_BYTES - 1;
/* Units taken for the current allocation: until it is done, no other thread gets pages of them. */
static __thread struct {
	uintptr_t at;
	size_t left;
} run;

/* Calls of this thread in this file: it may hold locks, or have a cache in its hands. */
static __thread unsigned int depth __attribute__((tls_model("initial-exec")));

static void heap_enter(void)
{
	depth++;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void heap_leave(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	depth--;
}

/* ---- extent hooks: in jemalloc, under its locks ---------------------------------------------- */

/*
 * jemalloc first asks for more than it needs, in steps that grow from 2 MiB, and keeps the rest as
 * "retained" extents, which it never gives back or joins to neighbours. That would fragment the
 * range for good. So this is refused, and jemalloc asks again for the exact size.
 */
static void *hook_alloc(extent_hooks_t *hooks, void *addr, size_t size, size_t align, bool *zero,
			bool *commit, unsigned arena)
{
	size_t gap;
	void *p;

	(void)hooks;
	if (addr || size > wanted)
		return NULL;
	gap = -run.at % align;
	if (gap <= run.left && size <= run.left - gap) {
		if (gap)
			pages_put(&heap.pages, (void *)run.at, gap);
		p = (void *)(run.at + gap);
		run.at += gap + size;
		run.left -= gap + size;
	} else {
		p = pages_take(&heap.pages, heap.split && arena == heap.arena[1], size, align);
	}
	*zero = false;
	*commit = true;
	return p;
}

/* Also in extent hooks, also while the heap stops: nothing here takes a lock. */
static void note_freed(const void *p, size_t size)
{
	if (heap.owner && heap.source->freed)
		heap.source->freed((uintptr_t)p - heap.base, size);
}

static bool hook_dalloc(extent_hooks_t *hooks, void *addr, size_t size, bool committed,
			unsigned arena)
{
	(void)hooks, (void)committed, (void)arena;
	note_freed(addr, size);
	return !pages_put(&heap.pages, addr, size);
}

static bool hook_split(extent_hooks_t *hooks, void *addr, size_t size, size_t a, size_t b,
		       bool committed, unsigned arena)
{
	(void)hooks, (void)addr, (void)size, (void)a, (void)b, (void)committed, (void)arena;
	return false;
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t na, void *b, size_t nb,
		       bool committed, unsigned arena)
{
	(void)hooks, (void)a, (void)na, (void)b, (void)nb, (void)committed, (void)arena;
	return false;
}

/* ---- the arena ------------------------------------------------------------------------------- */

static int arena_ctl(bool upper, const char *verb, void *value, size_t size)
{
	char name[64];

	snprintf(name, sizeof(name), "arena.%u.%s", heap.arena[upper], verb);
	return -mallctl(name, NULL, NULL, value, size);
}

static int arena_create(bool upper)
{
	/* jemalloc 5.3's arena_config_t, which its header does not declare. */
	struct {
		extent_hooks_t *hooks;
		bool metadata_use_hooks;
	} config = { .hooks = &heap.hooks, .metadata_use_hooks = false };
	size_t len = sizeof(heap.arena[0]);
	ssize_t never = -1;
	int err;

	heap.hooks = (extent_hooks_t){
		.alloc = hook_alloc, .dalloc = hook_dalloc, .split = hook_split, .merge = hook_merge
	};
	err = mallctl("experimental.arenas_create_ext", &heap.arena[upper], &len, &config,
		      sizeof(config));
	if (err)
		return -err;
	/*
	 * jemalloc keeps freed extents for reuse until memory runs out: there is nothing to purge.
	 */
	err = arena_ctl(upper, "dirty_decay_ms", &never, sizeof(never));
	if (err == 0)
		err = arena_ctl(upper, "muzzy_decay_ms", &never, sizeof(never));
	if (err)
		arena_ctl(upper, "destroy", NULL, 0);
	return err;
}

static bool is_upper(const void *p)
{
	return heap.split && (uintptr_t)p - heap.base >= heap.pages.split * PAGE_BYTES;
}

/*
 * Threads' caches hold memory of one part: jemalloc does not ask from which arena an object of a
 * cache is.
 */
static bool has_cache(bool upper)
{
	return upper == heap.split;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static void heap_give_back(void *p, unsigned frees)
{
	const unsigned class = pages_class(&heap.pages, p);
	size_t usable = class ? cache_usable(class) : pages_large_size(&heap.pages, p);
	int cache;

	if (usable == PAGE_BYTES)
		usable = sallocx(p, 0);
	/*
	 * Remove the records first: once jemalloc has the memory, another thread may get the
	 * address.
	 */
	site_drop(p);
	if (usable > PAGE_BYTES)
		pages_large_clear(&heap.pages, p, usable);
	cache_count(0, frees, -(uint64_t)usable);
	if (usable >= PAGE_BYTES)
		note_freed(p, usable);
	if (!heap.keep_sites && has_cache(is_upper(p)) && cache_push(class, p))
		return;
	if (usable > HUGE_FROM) {
		pages_put(&heap.pages, p, usable);
		__atomic_store_n(&heap.loose, true, __ATOMIC_RELEASE);
	} else if (usable <= CACHED_MAX && has_cache(is_upper(p))) {
		cache = cache_take(usable);
		dallocx(p, cache);
		cache_put(cache);
	} else {
		dallocx(p, MALLOCX_TCACHE_NONE);
	}
}

void heap_comes_back(void)
{
	__atomic_fetch_add(&heap.drains, 1, __ATOMIC_SEQ_CST);
}

/*
 * Drain the ring; wait: for another thread that does so. Other processes have written the ring: an
 * invalid entry is skipped, and with invalid indices the rest of the ring is.
 */
static int ring_drain(struct heap_shared *s, bool wait)
{
	uint32_t head, left;
	int n = 0;

	if (wait)
		pthread_mutex_lock(&heap.drain_lock);
	else if (pthread_mutex_trylock(&heap.drain_lock))
		return 0;
	left = ring_filled(s, &head);
	if (left > HEAP_RING) {
		log_line("the ring of freed addresses is damaged: %u entries", left);
		__atomic_store_n(&s->head, head + left, __ATOMIC_RELEASE);
		left = 0;
	}
	if (left)
		heap_comes_back();
	for (; left; left--) {
		uint64_t offset = ring_take(s, &head) - heap.base;

		if (offset >= heap.size || offset % HEAP_GRAIN ||
		    !pages_owned(&heap.pages, offset / UNIT_BYTES) || live_test(s, offset))
			continue;
		/* the freeing rank has counted it */
		heap_give_back((void *)(heap.base + offset), 0);
		n++;
	}
	pthread_mutex_unlock(&heap.drain_lock);
	return n;
}

/* ---- allocating ------------------------------------------------------------------------------ */

static void *arena_alloc(bool upper, size_t size, int flags, size_t usable)
{
	int cache;
	void *p;

	if (usable <= CACHED_MAX && has_cache(upper)) {
		cache = cache_take(usable);
		p = mallocx(size, flags | cache);
		cache_put(cache);
		return p;
	}
	if (usable <= CACHED_MAX)
		return mallocx(size, flags | MALLOCX_TCACHE_NONE);
	/* jemalloc adds a page for its "cache-oblivious" placement, used or not */
	wanted = usable + PAGE_BYTES;
	p = mallocx(size, flags | MALLOCX_TCACHE_NONE);
	wanted = UNIT_BYTES - 1;
	return p;
}

/* A unit that was used before counts as used in all its pages, as far as is known. */
static void heap_own(uint32_t at, uint32_t n, uint32_t used)
{
	uint64_t bits[USED_AT_ONCE / 64];
	const bool all = used == n;
	uint32_t some;

	if (!used)
		pages_own(&heap.pages, at, n, NULL);
	for (; used && n; at += some, n -= some) {
		some = n < USED_AT_ONCE ? n : USED_AT_ONCE;
		if (all || heap.source->used(at, some, bits))
			memset(bits, 0xff, sizeof(bits));
		pages_own(&heap.pages, at, some, bits);
	}
}

/* Take n units in a row: returns the address of the first, or 0. */
static uintptr_t heap_take(bool upper, size_t n)
{
	uint32_t used;
	int64_t at = heap.source->take(upper, (uint32_t)n, &used);

	if (at < 0)
		return 0;
	heap_own((uint32_t)at, (uint32_t)n, used);
	return heap.base + (size_t)at * UNIT_BYTES;
}

/* Allocate from units that are taken for it; the rest of them is for other allocations. */
static void *arena_alloc_more(bool upper, size_t size, int flags, size_t usable)
{
	const size_t bytes = usable + PAGE_BYTES;
	size_t n = usable > UNIT_SHARE ? RUN_UNITS : 1, before;
	uintptr_t at = heap_take(upper, n);
	void *p;

	if (!at && n > (bytes + UNIT_BYTES - 1) / UNIT_BYTES) {
		n = (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
		at = heap_take(upper, n);
	}
	if (!at)
		return NULL;
	before = pages_take_before(&heap.pages, (at - heap.base) / UNIT_BYTES, bytes);
	run.at = at - before;
	run.left = before + n * UNIT_BYTES;
	p = arena_alloc(upper, size, flags, usable);
	if (run.left)
		pages_put(&heap.pages, (void *)run.at, run.left);
	run.left = 0;
	__atomic_store_n(&heap.growths, heap.growths + 1, __ATOMIC_RELEASE);
	return p;
}

/*
 * One thread at a time: each of a crowd whose first allocations find no page would take a unit, and
 * no run of units would be empty while they live. growths: before it looked.
 */
static void *arena_grow(bool upper, size_t size, int flags, size_t usable, uint64_t growths)
{
	void *p = NULL;

	pthread_mutex_lock(&heap.grow_lock);
	if (growths != heap.growths)
		p = arena_alloc(upper, size, flags, usable);
	if (!p)
		p = arena_alloc_more(upper, size, flags, usable);
	pthread_mutex_unlock(&heap.grow_lock);
	return p;
}

/*
 * Flush the ring, thread caches and jemalloc's lists of freed extents, so that neighbours coalesce.
 */
static void heap_collect(void)
{
	ring_drain(heap.s, true);
	cache_flush();
	arena_ctl(false, "purge", NULL, 0);
	if (heap.split)
		arena_ctl(true, "purge", NULL, 0);
}

static uint32_t disown(bool lower, bool upper, uint32_t *at)
{
	const size_t split = heap.pages.split / UNIT_PAGES, end = heap.pages.count / UNIT_PAGES;
	size_t i = 0, n = pages_disown(&heap.pages, lower ? 0 : split, upper ? end : split, &i);

	if (n && heap.source->disowned)
		heap.source->disowned((uint32_t)i, (uint32_t)n);
	*at = (uint32_t)i;
	return (uint32_t)n;
}

void heap_trim_begin(void)
{
	if (!heap.owner)
		return;
	heap_enter();
	heap_collect();
	heap_leave();
}

uint32_t heap_trim(bool upper, uint32_t *at)
{
	uint32_t n;

	if (!heap.owner)
		return 0;
	heap_enter();
	n = disown(!upper, upper, at);
	heap_leave();
	return n;
}

/* Allocate whole units: those that this rank has, or takes for it. */
static void *huge_alloc(bool upper, size_t usable)
{
	void *p = pages_take(&heap.pages, upper, usable, UNIT_BYTES);

	return p ? p : (void *)heap_take(upper, usable / UNIT_BYTES);
}

static void *alloc_once(bool upper, size_t size, int flags, size_t usable)
{
	const uint64_t growths = __atomic_load_n(&heap.growths, __ATOMIC_ACQUIRE);
	void *p;

	if (usable > HUGE_FROM)
		return huge_alloc(upper, usable);
	p = arena_alloc(upper, size, flags, usable);
	return p ? p : arena_grow(upper, size, flags, usable, growths);
}

static void give_units(void)
{
	uint32_t at, n;

	__atomic_store_n(&heap.loose, false, __ATOMIC_RELAXED);
	heap_enter();
	while ((n = disown(true, true, &at)))
		heap.source->give(at, n);
	heap_leave();
}

void heap_give_units(void)
{
	if (heap.owner && __atomic_load_n(&heap.loose, __ATOMIC_ACQUIRE))
		give_units();
}

/* Memory ran out: try again after making everything free here available to all. */
static void *alloc_again(bool upper, size_t size, int flags, size_t usable)
{
	heap_collect();
	give_units();
	return alloc_once(upper, size, flags, usable);
}

/* Any thread may have drained the ring, also one that must not wait. */
static void settle(void)
{
	const uint64_t drains = __atomic_load_n(&heap.drains, __ATOMIC_SEQ_CST);

	if (drains == __atomic_load_n(&heap.settled, __ATOMIC_ACQUIRE) || !heap.source->drained)
		return;
	heap.source->drained();
	/* if it goes back, a thread calls once more */
	__atomic_store_n(&heap.settled, drains, __ATOMIC_RELEASE);
}

/* An object that this thread has freed: its pages and its records are as they must be. */
static void *alloc_cached(bool upper, size_t size, bool zero)
{
	const unsigned class = has_cache(upper) ? cache_class(size) : 0;
	void *p = cache_pop(class);

	if (!p)
		return NULL;
	if (upper)
		settle();
	if (zero)
		memset(p, 0, size);
	cache_count(1, 0, cache_usable(class));
	live_set(heap.s, (uintptr_t)p - heap.base);
	return p;
}

static void *heap_get(bool upper, size_t size, size_t align, bool zero, const char *name,
		      const void *site)
{
	struct heap_shared *s = heap.s;
	unsigned class;
	size_t usable;
	int flags;
	void *p;

	if ((align & (align - 1)) || align > MAX_ALIGN) {
		errno = EINVAL;
		return NULL;
	}
	if (!heap.owner || size > heap.size)
		goto none;
	if (!ring_empty(s))
		ring_drain(s, false);
	heap_give_units(); /* before small objects are allocated in them, and stay */
	if (size < HEAP_GRAIN)
		size = HEAP_GRAIN; /* one live bit each */
	if (size >= PAGE_BYTES && align < PAGE_BYTES)
		align = PAGE_BYTES; /* pages that different ranks write move independently */
	upper &= heap.split;
	if (align <= HEAP_GRAIN && !name && !heap.keep_sites) {
		p = alloc_cached(upper, size, zero);
		if (p)
			return p;
	}
	flags = (int)MALLOCX_ARENA(heap.arena[upper]) |
		(align > HEAP_GRAIN ? MALLOCX_ALIGN(align) : 0);
	usable = size > HUGE_FROM ? (size + UNIT_BYTES - 1) & ~(UNIT_BYTES - 1)
				  : nallocx(size, flags);
	p = alloc_once(upper, size, flags, usable);
	if (!p)
		p = alloc_again(upper, size, flags, usable);
	if (!p)
		goto none;
	if (upper)
		settle();
	if (heap.source->used_again)
		heap.source->used_again((uintptr_t)p - heap.base, usable);
	class = cache_class(usable);
	pages_touch(&heap.pages, p, size, zero);
	if (class) /* alloc_cached() may return it for any size of its class */
		pages_touch(&heap.pages, p, usable, false);
	if (usable > PAGE_BYTES)
		pages_large_set(&heap.pages, p, usable);
	pages_class_set(&heap.pages, p, class);
	if (heap.keep_sites || name)
		site_keep(p, name, heap.keep_sites ? site : NULL);
	cache_count(1, 0, usable);
	live_set(s, (uintptr_t)p - heap.base);
	return p;
none:
	errno = ENOMEM;
	return NULL;
}

void *heap_alloc(bool upper, size_t size, size_t align, bool zero, const char *name,
		 const void *site)
{
	void *p;

	heap_enter();
	p = heap_get(upper, size, align, zero, name, site);
	heap_leave();
	return p;
}

/* ---- the rest of the interface --------------------------------------------------------------- */

int heap_free(struct heap_shared *s, const void *p)
{
	uint64_t offset = (uintptr_t)p - s->base;

	if (offset >= s->size || offset % HEAP_GRAIN)
		return -EINVAL;
	if (heap.owner && heap.s == s && !depth) {
		if (!pages_owned(&heap.pages, offset / UNIT_BYTES) || !live_clear(s, offset))
			return -EINVAL;
		heap_enter();
		heap_give_back((void *)(heap.base + offset), 1);
		heap_leave();
	} else {
		int err = ring_free(s, offset);

		if (err)
			return err;
		__atomic_fetch_add(&s->remote_frees, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&s->frees, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

int heap_drain(void)
{
	int n;

	if (!heap.owner)
		return 0;
	heap_enter();
	n = ring_drain(heap.s, true);
	cache_show();
	heap_leave();
	return n;
}

/*
 * The start of the last live object at or before offset, whether or not it contains that. A large
 * object is found through its pages; a small one starts less than a page before any of its bytes.
 * The map also has the objects of others.
 */
static bool find_start(uint64_t offset, uint64_t *start)
{
	void *large = pages_large_start(&heap.pages, (void *)(heap.base + offset));
	uint64_t bit = offset / HEAP_GRAIN, from = offset < PAGE_BYTES ? 0 : offset - PAGE_BYTES,
		 stop;

	if (!pages_owned(&heap.pages, from / UNIT_BYTES))
		from = offset / UNIT_BYTES * UNIT_BYTES;
	stop = from / HEAP_GRAIN;

	if (large) {
		*start = (uintptr_t)large - heap.base;
		return live_test(heap.s, *start);
	}
	for (;;) {
		uint64_t mask,
			word = __atomic_load_n(live_word(heap.s, bit * HEAP_GRAIN, &mask),
					       __ATOMIC_ACQUIRE);

		word &= ~0ull >> (63 - bit % 64);

		if (word) {
			*start =
				(bit / 64 * 64 + 63 - (uint64_t)__builtin_clzll(word)) * HEAP_GRAIN;
			return true;
		}
		if (bit / 64 * 64 <= stop)
			return false;
		bit = bit / 64 * 64 - 1;
	}
}

/*
 * The object may be freed meanwhile. jemalloc's lookup of a dead address returns a wrong size but
 * does no harm, and the live bit is checked again afterwards.
 */
static int heap_look(const void *p, struct heap_object *out)
{
	uint64_t offset = (uintptr_t)p - heap.base, start;
	struct heap_object o = { 0 };

	if (!heap.owner || offset >= heap.size || !pages_owned(&heap.pages, offset / UNIT_BYTES) ||
	    !find_start(offset, &start))
		return -ENOENT;
	o.start = (void *)(heap.base + start);
	o.size = pages_large_size(&heap.pages, o.start);
	/*
	 * jemalloc does not know huge objects. When one ends, its live bit is cleared before its
	 * pages.
	 */
	if (o.size == PAGE_BYTES) {
		if (!live_test(heap.s, start))
			return -ENOENT;
		o.size = sallocx(o.start, 0);
	}
	site_get(o.start, o.name, o.sites);
	if (offset - start >= o.size || !live_test(heap.s, start))
		return -ENOENT;
	*out = o;
	return 0;
}

int heap_find(const void *p, struct heap_object *out)
{
	int err;

	heap_enter();
	err = heap_look(p, out);
	heap_leave();
	return err;
}

static void fork_child(void)
{
	heap.owner = false;
	cache_fork_child();
}

/* heap.split decides in the extent hooks which arena takes which pages. */
static int arenas_create(void)
{
	int err = arena_create(false);

	if (err || !heap.split)
		return err;
	err = arena_create(true);
	if (err)
		arena_ctl(false, "destroy", NULL, 0);
	return err;
}

int heap_start(struct heap_shared *s, uint64_t *live, void *base, size_t size, size_t split,
	       const struct heap_source *source, bool keep_sites)
{
	int err;

	if (heap.s)
		return -EALREADY;
	if (!base || !size || (uintptr_t)base % UNIT_BYTES || size % UNIT_BYTES || split > size ||
	    split % UNIT_BYTES)
		return -EINVAL;
	err = cache_prepare();
	if (err)
		return err;
	if (!heap.prepared) {
		err = -pthread_atfork(NULL, NULL, fork_child);
		if (err)
			return err;
		heap.prepared = true;
	}
	err = pages_init(&heap.pages, base, size);
	if (err)
		return err;
	heap.split = split != size;
	heap.pages.split = split / PAGE_BYTES;
	err = arenas_create();
	if (err) {
		log_line("jemalloc cannot create an arena for the shared heap: %s", strerror(-err));
		pages_fini(&heap.pages);
		return -ENOMEM;
	}
	cache_start(s);
	heap.s = s;
	heap.source = source;
	heap.base = (uintptr_t)base;
	heap.size = size;
	heap.keep_sites = keep_sites;
	s->base = heap.base;
	s->size = size;
	s->live = (char *)live - (char *)s;
	heap.owner = true;
	return 0;
}

/* No other thread uses the heap any more. */
void heap_stop(void)
{
	if (!heap.owner)
		return;
	heap.owner = false;
	cache_stop();
	site_drop_all();
	arena_ctl(false, "destroy", NULL, 0);
	if (heap.split)
		arena_ctl(true, "destroy", NULL, 0);
	pages_fini(&heap.pages);
	heap.s = NULL;
}

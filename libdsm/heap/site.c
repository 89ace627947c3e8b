// SPDX-License-Identifier: BSD-2-Clause
/*
 * site.c - where allocations were made and their names, and source positions as text.
 *
 * Threads: any of the owner. Records are spread over shards by address, each with a lock that is
 * held for a probe or, when the shard grows, for a rehash. The text of code addresses has one lock,
 * held while the helper program runs.
 */
#include "heap/site.h"
#include "heap/heap.h"
#include "util/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- records of live allocations ------------------------------------------------------------- */

#define SHARDS 64

struct record {
	const void *p; /* NULL: the slot is empty */
	char *name;    /* its own copy, or NULL */
	const void *sites[HEAP_SITES];
};

struct shard {
	pthread_mutex_t lock;
	size_t count, slots; /* slots: a power of two, or 0; count is also read without the lock */
	struct record *table;
} __attribute__((aligned(64)));

static struct shard shards[SHARDS] = { [0 ... SHARDS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

static size_t site_hash(const void *p)
{
	return (uintptr_t)p / HEAP_GRAIN * 0x9e3779b97f4a7c15ull >> 16;
}

static struct shard *shard_of(const void *p)
{
	return &shards[site_hash(p) % SHARDS];
}

/* The slot of p, or the empty one where p belongs. */
static struct record *site_slot(struct record *table, size_t slots, const void *p)
{
	size_t i = site_hash(p) / SHARDS;

	while (table[i & (slots - 1)].p && table[i & (slots - 1)].p != p)
		i++;
	return &table[i & (slots - 1)];
}

static bool shard_grow(struct shard *d)
{
	size_t slots = d->slots ? 2 * d->slots : 64;
	struct record *table = calloc(slots, sizeof(*table));

	if (!table)
		return false;
	for (size_t i = 0; i < d->slots; i++)
		if (d->table[i].p)
			*site_slot(table, slots, d->table[i].p) = d->table[i];
	free(d->table);
	d->table = table;
	d->slots = slots;
	return true;
}

/* ---- who has called -------------------------------------------------------------------------- */

#define DEPTH 24 /* frames examined */
#define LIBRARIES 8

/* Code of libraries that allocate for their callers; set once, before the first allocation. */
static struct {
	uintptr_t low, high;
} libraries[LIBRARIES];
static unsigned int n_libraries;
static bool unwinds; /* the stack can be unwound beyond the call itself */

static bool allocates(const char *path)
{
	static const char *const names[] = { "libdsm.so", "libdsm-pthread.so", "libc.so",
					     "libstdc++.so" };
	const char *name = strrchr(path, '/');
	unsigned int i;

	name = name ? name + 1 : path;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

static int site_note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned int i;

	(void)size;
	(void)arg;
	for (i = 0; allocates(info->dlpi_name) && i < info->dlpi_phnum && n_libraries < LIBRARIES;
	     i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
			continue;
		libraries[n_libraries].low = info->dlpi_addr + h->p_vaddr;
		libraries[n_libraries++].high = info->dlpi_addr + h->p_vaddr + h->p_memsz;
	}
	return 0;
}

static bool in_library(const void *code)
{
	unsigned int i;

	for (i = 0; i < n_libraries; i++)
		if ((uintptr_t)code >= libraries[i].low && (uintptr_t)code < libraries[i].high)
			return true;
	return false;
}

/*
 * Collect the frames from site on that belong to no such library. If the stack cannot be unwound,
 * only site.
 */
static void callers(const void *site, const void *sites[HEAP_SITES])
{
	void *frames[DEPTH];
	int n, i, k = 0;

	sites[0] = site;
	if (!site || !unwinds)
		return;
	n = backtrace(frames, DEPTH);
	for (i = 0; i < n && frames[i] != site; i++)
		;
	for (; i < n && k < HEAP_SITES; i++)
		if (!in_library(frames[i]))
			sites[k++] = frames[i];
}

void site_keep(const void *p, const char *name, const void *site)
{
	struct shard *d = shard_of(p);
	char *copy = name ? strndup(name, SITE_NAME - 1) : NULL;
	struct record new = { .p = p, .name = copy }, *r;

	callers(site, new.sites);
	pthread_mutex_lock(&d->lock);
	if (d->count >= d->slots / 4 * 3 && !shard_grow(d)) {
		pthread_mutex_unlock(&d->lock);
		free(copy);
		return;
	}
	r = site_slot(d->table, d->slots, p);
	if (!r->p)
		__atomic_store_n(&d->count, d->count + 1, __ATOMIC_RELAXED);
	else
		free(r->name);
	*r = new;
	pthread_mutex_unlock(&d->lock);
}

void site_drop(const void *p)
{
	struct shard *d = shard_of(p);
	struct record *r;
	size_t hole, i, home;

	/* Read without the lock: if p has a record, it was counted before p was returned. */
	if (!__atomic_load_n(&d->count, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&d->lock);
	r = d->slots ? site_slot(d->table, d->slots, p) : NULL;
	if (r && r->p) {
		free(r->name);
		__atomic_store_n(&d->count, d->count - 1, __ATOMIC_RELAXED);
		/* Move up the entries behind that would not be found across the hole. */
		hole = (size_t)(r - d->table);
		for (i = (hole + 1) & (d->slots - 1); d->table[i].p; i = (i + 1) & (d->slots - 1)) {
			home = site_hash(d->table[i].p) / SHARDS & (d->slots - 1);
			if (((i - home) & (d->slots - 1)) >= ((i - hole) & (d->slots - 1))) {
				d->table[hole] = d->table[i];
				hole = i;
			}
		}
		d->table[hole] = (struct record){ 0 };
	}
	pthread_mutex_unlock(&d->lock);
}

bool site_get(const void *p, char name[SITE_NAME], const void *sites[HEAP_SITES])
{
	struct shard *d = shard_of(p);
	struct record *r;
	bool found;

	pthread_mutex_lock(&d->lock);
	r = d->slots ? site_slot(d->table, d->slots, p) : NULL;
	found = r && r->p;
	if (found) {
		snprintf(name, SITE_NAME, "%s", r->name ? r->name : "");
		memcpy(sites, r->sites, sizeof(r->sites));
	}
	pthread_mutex_unlock(&d->lock);
	return found;
}

void site_drop_all(void)
{
	for (size_t s = 0; s < SHARDS; s++) {
		struct shard *d = &shards[s];

		pthread_mutex_lock(&d->lock);
		for (size_t i = 0; i < d->slots; i++)
			free(d->table[i].name);
		free(d->table);
		d->table = NULL;
		d->slots = d->count = 0;
		pthread_mutex_unlock(&d->lock);
	}
}

/* ---- code addresses as text ------------------------------------------------------------------ */

#define TEXT_SLOTS 512
#define HELPER_MS 3000 /* a large binary with debug information takes about 1 s */

static struct {
	pthread_mutex_t lock;
	bool no_helper; /* it is not installed, or does not answer */
	struct text {
		const void *site;
		bool wrapper;
		char text[128];
	} slot[TEXT_SLOTS];
} texts = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Common wrappers, and those that the user has named. */
static const char usual_wrappers[] =
	"xmalloc,xcalloc,xrealloc,xmemdup,xstrdup,xstrndup,dsm_anl_malloc,operator new*,std::*,__gnu_cxx::*,_Zn*";
static const char *more_wrappers = "";

static bool site_is_in(const char *patterns, const char *function)
{
	char one[128];
	size_t n;

	for (; *patterns; patterns += n + (patterns[n] == ',')) {
		n = strcspn(patterns, ",");
		snprintf(one, sizeof(one), "%.*s", (int)n, patterns);
		if (n && n < sizeof(one) && !fnmatch(one, function, 0))
			return true;
	}
	return false;
}

/* Compare the name alone, which precedes the arguments. */
static bool is_wrapper(const char *function)
{
	char name[256];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(function, "("), function);
	return site_is_in(usual_wrappers, name) || site_is_in(more_wrappers, name);
}

/* Read fd to its end, cut to size. False: no end in time. */
static bool site_read_all(int fd, char *buf, size_t size)
{
	int64_t end = (int64_t)clock_ms() + HELPER_MS, left;
	size_t n = 0;

	while ((left = end - (int64_t)clock_ms()) > 0) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char more[256];
		ssize_t got;

		if (poll(&p, 1, (int)left) <= 0)
			continue;
		got = read(fd, more, sizeof(more));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			buf[n] = '\0';
			return got == 0;
		}
		if ((size_t)got > size - 1 - n)
			got = (ssize_t)(size - 1 - n);
		memcpy(buf + n, more, (size_t)got);
		n += (size_t)got;
	}
	return false;
}

/*
 * Start addr2line with its output in out. Its environment contains only the language: debuginfod
 * would use the network.
 */
static int helper_start(const char *file, const char *address, int out, pid_t *pid)
{
	char *argv[] = { (char *)"addr2line", (char *)"-Cfie", (char *)file, (char *)address,
			 NULL };
	char *envp[] = { (char *)"LC_ALL=C", NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none;
	int err;

	sigemptyset(&none);
	if (posix_spawn_file_actions_init(&fa))
		return -ENOMEM;
	err = posix_spawnattr_init(&attr);
	if (err)
		goto out_fa;
	if (posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK) ||
	    posix_spawnattr_setsigmask(&attr, &none) ||
	    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0) ||
	    posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0) ||
	    posix_spawn_file_actions_adddup2(&fa, out, 1))
		err = ENOMEM;
	else
		err = posix_spawnp(pid, "addr2line", &fa, &attr, argv, envp);
	posix_spawnattr_destroy(&attr);
out_fa:
	posix_spawn_file_actions_destroy(&fa);
	return -err;
}

/* "/x/y.c:12 (discriminator 3)" as "y.c:12"; false: the line is not known. */
static bool place_text(char *place, char *buf, size_t size)
{
	const char *name, *end;

	place[strcspn(place, " ")] = '\0';
	name = strrchr(place, '/');
	name = name ? name + 1 : place;
	end = strrchr(name, ':');
	if (!end || end[1] < '1' || end[1] > '9' || name[0] == '?')
		return false;
	snprintf(buf, size, "%.*s", (int)size - 1, name);
	return true;
}

/*
 * Parse pairs of lines, a function and a place, beginning with the innermost inlined function. Take
 * the first that is no wrapper.
 */
static bool pick(char *lines, struct text *t)
{
	char *save, *function, *place;
	bool known = false;

	t->wrapper = false;
	for (function = strtok_r(lines, "\n", &save); function;
	     function = strtok_r(NULL, "\n", &save)) {
		const bool wrapper = is_wrapper(function);

		place = strtok_r(NULL, "\n", &save);
		if (place && (!known || !wrapper))
			known = place_text(place, t->text, sizeof(t->text)) || known;
		t->wrapper = wrapper;
		if (!wrapper)
			break;
	}
	return known;
}

/* Get "file:line" from the debug information of an object file. False: there is none. */
static bool helper_ask(const char *file, uintptr_t address, struct text *t)
{
	char lines[8192], hex[32];
	pid_t pid;
	int fd[2];
	bool done;

	if (texts.no_helper || pipe2(fd, O_CLOEXEC))
		return false;
	snprintf(hex, sizeof(hex), "0x%lx", (unsigned long)address);
	if (helper_start(file, hex, fd[1], &pid)) {
		texts.no_helper = true;
		close(fd[0]);
		close(fd[1]);
		return false;
	}
	close(fd[1]);
	done = site_read_all(fd[0], lines, sizeof(lines));
	close(fd[0]);
	if (!done) {
		texts.no_helper = true;
		kill(pid, SIGKILL);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return done && pick(lines, t);
}

static void site_text(const void *site, struct text *t)
{
	char *const buf = t->text;
	const size_t size = sizeof(t->text);
	struct link_map *map = NULL;
	char self[PATH_MAX];
	const char *file;
	uintptr_t offset;
	Dl_info info;
	ssize_t n;

	buf[0] = '\0';
	t->wrapper = false;
	/*
	 * A return address stands for the call before it, which may be the last instruction of its
	 * line or function.
	 */
	if (!site || !dladdr1((const char *)site - 1, &info, (void **)&map, RTLD_DL_LINKMAP) ||
	    !map)
		return;
	/* The address as linked: a PIE or a library was moved by l_addr, any other program by 0. */
	offset = (uintptr_t)site - map->l_addr;
	file = map->l_name;
	if (!file || !file[0]) {
		/*
		 * The path of the program, looked up here because in the helper /proc/self would be
		 * the helper.
		 */
		n = readlink("/proc/self/exe", self, sizeof(self) - 1);
		if (n < 0)
			return;
		self[n] = '\0';
		file = self;
	}
	if (helper_ask(file, offset - 1, t))
		return;
	if (info.dli_sname) {
		t->wrapper = t->wrapper || is_wrapper(info.dli_sname);
		offset = (uintptr_t)site - (uintptr_t)info.dli_saddr;
		snprintf(buf, size, "%s+0x%lx", info.dli_sname, (unsigned long)offset);
		return;
	}
	if (strrchr(file, '/'))
		file = strrchr(file, '/') + 1;
	snprintf(buf, size, "%.*s+0x%lx", (int)size - 24, file, (unsigned long)offset);
}

/* Is it in a wrapper function? */
static bool name_site(const void *site, char *buf, size_t size)
{
	size_t i = (((uintptr_t)site >> 2) * 0x9e3779b97f4a7c15ull >> 40) % TEXT_SLOTS;
	struct text *t = &texts.slot[i];
	bool wrapper;

	pthread_mutex_lock(&texts.lock);
	if (t->site != site) {
		site_text(site, t);
		t->site = site;
	}
	snprintf(buf, size, "%s", t->text);
	wrapper = t->wrapper;
	pthread_mutex_unlock(&texts.lock);
	return wrapper;
}

void heap_site_name(const void *site, char *buf, size_t size)
{
	if (size)
		name_site(site, buf, size);
}

void heap_object_site(const struct heap_object *o, char *buf, size_t size)
{
	int i;

	for (i = 0; i < HEAP_SITES && o->sites[i]; i++)
		if (!name_site(o->sites[i], buf, size))
			return;
	heap_site_name(o->sites[0], buf, size);
}

void heap_skip(const char *functions)
{
	void *frame;

	more_wrappers = functions;
	n_libraries = 0;
	dl_iterate_phdr(site_note_library, NULL);
	unwinds = true;
	backtrace(&frame, 1); /* the first call loads what it needs, which allocates memory */
}

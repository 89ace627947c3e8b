// SPDX-License-Identifier: BSD-2-Clause
/*
 * site.c - where allocations were made and what they are called, and source positions as text.
 *
 * Threads: any of the owner. Records are spread over shards by address, each with a lock that is held for a probe or,
 * when the shard grows, for a rehash. The text of code addresses has one lock, held while the helper program runs.
 */
#include "heap/site.h"
#include "heap/heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
	const void *site;
	char *name; /* its own copy, or NULL */
};

struct shard {
	pthread_mutex_t lock;
	size_t count, slots; /* slots: a power of two, or 0; count is read without the lock too */
	struct record *table;
} __attribute__((aligned(64)));

static struct shard shards[SHARDS] = { [0 ... SHARDS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

static size_t hash(const void *p)
{
	return (uintptr_t)p / HEAP_GRAIN * 0x9e3779b97f4a7c15ull >> 16;
}

static struct shard *shard_of(const void *p)
{
	return &shards[hash(p) % SHARDS];
}

/* The slot that holds p, or the empty one where it belongs. */
static struct record *slot_of(struct record *table, size_t slots, const void *p)
{
	size_t i = hash(p) / SHARDS;

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
			*slot_of(table, slots, d->table[i].p) = d->table[i];
	free(d->table);
	d->table = table;
	d->slots = slots;
	return true;
}

void site_keep(const void *p, const char *name, const void *site)
{
	struct shard *d = shard_of(p);
	char *copy = name ? strndup(name, SITE_NAME - 1) : NULL;
	struct record *r;

	pthread_mutex_lock(&d->lock);
	if (d->count >= d->slots / 4 * 3 && !shard_grow(d)) {
		pthread_mutex_unlock(&d->lock);
		free(copy);
		return;
	}
	r = slot_of(d->table, d->slots, p);
	if (!r->p)
		__atomic_store_n(&d->count, d->count + 1, __ATOMIC_RELAXED);
	else
		free(r->name);
	*r = (struct record){ .p = p, .site = site, .name = copy };
	pthread_mutex_unlock(&d->lock);
}

void site_drop(const void *p)
{
	struct shard *d = shard_of(p);
	struct record *r;
	size_t hole, i, home;

	/* Without the lock: p's own record, if there is one, was counted before p was handed out. */
	if (!__atomic_load_n(&d->count, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&d->lock);
	r = d->slots ? slot_of(d->table, d->slots, p) : NULL;
	if (r && r->p) {
		free(r->name);
		__atomic_store_n(&d->count, d->count - 1, __ATOMIC_RELAXED);
		/* Move up those behind that would not be found across the hole. */
		hole = (size_t)(r - d->table);
		for (i = (hole + 1) & (d->slots - 1); d->table[i].p; i = (i + 1) & (d->slots - 1)) {
			home = hash(d->table[i].p) / SHARDS & (d->slots - 1);
			if (((i - home) & (d->slots - 1)) >= ((i - hole) & (d->slots - 1))) {
				d->table[hole] = d->table[i];
				hole = i;
			}
		}
		d->table[hole] = (struct record){ 0 };
	}
	pthread_mutex_unlock(&d->lock);
}

bool site_get(const void *p, char name[SITE_NAME], const void **site)
{
	struct shard *d = shard_of(p);
	struct record *r;
	bool found;

	pthread_mutex_lock(&d->lock);
	r = d->slots ? slot_of(d->table, d->slots, p) : NULL;
	found = r && r->p;
	if (found) {
		snprintf(name, SITE_NAME, "%s", r->name ? r->name : "");
		*site = r->site;
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
#define HELPER_MS 3000 /* large binaries with debug information take about a second */

static struct {
	pthread_mutex_t lock;
	bool no_helper; /* it is not installed, or does not answer */
	struct {
		const void *site;
		char text[128];
	} slot[TEXT_SLOTS];
} texts = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

/* All that comes from fd until its end, cut to size. False: not at its end in time. */
static bool read_all(int fd, char *buf, size_t size)
{
	int64_t end = now_ms() + HELPER_MS, left;
	size_t n = 0;

	while ((left = end - now_ms()) > 0) {
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

/* Start addr2line with its output in out. No environment but for the language: debuginfod would ask the network. */
static int helper_start(const char *file, const char *address, int out, pid_t *pid)
{
	char *argv[] = { (char *)"addr2line", (char *)"-e", (char *)file, (char *)address, NULL };
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
	if (posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK) || posix_spawnattr_setsigmask(&attr, &none) ||
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

/* "file:line" from the debug information of an object file. */
static bool helper_ask(const char *file, uintptr_t address, char *buf, size_t size)
{
	char line[PATH_MAX + 64], hex[32], *name, *end;
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
	done = read_all(fd[0], line, sizeof(line));
	close(fd[0]);
	if (!done) {
		texts.no_helper = true;
		kill(pid, SIGKILL);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (!done)
		return false;
	line[strcspn(line, " \n")] = '\0'; /* "x.c:12 (discriminator 3)" */
	name = strrchr(line, '/');
	name = name ? name + 1 : line;
	end = strrchr(name, ':');
	if (!end || end[1] < '1' || end[1] > '9' || name[0] == '?')
		return false;
	snprintf(buf, size, "%.*s", (int)size - 1, name);
	return true;
}

static void site_text(const void *site, char *buf, size_t size)
{
	struct link_map *map = NULL;
	char self[PATH_MAX];
	const char *file;
	uintptr_t offset;
	Dl_info info;
	ssize_t n;

	buf[0] = '\0';
	/* A return address: the call before it is meant, which may be the last instruction of its line or function. */
	if (!site || !dladdr1((const char *)site - 1, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return;
	/* As linked: a PIE or a library was moved by l_addr, any other program by 0. */
	offset = (uintptr_t)site - map->l_addr;
	file = map->l_name;
	if (!file || !file[0]) {
		/* The program. Its path is looked up here: /proc/self would be the helper. */
		n = readlink("/proc/self/exe", self, sizeof(self) - 1);
		if (n < 0)
			return;
		self[n] = '\0';
		file = self;
	}
	if (helper_ask(file, offset - 1, buf, size))
		return;
	if (info.dli_sname) {
		offset = (uintptr_t)site - (uintptr_t)info.dli_saddr;
		snprintf(buf, size, "%s+0x%lx", info.dli_sname, (unsigned long)offset);
		return;
	}
	if (strrchr(file, '/'))
		file = strrchr(file, '/') + 1;
	snprintf(buf, size, "%.*s+0x%lx", (int)size - 24, file, (unsigned long)offset);
}

void heap_site_name(const void *site, char *buf, size_t size)
{
	size_t i = ((uintptr_t)site >> 2) * 0x9e3779b97f4a7c15ull >> 40;

	if (size == 0)
		return;
	pthread_mutex_lock(&texts.lock);
	i %= TEXT_SLOTS;
	if (texts.slot[i].site != site) {
		site_text(site, texts.slot[i].text, sizeof(texts.slot[i].text));
		texts.slot[i].site = site;
	}
	snprintf(buf, size, "%s", texts.slot[i].text);
	pthread_mutex_unlock(&texts.lock);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * bell.c - bells of ranks of one host: bell.h.
 *
 * Peers open a bell by /proc, as UCX opens its own shared memory. Its memory object cannot shrink,
 * so that no peer gets SIGBUS.
 */
#include "net/ucx/bell.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "util/sys.h"

static void bell_shut(int *fd)
{
	if (*fd >= 0)
		sys_close(*fd);
	*fd = -1;
}

static struct bell_page *bell_map(int fd)
{
	void *at = mmap(NULL, sizeof(struct bell_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static bool bell_make(struct bell *b)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return false;
	b->in = ends[0];
	b->out = ends[1];
	b->memory = memfd_create("libdsm-bell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (b->memory < 0 || ftruncate(b->memory, sizeof(struct bell_page)) ||
	    fcntl(b->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return false;
	b->page = bell_map(b->memory);
	return b->page;
}

void bell_open(struct bell *b, struct ucx_blob *address)
{
	uint64_t key;

	*b = (struct bell){ .memory = -1, .in = -1, .out = -1 };
	if (getrandom(&key, sizeof(key), GRND_NONBLOCK) != sizeof(key) || !bell_make(b)) {
		bell_close(b);
		return;
	}
	b->page->key = key;
	address->key = key;
	address->pid = (uint32_t)getpid();
	address->memory = (uint32_t)b->memory;
	address->pipe = (uint32_t)b->out;
}

void bell_close(struct bell *b)
{
	if (b->page)
		munmap(b->page, sizeof(*b->page));
	b->page = NULL;
	bell_shut(&b->memory);
	bell_shut(&b->in);
	bell_shut(&b->out);
}

/* Open a descriptor of another process. */
static int open_theirs(uint32_t pid, uint32_t fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
	return sys_open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Is it the page of that address? Its process may have ended, and its number may be another's. */
static struct bell_page *map_theirs(int fd, uint64_t key)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct bell_page *page;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) ||
	    lseek(fd, 0, SEEK_END) != sizeof(struct bell_page))
		return NULL;
	page = bell_map(fd);
	if (page && page->key != key) {
		munmap(page, sizeof(*page));
		page = NULL;
	}
	return page;
}

void bell_join(struct bell_rope *r, const struct ucx_blob *address)
{
	struct stat st;
	int memory;

	*r = (struct bell_rope){ .out = -1 };
	if (!address->pid)
		return;
	memory = open_theirs(address->pid, address->memory, O_RDWR);
	if (memory >= 0)
		r->page = map_theirs(memory, address->key);
	bell_shut(&memory);
	if (!r->page)
		return;
	/* Not O_WRONLY: a write after the peer has ended would raise SIGPIPE. */
	r->out = open_theirs(address->pid, address->pipe, O_RDWR);
	if (r->out < 0 || fstat(r->out, &st) || !S_ISFIFO(st.st_mode))
		bell_leave(r);
	else
		__atomic_fetch_add(&r->page->ringers, 1, __ATOMIC_RELEASE);
}

void bell_leave(struct bell_rope *r)
{
	if (r->page)
		munmap(r->page, sizeof(*r->page));
	r->page = NULL;
	bell_shut(&r->out);
}

bool bell_is_rung(const struct bell *b)
{
	return b->page && __atomic_load_n(&b->page->ringers, __ATOMIC_ACQUIRE) == b->peers;
}

void bell_set(struct bell *b, enum bell_when when)
{
	const uint32_t word = __atomic_add_fetch(&b->sets, 1, __ATOMIC_RELAXED) << 2 | when;

	if (!__atomic_load_n(&b->pollers, __ATOMIC_SEQ_CST))
		/* a full barrier; partner: bell_ring() */
		__atomic_exchange_n(&b->page->armed, word, __ATOMIC_SEQ_CST);
}

static void bell_write(int out)
{
	if (sys_write(out, "", 1) < 0)
		return; /* full: its reader has much to wake for */
}

void bell_pull(struct bell_rope *r, uint32_t word)
{
	bell_write(r->out);
	__atomic_store_n(&r->rung, word,
			 /* not before: another thread of this rank would rely on it */
			 __ATOMIC_RELEASE);
}

void bell_ring_own(struct bell *b)
{
	bell_clear(b);
	bell_write(b->out);
}

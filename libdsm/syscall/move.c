// SPDX-License-Identifier: BSD-2-Clause
/*
 * move.c - read(2), write(2), pread(2), pwrite(2): in pieces where the buffer is large.
 *
 * A piece is a private copy; of a regular file, whose transfers wait for nobody, it is the buffer
 * itself, pinned, from PIN_FROM on. A transfer goes on with the next piece as the kernel would
 * have: to the end of the buffer for output and for files; an input from anything else returns with
 * what has come. An error behind the first piece is left to the next call, as by the kernel.
 */
#include "wrap.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "caller.h"
#include "row.h"
#include "scratch.h"

struct move {
	int fd;
	bool out, at; /* at: with an offset */
	char *buf;
	size_t n;
	off_t off;
	ssize_t result;
};

static ssize_t move_plain(const struct move *m, char *buf, size_t n, size_t done)
{
	const off_t off = m->off + (off_t)done;

	if (m->at)
		return m->out ? NEXT(pwrite)(m->fd, buf, n, off) : NEXT(pread)(m->fd, buf, n, off);
	return m->out ? NEXT(write)(m->fd, buf, n) : NEXT(read)(m->fd, buf, n);
}

/*
 * Memory with release consistency cannot be pinned, and dsm_pin() would print that. Which it is, is
 * asked once for each region that a thread uses in turn; if another one takes its place meanwhile,
 * a transfer is only slower, or prints.
 */
static bool is_pinnable(const char *buf)
{
	static __thread struct {
		const char *base;
		size_t size;
		bool pinnable;
	} last __attribute__((tls_model("initial-exec")));
	struct dsm_region_info info;

	if (last.base && buf >= last.base && buf < last.base + last.size)
		return last.pinnable;
	if (dsm_region_query(buf, &info))
		return false;
	last.base = info.base;
	last.size = info.size;
	last.pinnable = info.consistency == DSM_CONSISTENCY_SEQUENTIAL;
	return last.pinnable;
}

/* -2: it cannot be pinned now. */
static ssize_t move_pinned(const struct move *m, char *buf, size_t n, size_t done)
{
	const int saved = errno;
	ssize_t got;
	int err, state;

	if (!is_pinnable(buf) || dsm_pin(buf, n, m->out ? DSM_READ : DSM_WRITE)) {
		errno = saved;
		return -2;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	got = move_plain(m, buf, n, done);
	err = errno;
	dsm_unpin(buf, n);
	pthread_setcancelstate(state, &state);
	errno = err;
	return got;
}

static ssize_t by_copy(const struct move *m, struct scratch *s, char *buf, size_t n, size_t done)
{
	char *copy = m->out ? scratch_copy(s, n, buf) : scratch_get(s, n, buf);
	ssize_t got;

	if (!copy)
		return -1;
	got = move_plain(m, copy, n, done);
	if (!m->out && got > 0)
		memcpy(buf, copy, (size_t)got);
	return got;
}

static ssize_t bounced(const struct move *m, char *buf, size_t n, size_t done)
{
	struct scratch s;
	ssize_t got;

	SCRATCH_BEGIN(s);
	got = by_copy(m, &s, buf, n, done);
	SCRATCH_END();
	return got;
}

static bool is_file(int fd)
{
	const int saved = errno;
	struct stat st;
	const bool yes = !NEXT(fstat)(fd, &st) && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));

	errno = saved;
	return yes;
}

static void move_run(void *arg)
{
	struct move *out = arg, m = *out;
	const bool large = m.n > ROOM, file = large && is_file(m.fd);
	size_t done = 0, n;
	ssize_t got;

	do {
		char *buf = m.buf + done;

		n = m.n - done < PIECE ? m.n - done : PIECE;
		if (is_away(buf)) {
			n = dsm_needs_pin(buf, n);
			got = file && n >= PIN_FROM ? move_pinned(&m, buf, n, done) : -2;
			if (got == -2)
				got = bounced(&m, buf, n, done);
		} else {
			n = m.n - done;
			got = move_plain(&m, buf, n, done);
		}
		if (got > 0)
			done += (size_t)got;
	} while (got == (ssize_t)n && done < m.n && (m.out || file));
	out->result = done ? (ssize_t)done : got;
}

static ssize_t move_start(struct move m)
{
	dsm_call(move_run, &m);
	return m.result;
}

/* At rank 0 for other ranks, with the same arguments. */
static const struct row abroad_in = { "read", LONG, { FD(1), OUTR(2, 1, 3), WAITS }, true },
			abroad_out = { "write", LONG, { FD(1), INN(2, 1, 3), WAITS }, true };

static bool is_elsewhere(const struct row *row, void *self, int fd, void *buf, size_t n, off_t off,
			 const void *caller, ssize_t *result)
{
	const long arg[ARGS] = { fd, (long)buf, (long)n, off };

	if (files == FILES_ABROAD) {
		if (!caller_is_abroad(caller))
			return false;
		*result = caller_is_child(row->name)
			? -1
			: row_run_abroad(row, (words_fn *)self, 0, arg);
		return true;
	}
	if (!caller_may_not(fd, caller))
		return false;
	errno = EBADF;
	*result = -1;
	return true;
}

#define ELSEWHERE(row, name, fd, buf, n, off, caller)                                             \
	do {                                                                                      \
		ssize_t result_;                                                                  \
		if (__builtin_expect(files, 0) &&                                                 \
		    is_elsewhere(row, (void *)name, fd, (void *)(uintptr_t)(buf), n, off, caller, \
				 &result_))                                                       \
			return result_;                                                           \
	} while (0)

static ssize_t read_for(int fd, void *buf, size_t n, const void *caller)
{
	ELSEWHERE(&abroad_in, read, fd, buf, n, 0, caller);
	if (!is_away(buf))
		return NEXT(read)(fd, buf, n);
	return move_start((struct move){ .fd = fd, .buf = buf, .n = n });
}

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	return read_for(fd, buf, n, CALLER);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	ELSEWHERE(&abroad_out, write, fd, buf, n, 0, CALLER);
	if (!is_away(buf))
		return NEXT(write)(fd, buf, n);
	return move_start(
		(struct move){ .fd = fd, .out = true, .buf = (char *)(uintptr_t)buf, .n = n });
}

static ssize_t pread_for(int fd, void *buf, size_t n, off_t off, const void *caller)
{
	ELSEWHERE(&abroad_in, pread, fd, buf, n, off, caller);
	if (!is_away(buf))
		return NEXT(pread)(fd, buf, n, off);
	return move_start((struct move){ .fd = fd, .at = true, .buf = buf, .n = n, .off = off });
}

EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	return pread_for(fd, buf, n, off, CALLER);
}

EXPORT ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
	ELSEWHERE(&abroad_out, pwrite, fd, buf, n, off, CALLER);
	if (!is_away(buf))
		return NEXT(pwrite)(fd, buf, n, off);
	return move_start((struct move){ .fd = fd,
					 .out = true,
					 .at = true,
					 .buf = (char *)(uintptr_t)buf,
					 .n = n,
					 .off = off });
}

EXPORT ssize_t pread64(int fd, void *buf, size_t n, off_t off) __attribute__((alias("pread")));
EXPORT ssize_t pwrite64(int fd, const void *buf, size_t n, off_t off)
	__attribute__((alias("pwrite")));

/* The checks of _FORTIFY_SOURCE: on the program's buffer, then continue without them. */
extern void __chk_fail(void) __attribute__((noreturn));
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t off, size_t size);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off_t off, size_t size);

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	if (n > size)
		__chk_fail();
	return read_for(fd, buf, n, CALLER);
}

EXPORT ssize_t __pread_chk(int fd, void *buf, size_t n, off_t off, size_t size)
{
	if (n > size)
		__chk_fail();
	return pread_for(fd, buf, n, off, CALLER);
}

EXPORT ssize_t __pread64_chk(int fd, void *buf, size_t n, off_t off, size_t size)
	__attribute__((alias("__pread_chk")));

// SPDX-License-Identifier: BSD-2-Clause
/* mapping.c - see mapping.h. */
#include "fault/mapping.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "fault/frames.h"
#include "fault/range.h"

#ifndef UFFDIO_CONTINUE_MODE_WP
#define UFFDIO_CONTINUE_MODE_WP ((uint64_t)1 << 1) /* Linux 6.4 */
#endif

/* Progress of a call over [off, off + len). `piece`: bytes to try at once. */
struct progress {
	size_t at, piece;
};

/* Choose the next piece, which has consecutive addresses. Returns the first of them. */
static uint64_t next_piece(size_t off, struct progress *p)
{
	p->piece = range_run(off + p->at, off + p->at + p->piece) - (off + p->at);
	return (uint64_t)(uintptr_t)range_at(off + p->at);
}

/*
 * An ioctl on the next piece has ended with err (errno or 0) after `done` bytes. 1: continue; 0:
 * finished; -errno.
 */
static int advance(size_t len, int err, int64_t done, struct progress *p)
{
	if (done > 0)
		p->at += (size_t)done;
	switch (err) {
	case 0:
	case EAGAIN: p->piece = len - p->at; return p->at < len;
	case ENOENT: /* the piece is in several VMAs, or in none */
		if (p->piece <= PAGE_BYTES)
			return -ESRCH;
		p->piece = (p->piece / 2 + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
		return 1;
	default: return -err;
	}
}

int mapping_copy(int fd, size_t off, size_t len, const void *src, enum prot prot, size_t *done)
{
	struct progress p = { .at = *done, .piece = len - *done };
	int err;

	do {
		const uint64_t to = next_piece(off, &p);
		struct uffdio_copy c = {
			.dst = to,
			.src = (uint64_t)(uintptr_t)src + p.at,
			.len = p.piece,
			.mode = UFFDIO_COPY_MODE_DONTWAKE |
				(prot == PROT_RO ? UFFDIO_COPY_MODE_WP : 0),
		};

		err = ioctl(fd, UFFDIO_COPY, &c) ? errno : 0;
		err = advance(len, err, c.copy, &p);
	} while (err > 0);
	*done = p.at;
	return err;
}

int mapping_zero(int fd, size_t off, size_t len, size_t *done)
{
	struct progress p = { .at = *done, .piece = len - *done };
	int err;

	do {
		const uint64_t to = next_piece(off, &p);
		struct uffdio_zeropage z = {
			.range = { to, p.piece },
			.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE,
		};

		err = ioctl(fd, UFFDIO_ZEROPAGE, &z) ? errno : 0;
		err = advance(len, err, z.zeropage, &p);
	} while (err > 0);
	*done = p.at;
	return err;
}

int mapping_protect(int fd, size_t off, size_t len, bool on)
{
	const uint64_t mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : UFFDIO_WRITEPROTECT_MODE_DONTWAKE;
	struct progress p = { .piece = len };
	int err;

	do {
		const uint64_t to = next_piece(off, &p);
		struct uffdio_writeprotect w = { .range = { to, p.piece }, .mode = mode };

		err = ioctl(fd, UFFDIO_WRITEPROTECT, &w) ? errno : 0;
		err = advance(len, err, err ? 0 : (int64_t)p.piece, &p);
	} while (err > 0);
	return err;
}

bool mapping_can_continue(int fd, const void *at)
{
	struct uffdio_continue c = {
		.range = { (uint64_t)(uintptr_t)at, PAGE_BYTES },
		.mode = UFFDIO_CONTINUE_MODE_DONTWAKE | UFFDIO_CONTINUE_MODE_WP,
	};

	return !ioctl(fd, UFFDIO_CONTINUE, &c) || errno == EFAULT; /* it has looked it up */
}

int mapping_continue(int fd, size_t off, size_t len, enum prot prot)
{
	struct progress p = { .piece = len };
	int err;

	do {
		const uint64_t to = next_piece(off, &p);
		struct uffdio_continue c = {
			.range = { to, p.piece },
			.mode = UFFDIO_CONTINUE_MODE_DONTWAKE |
				(prot == PROT_RO ? UFFDIO_CONTINUE_MODE_WP : 0),
		};

		err = ioctl(fd, UFFDIO_CONTINUE, &c) ? errno : 0;
		if (err == EEXIST)
			err = advance(len, 0, PAGE_BYTES, &p);
		else
			err = advance(len, err, c.mapped, &p);
	} while (err > 0);
	return err;
}

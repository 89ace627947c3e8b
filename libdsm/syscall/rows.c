// SPDX-License-Identifier: BSD-2-Clause
/*
 * rows.c - how a call is made by its row: with private copies of its buffers, or at rank 0.
 *
 * Output buffers are copied from the caller's memory first, so that bytes which the kernel leaves
 * alone come back unchanged.
 */
#include "row.h"

#include "interpose/raw_syscall.h"
#include "caller.h"
#include "owner.h"
#include "scratch.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

struct call {
	const struct row *row;
	words_fn *next; /* NULL: the system call of that number */
	long number, arg[ARGS], result;
	bool abroad; /* to be made at rank 0, by next or syscall(2) of this library */
};

static void *pointer(const struct call *c, const struct buffer *b)
{
	return (void *)c->arg[b->arg - 1];
}

static size_t size_of(const struct call *c, const struct buffer *b)
{
	const long n = b->count ? c->arg[(b->count & 15) - 1] : 0;
	const socklen_t *len = (const socklen_t *)n;
	size_t units = 1, size;

	switch ((enum count)(b->count >> 4)) {
	case ONE: break;
	case SIZE_COUNT: units = (size_t)n; break;
	case INT_COUNT: units = (int)n > 0 ? (size_t)(int)n : 0; break;
	case FDS_COUNT: units = (int)n > 0 ? ((size_t)(int)n + 63) / 64 : 0; break;
	case PAGES_COUNT: units = ((size_t)n + 4095) / 4096; break;
	case PLUS_LONG_COUNT: units = (size_t)n + sizeof(long); break;
	case ADDR_COUNT: units = len ? *len : 0; break;
	}
	return __builtin_mul_overflow(units, b->unit, &size) ? SIZE_MAX : size;
}

/* Of what is behind the argument. */
static size_t row_size(const struct call *c, const struct buffer *b)
{
	if (b->way == STRING_INOUT)
		return strlen(pointer(c, b)) + 1;
	return b->way == WIDE_STRING ? (wcslen(pointer(c, b)) + 1) * sizeof(wchar_t)
				     : size_of(c, b);
}

static struct mask *copy_mask(struct scratch *s, const struct mask *p)
{
	struct mask *out = scratch_get(s, sizeof(*out), NULL);

	if (!out)
		return NULL;
	*out = *p;
	if (scratch_misses(s, out->set))
		out->set = scratch_copy(s, SET, out->set);
	return out->set || !p->set ? out : NULL;
}

/* The private copy of a buffer; the buffer itself if it is private or empty. NULL: errno. */
static void *copy_in(struct scratch *s, const struct call *c, const struct buffer *b, size_t size)
{
	void *p = pointer(c, b);

	switch ((enum way)b->way) {
	case NONE:
	case OWN_STACK:
	case IS_DESCRIPTOR:
	case IS_REPLACED:
	case IS_STREAM:
	case IS_CHILD:
	case IS_WAIT:
	case IS_POLL: break;
	case STRING: return scratch_string(s, p);
	case STRINGS: return p ? scratch_strings(s, p) : p;
	case WIDE_STRING: return scratch_copy(s, size, p);
	case SET_BEHIND: return p ? copy_mask(s, p) : p;
	case STRING_INOUT: return scratch_copy(s, size, p);
	case STRING_OUT:
	case WRITTEN_LINE:
	case WRITTEN_BY_RESULT: return scratch_get(s, size, p);
	case READ:
	case WRITTEN:
	case WRITTEN_ALWAYS: return scratch_copy(s, size, p);
	}
	return p;
}

static bool row_failed(const struct call *c)
{
	switch (c->row->result) {
	case INT:
	case DESCRIPTOR: return (int)c->result < 0;
	case LONG: return c->result < 0;
	case ERROR: return (int)c->result != 0;
	case POINTER: return !c->result;
	case VOID: break;
	}
	return false;
}

static void copy_out(const struct call *c, const struct buffer *b, void *to, const void *from,
		     size_t size)
{
	const size_t came =
		(size_t)(c->row->result == INT || c->row->result == DESCRIPTOR ? (int)c->result
									       : c->result) *
		b->unit;

	if (b->way == WRITTEN_ALWAYS)
		memcpy(to, from, size);
	if (row_failed(c))
		return;
	if (b->way == WRITTEN || b->way == STRING_INOUT)
		memcpy(to, from, size);
	else if (b->way == WRITTEN_BY_RESULT)
		memcpy(to, from, size_least(size, came));
	else if (b->way == STRING_OUT || b->way == WRITTEN_LINE)
		memcpy(to, from, size_least(size, strnlen(from, size) + 1));
}

static long fail(enum result kind)
{
	return kind == ERROR ? errno : kind == POINTER ? 0 : -1;
}

static enum owner_way way_of(const struct row *row)
{
	int i;

	for (i = 0; i < BUFFERS && row->buffers[i].way; i++)
		if (row->buffers[i].way == IS_WAIT || row->buffers[i].way == IS_POLL)
			return row->buffers[i].way == IS_POLL ? OWNER_POLLS : OWNER_WAITS;
	return OWNER_RUNS;
}

/*
 * The stream whose flags the call leaves to be looked at; NULL: none. What closes a stream leaves
 * none.
 */
static FILE *row_stream(const struct row *row, const long *arg)
{
	int i;

	if (!strncmp(row->name, "getchar", 7) || !strncmp(row->name, "getwchar", 8))
		return stdin;
	if (!strcmp(row->name, "fclose") || !strcmp(row->name, "pclose") ||
	    !strcmp(row->name, "endmntent"))
		return NULL;
	for (i = 0; i < BUFFERS && row->buffers[i].way; i++)
		if (row->buffers[i].way == IS_STREAM)
			return (FILE *)arg[row->buffers[i].arg - 1];
	return NULL;
}

static long proceed_abroad(const struct call *c, const long *arg)
{
	const long a = arg[0], b = arg[1], d = arg[2], e = arg[3], f = arg[4], g = arg[5];
	const long by_name[OWNER_WORDS] = { a, b, d, e, f, g },
		   by_syscall[OWNER_WORDS] = { c->number, a, b, d, e, f, g };

	return c->next
		? owner_call_on((void *)c->next, by_name, way_of(c->row), row_stream(c->row, arg))
		: owner_call((void *)syscall, by_syscall, OWNER_RUNS);
}

static long proceed(const struct call *c, const long *arg)
{
	if (c->abroad)
		return proceed_abroad(c, arg);
	return c->next ? c->next(arg[0], arg[1], arg[2], arg[3], arg[4], arg[5])
		       : raw_syscall(c->number, arg);
}

/* Does the structure point to memory that may be elsewhere, though it is private itself? */
static bool is_nested(enum way way)
{
	return way == STRINGS || way == SET_BEHIND;
}

static void row_carry_out(void *arg)
{
	struct call *out = arg, c = *out, private = c;
	size_t size[BUFFERS] = { 0 };
	struct scratch s;
	int i;

	SCRATCH_BEGIN(s);
	s.shared = c.abroad;
	for (i = 0; i < BUFFERS && c.row->buffers[i].way; i++) {
		const struct buffer *b = &c.row->buffers[i];
		void *copy;

		if (b->way >= OWN_STACK || (b->way == WRITTEN_LINE && !c.abroad) ||
		    (!is_nested(b->way) && !scratch_misses(&s, pointer(&c, b))))
			continue;
		size[i] = row_size(&c, b);
		if (!size[i] && b->way != STRING && !is_nested(b->way))
			continue;
		copy = copy_in(&s, &c, b, size[i]);
		if (!copy && pointer(&c, b)) {
			c.result = fail(c.row->result);
			goto out;
		}
		private.arg[b->arg - 1] = (long)copy;
	}
	c.result = proceed(&c, private.arg);
	for (i = 0; i < BUFFERS && c.row->buffers[i].way; i++) {
		const struct buffer *b = &c.row->buffers[i];

		if (!size[i])
			continue;
		copy_out(&c, b, pointer(&c, b), (void *)private.arg[b->arg - 1], size[i]);
		if (c.row->result == POINTER && c.result == private.arg[b->arg - 1])
			c.result = c.arg[b->arg - 1];
	}
out:
	SCRATCH_END();
	out->result = c.result;
}

long row_run(const struct row *row, words_fn *next, long number, const long *arg)
{
	struct call c = { .row = row, .next = next, .number = number };

	memcpy(c.arg, arg, sizeof(c.arg));
	dsm_call(row_carry_out, &c);
	return c.result;
}

long row_run_abroad(const struct row *row, words_fn *self, long number, const long *arg)
{
	struct call c = { .row = row, .next = self, .number = number, .abroad = true };

	memcpy(c.arg, arg, sizeof(c.arg));
	dsm_call(row_carry_out, &c);
	return c.result;
}

/* ---- whose call it is ------------------------------------------------------------------------ */

/* Has this process a child? Only vfork(2) makes one at a rank other than 0. */
static bool has_child(void)
{
	const long arg[ARGS] = { P_ALL, 0, 0, WEXITED | WNOHANG | WNOWAIT };
	const int saved = errno;
	const bool has = !raw_syscall(SYS_waitid, arg);

	errno = saved;
	return has;
}

static bool row_is_here(const struct row *row, const long *arg)
{
	int i;

	for (i = 0; i < BUFFERS && row->buffers[i].way; i++) {
		const struct buffer *b = &row->buffers[i];

		if ((b->way == IS_STREAM && stream_is_here((FILE *)arg[b->arg - 1])) ||
		    (b->way == IS_CHILD && has_child()))
			return true;
	}
	return false;
}

static bool replaces(int fd)
{
	files_refuse(EBADF, "dup2",
		     "descriptor %d is libdsm's, and dup2() to it is refused; see dsm-cc(1)", fd);
	return true;
}

/* At rank 0. */
static bool row_is_refused(const struct row *row, const long *arg, const void *caller)
{
	int i;

	for (i = 0; i < BUFFERS && row->buffers[i].way; i++) {
		const struct buffer *b = &row->buffers[i];

		if (b->way == IS_DESCRIPTOR && caller_may_not((int)arg[b->arg - 1], caller))
			return true;
		if (b->way == IS_REPLACED && caller_may_not((int)arg[b->arg - 1], caller))
			return replaces((int)arg[b->arg - 1]);
	}
	return false;
}

static bool names_number(const struct row *row)
{
	int i;

	for (i = 0; i < BUFFERS && row->buffers[i].way; i++)
		if (row->buffers[i].way == IS_REPLACED)
			return true;
	return false;
}

static bool row_makes_pair(const char *name)
{
	return !strncmp(name, "pipe", 4) || !strcmp(name, "socketpair");
}

bool row_accounts(const char *name)
{
	return row_makes_pair(name) || !strcmp(name, "close");
}

static void take_own(int *fd)
{
	*fd = own_move(*fd);
	own_add(*fd);
}

/*
 * A call of libdsm on rank 0 that opens or closes a descriptor. Returns the result, with the number
 * that it has now.
 */
static long row_note_own(const struct row *row, const long *arg, long result)
{
	int fd = (int)result,
	    *pair = row_makes_pair(row->name) ? (int *)arg[row->name[0] == 'p' ? 0 : 3] : NULL;

	if (pair && !result) {
		take_own(&pair[0]);
		take_own(&pair[1]);
	}
	if (row->result == DESCRIPTOR && names_number(row)) {
		own_add(fd);
	} else if (row->result == DESCRIPTOR) {
		take_own(&fd);
		return fd;
	} else if (!result && !strcmp(row->name, "close")) {
		own_remove((int)arg[0]);
	}
	return result;
}

bool row_elsewhere(const struct row *row, words_fn *self, words_fn *next, long number,
		   const long *arg, const void *caller, long *result)
{
	if (files == FILES_ABROAD) {
		if (!caller_is_abroad(caller) || row_is_here(row, arg))
			return false;
		*result = caller_is_child(row->name) ? fail(row->result)
						     : row_run_abroad(row, self, number, arg);
		return true;
	}
	if (dsm_files_is_runtime(caller)) {
		*result = next ? next(arg[0], arg[1], arg[2], arg[3], arg[4], arg[5])
			       : raw_syscall(number, arg);
		*result = row_note_own(row, arg, *result);
		return true;
	}
	if (!row_is_refused(row, arg, caller))
		return false;
	errno = EBADF;
	*result = fail(row->result);
	return true;
}

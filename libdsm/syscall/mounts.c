// SPDX-License-Identifier: BSD-2-Clause
/*
 * mounts.c - lists of mounted file systems: streams of rank 0 whose lines the C library makes
 * structures of. On another rank a line becomes a structure in shared memory, of the thread that
 * reads.
 */
#include "wrap.h"

#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "owner.h"
#include "scratch.h"

#define LINE_MAX 4096 /* the C library's own */

struct mounted {
	struct mntent m;
	char text[LINE_MAX];
};

static bool mounts_are_abroad(const FILE *f, const void *caller)
{
	return is_abroad(caller) && !stream_is_here(f);
}

/* At rank 0. */
static long next_mount(long f, long to, long size)
{
	struct mounted *const e = (struct mounted *)to;

	return NEXT(getmntent_r)((FILE *)f, &e->m, e->text, (int)size) != NULL;
}

/* NULL: there is no more, or no memory. */
static struct mounted *read_mount(FILE *f, int size)
{
	static __thread struct mounted *e;

	if (!e)
		e = caller_is_child("getmntent") ? NULL : program.alloc(sizeof(*e));
	return e && owner_wait((void *)next_mount, (long)f, (long)e, size, 0) ? e : NULL;
}

EXPORT struct mntent *getmntent(FILE *f)
{
	struct mounted *e;

	if (!mounts_are_abroad(f, CALLER))
		return NEXT(getmntent)(f);
	e = read_mount(f, LINE_MAX);
	return e ? &e->m : NULL;
}

/* The same place of the copy; what is elsewhere is a constant of the C library. */
static char *mount_moved(const struct mounted *e, char *p, char *buf)
{
	return p >= e->text && p < e->text + LINE_MAX ? buf + (p - e->text) : p;
}

EXPORT struct mntent *getmntent_r(FILE *f, struct mntent *m, char *buf, int size)
{
	struct mounted *e;

	if (!mounts_are_abroad(f, CALLER))
		return NEXT(getmntent_r)(f, m, buf, size);
	e = read_mount(f, size < LINE_MAX ? size : LINE_MAX);
	if (!e)
		return NULL;
	memcpy(buf, e->text, (size_t)(size < LINE_MAX ? size : LINE_MAX));
	*m = e->m;
	m->mnt_fsname = mount_moved(e, m->mnt_fsname, buf);
	m->mnt_dir = mount_moved(e, m->mnt_dir, buf);
	m->mnt_type = mount_moved(e, m->mnt_type, buf);
	m->mnt_opts = mount_moved(e, m->mnt_opts, buf);
	return m;
}

struct added {
	FILE *f;
	const struct mntent *m;
	int result;
};

static void mount_add(void *arg)
{
	struct added *out = arg, a = *out;
	struct mntent *copy;
	struct scratch s;

	SCRATCH_BEGIN(s);
	s.shared = true;
	copy = scratch_get(&s, sizeof(*copy), NULL);
	if (copy) {
		*copy = *a.m;
		copy->mnt_fsname = scratch_string(&s, a.m->mnt_fsname);
		copy->mnt_dir = scratch_string(&s, a.m->mnt_dir);
		copy->mnt_type = scratch_string(&s, a.m->mnt_type);
		copy->mnt_opts = scratch_string(&s, a.m->mnt_opts);
		if (copy->mnt_fsname && copy->mnt_dir && copy->mnt_type && copy->mnt_opts) {
			const long word[OWNER_WORDS] = { (long)a.f, (long)copy };

			out->result = (int)owner_call_on((void *)addmntent, word, OWNER_RUNS, a.f);
		}
	}
	SCRATCH_END();
}

EXPORT int addmntent(FILE *f, const struct mntent *m)
{
	struct added a = { f, m, 1 };

	if (!mounts_are_abroad(f, CALLER))
		return NEXT(addmntent)(f, m);
	if (!caller_is_child("addmntent"))
		dsm_call(mount_add, &a);
	return a.result;
}

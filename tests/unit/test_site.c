// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_site.c - finding objects of the heap by address, their names, and where they were allocated.
 */
#include "heap/site.h"
#include "heap_range.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static void expect_object(const char *p, const char *at, size_t size, const char *name)
{
	struct heap_object o;

	ck_assert_int_eq(heap_find(at, &o), 0);
	ck_assert_ptr_eq(o.start, p);
	ck_assert_uint_ge(o.size, size);
	ck_assert_str_eq(o.name, name);
}

UNIT_CASE(objects, start)

UNIT_TEST(objects_are_found_by_any_address)
{
	static const size_t sizes[] = { 1,    16,   48,   1000,  3000,   3584,
					4000, 4096, 5000, 20000, 3 * MB, 20 * MB };
	struct heap_object o;
	char *p[12];

	for (int round = 0; round < 2; round++) {
		ck_assert_int_eq(heap_find(range + 33 * MB, &o), -ENOENT);
		for (int i = 0; i < 12; i++)
			p[i] = heap_alloc(false, sizes[i], 0, false, i % 2 ? "odd" : NULL, NULL);
		for (int i = 0; i < 12; i++) {
			const char *name = i % 2 ? "odd" : "";

			expect_object(p[i], p[i], sizes[i], name);
			expect_object(p[i], p[i] + sizes[i] / 2, sizes[i], name);
			expect_object(p[i], p[i] + sizes[i] - 1, sizes[i], name);
		}
		for (int i = 0; i < 12; i++) {
			give(p[i]);
			ck_assert_int_eq(heap_find(p[i] + sizes[i] - 1, &o), -ENOENT);
		}
	}
	ck_assert_int_eq(heap_find(range - 1, &o), -ENOENT);
	ck_assert_int_eq(heap_find(range + SIZE, &o), -ENOENT);
	ck_assert_int_eq(heap_find(range + SIZE - 1, &o), -ENOENT);
}

UNIT_TEST(site_is_forgotten_unless_asked_for)
{
	struct heap_object o;
	char *p = heap_alloc(false, 100, 0, false, "matrix", (void *)1234);

	ck_assert_int_eq(heap_find(p + 50, &o), 0);
	ck_assert_ptr_null(o.sites[0]);
	ck_assert_str_eq(o.name, "matrix");
}

UNIT_CASE(sites, NULL)

UNIT_TEST(sites_and_names_are_kept_with_their_objects)
{
	enum { N = 20000 };
	static char *p[N];
	struct heap_object o;
	char name[100];

	start_with(true);
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name),
			 "object %d of this test, with a name that is too long %d", i, i);
		p[i] = heap_alloc(false, 24, 0, false, i % 2 ? name : NULL,
				  (void *)(uintptr_t)(1000 + i));
	}
	for (int i = 0; i < N; i += 3)
		give(p[i]);
	for (int i = 0; i < N; i++) {
		if (i % 3 == 0) {
			ck_assert_int_eq(heap_find(p[i], &o), -ENOENT);
			continue;
		}
		snprintf(name, sizeof(name),
			 "object %d of this test, with a name that is too long %d", i, i);
		name[sizeof(o.name) - 1] = '\0';
		expect_object(p[i], p[i] + 5, 24, i % 2 ? name : "");
		ck_assert_int_eq(heap_find(p[i], &o), 0);
		ck_assert_ptr_eq(o.sites[0], (void *)(uintptr_t)(1000 + i));
		ck_assert_ptr_null(o.sites[1]);
	}
	heap_stop();
}

static __attribute__((noinline)) const void *here(void)
{
	return __builtin_return_address(0);
}

UNIT_TEST(site_has_file_and_line)
{
	char buf[128], want[64];
	int line = __LINE__ + 1;
	const void *site = here();

	heap_site_name(site, buf, sizeof(buf));
	snprintf(want, sizeof(want), "test_site.c:%d", line);
	if (access("/usr/bin/addr2line", X_OK) == 0)
		ck_assert_str_eq(buf, want);
	heap_site_name(site, want, sizeof(want)); /* from the cache */
	ck_assert_str_eq(buf, want);
	heap_site_name(site, buf, 5);
	ck_assert_uint_eq(strlen(buf), 4);
	heap_site_name((void *)16, buf, sizeof(buf));
	ck_assert_str_eq(buf, "");
	heap_site_name(NULL, buf, sizeof(buf));
	ck_assert_str_eq(buf, "");
	/* libc has names here, but no line numbers */
	heap_site_name((char *)(uintptr_t)qsort + 2, buf, sizeof(buf));
	ck_assert_msg(!strncmp(buf, "qsort", 5) || strchr(buf, ':'), "%s", buf);
}

static char *allocated;
static int wrapper_line, user_line;

static __attribute__((noinline)) void *wrap(size_t size)
{
	void *p = heap_alloc(false, size, 0, false, NULL, __builtin_return_address(0));

	__asm__ volatile("" : "+r"(p));
	return p;
}

static __attribute__((noinline)) void *my_wrapper(size_t size)
{
	void *p;

	wrapper_line = __LINE__ + 1;
	p = wrap(size);

	__asm__ volatile("" : "+r"(p));
	return p;
}

static __attribute__((noinline)) void user(void)
{
	user_line = __LINE__ + 1;
	allocated = my_wrapper(100);
	__asm__ volatile("" : : : "memory");
}

static void expect_site(const char *skip, const int *line)
{
	struct heap_object o;
	char buf[128], want[64];

	start_with(true);
	heap_skip(skip);
	user();
	ck_assert_int_eq(heap_find(allocated, &o), 0);
	heap_object_site(&o, buf, sizeof(buf));
	snprintf(want, sizeof(want), "test_site.c:%d", *line);
	if (access("/usr/bin/addr2line", X_OK) == 0)
		ck_assert_str_eq(buf, want);
	heap_stop();
}

UNIT_TEST(site_is_the_caller_of_wrappers)
{
	expect_site("other,my_w*", &user_line);
}

UNIT_TEST(site_is_the_wrapper_unless_it_is_named)
{
	expect_site("other,wrapper", &wrapper_line);
}

UNIT_TEST(site_without_helper_is_an_offset)
{
	char buf[128];

	setenv("PATH", "/nonexistent", 1);
	heap_site_name(here(), buf, sizeof(buf));
	ck_assert_msg(strstr(buf, "+0x"), "%s", buf);
}

UNIT_TEST(helper_that_hangs_is_given_up)
{
	char dir[] = "/tmp/test_site.XXXXXX", path[64], buf[128];
	struct timespec a, b;
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/addr2line", dir);
	f = fopen(path, "we");
	fputs("#!/bin/sh\nexec /bin/sleep 100\n", f);
	fchmod(fileno(f), 0700);
	fclose(f);
	setenv("PATH", dir, 1);
	clock_gettime(CLOCK_MONOTONIC, &a);
	heap_site_name(here(), buf, sizeof(buf));
	ck_assert_msg(strstr(buf, "+0x"), "%s", buf);
	heap_site_name((char *)(uintptr_t)qsort + 2, buf, sizeof(buf));
	clock_gettime(CLOCK_MONOTONIC, &b);
	ck_assert_int_le(b.tv_sec - a.tv_sec, 10);
	unlink(path);
	rmdir(dir);
}

UNIT_SUITE("site", .seconds = 120)

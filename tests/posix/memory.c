// SPDX-License-Identifier: BSD-2-Clause
/*
 * memory.c - memory that is allocated, mapped, or returned by the C library; the tables that it
 * keeps.
 */
#define _GNU_SOURCE
#include "cases.h"

#include <argz.h>
#include <envz.h>
#include <fcntl.h>
#include <malloc.h>
#include <search.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <wchar.h>

/* ---- allocation ------------------------------------------------------------------------------ */

static void *free_there(void *p)
{
	free(p);
	return NULL;
}

static void *fill_there(void *p)
{
	memset(p, 'f', 64);
	return NULL;
}

static void *allocate_there(void *size)
{
	return malloc((size_t)size);
}

CASE(allocated, EACH)
{
	/* the compiler knows that there is no object of such a size */
	volatile size_t too_many = SIZE_MAX / 2;
	char *p = malloc(64), *q = apart(allocate_there, (void *)100), *grown;

	apart(fill_there, p);
	say("%d", p[0] == 'f' && p[63] == 'f');
	grown = realloc(p, 100000);
	say("%d", grown[63] == 'f');
	apart(free_there, grown);
	say("%d", malloc_usable_size(q) >= 100);
	q = realloc(q, 5000);
	apart(fill_there, q);
	say("%d", q[1] == 'f');
	free(q);
	p = calloc(8, 8);
	say("%d %d", p[0], p[63]);
	p = reallocarray(p, 10, 10);
	free(p);
	say("%d", reallocarray(NULL, too_many, 3) == NULL);
	say("%s", error_name(errno));
	say("%d", calloc(too_many, 3) == NULL);
	p = malloc(0);
	say("%d", p != NULL);
	apart(free_there, p);
	free(NULL);
}

CASE(allocated_aligned, EACH)
{
	void *p = NULL, *rest[4];
	size_t i;

	say_error(posix_memalign(&p, 256, 64));
	say("%d", (uintptr_t)p % 256 == 0);
	apart(fill_there, p);
	apart(free_there, p);
	say_error(posix_memalign(&p, 3, 64));
	rest[0] = aligned_alloc(4096, 4096);
	rest[1] = memalign(64, 64);
	rest[2] = valloc(64);
	rest[3] = pvalloc(64);
	for (i = 0; i < 4; i++) {
		say("%d", (uintptr_t)rest[i] % (i == 1 ? 64 : 4096) == 0);
		apart(fill_there, rest[i]);
		apart(free_there, rest[i]);
	}
}

CASE(allocated_settings, EACH)
{
	say("%d", mallopt(M_MMAP_THRESHOLD, 1 << 20));
	say("%d", malloc_trim(0) >= 0);
	say("%d", mallinfo2().hblks < 1000000);
}

static void *copies[8];

static void *copy_texts(void *arg)
{
	char *printed = NULL;

	copies[0] = strdup("duplicate");
	copies[1] = strndup("duplicate", 3);
	copies[2] = wcsdup(L"wide");
	say("%d", asprintf(&printed, "%d %s", 42, "printed"));
	copies[3] = printed;
	copies[4] = realpath(".", NULL);
	copies[5] = tempnam(".", "posix");
	return arg;
}

CASE(copied_texts, EACH)
{
	size_t i;

	apart(copy_texts, NULL);
	say("%s %s %ls %s", (char *)copies[0], (char *)copies[1], (wchar_t *)copies[2],
	    (char *)copies[3]);
	say("%d %d", *(char *)copies[4] == '/', strstr(copies[5], "posix") != NULL);
	for (i = 0; i < 6; i++)
		free(copies[i]);
}

static char *vector;
static size_t vector_size;

static void *extend_vector(void *arg)
{
	say_error(argz_add(&vector, &vector_size, "third"));
	say_error(argz_insert(&vector, &vector_size, vector, "zeroth"));
	say_error(argz_replace(&vector, &vector_size, "second", "2", NULL));
	return arg;
}

CASE(vectors, EACH)
{
	say_error(argz_create_sep("first:second", ':', &vector, &vector_size));
	apart(extend_vector, NULL);
	say("%zu", argz_count(vector, vector_size));
	argz_stringify(vector, vector_size, ',');
	say("%s", vector);
	free(vector);
	vector = NULL;
	vector_size = 0;
}

static void *add_variable(void *arg)
{
	say_error(envz_add(&vector, &vector_size, "B", "two"));
	say_error(envz_add(&vector, &vector_size, "A", "new"));
	return arg;
}

CASE(variable_vectors, EACH)
{
	say_error(envz_add(&vector, &vector_size, "A", "one"));
	apart(add_variable, NULL);
	say("%s %s", envz_get(vector, vector_size, "A"), envz_get(vector, vector_size, "B"));
	envz_remove(&vector, &vector_size, "A");
	say("%d", envz_entry(vector, vector_size, "A") == NULL);
	free(vector);
	vector = NULL;
	vector_size = 0;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static void *store_there(void *p)
{
	((int *)p)[1] = 77;
	return NULL;
}

static void *unmap_there(void *p)
{
	say_call(munmap(p, 8192));
	return NULL;
}

static void map_with(int flags)
{
	int *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	say("%d", p != MAP_FAILED && p[0] == 0);
	apart(store_there, p);
	say("%d", p[1]);
	say_call(msync(p, 4096, MS_SYNC));
	apart(unmap_there, p);
}

CASE(mapped, EACH)
{
	map_with(MAP_SHARED);
	map_with(MAP_PRIVATE);
	map_with(MAP_PRIVATE | MAP_NORESERVE);
	say_call(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1
											    : 0);
	say_call(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 9999, 0) == MAP_FAILED ? -1 : 0);
	say_call(munmap((void *)1, 4096));
}

static const char *file_map;

static void *say_mapped(void *arg)
{
	say("%.5s", file_map);
	return arg;
}

CASE(mapped_file, EACH)
{
	const int fd = open("mapped", O_CREAT | O_TRUNC | O_RDWR, 0600);
	char *p;

	say_call(write(fd, "hello", 5) + ftruncate(fd, 8192));
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	file_map = p;
	apart(say_mapped, NULL);
	p[0] = 'j';
	apart(say_mapped, NULL);
	say_call(munmap(p, 8192));
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	file_map = p;
	apart(say_mapped, NULL);
	memcpy(p, "fresh", 5);
	say_call(msync(p, 8192, MS_SYNC));
	apart(say_mapped, NULL);
	say_call(munmap(p, 8192));
	close(fd);
	unlink("mapped");
}

static void *map_there(void *fd)
{
	return mmap(NULL, 4096, PROT_READ, MAP_SHARED, (int)(intptr_t)fd, 0);
}

CASE(mapped_objects, EACH)
{
	const int shared = shm_open("/dsm-posix-case", O_CREAT | O_RDWR, 0600),
		  memory = memfd_create("case", 0);

	say_call(ftruncate(shared, 4096) | ftruncate(memory, 4096));
	say_call(pwrite(shared, "named", 5, 0) + pwrite(memory, "memfd", 5, 0));
	file_map = apart(map_there, (void *)(intptr_t)shared);
	say_mapped(NULL);
	say_call(munmap((void *)(uintptr_t)file_map, 4096));
	file_map = apart(map_there, (void *)(intptr_t)memory);
	say_mapped(NULL);
	say_call(munmap((void *)(uintptr_t)file_map, 4096));
	say_call(shm_unlink("/dsm-posix-case"));
	say_call(shm_open("/dsm-posix-case", O_RDONLY, 0));
	close(shared);
	close(memory);
}

CASE(mapping_grows, EACH)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;

	strcpy(p, "kept");
	q = mremap(p, 8192, 65536, MREMAP_MAYMOVE);
	say("%s", q == MAP_FAILED ? error_name(errno) : q);
	if (q == MAP_FAILED)
		return;
	apart(fill_there, q + 60000);
	say("%d", q[60001] == 'f');
	say_call(munmap(q, 65536));
}

CASE(mapping_advice, EACH)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	strcpy(p, "kept");
	say_call(madvise(p, 8192, MADV_NORMAL));
	say_call(madvise(p, 8192, MADV_WILLNEED));
	say_call(posix_madvise(p, 8192, POSIX_MADV_SEQUENTIAL));
	say_call(madvise(p, 8192, 9999));
	say("%s", p);
	say_call(mlock(p, 4096));
	say_call(munlock(p, 4096));
	munmap(p, 8192);
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(p, "gone");
	say_call(madvise(p, 8192, MADV_DONTNEED));
	say("%d", p[0]);
	munmap(p, 8192);
}

CASE(region_advice, EACH)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	say_call(madvise(p, 8192, MADV_DONTNEED));
	say_call(mremap(p, 8192, 65536, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0);
	munmap(p, 8192);
}

CASE(mapping_protection, EACH)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	say_call(mprotect(p, 8192, PROT_READ | PROT_WRITE));
	say_call(mprotect(p + 1, 1, PROT_READ));
	say_call(mprotect(p, 4096, PROT_READ));
	say_call(mprotect(p, 4096, PROT_READ | PROT_EXEC));
	munmap(p, 8192);
}

/*
 * Memory without access, and then with it: of this thread alone, as long as no other one reads it.
 */
CASE(mapping_reserved, EACH)
{
	char *p =
		mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	say("%d", p != MAP_FAILED);
	say_call(mprotect(p, 4096, PROT_READ | PROT_WRITE));
	p[100] = 1;
	say("%d", p[100]);
	say("%d",
	    mmap(p + 8192, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == p + 8192);
	say_call(munmap(p, 1 << 20));
}

CASE(mapping_fixed_shared, EACH)
{
	char *p = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;

	q = mmap(p, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	say_call(q == MAP_FAILED ? -1 : 0);
	q = mmap(NULL, 8192, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	say_call(q == MAP_FAILED ? -1 : 0);
	munmap(p, 8192);
}

CASE(region_parts, EACH)
{
	char *p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	say_call(munmap(p, 4096));
	munmap(p, 16384);
}

CASE(program_break, EACH)
{
	char *before = sbrk(0), *got = sbrk(4096);

	say("%d", before != (void *)-1);
	say("%s", got == (void *)-1 ? error_name(errno) : got == before ? "moved" : "?");
	if (got != (void *)-1)
		say_call(brk(before));
	else
		say_call(brk(before + 4096));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void *tree;
static int seen;

static void *insert_text(void *text)
{
	say("%s", *(char **)tsearch(text, &tree, compare_texts));
	return NULL;
}

static void visit(const void *node, VISIT order, int depth)
{
	(void)depth;
	if (order == postorder || order == leaf)
		say("%s", *(char *const *)node);
}

static void visit_with(const void *node, VISIT order, void *count)
{
	(void)node;
	*(int *)count += order == postorder || order == leaf;
}

static void count_freed(void *node)
{
	(void)node;
	seen++;
}

CASE(trees, EACH)
{
	insert_text("beta");
	apart(insert_text, "alpha");
	apart(insert_text, "gamma");
	apart(insert_text, "beta");
	twalk(tree, visit);
	seen = 0;
	twalk_r(tree, visit_with, &seen);
	say("%d", seen);
	say("%d", tfind("gamma", &tree, compare_texts) != NULL);
	say("%d", tdelete("beta", &tree, compare_texts) != NULL);
	say("%d", tfind("beta", &tree, compare_texts) == NULL);
	seen = 0;
	tdestroy(tree, count_freed);
	say("%d", seen);
	tree = NULL;
}

static void *enter_item(void *key)
{
	const ENTRY item = { key, "data" };
	const ENTRY *got = hsearch(item, ENTER);

	say("%s", got ? got->key : error_name(errno));
	return NULL;
}

static void *find_item(void *key)
{
	const ENTRY item = { key, NULL };
	const ENTRY *got = hsearch(item, FIND);

	say("%s", got ? (char *)got->data : "none");
	return NULL;
}

CASE(hash_table, EACH)
{
	struct hsearch_data own = { 0 };
	ENTRY item = { "key", "data" }, *got = NULL;

	say("%d", hcreate(20) != 0);
	say("%d", hcreate(20) != 0);
	enter_item("one");
	apart(enter_item, "two");
	apart(find_item, "one");
	find_item("two");
	apart(find_item, "three");
	hdestroy();
	say("%d", hcreate_r(10, &own) != 0);
	say("%d", hsearch_r(item, ENTER, &got, &own) != 0);
	say("%s", (char *)got->data);
	hdestroy_r(&own);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static int by_number_with(const void *a, const void *b, void *count)
{
	++*(int *)count;
	return by_number(a, b);
}

static int numbers[8];

static void *sort_numbers(void *arg)
{
	qsort(numbers, 8, sizeof(int), by_number);
	return arg;
}

CASE(searches, EACH)
{
	size_t n = 8;
	int i, key = 5, missing = 50, compared = 0;

	for (i = 0; i < 8; i++)
		numbers[i] = i * 5 % 8;
	apart(sort_numbers, NULL);
	for (i = 0; i < 8; i++)
		say("%d", numbers[i]);
	say("%td", (int *)bsearch(&key, numbers, 8, sizeof(int), by_number) - numbers);
	say("%td", (int *)lfind(&key, numbers, &n, sizeof(int), by_number) - numbers);
	say("%d", bsearch(&missing, numbers, 8, sizeof(int), by_number) == NULL);
	qsort_r(numbers, 8, sizeof(int), by_number_with, &compared);
	say("%d", compared > 0);
	say("%td", (int *)lsearch(&numbers[7], numbers, &n, sizeof(int), by_number) - numbers);
}

/* ---- functions that the C library calls, and that end in a jump to one of its own ------------ */

static int draw_to_compare(const void *a, const void *b)
{
	(void)a, (void)b;
	return rand();
}

static int draw_to_compare_with(const void *a, const void *b, void *arg)
{
	(void)a, (void)b, (void)arg;
	return rand();
}

static void draw_to_visit(const void *node, VISIT order, int depth)
{
	(void)node, (void)order, (void)depth;
	rand();
}

static void draw_to_free(void *node)
{
	(void)node;
	rand();
}

static void set_variable(const void *node, VISIT order, void *value)
{
	(void)node, (void)order;
	setenv("POSIX_VISITED", value, 1);
}

static void *draws_of_callbacks(void *arg)
{
	size_t n = 8;
	int key = 3;

	srand(5);
	qsort(numbers, 8, sizeof(int), draw_to_compare);
	say("%d", rand());
	qsort_r(numbers, 8, sizeof(int), draw_to_compare_with, NULL);
	say("%d", rand());
	say("%d", bsearch(&key, numbers, 8, sizeof(int), draw_to_compare) == NULL);
	say("%d", rand());
	lfind(&key, numbers, &n, sizeof(int), draw_to_compare);
	say("%d", rand());
	tsearch("one", &tree, compare_texts);
	tsearch("two", &tree, draw_to_compare);
	say("%d", rand());
	twalk(tree, draw_to_visit);
	say("%d", rand());
	twalk_r(tree, set_variable, "visited");
	say("%s", getenv("POSIX_VISITED"));
	tdestroy(tree, draw_to_free);
	say("%d", rand());
	tree = NULL;
	unsetenv("POSIX_VISITED");
	return arg;
}

CASE(jumps_of_callbacks, EACH)
{
	draws_of_callbacks(NULL);
	apart(draws_of_callbacks, NULL);
}

static void draw_last(void)
{
	say("%d", rand());
	said();
}

static void draw_at_exit(void)
{
	rand();
}

static void *register_draw(void *arg)
{
	say_call(atexit(draw_at_exit));
	return arg;
}

CASE(jumps_of_handlers, ALONE)
{
	say_call(atexit(draw_last));
	apart(register_draw, NULL);
	register_draw(NULL);
	srand(8);
	exit(0);
}

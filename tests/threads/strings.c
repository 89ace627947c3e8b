// SPDX-License-Identifier: BSD-2-Clause
/*
 * strings.c - a plain POSIX threads program: memory that the C library allocates for one thread is
 * read, written and freed by another.
 */
#define _GNU_SOURCE
#include <argz.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <envz.h>
#include <glob.h>
#include <malloc.h>
#include <netdb.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>

static char *made[20];
static struct dirent **list;
static int entries;
static glob_t files = { .gl_offs = 2 };
static wordexp_t words;
static struct addrinfo *addresses;
static struct hsearch_data table;
static void *tree;
static wchar_t *wide;
static char *stream;
static size_t stream_size;

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void print(const void *node, VISIT visit, int depth)
{
	(void)depth;
	if (visit == postorder || visit == leaf)
		printf("%s\n", *(char *const *)node);
}

static int is_ours(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* Three files in a folder of its own. */
static void list_files(void)
{
	char folder[] = "/tmp/strings-XXXXXX", *path = malloc(100);

	if (!mkdtemp(folder))
		exit(4);
	for (int i = 0; i < 3; i++) {
		sprintf(path, "%s/file-%d", folder, i);
		fclose(fopen(path, "w"));
	}
	sprintf(path, "%s/*-0", folder);
	if (glob(path, GLOB_DOOFFS, NULL, &files))
		exit(9);
	sprintf(path, "%s/*-[12]", folder);
	if (glob(path, GLOB_DOOFFS | GLOB_APPEND, NULL, &files))
		exit(10);
	strcpy(path, folder);
	entries = scandir(path, &list, is_ours, alphasort);
	for (int i = 0; i < 3; i++) {
		sprintf(path, "%s/file-%d", folder, i);
		unlink(path);
	}
	rmdir(folder);
	free(path);
}

/* Words, addresses, and a table of names. */
static void find_others(void)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_CANONNAME };
	ENTRY one = { .key = made[6] }, *at;

	glob_t none;
	wordexp_t failed = { .we_wordc = 5 };

	words.we_offs = 2;
	if (wordexp("again", &words, WRDE_DOOFFS) ||
	    wordexp("first 'second word'", &words, WRDE_DOOFFS | WRDE_REUSE) ||
	    wordexp("third", &words, WRDE_APPEND) ||
	    wordexp("lost $(", &words, WRDE_APPEND) != WRDE_SYNTAX ||
	    wordexp("lost |", &failed, 0) != WRDE_BADCHAR || failed.we_wordc != 5 ||
	    glob("*", 1 << 20, NULL, &none) != -1 ||
	    getaddrinfo("127.0.0.1", "80", &hints, &addresses) || !hcreate_r(10, &table) ||
	    !hsearch_r(one, ENTER, &at, &table))
		exit(11);
}

static void use_found(void)
{
	ENTRY one = { .key = strdup(made[6]) }, two = { .key = "another" }, *at;
	char host[40], port[8];

	for (size_t i = 2; i < 2 + files.gl_pathc; i++)
		printf("%zu %s\n", i, strrchr(files.gl_pathv[i], '/'));
	printf("%d\n", !files.gl_pathv[0] && !files.gl_pathv[2 + files.gl_pathc]);
	globfree(&files);
	for (size_t i = 2; i < 2 + words.we_wordc; i++)
		printf("%s\n", words.we_wordv[i]);
	printf("%d\n", !words.we_wordv[0]);
	wordfree(&words);
	for (struct addrinfo *a = addresses; a; a = a->ai_next)
		if (!getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof(host), port, sizeof(port),
				 NI_NUMERICHOST | NI_NUMERICSERV))
			printf("%d %s %s %s\n", a->ai_socktype, host, port,
			       a->ai_canonname ? a->ai_canonname : "");
	freeaddrinfo(addresses);
	printf("%d", hsearch_r(one, FIND, &at, &table) && at->key == made[6]);
	printf("%d\n", hsearch_r(two, ENTER, &at, &table) && hsearch_r(two, FIND, &at, &table));
	hdestroy_r(&table);
	free(one.key);
}

/* What it says is there after each flush; it goes back. */
static void write_stream(char **results)
{
	FILE *f = open_memstream(&stream, &stream_size);
	int empty, first, ended;
	size_t long_one;

	empty = !fflush(f) && stream && stream_size == 0 && !*stream;
	fprintf(f, "%05d", 12);
	first = !fflush(f) && stream_size == 5 && !strcmp(stream, "00012");
	for (int i = 0; i < 2000; i++)
		fprintf(f, "%d,", i);
	fflush(f);
	long_one = stream_size;
	fseek(f, 2, SEEK_SET);
	fputs("xy", f);
	ended = fclose(f);
	if (asprintf(results, "stream %d %d %zu %d", empty, first, long_one, ended) < 0)
		exit(8);
	stream[stream_size] = 0; /* the C library did that, too */
}

/* By a thread of another rank. */
static void *use(void *arg)
{
	use_found();
	for (int i = 0; made[i]; i++) {
		made[i][0] = (char)('0' + i);
		printf("%s %zu\n", made[i], strlen(made[i]));
		free(made[i]);
	}
	for (int i = 0; i < entries; i++) {
		list[i]->d_name[0] = (char)toupper(list[i]->d_name[0]);
		printf("%s\n", list[i]->d_name);
		free(list[i]);
	}
	free(list);
	wide[0] = L'W';
	printf("%ls, %zu: %s\n", wide, stream_size, stream);
	free(wide);
	free(stream);
	twalk(tree, print);
	printf("found %d\n", tfind("six", &tree, compare) != NULL);
	while (tree)
		tdelete(*(char **)tree, &tree, compare);
	fflush(stdout);
	return arg;
}

int main(void)
{
	char *line = NULL, *word = NULL;
	size_t size = 0, room = 0;
	FILE *f = tmpfile();
	char *(*temp)(const char *, const char *);
	pthread_t t;

	if (!f || chdir("/tmp"))
		return 1;
	fprintf(f, "%300d\nword;rest", 7);
	rewind(f);
	if (getline(&line, &size, f) != 301 || getdelim(&word, &room, ';', f) != 5)
		return 2;
	line[300] = 0;
	made[0] = line;
	made[1] = word;
	if (asprintf(&made[2], "%s %d", "number", 5) != 8)
		return 3;
	made[3] = getcwd(NULL, 0);
	made[4] = get_current_dir_name();
	made[5] = realpath("/tmp/.", NULL);
	made[6] = strdup(word);
	made[7] = strndup(word, 2);
	/* the linker warns of it */
	temp = (char *(*)(const char *, const char *))dlsym(RTLD_DEFAULT, "tempnam");
	made[8] = temp("/tmp", "temp");
	made[8][9] = 0; /* the rest is random */
	made[9] = pvalloc(5000);
	if ((size_t)made[9] % 4096)
		return 5;
	memset(made[9], 'p', 8192);
	made[9][8191] = 0;
	if (argz_create_sep("one:two:three", ':', &made[10], &room) ||
	    argz_add(&made[10], &room, "four"))
		return 6;
	argz_stringify(made[10], room, '+');
	room = 0;
	if (envz_add(&made[11], &room, "NAME", "value"))
		return 7;
	for (int i = 0; i < 7; i++)
		tsearch(&"zero\0\0one\0\0\0two\0\0\0three\0four\0\0five\0\0six"[6 * i], &tree,
			compare);
	wide = wcsdup(L"wide");
	list_files();
	find_others();
	write_stream(&made[12]);
	pthread_create(&t, NULL, use, NULL);
	pthread_join(t, NULL);
	fclose(f);
	return 0;
}

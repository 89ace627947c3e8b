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
#include <malloc.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

static char *made[20];
static struct dirent **list;
static int entries;
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
	strcpy(path, folder);
	entries = scandir(path, &list, is_ours, alphasort);
	for (int i = 0; i < 3; i++) {
		sprintf(path, "%s/file-%d", folder, i);
		unlink(path);
	}
	rmdir(folder);
	free(path);
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
	write_stream(&made[12]);
	pthread_create(&t, NULL, use, NULL);
	pthread_join(t, NULL);
	fclose(f);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * words.c - a plain POSIX threads program: reads text from its standard input into memory, and
 * threads count words in a tree with a lock in each node, by pointers. With an argument, any thread
 * ends the program by exit() with that status.
 */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef THREADS
#define THREADS 4
#endif
#ifndef LINES
#define LINES 4000
#endif

struct node {
	char *word;
	long count;
	struct node *less, *more;
	pthread_mutex_t lock;
};

static struct node *root;
static pthread_mutex_t root_lock = PTHREAD_MUTEX_INITIALIZER;
static char *lines[LINES];
static int n_lines, status;

static struct node *leaf(const char *word)
{
	struct node *n = calloc(1, sizeof(*n));

	n->word = strdup(word);
	n->count = 1;
	pthread_mutex_init(&n->lock, NULL);
	return n;
}

/* Locks hand over hand: that of the pointer, then that of the node. */
static void add(const char *word)
{
	pthread_mutex_t *held = &root_lock;
	struct node **at = &root;

	pthread_mutex_lock(held);
	while (*at) {
		struct node *n = *at;
		int way = strcmp(word, n->word);

		pthread_mutex_lock(&n->lock);
		pthread_mutex_unlock(held);
		held = &n->lock;
		if (!way) {
			n->count++;
			break;
		}
		at = way < 0 ? &n->less : &n->more;
	}
	if (!*at)
		*at = leaf(word);
	pthread_mutex_unlock(held);
}

static void *count(void *arg)
{
	char word[128];
	int i;

	for (i = (int)(long)arg; i < n_lines; i += THREADS) {
		const char *p = lines[i];
		size_t n = 0;

		for (;; p++) {
			if (isalnum((unsigned char)*p) && n < sizeof(word) - 1) {
				word[n++] = (char)tolower((unsigned char)*p);
			} else if (n) {
				word[n] = 0;
				add(word);
				n = 0;
			}
			if (!*p)
				break;
		}
	}
	if (status && (long)arg == THREADS - 1)
		exit(status);
	return NULL;
}

static unsigned long sum(const struct node *n, long *words, long *different)
{
	unsigned long h = 5381;
	const char *p;

	if (!n)
		return 0;
	*words += n->count;
	++*different;
	for (p = n->word; *p; p++)
		h = h * 33 + (unsigned char)*p;
	return h * (unsigned long)n->count + sum(n->less, words, different) +
		sum(n->more, words, different);
}

int main(int argc, char **argv)
{
	long words = 0, different = 0, i;
	pthread_t t[THREADS];
	unsigned long hash;
	char line[4096];

	status = argc > 1 ? atoi(argv[1]) : 0;
	while (n_lines < LINES && fgets(line, sizeof(line), stdin))
		lines[n_lines++] = strdup(line);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, count, (void *)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	hash = sum(root, &words, &different);
	printf("words: %d lines, %ld words, %ld different, %lx\n", n_lines, words, different, hash);
	return 0;
}

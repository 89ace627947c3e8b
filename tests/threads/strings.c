// SPDX-License-Identifier: BSD-2-Clause
/* strings.c - a plain POSIX threads program: what the C library allocates for one thread, another reads, writes and frees. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *made[9];

/* By a thread of another rank. */
static void *use(void *arg)
{
	for (int i = 0; made[i]; i++) {
		made[i][0] = (char)('0' + i);
		printf("%s %zu\n", made[i], strlen(made[i]));
		free(made[i]);
	}
	fflush(stdout);
	return arg;
}

int main(void)
{
	char *line = NULL, *word = NULL;
	size_t size = 0, room = 0;
	FILE *f = tmpfile();
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
	pthread_create(&t, NULL, use, NULL);
	pthread_join(t, NULL);
	fclose(f);
	return 0;
}

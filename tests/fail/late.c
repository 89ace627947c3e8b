// SPDX-License-Identifier: BSD-2-Clause
/*
 * late.c - loads libdsm after so many thread-specific keys were made.
 *
 *   late LIBRARY KEYS
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int call(void *library, const char *name)
{
	int (*fn)(void *) = (int (*)(void *))dlsym(library, name);

	return fn ? fn(NULL) : -1;
}

int main(int argc, char **argv)
{
	pthread_key_t key;
	void *library;
	int n;

	if (argc != 3)
		return 2;
	for (n = atoi(argv[2]); n > 0; n--)
		if (pthread_key_create(&key, NULL))
			return 2;
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	if (call(library, "dsm_init") || call(library, "dsm_finalize"))
		return 1;
	puts("done");
	return 0;
}

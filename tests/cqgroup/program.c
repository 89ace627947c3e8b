// SPDX-License-Identifier: BSD-2-Clause
/*
 * program.c - an ordinary verbs program that does what its arguments say, each word one thing: open
 * import cq=V ex=V event poll destroy close cpus thread stir.
 *
 * With -DLOADER it has no verbs itself: it loads the same code as a plugin, its first argument.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int run(int n, char **words);

#ifdef LOADER
int main(int argc, char **argv)
{
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	int (*there)(int, char **) = plugin ? (int (*)(int, char **))dlsym(plugin, "run") : NULL;

	if (!there) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return there(argc - 2, argv + 2);
}
#else

#define MAX 4096

static struct ibv_context *ctx;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cqs[MAX];
static int ncqs;

static void wait_for_event(void)
{
	struct ibv_cq *cq = NULL;
	void *cq_context;

	if (ibv_get_cq_event(channel, &cq, &cq_context) || !cq)
		printf("event failed\n");
	else
		ibv_ack_cq_events(cq, 1);
}

static void print_cpus(void)
{
	const char *comma = "";
	cpu_set_t set;
	int i;

	sched_getaffinity(0, sizeof(set), &set);
	printf("cpus ");
	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set)) {
			printf("%s%d", comma, i);
			comma = ",";
		}
	printf("\n");
}

static void *other_thread(void *arg)
{
	wait_for_event();
	print_cpus();
	return arg;
}

/* A CQ after the other, each polled and destroyed. */
static void *make_many(void *arg)
{
	struct ibv_wc wc[8];
	struct ibv_cq *cq;
	int i;

	for (i = 0; i < 1000; i++) {
		cq = ibv_create_cq(ctx, 10, NULL, channel, 0);
		if (!cq || ibv_poll_cq(cq, 8, wc) != 3 || ibv_destroy_cq(cq))
			printf("no CQ\n");
	}
	return arg;
}

static void stir(void)
{
	pthread_t threads[4];
	int i;

	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, make_many, NULL);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void opened(struct ibv_context *now)
{
	ctx = now;
	channel = ctx ? ibv_create_comp_channel(ctx) : NULL;
	if (!channel) {
		printf("no device\n");
		exit(1);
	}
}

static void keep(struct ibv_cq *cq)
{
	if (cq && ncqs < MAX)
		cqs[ncqs++] = cq;
	else
		printf("no CQ\n");
}

int run(int n, char **words)
{
	struct ibv_device **list;
	struct ibv_wc wc[8];
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; n--; words++) {
		struct ibv_cq_init_attr_ex attr = { .cqe = 10, .channel = channel };
		const char *value = strchr(*words, '=') ? strchr(*words, '=') + 1 : "0";

		if (!strcmp(*words, "open")) {
			list = ibv_get_device_list(NULL);
			opened(list && list[0] ? ibv_open_device(list[0]) : NULL);
			ibv_free_device_list(list);
		} else if (!strcmp(*words, "import")) {
			opened(ibv_import_device(3));
		} else if (!strncmp(*words, "cq", 2) && (!(*words)[2] || (*words)[2] == '=')) {
			keep(ibv_create_cq(ctx, 10, NULL, channel, atoi(value)));
		} else if (!strncmp(*words, "ex", 2)) {
			attr.comp_vector = (uint32_t)atoi(value);
			keep(ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &attr)));
			if (attr.comp_vector != (uint32_t)atoi(value))
				printf("attributes were changed\n");
		} else if (!strcmp(*words, "event")) {
			wait_for_event();
		} else if (!strcmp(*words, "poll")) {
			printf("polled %d\n", ibv_poll_cq(cqs[ncqs - 1], 8, wc));
		} else if (!strcmp(*words, "destroy")) {
			ncqs--;
			if (ibv_destroy_cq(cqs[ncqs]))
				printf("busy\n");
		} else if (!strcmp(*words, "close")) {
			ibv_destroy_comp_channel(channel);
			ibv_close_device(ctx);
		} else if (!strcmp(*words, "cpus")) {
			print_cpus();
		} else if (!strcmp(*words, "thread")) {
			pthread_create(&thread, NULL, other_thread, NULL);
			pthread_join(thread, NULL);
		} else if (!strcmp(*words, "stir")) {
			stir();
		} else {
			printf("what is %s?\n", *words);
			return 1;
		}
	}
	return 0;
}

#ifndef PLUGIN
int main(int argc, char **argv)
{
	return run(argc - 1, argv + 1);
}
#endif
#endif

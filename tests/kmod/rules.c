// SPDX-License-Identifier: BSD-2-Clause
/*
 * rules.c - does dsm.ko refuse what dsm_uapi_rules.h does not allow, and only that? For each variant of each argument, of a
 * rank of a job and of a context that is none yet: valid ones, and valid ones with one field just inside or just outside.
 *
 * "Valid" is of the argument: what the state of the rank refuses comes with another error than EINVAL, or with EINVAL where the
 * page of a range is of no region. So outside must be EINVAL; inside must not be, where the call has no more to say.
 */
#include "tests/kmod/common_args.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kmod/common.h"

static unsigned int checked, wrong;
static char address[DSM_ADDRESS_MAX];
static struct dsm_prot_item items[DSM_PROTECT_MAX];

/* Two ranks, both of this process, so that calls are answered. */
static int fds[2];
static const struct args_limits limits = { .pages = JOB_PAGES, .ranks = 2 };

static int open_window(void)
{
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	int fd = open("/dev/dsm", O_RDWR);

	if (fd < 0 || ioctl(fd, DSM_IOC_WINDOW, &w)) {
		perror("/dev/dsm");
		exit(2);
	}
	return fd;
}

static int open_rank(unsigned int rank, const struct dsm_ioc_key *key)
{
	struct dsm_ioc_join in = { .rank = (uint16_t)rank,
				   .size = 2,
				   .device = "none",
				   .gid = -1,
				   .address_size = DSM_ADDRESS_MAX,
				   .address = (uintptr_t)address,
				   .vectors = { -1, -1, -1, -1 } };
	int fd = open_window();

	if (ioctl(fd, DSM_IOC_JOIN, &in) || ioctl(fd, DSM_IOC_KEY, key)) {
		perror("join");
		exit(2);
	}
	return fd;
}

static void join_two(void)
{
	struct dsm_ioc_key key;
	unsigned int i;

	new_key(&key);
	for (i = 0; i < 2; i++)
		fds[i] = open_rank(i, &key);
	for (i = 0; i < 2; i++) {
		struct dsm_ioc_connect c = { .rank = (uint16_t)!i, .flags = DSM_CONNECT_HERE };
		struct dsm_ioc_region g = { .pages = JOB_PAGES, .home = DSM_REGION_CYCLIC };

		if (ioctl(fds[i], DSM_IOC_CONNECT, &c) || ioctl(fds[i], DSM_IOC_REGION, &g)) {
			perror("connect");
			exit(2);
		}
	}
}

/* Fields that the table leaves open, so that a valid call ends soon. */
static void prepare(const struct dsm_variant *v, void *arg, uint64_t *random)
{
	memset(arg, 0, sizeof(struct dsm_ioc_stats));
	if (!strcmp(v->name, "PROTECT"))
		((struct dsm_ioc_protect *)arg)->items = (uintptr_t)items;
	if (!strcmp(v->name, "JOIN")) {
		struct dsm_ioc_join *j = arg;

		strcpy(j->device, "none");
		j->address = (uintptr_t)address;
	}
	if (!strcmp(v->name, "KEY"))
		new_key(arg);
	if (!strcmp(v->name, "CONNECT"))
		((struct dsm_ioc_connect *)arg)->address = (uintptr_t)address;
	args_fill(v, &limits, arg, random);
	if (!strcmp(v->name, "CALL_WAIT")) /* nobody would post, were there such a semaphore */
		((struct dsm_ioc_call *)arg)->ns = 1000;
	if (!strcmp(v->name, "CALL_BARRIER"))
		((struct dsm_ioc_call *)arg)->threads = 0;         /* ask only */
	if (!strncmp(v->name, "RANGE", 5) && v->rules[1].a == 1) { /* short, or it takes its time */
		struct dsm_ioc_range *r = arg;

		r->pages = r->pages > 4 ? 4 : r->pages;
	}
}

/* A context that may take the call: each needs its own state. */
static int context_for(const struct dsm_variant *v)
{
	if (v->cmd == DSM_IOC_WINDOW || v->cmd == DSM_IOC_ATTACH)
		return open("/dev/dsm", O_RDWR);
	if (v->cmd == DSM_IOC_JOIN)
		return open_window();
	if (v->cmd == DSM_IOC_PROTECT) {
		int fd = open_window();

		if (mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) ==
		    MAP_FAILED) {
			perror("mmap");
			exit(2);
		}
		return fd;
	}
	if (v->cmd == DSM_IOC_REGION) { /* ranks with other regions than their peers are no job */
		struct dsm_ioc_key key;

		new_key(&key);
		return open_rank(0, &key);
	}
	return dup(fds[0]);
}

static void context_done(const struct dsm_variant *v, int fd)
{
	if (v->cmd == DSM_IOC_PROTECT)
		munmap(JOB_BASE, JOB_WINDOW);
	close(fd);
}

/* EINVAL of the call itself, on an argument that is as the table has it. */
static bool may_be_invalid(const struct dsm_variant *v)
{
	return v->cmd == DSM_IOC_CONNECT || v->cmd == DSM_IOC_RANGE || v->cmd == DSM_IOC_JOIN;
}

static void one(const struct dsm_variant *v, const void *arg, const struct dsm_rule *changed, uint64_t value, bool bad)
{
	static uint64_t random = 3;
	const struct dsm_rule *r = changed;
	char copy[sizeof(struct dsm_ioc_stats)];
	int fd = context_for(v), err;

	memcpy(copy, arg, sizeof(copy));
	if (r)
		args_put(r, copy, value);
	for (; r && !bad && /* what depends on it goes with it */
	     r < v->rules + v->n;
	     r++)
		if (r->kind == ARG_PAGES)
			args_put(r, copy, r == changed ? value : args_inside(r, &limits, copy, &random));
	/* A huge window is allowed, and more memory than a guest has: then it is no EINVAL, either. */
	err = ioctl(fd, v->cmd, copy) ? errno : 0;
	checked++;
	if (bad ? err != EINVAL : err == EINVAL && !may_be_invalid(v)) {
		wrong++;
		printf("%s with %s %#llx: %s, which %s be\n", v->name, changed ? changed->name : "valid fields",
		       (unsigned long long)value, err ? strerror(err) : "accepted", bad ? "must EINVAL" : "must not");
	}
	context_done(v, fd);
}

/* Is it allowed as another variant of the same call? Then it is no error. */
static bool is_other(const struct dsm_variant *v, const struct dsm_rule *r)
{
	return (r->kind == ARG_IS || r->kind == ARG_ONE_OF || r->kind == ARG_NUMBER) &&
		(!strcmp(r->name, "op") || !strcmp(r->name, "call") ||
		 (v->cmd == DSM_IOC_REGION && !strcmp(r->name, "home")));
}

static void variant(const struct dsm_variant *v, uint64_t *random)
{
	char arg[sizeof(struct dsm_ioc_stats)] __attribute__((aligned(8)));
	uint64_t value[ARGS_EDGES];
	bool bad[ARGS_EDGES];
	unsigned int i, k, n;

	for (i = 0; i < v->n; i++) {
		const struct dsm_rule *r = &v->rules[i];

		prepare(v, arg, random);
		one(v, arg, NULL, 0, false);
		if (r->kind == ARG_ANY || r->kind == ARG_POINTER)
			continue;
		n = args_edges(r, &limits, arg, value, bad);
		for (k = 0; k < n; k++)
			if (!(is_other(v, r) && bad[k] && value[k] < 64) && (bad[k] || v->cmd != DSM_IOC_CALL))
				one(v, arg, r, value[k], bad[k]);
	}
}

/* What is no number: a name without an end, no key at all. */
static void text(void)
{
	uint64_t random = 7;
	struct dsm_ioc_stats room;
	struct dsm_ioc_join *j = (void *)&room;

	prepare(args_variant("JOIN"), j, &random);
	memset(j->device, 'x', sizeof(j->device));
	one(args_variant("JOIN"), &room, NULL, 0, true);
	memset(&room, 0, sizeof(room));
	one(args_variant("KEY"), &room, NULL, 0, true);
}

static void protect_items(uint64_t *random)
{
	const struct dsm_variant *v = args_variant("PROT_ITEM");
	struct dsm_ioc_stats room = { 0 };
	struct dsm_ioc_protect *p = (void *)&room;
	uint64_t value[ARGS_EDGES];
	bool bad[ARGS_EDGES];
	unsigned int i, k, n;

	*p = (struct dsm_ioc_protect){ .items = (uintptr_t)items, .count = 3 };
	for (i = 0; i < v->n; i++) {
		memset(items, 0, sizeof(items));
		args_fill(v, &limits, &items[1], random);
		n = args_edges(&v->rules[i], &limits, &items[1], value, bad);
		for (k = 0; k < n; k++) {
			args_put(&v->rules[i], &items[1], value[k]);
			one(args_variant("PROTECT"), &room, NULL, value[k], bad[k]);
		}
	}
}

int main(void)
{
	uint64_t random = 1;
	unsigned int i;

	if (!module_loaded()) {
		fprintf(stderr, "rules: dsm.ko is not loaded\n");
		return 77;
	}
	setlinebuf(stdout);
	join_two();
	for (i = 0; i < dsm_nvariants; i++)
		if (strcmp(dsm_variants[i].name, "PROT_ITEM")) {
			variant(&dsm_variants[i], &random);
			printf("%s: %u so far\n", dsm_variants[i].name, checked);
		}
	text();
	protect_items(&random);
	close(fds[0]);
	close(fds[1]);
	printf("%u arguments, %u wrongly accepted or refused\n", checked, wrong);
	return wrong || !nothing_left(20);
}

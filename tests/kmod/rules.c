// SPDX-License-Identifier: BSD-2-Clause
/*
 * rules.c - dsm.ko refuses exactly the arguments that dsm_uapi_rules.h does not allow. For each
 * variant of each argument, in a rank of a job and in a context that has not joined one: valid
 * arguments, and valid ones with one field just inside or just outside its range.
 *
 * "Valid" refers to the argument. If the state of the rank forbids the call, the error is not
 * EINVAL, or it is EINVAL because the page of a range is in no region. So an argument outside its
 * range must give EINVAL. One inside must not, where nothing else can.
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

#include "core/wire.h"
#include "tests/kmod/common.h"

static unsigned int checked, wrong;
static char address[2][DSM_ADDRESS_MAX] __attribute__((aligned(8)));
static uint32_t address_size;
static struct dsm_prot_item items[DSM_PROTECT_MAX];
static uint32_t transfers[DSM_UNIT_PAGES];

/* Two ranks in this process, so that calls get answers. */
static int fds[2];
static const struct args_limits limits = { .pages = JOB_PAGES, .ranks = 2, .peer = 1 };

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

static int open_rank(unsigned int rank, const char *device, const struct dsm_ioc_key *key)
{
	struct dsm_ioc_join in = { .rank = (uint16_t)rank,
				   .size = 2,
				   .gid = -1,
				   .address_size = DSM_ADDRESS_MAX,
				   .address = (uintptr_t)address[rank],
				   .vectors = { -1, -1, -1, -1 } };
	int fd = open_window();

	strcpy(in.device, device);
	if (ioctl(fd, DSM_IOC_JOIN, &in) || ioctl(fd, DSM_IOC_KEY, key)) {
		perror("join");
		exit(2);
	}
	address_size = in.address_size;
	return fd;
}

static void join_two(void)
{
	struct dsm_ioc_key key;
	unsigned int i;

	new_key(&key);
	for (i = 0; i < 2; i++)
		fds[i] = open_rank(i, "none", &key);
	for (i = 0; i < 2; i++) {
		struct dsm_ioc_connect c = { .rank = (uint16_t)!i, .flags = DSM_CONNECT_HERE };
		struct dsm_ioc_region g = { .pages = JOB_PAGES, .home = DSM_REGION_CYCLIC };

		if (ioctl(fds[i], DSM_IOC_CONNECT, &c) || ioctl(fds[i], DSM_IOC_REGION, &g)) {
			perror("connect");
			exit(2);
		}
	}
}

/* Fill in fields that the table leaves open, so that a valid call ends soon. */
static void prepare(const struct dsm_variant *v, void *arg, uint64_t *random)
{
	memset(arg, 0, sizeof(struct dsm_ioc_stats));
	if (!strcmp(v->name, "PROTECT"))
		((struct dsm_ioc_protect *)arg)->items = (uintptr_t)items;
	if (!strcmp(v->name, "JOIN")) {
		struct dsm_ioc_join *j = arg;

		strcpy(j->device, "none");
		j->address = (uintptr_t)address[0];
	}
	if (!strcmp(v->name, "KEY"))
		new_key(arg);
	if (!strcmp(v->name, "CONNECT"))
		((struct dsm_ioc_connect *)arg)->address = (uintptr_t)address[0];
	if (!strcmp(v->name, "HOT"))
		((struct dsm_ioc_hot *)arg)->transfers = (uintptr_t)transfers;
	args_fill(v, &limits, arg, random);
	if (!strcmp(v->name, "CALL_WAIT")) /* if there is such a semaphore, nobody posts it */
		((struct dsm_ioc_call *)arg)->ns = 1000;
	if (strstr(v->name, "BARRIER"))
		((struct dsm_ioc_call *)arg)->threads = 0;         /* only ask */
	if (!strncmp(v->name, "RANGE", 5) && v->rules[1].a == 1) { /* a short range, to save time */
		struct dsm_ioc_range *r = arg;

		r->pages = r->pages > 4 ? 4 : r->pages;
	}
}

static bool protects(const struct dsm_variant *v)
{
	return v->cmd == DSM_IOC_PROTECT || v->cmd == DSM_IOC_PROTECT_PAGE;
}

/* A context in the state that the call needs. */
static int context_for(const struct dsm_variant *v)
{
	if (v->cmd == DSM_IOC_WINDOW || v->cmd == DSM_IOC_ATTACH)
		return open("/dev/dsm", O_RDWR);
	if (v->cmd == DSM_IOC_JOIN)
		return open_window();
	if (protects(v)) {
		int fd = open_window();

		if (mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) == MAP_FAILED) {
			perror("mmap");
			exit(2);
		}
		return fd;
	}
	if (v->cmd == DSM_IOC_REGION) { /* ranks of one job must have equal regions */
		struct dsm_ioc_key key;

		new_key(&key);
		return open_rank(0, "none", &key);
	}
	return dup(fds[0]);
}

static void context_done(const struct dsm_variant *v, int fd)
{
	if (protects(v))
		munmap(JOB_BASE, JOB_WINDOW);
	close(fd);
}

/* May the call itself return EINVAL for an argument that the table allows? */
static bool may_be_invalid(const struct dsm_variant *v)
{
	return v->cmd == DSM_IOC_CONNECT || v->cmd == DSM_IOC_RANGE || v->cmd == DSM_IOC_JOIN;
}

static void one(const struct dsm_variant *v, const void *arg, const struct dsm_rule *changed,
		uint64_t value, bool bad)
{
	static uint64_t random = 3;
	const struct dsm_rule *r = changed;
	char copy[sizeof(struct dsm_ioc_stats)];
	int fd = context_for(v), err;

	memcpy(copy, arg, sizeof(copy));
	if (r)
		args_put(r, copy, value);
	for (; r && !bad && /* adapt the fields that depend on the changed one */
	     r < v->rules + v->n;
	     r++)
		if (r->kind == ARG_PAGES)
			args_put(r, copy,
				 r == changed ? value : args_inside(r, &limits, copy, &random));
	/*
	 * A huge window is valid, though it needs more memory than the guest has. Then the error is
	 * not EINVAL.
	 */
	err = ioctl(fd, v->cmd, args_pass(v, copy)) ? errno : 0;
	checked++;
	if (bad ? err != EINVAL : err == EINVAL && !may_be_invalid(v)) {
		wrong++;
		printf("%s with %s %#llx: %s, which %s be\n", v->name,
		       changed ? changed->name : "valid fields", (unsigned long long)value,
		       err ? strerror(err) : "accepted", bad ? "must EINVAL" : "must not");
	}
	context_done(v, fd);
}

/* Another variant of the same call may allow the value; then it is no error. */
static bool is_other(const struct dsm_variant *v, const struct dsm_rule *r, uint64_t value)
{
	if (!strcmp(v->name, "CALL_CREATE") && !strcmp(r->name, "value2"))
		return value && !(value % (uint64_t)r->a);
	if (!strcmp(v->name, "BARRIER_0") && !strcmp(r->name, "object"))
		return value == 1;
	return value < 64 &&
		(r->kind == ARG_IS || r->kind == ARG_ONE_OF || r->kind == ARG_NUMBER) &&
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
			if (!(bad[k] && is_other(v, r, value[k])) &&
			    (bad[k] || v->cmd != DSM_IOC_CALL))
				one(v, arg, r, value[k], bad[k]);
	}
}

/* Checks that are not about numbers: a device name without a terminator, no key at all. */
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

static void owners(uint64_t *random)
{
	const struct dsm_variant *v = &dsm_variants[VARIANT_OWNER];
	struct dsm_ioc_stats room = { 0 };
	struct dsm_ioc_region *g = (void *)&room;
	struct dsm_owner of[3] = { { 0 }, { 0 }, { 1 } };
	uint64_t value[ARGS_EDGES];
	bool bad[ARGS_EDGES];
	unsigned int i, k, n;

	g->pages = 64;
	g->home = DSM_REGION_PARTS;
	g->arg = 8;
	g->parts = 3;
	g->owners = (uintptr_t)of;
	for (i = 0; i < v->n; i++) {
		args_fill(v, &limits, &of[1], random);
		n = args_edges(&v->rules[i], &limits, &of[1], value, bad);
		for (k = 0; k < n; k++) {
			args_put(&v->rules[i], &of[1], value[k]);
			one(args_variant("REGION_PARTS"), &room, NULL, value[k], bad[k]);
		}
	}
}

/* CONNECT rank 0 to rank 1 with the address in address[1]. */
static void try_address(int fd, uint32_t size, const char *what, uint64_t value, bool bad)
{
	struct dsm_ioc_connect c = { .rank = 1,
				     .address_size = size,
				     .address = (uintptr_t)address[1] };
	const int err = ioctl(fd, DSM_IOC_CONNECT, &c) ? errno : 0;

	checked++;
	if (err != (bad ? EINVAL : 0)) {
		wrong++;
		printf("CONNECT by an address with %s %#llx: %s\n", what, (unsigned long long)value,
		       strerror(err));
	}
}

/*
 * Try each field at its bounds: the bad values with fd, or each good value with a new rank, since a
 * queue pair connects only once.
 */
static void try_field(const struct dsm_variant *v, size_t at, bool bad, int fd)
{
	uint64_t value[ARGS_EDGES];
	bool is_bad[ARGS_EDGES];
	char right[DSM_ADDRESS_MAX];
	unsigned int i, k, n;

	memcpy(right, address[1], sizeof(right));
	for (i = 0; i < v->n; i++) {
		const struct dsm_rule *r = &v->rules[i];

		if (bad && r->kind == ARG_NONZERO) {
			memset(address[1] + at + r->at, 0, r->size);
			try_address(fd, address_size, r->name, 0, true);
		}
		n = args_edges(r, &limits, right + at, value, is_bad);
		for (k = 0; k < n; k++) {
			memcpy(address[1], right, sizeof(right));
			args_put(r, address[1] + at, value[k]);
			if (is_bad[k] != bad || !memcmp(address[1], right, sizeof(right)))
				continue;
			if (!bad) {
				struct dsm_ioc_key key;

				new_key(&key);
				fd = open_rank(0, "", &key);
			}
			try_address(fd, address_size, r->name, value[k], bad);
			if (!bad)
				close(fd);
		}
		memcpy(address[1], right, sizeof(right));
	}
}

/*
 * Start from the right address and change one field. A wrong field must leave the rank unchanged.
 */
static void addresses(void)
{
	static const enum dsm_variant_place rows[] = { VARIANT_ADDRESS_QP, VARIANT_OTHER_QP };
	const struct dsm_variant *head = &dsm_variants[VARIANT_ADDRESS_ROCE];
	struct dsm_ioc_key key;
	unsigned int bad, i;
	int fd[2];

	new_key(&key);
	for (i = 0; i < 2; i++)
		fd[i] = open_rank(i, "", &key);
	for (bad = 0; bad < 2; bad++) {
		try_field(head, 0, bad, fd[0]);
		for (i = 0; i < 2 * CLASS_MAX; i++)
			try_field(&dsm_variants[rows[i / CLASS_MAX]],
				  sizeof(struct dsm_address) + i * sizeof(struct dsm_address_qp),
				  bad, fd[0]);
	}
	try_address(fd[0], address_size - 1, "bytes", address_size - 1, true);
	try_address(fd[0], address_size + 1, "bytes", address_size + 1, true);
	try_address(fd[0], address_size, "bytes", address_size, false);
	close(fd[0]);
	close(fd[1]);
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

	module_needed();
	setlinebuf(stdout);
	join_two();
	for (i = 0; i < dsm_narguments; i++) {
		variant(&dsm_variants[i], &random);
		printf("%s: %u so far\n", dsm_variants[i].name, checked);
	}
	text();
	protect_items(&random);
	owners(&random);
	addresses();
	close(fds[0]);
	close(fds[1]);
	printf("%u arguments, %u wrongly accepted or refused\n", checked, wrong);
	return wrong || !nothing_left(20);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm_outside.c - events from outside of ranks: their RDMA device is deleted, a processor goes
 * offline, allocations are refused, processes of another user and of another namespace try to join,
 * and the module is unloaded.
 */
#include "tests/kmod/storm.h"
#include "tests/kmod/common_module.h"
#include "tests/kmod/common_stranger.h"
#include "tests/kmod/common_trust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* most removals are far faster; the longest is printed. On a slow or busy host: */
#define REMOVAL_S 5
#define REMOVAL_LATE 10 /* so many times the shortest removal */

double removal_longest, removal_sum;
static double removal_shortest = 1e9;

bool device(const char *command)
{
	char line[200];

	snprintf(line, sizeof(line), "rdma link %s", command);
	return system(line) == 0 || it_failed(line);
}

/* Removing the device must end its users without other help. */
bool remove_device(void)
{
	double start = now_s(), took;

	if (!device("delete rxe0"))
		return false;
	took = now_s() - start;
	happened(EVENT_REMOVAL);
	removal_sum += took;
	removal_longest = took > removal_longest ? took : removal_longest;
	removal_shortest = took < removal_shortest ? took : removal_shortest;
	if (took > patience(REMOVAL_S))
		printf("removing the device took %.1f s\n", took);
	return true;
}

/*
 * On a slow host every removal is slow; a removal that waits for an event that does not come is
 * slow only sometimes.
 */
bool removed_soon(void)
{
	return !times(EVENT_REMOVAL) || removal_longest <= patience(REMOVAL_S) ||
		removal_longest <= REMOVAL_LATE * removal_shortest ||
		it_failed("the device could not be removed soon");
}

/* A refusal proves nothing if the place is taken or the peer is missing. */
static void visit_over(const struct visitor *v, const char *did, int err)
{
	if (did)
		intruded(v->uid ? "another user as" : "another namespace as", v->rank, did);
	else if (err == (v->uid ? EACCES : ENODEV))
		happened(v->uid ? EVENT_USER : EVENT_NAMESPACE);
}

/*
 * A stranger: another user, or another network namespace, which has no device to join by. Each is a
 * different user: two of one user could use the key for a job of their own.
 */
void stranger(const struct job *j, uint64_t *r, unsigned int rank)
{
	static uid_t last = SOMEBODY;
	const bool user = pick(r, 2);
	const struct visitor v = { .uid = user ? ++last : 0,
				   .elsewhere = !user,
				   .by_device = !user,
				   .rank = rank,
				   .size = j->ranks,
				   .key = j->key };

	visit(&v, visit_over);
}

/*
 * Let one of `one_of` allocations fail: the module's, in softirq, faults, calls (frames, keys,
 * tables) and workers. On a kernel with failslab, all allocations of the ranks' threads. 0: none.
 */
void shortage(unsigned int one_of)
{
	char value[20];

	snprintf(value, sizeof(value), "%u", one_of);
	file_set("/sys/module/dsm/parameters/test_fail_alloc", value);
	file_set("/sys/module/dsm/parameters/test_fail_sleeping", value);
	if (access(FAILSLAB, F_OK))
		return;
	file_set(FAILSLAB "/task-filter", "Y");
	file_set(FAILSLAB "/ignore-gfp-wait", "N");
	file_set(FAILSLAB "/verbose", "0");
	file_set(FAILSLAB "/times", "-1");
	snprintf(value, sizeof(value), "%u", one_of ? 1 + 20 / one_of : 0);
	file_set(FAILSLAB "/probability", value);
}

const char *processor_file(void)
{
	static char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/online",
		 sysconf(_SC_NPROCESSORS_CONF) - 1);
	return path;
}

/* Switch the last processor. False: there is only one, or it cannot go offline. */
bool processor(bool online)
{
	return file_set(processor_file(), online ? "1" : "0");
}

/* Unload as soon as the module has no user, while ranks end. */
bool unload_at_once(void)
{
	double end = now_s() + patience(20);

	while (module_unload() && now_s() < end)
		usleep(100);
	happened(EVENT_RELOAD);
	return !module_loaded()
		? module_load(module)
		: it_failed("the module cannot be unloaded after its ranks were killed");
}

bool ends_well(const char *before)
{
	char after[300];
	double end = now_s() + patience(10);
	int err;

	while ((err = module_unload()) && now_s() < end)
		usleep(20000);
	if (err)
		return it_failed("the module cannot be unloaded");
	if (module_loaded())
		return it_failed("it is there still");
	if (!access("/sys/kernel/slab/dsm_txn", F_OK) || !access("/dev/dsm", F_OK) ||
	    !access("/sys/kernel/debug/dsm", F_OK))
		return it_failed("something of it is left");
	device_objects(after, sizeof(after));
	if (strcmp(before, after)) {
		printf("before: %safter:  %s", before, after);
		return it_failed("objects of the RDMA device are left");
	}
	return true;
}

/* Unload and load the module; with_device: while the device is removed and made. */
bool reload(const char *before, bool with_device)
{
	pid_t child = -1;
	int status = 0;
	bool ok;

	fflush(stdout);
	if (with_device) {
		child = fork();
		if (!child)
			_exit(device("delete rxe0") && device("add rxe0 type rxe netdev eth0") ? 0
											       : 1);
		usleep(20000);
		while (module_unload() && !access("/sys/module/dsm", F_OK))
			usleep(1000);
		waitpid(child, &status, 0);
		ok = !status && module_load(module);
	} else {
		ok = true;
	}
	happened(EVENT_RELOAD);
	return ok && ends_well(before) && module_load(module);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * vectors.c - completion vectors for the rxe devices of a guest; what they are: vectors.bpf.c.
 *
 *   vectors on OBJECT    load the BPF programs of OBJECT, and attach them; counters are 0
 *   vectors off          detach and remove them
 *   vectors              print the completions of each vector by processor; then for each program
 *                        that has created CQs the packets that were redirected for it, the packets
 *                        of other programs that were handled on the same processor while these
 *                        waited, and its completions by processor
 *
 * What is attached has no process: it is pinned below PINS.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "vectors.h"

#define BPFFS "/sys/fs/bpf"
#define BPFFS_MAGIC 0xcafe4a11
#define PINS BPFFS "/vectors"
#define COMPLETIONS PINS "/completions"
#define PROGRAMS PINS "/programs"
#define DEVICES "/sys/class/infiniband"
#define QUEUE 2048 /* packets for a processor */

/* The XDP program of a descriptor on the network device of each rxe device; -1: none any more. */
static void steer(int fd)
{
	char path[sizeof(DEVICES) + sizeof("//parent") + sizeof(((struct dirent *)0)->d_name)],
		name[IF_NAMESIZE + 1];
	DIR *devices = opendir(DEVICES);
	const struct dirent *e;
	FILE *f;

	if (!devices)
		err(1, DEVICES);
	while ((e = readdir(devices))) {
		snprintf(path, sizeof(path), DEVICES "/%s/parent", e->d_name);
		f = fopen(path, "re"); /* of rxe */
		if (!f)
			continue;
		if (fscanf(f, "%16s", name) != 1)
			errx(1, "cannot read %s", path);
		fclose(f);
		if (bpf_xdp_attach((int)if_nametoindex(name), fd, XDP_FLAGS_SKB_MODE, NULL) &&
		    fd >= 0)
			err(1, "XDP on %s", name);
	}
	closedir(devices);
}

/* ---- off ------------------------------------------------------------------------------------ */

static void off(void)
{
	char path[sizeof(PINS) + 1 + sizeof(((struct dirent *)0)->d_name)];
	DIR *pins = opendir(PINS);
	const struct dirent *e;

	if (!pins)
		return;
	steer(-1);
	while ((e = readdir(pins))) {
		snprintf(path, sizeof(path), PINS "/%s", e->d_name);
		if (*e->d_name != '.' && unlink(path))
			err(1, "%s", path);
	}
	closedir(pins);
	if (rmdir(PINS))
		err(1, PINS);
}

/* ---- on ------------------------------------------------------------------------------------- */

static struct bpf_object *load(const char *path)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	struct statfs fs;

	if (!object || bpf_object__load(object))
		err(1, "the kernel does not load %s", path);
	if (statfs(BPFFS, &fs))
		err(1, BPFFS);
	if (fs.f_type != BPFFS_MAGIC && mount("bpf", BPFFS, "bpf", 0, NULL))
		err(1, "mount " BPFFS);
	if (mkdir(PINS, 0700))
		err(1, PINS);
	return object;
}

static int map(const struct bpf_object *object, const char *name)
{
	return bpf_object__find_map_fd_by_name(object, name);
}

static void add_processors(int cpus)
{
	struct bpf_cpumap_val value = { .qsize = QUEUE };
	unsigned int cpu, n = (unsigned int)libbpf_num_possible_cpus();

	for (cpu = 0; cpu < n && cpu < CPUS_MAX; cpu++)
		if (bpf_map_update_elem(cpus, &cpu, &value, BPF_ANY))
			err(1, "processor %u", cpu);
}

/*
 * The kernel's threads "cpumap/CPU/map:ID" go before processes, as the network softirq does, in
 * whose place they are.
 */
static void prefer_threads(void)
{
	const struct sched_param first = { .sched_priority = 1 };
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	char path[300], name[32];
	FILE *f;

	if (!proc)
		err(1, "/proc");
	while ((e = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = *e->d_name > '0' && *e->d_name <= '9' ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) && !strncmp(name, "cpumap/", 7) &&
		    sched_setscheduler(atoi(e->d_name), SCHED_FIFO, &first))
			err(1, "%s", name);
		fclose(f);
	}
	closedir(proc);
}

/* The probes come before the redirection: it needs what they record. */
static void on(const char *path)
{
	struct bpf_object *object = load(path);
	struct bpf_program *program = NULL;
	struct bpf_link *link;
	char pin[128];

	if (bpf_obj_pin(map(object, "completions"), COMPLETIONS))
		err(1, COMPLETIONS);
	if (bpf_obj_pin(map(object, "programs"), PROGRAMS))
		err(1, PROGRAMS);
	while ((program = bpf_object__next_program(object, program))) {
		if (bpf_program__type(program) != BPF_PROG_TYPE_KPROBE)
			continue;
		snprintf(pin, sizeof(pin), PINS "/%s", bpf_program__name(program));
		link = bpf_program__attach(program);
		if (!link || bpf_link__pin(link, pin))
			err(1, "%s", bpf_program__section_name(program));
	}
	add_processors(map(object, "cpus"));
	prefer_threads();
	steer(bpf_program__fd(bpf_object__find_program_by_name(object, "steer")));
	bpf_object__close(object);
}

/* ---- counters ------------------------------------------------------------------------------- */

static int pinned(const char *path)
{
	int fd = bpf_obj_get(path);

	if (fd < 0)
		errx(1, errno == ENOENT ? "vectors are off" : "cannot read %s", path);
	return fd;
}

static void print_processors(int cpus)
{
	int cpu;

	for (cpu = 0; cpu < cpus; cpu++)
		printf("  %10s%-2d", "CPU", cpu);
}

static void show_vectors(int cpus)
{
	int fd = pinned(COMPLETIONS), cpu;
	__u64 counts[cpus];
	__u32 vector;

	printf("%6s", "vector");
	print_processors(cpus);
	for (vector = 0; vector < (__u32)cpus && vector < CPUS_MAX; vector++) {
		if (bpf_map_lookup_elem(fd, &vector, counts))
			err(1, COMPLETIONS);
		printf("\n%6u", vector);
		for (cpu = 0; cpu < cpus; cpu++)
			printf("  %12llu", counts[cpu]);
	}
	putchar('\n');
}

static void show_programs(int cpus)
{
	struct program_counts counts[cpus];
	char name[NAME], *before = NULL, *c;
	int fd = pinned(PROGRAMS), cpu;

	printf("%-*s  %10s  %12s", NAME, "program", "packets", "others ahead");
	print_processors(cpus);
	putchar('\n');
	for (; !bpf_map_get_next_key(fd, before, name); before = name) {
		__u64 packets = 0, ahead = 0;

		if (bpf_map_lookup_elem(fd, name, counts))
			err(1, PROGRAMS);
		for (cpu = 0; cpu < cpus; cpu++) {
			packets += counts[cpu].packets;
			ahead += counts[cpu].ahead;
		}
		for (c = name; c < name + NAME && *c; c++) /* one word */
			putchar(*c <= ' ' ? '_' : *c);
		printf("%*s  %10llu  %12llu", (int)(name + NAME - c), "", packets, ahead);
		for (cpu = 0; cpu < cpus; cpu++)
			printf("  %12llu", counts[cpu].completions);
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	if (argc == 1) {
		show_vectors(libbpf_num_possible_cpus());
		show_programs(libbpf_num_possible_cpus());
	} else if (argc == 3 && !strcmp(argv[1], "on")) {
		off();
		on(argv[2]);
	} else if (argc == 2 && !strcmp(argv[1], "off")) {
		off();
	} else {
		errx(2, "vectors [on OBJECT | off]");
	}
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * micro_memory.c - what one copy of a block in a node saves: memory, where all ranks read the same;
 * and a home's way back to what another rank has written. Beside each figure, the blocks that moved
 * say whether it was measured within a node or between nodes.
 */
#include "micro.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 16 /* of libdsm, that a rank has open */

/* ---- the job's memory ------------------------------------------------------------------------ */

/* Bytes that this process has mapped and uses; of what several map, its share. */
static double mapped(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %lu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	if (!kib)
		dsm_abort(2, "/proc/self/smaps_rollup does not say what is mapped");
	return (double)kib * 1024;
}

struct file {
	uint64_t inode, bytes;
};

/* Memory objects: node memory is one or more, whether it is mapped or not. */
static void list_files(struct file out[FILES])
{
	DIR *d = opendir("/proc/self/fd");
	char path[300], to[64];
	struct dirent *e;
	struct stat st;
	ssize_t n;
	int i = 0;

	memset(out, 0, FILES * sizeof(*out));
	while (d && (e = readdir(d)) && i < FILES) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = 0;
		if (!strncmp(to, "/memfd:libdsm", 13) && !stat(path, &st))
			out[i++] = (struct file){ st.st_ino, (uint64_t)st.st_blocks * 512 };
	}
	if (d)
		closedir(d);
}

static bool has(const struct file files[FILES], uint64_t inode)
{
	int i;

	for (i = 0; i < FILES && files[i].inode != inode; i++)
		;
	return i < FILES;
}

/* Bytes in memory objects, each counted by the first rank that has it. */
static double in_files(void)
{
	struct file mine[FILES], its[FILES];
	double sum = 0;
	int r, i;

	list_files(mine);
	for (r = 0; r < micro.size; r++) {
		if (r == micro.rank)
			memcpy(its, mine, sizeof(its));
		bench_check(dsm_broadcast(its, sizeof(its), r), "dsm_broadcast");
		for (i = 0; i < FILES && r < micro.rank; i++)
			if (mine[i].inode && has(its, mine[i].inode))
				mine[i].inode = 0;
	}
	for (i = 0; i < FILES; i++)
		sum += mine[i].inode ? (double)mine[i].bytes : 0;
	return sum;
}

static double total(double mine)
{
	bench_check(dsm_reduce(&mine, DSM_DOUBLE, DSM_SUM), "dsm_reduce");
	return mine;
}

/* Blocks that have come to a node, of the whole job. */
static double moved(void)
{
	struct dsm_stats s;

	bench_check(dsm_stats_get(micro.rank, NULL, &s), "dsm_stats_get");
	return total((double)s.blocks_in);
}

static void report(const char *row, const char *what, double v, const char *unit)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", row, what);
	micro_report(name, micro.rank ? NULL : &v, 1, unit);
}

/* ---- all ranks read the same ----------------------------------------------------------------- */

/* Rank 0 writes all, then each rank reads all. The figures are of what was not there before. */
void micro_memory(void)
{
	const char *const row = "blocks that all ranks have read";
	const double bytes = (double)micro.blocks * BLOCK;
	double before[3], after[3], start, us;
	int r;

	micro_fresh();
	before[0] = total(mapped());
	before[1] = total(in_files());
	before[2] = moved();
	micro_write_all(0, 1);
	start = bench_now_us();
	for (r = 0; r < micro.size; r++)
		micro_read_all(r);
	us = (bench_now_us() - start) / micro.size / micro.blocks;
	after[0] = total(mapped());
	after[1] = total(in_files());
	after[2] = moved();
	report(row, ", memory that is mapped", (after[0] - before[0]) / bytes, "copies");
	report(row, ", memory in node memory", (after[1] - before[1]) / bytes, "copies");
	report(row, ", blocks moved", (after[2] - before[2]) / micro.blocks, "blocks/block");
	report(row, ", one rank after the other", us, "us/block");
}

/* ---- a home reads what another rank has written ---------------------------------------------- */

/* Rank 0 reads all blocks, which rank 1 has written. Returns us for each. */
static double stream_back(char wrote)
{
	double start = bench_now_us();
	int i;

	for (i = 0; micro.rank == 0 && i < micro.blocks; i++)
		if (*(volatile char *)(micro.area + (size_t)i * BLOCK) != wrote)
			dsm_abort(2, "block %d is not what rank 1 wrote", i);
	return (bench_now_us() - start) / micro.blocks;
}

static void back_once(void)
{
	const char *const row = "home streams back what another rank wrote";
	double v[REPEATS_MAX], blocks[REPEATS_MAX];
	int r;

	for (r = 0; r < micro.repeats; r++) {
		micro_fresh();
		micro_write_all(1, (char)(r + 1));
		blocks[r] = moved();
		v[r] = stream_back((char)(r + 1));
		dsm_barrier();
		blocks[r] = (moved() - blocks[r]) / micro.blocks;
	}
	micro_report(row, micro.rank == 0 ? v : NULL, micro.repeats, "us/block");
	report(row, ", blocks moved", blocks[micro.repeats / 2], "blocks/block");
}

/*
 * core/push.h: what the home learns takes so many iterations. From then on it is the same every so
 * many.
 */
#define BACK_LEARN 10
#define BACK_PERIOD 32

/*
 * Means of a whole period: reads by the home; the whole iteration, with the writes and two
 * barriers; its misses, and blocks pushed.
 */
static void back_period(double *reads, double *all, double *misses, double *pushed)
{
	struct dsm_stats before, after;
	double start = 0;
	int i;

	micro_fresh();
	*reads = 0;
	for (i = 0; i < BACK_LEARN + BACK_PERIOD; i++) {
		if (i == BACK_LEARN) {
			bench_check(dsm_stats_get(-1, NULL, &before), "dsm_stats_get");
			dsm_barrier();
			*reads = 0;
			start = bench_now_us();
		}
		micro_write_all(1, (char)(i + 1));
		*reads += stream_back((char)(i + 1)) / BACK_PERIOD;
		dsm_barrier();
	}
	*all = (bench_now_us() - start) / BACK_PERIOD / micro.blocks;
	bench_check(dsm_stats_get(-1, NULL, &after), "dsm_stats_get");
	dsm_barrier();
	*misses = (double)(after.read_faults - before.read_faults) / BACK_PERIOD / micro.blocks;
	*pushed = (double)(after.pushed - before.pushed) / BACK_PERIOD / micro.blocks;
}

void micro_back(void)
{
	const char *const row = "home streams back, iteration after iteration";
	double reads[REPEATS_MAX], all[REPEATS_MAX], misses, pushed;
	char name[96];
	int r;

	back_once();
	for (r = 0; r < micro.repeats; r++)
		back_period(&reads[r], &all[r], &misses, &pushed);
	micro_report(row, micro.rank == 0 ? reads : NULL, micro.repeats, "us/block");
	snprintf(name, sizeof(name), "%s, whole iteration", row);
	micro_report(name, micro.rank == 0 ? all : NULL, micro.repeats, "us/block");
	report(row, ", read misses", misses, "misses/block");
	report(row, ", blocks pushed", pushed, "blocks/block");
}

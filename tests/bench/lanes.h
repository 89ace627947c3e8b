/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lanes.h - what the files of the benchmark lanes share: its experiments, and a measurement of one
 * side of one.
 *
 * A measurement opens net/verbs at both ends with the settings of a side, runs a load, and brings
 * the counters of both ends. They have to show that the side ran what it is named after:
 * lanes_judge(). Two sides that ran the same code cannot both pass.
 */
#ifndef BENCH_LANES_H
#define BENCH_LANES_H

#include "net/net.h"

#define LANES_SENDERS 8
#define LANES_VECTORS 16

enum lanes_load {
	LANES_STREAM, /* threads send, with so many messages under way each */
	LANES_ECHO    /* one asks, and waits for the answer */
};

/* Of the two sides, the one with the technique is the first. */
enum lanes_side { LANES_ON = 0, LANES_OFF, LANES_SIDES };

struct lanes_end;

/* One row. */
struct lanes_case {
	const char *name;                /* of the experiment */
	const char *what;                /* the technique */
	const char *verbs[LANES_SIDES];  /* DSM_VERBS */
	const char *groups[LANES_SIDES]; /* DSM_CQ_GROUPS */
	enum lanes_load load;
	unsigned int links, senders, window, size;
	bool classes; /* messages of all classes in turn; else of one */
	/* the transport's own threads deliver, at both ends; else the main threads do */
	bool threads;
	/* the receiver polls every LANES_LATE_US only, so that completions come in batches */
	bool late;
	/* of the figure, on over off where rates are compared, off over on for times; 0: none */
	double aim;
	/*
	 * the figure is processor time per message; else messages per second, or the time of an
	 * echo
	 */
	bool by_cpu;
};

#define LANES_LATE_US 2000

/* What an end has seen of a measurement. */
struct lanes_count {
	struct net_counters net;
	double cpu_us;
	uint64_t calls; /* system calls; 0 where they cannot be counted */
	uint32_t nvectors, pad;
	struct {
		char device[24];
		int32_t vector, pad;
		uint64_t completions;
	} vectors[LANES_VECTORS];
};

struct lanes_result {
	uint64_t messages; /* or echoes */
	uint64_t sent;     /* of them in all, with those before the measurement, which connect */
	double us, median_us, p99_us;
	struct lanes_count sender, receiver;
};

extern const struct lanes_case lanes_cases[];
extern const unsigned int lanes_ncases;

/* Why these counters are not those of that side; NULL: they are. */
const char *lanes_judge(const struct lanes_case *c, enum lanes_side side,
			const struct lanes_result *r);

/* devices: names of one or two, by commas. Both end the program where something fails. */
void lanes_serve(int fd, const char *devices); /* until fd ends */
void lanes_measure(int fd, const char *devices, const struct lanes_case *c, enum lanes_side side,
		   unsigned int ms, struct lanes_result *out);

#endif

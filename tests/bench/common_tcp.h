/* SPDX-License-Identifier: BSD-2-Clause */
/* common_tcp.h - how the two ends of a benchmark without libdsm find each other. */
#ifndef BENCH_COMMON_TCP_H
#define BENCH_COMMON_TCP_H

/* The socket of the first that connects to the port, or -1 and errno. Blocks until somebody does. A
 * port that is no number ends the program. */
int bench_listen(const char *port);
/* To HOST:PORT, which is changed; tries for a minute. The socket, or -1 and errno. */
int bench_connect(char *where);

#endif

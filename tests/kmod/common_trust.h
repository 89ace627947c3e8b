/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_trust.h - common code of the attacks on dsm.ko: ranks that are files of one process, other
 * users, and a program that runs the attacks one by one, each in its own process, and checks that
 * nothing is left.
 */
#ifndef KMOD_COMMON_TRUST_H
#define KMOD_COMMON_TRUST_H

#include "common.h"

#define SOMEBODY 1234u /* a user without privileges */

/* What holds, or does not; and is said then, with errno. */
bool expect(bool is, const char *what);
bool refused(int result, int err, const char *what);

int rank_open(uint64_t window);
/* By the device of that name ("": any), and KEY unless key is NULL. */
int rank_join_by(int fd, const char *device, const struct dsm_ioc_key *key, unsigned int rank,
		 unsigned int size);
/* without RDMA, and KEY */
int rank_join(int fd, const struct dsm_ioc_key *key, unsigned int rank, unsigned int size);
int rank_connect(int fd, unsigned int peer);
int rank_region(int fd, uint32_t pages, unsigned int home); /* all of the window, at a fixed home */
/* Ranks 0 and 1 of two, each a file of this process, each with its own idea of the home. */
bool two_ranks(int fd[2], uint64_t window, unsigned int home0, unsigned int home1);
bool two_ranks_by(int fd[2], const char *device, uint64_t window, unsigned int home0,
		  unsigned int home1);
int join_one_of_two(int fd, uint32_t mode); /* by RDMA, as rank 0, what has a window. -errno */
/* the same with a window of its own: the file, or -1 and errno */
int join_by_rdma(uint32_t mode);

/* In a process of a user without privileges: whether it holds. */
pid_t start_somebody(bool (*fn)(void *), void *arg);
bool as_somebody(bool (*fn)(void *), void *arg);

bool set_parameter(const char *parameter, const char *value);

struct attack {
	const char *name;
	bool (*run)(void);
};
int attacks_main(int argc, char **argv, const struct attack *attacks, unsigned int count);

#endif

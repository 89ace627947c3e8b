// SPDX-License-Identifier: BSD-2-Clause
/*
 * backend.c - chooses the way to catch faults, and opens it; the ranks of a node do that together.
 */
#include "start/backend.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "fault/fault.h"
#include "job/job.h"
#include "job/rendezvous.h"
#include "util/log.h"

static const char *no_userfaultfd; /* why mprotect(2) catches faults though it was not chosen */

int backend_choose(void)
{
	const char *want = job.set.fault, *why = "";
	int err = -ENODEV;

	job.fault = &fault_mprotect;
	if (!strcmp(want, "mprotect"))
		return 0;
	err = fault_uffd.probe(&why);
	if (!err) {
		job.fault = &fault_uffd;
	} else if (err != -ENODEV) {
		log_line("userfaultfd: %s (%s)", why,
			 err == -EMFILE ? "raise `ulimit -n`" : dsm_strerror(err));
		return err;
	} else if (!strcmp(want, "uffd")) {
		log_line("DSM_FAULT=uffd: %s (DSM_FAULT=mprotect needs no userfaultfd)", why);
		return err;
	} else {
		no_userfaultfd = why;
	}
	return 0;
}

void backend_without_uffd(void)
{
	if (job.fault != &fault_uffd)
		return;
	job.fault = &fault_mprotect;
	no_userfaultfd = "userfaultfd is refused to another rank of this node";
}

size_t backend_shared(void)
{
	return job.fault->shared ? job.fault->shared(job.set.space, job.locals) : 0;
}

/* Has the process of a rank of this node ended? */
static bool gone(unsigned int local)
{
	uint16_t r;

	for (r = 0; r < job.size; r++) {
		struct pollfd p = { .fd = rank_info(r)->pidfd, .events = POLLIN };

		if (r != job.rank && is_here(r) && rank_info(r)->local == local)
			return poll(&p, 1, 0) > 0;
	}
	return false;
}

static enum fault_huge huge_pages(void)
{
	if (!strcmp(job.set.huge, "off"))
		return FAULT_HUGE_OFF;
	return strcmp(job.set.huge, "on") ? FAULT_HUGE_AUTO : FAULT_HUGE_ON;
}

static bool opened;

int backend_open(void)
{
	const struct fault_node node = {
		.memfd = job.size == 1 ? -1 : job.mem.memfd,
		.base = job.base,
		.size = job.set.space,
		.ranks = job.locals,
		.self = job.local,
		.shared = backend_shared() ? (char *)job.me + job.layout.fault : NULL,
		.gone = gone,
		.huge = huge_pages(),
	};
	const char *why = "";
	int err, fd;

	if (!one_node() && no_userfaultfd && job.launch.local_rank == 0)
		log_line(
			"%s; using mprotect(2), which is slower (DSM_FAULT=mprotect silences this)",
			no_userfaultfd);
	err = job.fault->open(&node, &fd, &why);
	opened = !err;
	if (err)
		log_line("%s", why);
	else if (job.fault->join && job.locals > 1)
		err = rendezvous_swap(fd, job.fault->join);
	return err;
}

bool backend_close(void)
{
	if (!opened)
		return false;
	opened = false;
	job.fault->close();
	return true;
}

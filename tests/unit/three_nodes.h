/* SPDX-License-Identifier: BSD-2-Clause */
/* three_nodes.h - for suites of libdsm/miss: this process is rank 0 of three nodes of one rank. */
#ifndef UNIT_THREE_NODES_H
#define UNIT_THREE_NODES_H

#include "core.h"

#include <stdlib.h>

#include "fault/fault.h"
#include "job/job.h"
#include "job/memory.h"
#include "miss/work.h"
#include "net/net.h"
#include "start/nodes.h"
#include "start/start.h"

/* Other settings come before. */
static inline void three_nodes_begin(const struct ctl_shape *shape, const struct fault_ops *fault,
				     const struct net_ops *net)
{
	job.rank = 0;
	job.size = 3;
	job.up = &engine_upcalls;
	job.set.space = shape->space;
	job.fault = fault;
	job.netops = net;
	job.net = (struct net *)&job;
	job.ranks = calloc(3, sizeof(*job.ranks));
	job.units = calloc(shape->space / UNIT_BYTES, sizeof(*job.units));
	unit_require(job.ranks && job.units && !work_start());
	unit_require(!nodes_make((const uint64_t[]){ 1, 2, 3 }, 0));
	ctl_layout(&job.layout, shape);
	unit_require(!memory_start());
}

#endif

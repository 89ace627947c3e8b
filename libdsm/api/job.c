// SPDX-License-Identifier: BSD-2-Clause
/*
 * job.c - the program's questions about its job: rank, size, nodes, version; and how it aborts the
 * job.
 */
#include "job/job.h"

#include <dsm.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "job/lost.h"

DSM_API int dsm_rank(void)
{
	int err = job_ready();

	return err ? err : job.rank;
}

DSM_API int dsm_size(void)
{
	int err = job_ready();

	return err ? err : job.size;
}

DSM_API int dsm_node(void)
{
	int err = job_ready();

	return err ? err : job.node;
}

DSM_API int dsm_nodes(void)
{
	int err = job_ready();

	return err ? err : job.nodes;
}

DSM_API int dsm_node_of(int rank)
{
	int err = job_ready();

	if (err)
		return err;
	return rank < 0 || rank >= job.size ? -EINVAL : node_of((uint16_t)rank);
}

DSM_API void dsm_abort(int status, const char *fmt, ...)
{
	char why[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt ? fmt : "dsm_abort", ap);
	va_end(ap);
	lost_abort(status > 0 && status < 256 ? status : 1, why);
}

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

DSM_API const char *dsm_version(void)
{
	return TEXT(DSM_VERSION_MAJOR) "." TEXT(DSM_VERSION_MINOR) "." TEXT(DSM_VERSION_PATCH);
}

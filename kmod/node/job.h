/* SPDX-License-Identifier: GPL-2.0 */
/* job.h - set the key of a job, and connect a rank to its peers: calls of the device, as in rank.h. */
#ifndef KMOD_JOB_H
#define KMOD_JOB_H

#include "rank.h"

long job_key(struct view *v, void *in, void __user *arg);
long job_connect(struct view *v, void *in, void __user *arg);

#endif

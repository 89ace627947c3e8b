/* SPDX-License-Identifier: GPL-2.0 */
/* job.h - the key of a job, and whom a rank is connected with: calls of the device. */
#ifndef KMOD_JOB_H
#define KMOD_JOB_H

#include "rank.h"

long job_key(struct view *v, void *in, void __user *arg);
long job_connect(struct view *v, void *in, void __user *arg);

#endif

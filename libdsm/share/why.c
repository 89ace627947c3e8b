// SPDX-License-Identifier: BSD-2-Clause
/* why.c - messages of errors. Any thread. */
#include "share/why.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rshare.h"

const char *rs_advice(int err)
{
	switch (-err) {
	case EMFILE: return "; raise `ulimit -n`";
	case ENFILE: return "; raise `sysctl fs.file-max`";
	case ENOSPC: return "; raise `sysctl fs.epoll.max_user_watches`";
	case ENOMEM:
		return "; `free -h` shows the memory of the host, `ulimit -v` the limit of the process";
	}
	return "";
}

int rs_why(char *why, int err, const char *format, ...)
{
	char what[RSHARE_WHY_MAX / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(why, RSHARE_WHY_MAX, "%s: %s%s", what, strerror(-err), rs_advice(err));
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_module.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int module_unload(void)
{
	return syscall(SYS_delete_module, "dsm", O_NONBLOCK) ? -errno : 0;
}

bool module_load(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	bool ok = fd >= 0 && !syscall(SYS_finit_module, fd, "", 0);

	if (!ok)
		perror(file);
	if (fd >= 0)
		close(fd);
	return ok;
}

bool file_set(const char *path, const char *value)
{
	FILE *f = fopen(path, "w");
	bool ok = f && fputs(value, f) >= 0;

	return f && !fclose(f) && ok;
}

void device_objects(char *out, size_t size)
{
	FILE *f = popen("rdma resource show link rxe0 2>/dev/null || rdma resource show", "r");
	char line[300], *from;

	*out = 0;
	while (f && fgets(line, sizeof(line), f)) {
		from = strstr(line, "rxe0:");
		snprintf(out, size, "%s", from ? from : "");
		if (from)
			break;
	}
	if (f)
		pclose(f);
}

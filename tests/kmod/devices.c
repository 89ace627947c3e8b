// SPDX-License-Identifier: BSD-2-Clause
/*
 * devices.c - JOIN refuses a device that it cannot use, and the kernel log says why: a device of
 * iWARP, if the argument names one, and rxe as it would be if it lacked what test_lacks says, or if
 * a device of so many bits of address (test_dma_bits) wrote its blocks. JOIN takes one with enough
 * bits, and rxe as it is.
 *
 * Runs in a guest with the module loaded and rxe.
 */
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <unistd.h>

#define LACKS "/sys/module/dsm/parameters/test_lacks"
#define DMA_BITS "/sys/module/dsm/parameters/test_dma_bits"
#define LOG (1 << 20)

/* 0, or the errno of JOIN. */
static int join_device(const char *device)
{
	static char address[DSM_ADDRESS_MAX];
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	struct dsm_ioc_join in = { .size = 2,
				   .gid = -1,
				   .address_size = DSM_ADDRESS_MAX,
				   .address = (uintptr_t)address,
				   .vectors = { -1, -1, -1, -1 },
				   .cpus = { DSM_CPU_ANY, DSM_CPU_ANY, DSM_CPU_ANY, DSM_CPU_ANY } };
	int fd = open("/dev/dsm", O_RDWR), err = 0;

	snprintf(in.device, sizeof(in.device), "%s", device);
	if (fd < 0 || ioctl(fd, DSM_IOC_WINDOW, &w) || ioctl(fd, DSM_IOC_JOIN, &in))
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Is this the last line of the module in the kernel log? */
static bool last_line_has(const char *word)
{
	static char log[LOG];
	const int n = klogctl(3, log, sizeof(log) - 1); /* SYSLOG_ACTION_READ_ALL */
	char *line, *last = NULL;

	log[n > 0 ? n : 0] = 0;
	for (line = strstr(log, "dsm: "); line; line = strstr(line + 1, "dsm: "))
		last = line;
	return last && strstr(last, word);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *lacks, *word;
		int err;
		const char *dma_bits;
	} cases[] = {
		{ "0", "iWARP", EOPNOTSUPP, "0" }, /* of the device in the arguments, if any */
		{ "5", "iWARP", EOPNOTSUPP, "0" },
		{ "1", "IB_DEVICE_MEM_MGT_EXTENSIONS", EOPNOTSUPP, "0" },
		{ "2", "keys of 512 pages", EOPNOTSUPP, "0" },
		{ "3", "swiotlb", EOPNOTSUPP, "0" },
		{ "4", "partition", EACCES, "0" },
		{ "0", "swiotlb", EOPNOTSUPP, "30" }, /* the guest has more than 1 GiB of memory */
		{ "0", NULL, 0, "32" },
		{ "0", NULL, 0, "64" },
		{ "0", NULL, 0, "0" },
	};
	unsigned int i, refused = 0;
	bool ok = true;

	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		printf("usage: devices [IWARP]\n"
		       "Devices that JOIN refuses, IWARP among them; in a guest with dsm.ko loaded and rxe.\n");
		return argc == 2 && !strcmp(argv[1], "--help") ? 0 : 2;
	}
	module_needed();
	for (i = argc == 2 ? 0 : 1; i < sizeof(cases) / sizeof(cases[0]) && ok; i++) {
		const char *device = i ? "rxe0" : argv[1];
		int err;

		ok = file_set(LACKS, cases[i].lacks) && file_set(DMA_BITS, cases[i].dma_bits);
		refused += cases[i].err != 0;
		err = join_device(device);
		if (err != cases[i].err) {
			printf("FAILED: JOIN by %s: %s, not %s\n", device, strerror(err),
			       strerror(cases[i].err));
			ok = false;
		} else if (err && !last_line_has(cases[i].word)) {
			printf("FAILED: the log does not say \"%s\"\n", cases[i].word);
			ok = false;
		}
	}
	file_set(LACKS, "0");
	file_set(DMA_BITS, "0");
	ok &= nothing_left(20);
	if (ok)
		printf("JOIN has refused %u devices, each with its reason%s\n", refused,
		       argc == 2 ? ", iWARP among them" : "");
	return ok ? 0 : 1;
}

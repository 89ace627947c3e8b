// SPDX-License-Identifier: BSD-2-Clause
/*
 * iommu.c - the driver of an IOMMU that uses the page tables of a process (SVA) hears of each page
 * that a call closes, before the call returns. Since Linux 6.6 such a driver hears of flushes only.
 * The kernel flushes what it finds empty only if it knows of a change that is not flushed
 * (tlb_flush_pending).
 *
 * Runs in a guest with the module loaded, and iommu.ko of tests/kmod/ulp, which plays the driver.
 */
#include "tests/kmod/common.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#define DRIVER "/sys/module/iommu/parameters/"
#define MANY 100u

static bool driver_set(const char *file, unsigned long value)
{
	FILE *f = fopen(file, "w");
	bool ok = f && fprintf(f, "%lu", value) > 0;

	return f && !fclose(f) && ok;
}

static long driver_flushes(void)
{
	FILE *f = fopen(DRIVER "flushes", "r");
	long n = -1;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static bool set(int fd, unsigned int n, unsigned int prot)
{
	struct dsm_prot_item items[MANY];
	struct dsm_ioc_protect p = { .items = (uintptr_t)items, .count = n };
	unsigned int i;

	memset(items, 0, sizeof(items));
	for (i = 0; i < n; i++) {
		items[i].page = i;
		items[i].prot = prot;
	}
	return !ioctl(fd, DSM_IOC_PROTECT, &p);
}

/*
 * Close n pages, which are open (n 0: one, by PROTECT_PAGE). How many flushes does the driver hear
 * of meanwhile? -1: it failed.
 */
static long closes(int fd, unsigned int n, unsigned int prot)
{
	const unsigned int pages = n ? n : 1;
	unsigned int i;
	long before;
	bool ok = set(fd, pages, DSM_PROT_WRITE);

	for (i = 0; ok && i < pages; i++)
		*(volatile char *)(JOB_BASE + i * PAGE) = 1;
	before = driver_flushes();
	ok = ok && before >= 0 &&
		(n ? set(fd, n, prot) : !ioctl(fd, DSM_IOC_PROTECT_PAGE, dsm_page_item(0, prot)));
	return ok ? driver_flushes() - before : -1;
}

int main(int argc, char **argv)
{
	static const unsigned int pages[] = { 0, 1, MANY },
				  lower[] = { DSM_PROT_READ, DSM_PROT_NONE };
	const bool control = argc > 1 && !strcmp(argv[1], "--control");
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	struct utsname kernel;
	unsigned int i, version, part, bad = 0;
	long heard;
	int fd;

	if (argc > 1 + control) {
		printf("usage: iommu [--control]\n"
		       "The driver of an IOMMU hears of each page that is closed; in a guest with dsm.ko and iommu.ko loaded.\n"
		       "  --control   test_lose_pending is set: it must hear of none that is closed altogether, on Linux 6.6 or later\n");
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	module_needed();
	if (control && !uname(&kernel) && sscanf(kernel.release, "%u.%u", &version, &part) == 2 &&
	    version * 100 + part < 606) {
		printf("before Linux 6.6, a driver hears of each notification\n");
		return 77;
	}
	fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, DSM_IOC_WINDOW, &w) ||
	    mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
		 0) == MAP_FAILED ||
	    !driver_set(DRIVER "page", (unsigned long)JOB_BASE) || !driver_set(DRIVER "watch", 1)) {
		perror("FAILED: a window that the driver watches");
		return 1;
	}
	for (i = 0; i < 6; i++) {
		heard = closes(fd, pages[i / 2], lower[i % 2]);
		printf("%u pages closed %s: %ld flushes\n", pages[i / 2],
		       i % 2 ? "altogether" : "to reading", heard);
		/*
		 * An entry that is only lowered is flushed in any case, as the kernel finds it set.
		 */
		bad += heard < 0 || (control ? i % 2 && heard : !heard);
	}
	bad += !driver_set(DRIVER "watch", 0);
	printf("%s%u of 6 are wrong\n", bad ? "FAILED: " : "", bad);
	return bad ? 1 : 0;
}

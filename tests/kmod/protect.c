// SPDX-License-Identifier: BSD-2-Clause
/*
 * protect.c - the protection primitive of dsm.ko: that it works, what it costs. That no translation
 * survives it: stale.c.
 *
 * Runs in a guest with the module loaded. `check` is a test: exit status 0 when all holds. `bench`
 * prints a line of JSON for each method and number of pages: nanoseconds per page, which are
 * instructions where the guest counts them as time.
 */
#include <dsm_uapi.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define WINDOW (64ul << 20)
#define BASE ((void *)0x200000000000ul)
#define PAGES (WINDOW / PAGE)

static int dev;
static char *window;
static int failed;

static void expect(bool ok, const char *what)
{
	if (!ok) {
		failed++;
		fprintf(stderr, "protect: FAIL: %s (errno %d)\n", what, errno);
	}
}

static int open_window(void)
{
	struct dsm_ioc_window w = { .size = WINDOW };

	dev = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	if (dev < 0 || ioctl(dev, DSM_IOC_WINDOW, &w))
		return -errno;
	window = mmap(BASE, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, dev,
		      0);
	return window == MAP_FAILED ? -errno : 0;
}

static int protect(const struct dsm_prot_item *items, unsigned int n, unsigned int flags,
		   struct dsm_ioc_protect *out)
{
	struct dsm_ioc_protect p = { .items = (uintptr_t)items, .count = n, .flags = flags };
	int err = ioctl(dev, DSM_IOC_PROTECT, &p) ? -errno : 0;

	if (out)
		*out = p;
	return err;
}

#define PROTECT_PAGE 0x80000000u /* instead of flags: by this call */

static int protect_page(unsigned int page, unsigned int prot)
{
	return ioctl(dev, DSM_IOC_PROTECT_PAGE, dsm_page_item(page, prot)) ? -errno : 0;
}

static int protect_one(unsigned int page, unsigned int prot, unsigned int flags)
{
	struct dsm_prot_item it = { page, prot };

	return flags == PROTECT_PAGE ? protect_page(page, prot) : protect(&it, 1, flags, NULL);
}

/* A counter of dsm.ko, or -1. */
static long long counted(const char *name)
{
	char path[80];
	long long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/dsm/%s", name);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%lld", &n) != 1)
			n = -1;
		fclose(f);
	}
	return n;
}

/* ---- what a thread may do ------------------------------------------------------------------- */

static sigjmp_buf away;

static void caught(int sig)
{
	siglongjmp(away, sig);
}

/* Returns 0 or the signal. */
static int touch(volatile char *p, bool write)
{
	int sig = sigsetjmp(away, 1);

	if (sig)
		return sig;
	if (write)
		*p = (char)(*p + 1);
	else
		(void)*p;
	return 0;
}

static void check_access(unsigned int flags)
{
	volatile char *p = window + 7 * PAGE;

	expect(!protect_one(7, DSM_PROT_NONE, flags), "close");
	expect(touch(p, false) == SIGBUS, "a closed page cannot be read");
	expect(!protect_one(7, DSM_PROT_READ, flags), "open for reading");
	expect(touch(p, false) == 0, "it can be read");
	expect(touch(p, true) == SIGBUS, "but not written");
	expect(!protect_one(7, DSM_PROT_WRITE, flags), "open for writing");
	*p = 42;
	expect(!protect_one(7, DSM_PROT_NONE, flags), "close again");
	expect(touch(p, false) == SIGBUS, "closed");
	expect(!protect_one(7, DSM_PROT_READ, flags), "open for reading");
	expect(touch(p, false) == 0 && *p == 42, "contents stay");
	expect(touch(p, true) == SIGBUS, "not for writing");
	expect(!protect_one(7, DSM_PROT_NONE, flags), "close");
}

/* Change scattered pages, with all transitions, in one call; several times. */
static void check_batch(unsigned int flags)
{
	static struct dsm_prot_item items[DSM_PROTECT_MAX];
	static unsigned char want[PAGES];
	/* set by tests/kmod/run where a signal takes a millisecond */
	const char *slow = getenv("KMOD_TEST_SLOW");
	const unsigned int rounds = flags == PROTECT_PAGE || (slow && atoi(slow) > 1) ? 4 : 20;
	unsigned int round, i, wrong = 0;

	for (round = 0; round < rounds; round++) {
		const unsigned int most =
			/* each page may wait for a worker */
			flags == PROTECT_PAGE ? 64 : DSM_PROTECT_MAX;
		unsigned int n = round ? 1 + (unsigned int)rand() % most : most;

		for (i = 0; i < n; i++) {
			items[i] = (struct dsm_prot_item){ (unsigned int)rand() % PAGES,
							   (unsigned int)rand() % 3 };
			want[items[i].page] = (unsigned char)items[i].prot;
		}
		for (i = 0; flags == PROTECT_PAGE && i < n; i++)
			expect(!protect_page(items[i].page, items[i].prot), "a page");
		expect(flags == PROTECT_PAGE || !protect(items, n, flags, NULL), "a batch");
		for (i = 0; i < PAGES; i += 1 + (unsigned int)rand() % 5) {
			char *p = window + i * PAGE;

			wrong += (touch(p, false) == 0) != (want[i] >= DSM_PROT_READ);
			wrong += (touch(p, true) == 0) != (want[i] == DSM_PROT_WRITE);
		}
	}
	expect(!wrong, "every page is as the last batch wanted it");
	for (i = 0; i < PAGES; i++) {
		items[i % DSM_PROTECT_MAX] = (struct dsm_prot_item){ i, DSM_PROT_NONE };
		want[i] = 0;
		if (i % DSM_PROTECT_MAX == DSM_PROTECT_MAX - 1)
			protect(items, DSM_PROTECT_MAX, 0, NULL);
	}
}

static void check_arguments(void)
{
	struct dsm_prot_item it = { PAGES, DSM_PROT_READ };
	struct dsm_ioc_protect p = { .items = (uintptr_t)&it, .count = 1 };
	struct dsm_ioc_window w = { .size = WINDOW };

	expect(protect(&it, 1, 0, NULL) == -EINVAL, "a page behind the window");
	it = (struct dsm_prot_item){ 0, 3 };
	expect(protect(&it, 1, 0, NULL) == -EINVAL, "an unknown protection");
	expect(protect(&it, DSM_PROTECT_MAX + 1, 0, NULL) == -EINVAL, "too many items");
	expect(protect(&it, 1, 0x80, NULL) == -EINVAL, "an unknown flag");
	expect(protect(NULL, 1, 0, NULL) == -EFAULT, "no items");
	expect(!protect(NULL, 0, 0, NULL), "nothing to do is no error");
	p.items = (uintptr_t)window; /* closed pages: the kernel cannot read them */
	expect(ioctl(dev, DSM_IOC_PROTECT, &p) && errno == EFAULT, "items in closed memory");
	expect(ioctl(dev, DSM_IOC_PROTECT, NULL) && errno == EFAULT, "no argument");
	expect(ioctl(dev, DSM_IOC_WINDOW, &w) && errno == EBUSY, "a second window");
	expect(ioctl(dev, _IO(DSM_IOC_MAGIC, 99)) && errno == ENOTTY, "an unknown call");
	expect(mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, dev, 0) == MAP_FAILED &&
		       errno == EBUSY,
	       "a second mapping");
	expect(munmap(window + PAGE, PAGE) && errno == EINVAL, "a hole in the mapping");
	expect(mprotect(window, PAGE, PROT_READ), "mprotect(2)");
}

/* ioctl(2) of a 32-bit program: its arguments have 32 bits. -ENOSYS, or a signal: the kernel runs
 * no such programs. */
static int ioctl_32(unsigned long cmd, unsigned int arg)
{
	long result = 54;
	int sig = sigsetjmp(away, 1);

	if (sig)
		return -ENOSYS;
	__asm__ volatile("int $0x80"
			 : "+a"(result)
			 : "b"((long)dev), "c"(cmd), "d"((unsigned long)arg)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}

static void check_page_arguments(void)
{
	int err;

	expect(protect_page(PAGES, DSM_PROT_READ) == -EINVAL, "a page behind the window, by value");
	expect(protect_page(~0u, DSM_PROT_NONE) == -EINVAL, "the last number of a page");
	expect(protect_page(0, 3) == -EINVAL && protect_page(0, ~0u) == -EINVAL,
	       "an unknown protection, by value");
	expect(!protect_page(PAGES - 1, DSM_PROT_NONE),
	       "to close a page without a frame is no error");
	expect(touch(window + (PAGES - 1) * PAGE, false) == SIGBUS, "it is closed");
	err = ioctl_32(DSM_IOC_PROTECT_PAGE, 0);
	expect(err == -ENOTTY || err == -ENOSYS, "PROTECT_PAGE of a 32-bit process");
	err = ioctl_32(DSM_IOC_PROTECT, 0);
	expect(err == -EFAULT || err == -ENOSYS,
	       "PROTECT of a 32-bit process reaches its argument");
}

static bool no_lock_is_free(void)
{
	FILE *f = fopen("/sys/module/dsm/parameters/test_fail_trylock", "r");
	int value = f ? fgetc(f) : 'N';

	if (f)
		fclose(f);
	return value == 'Y';
}

#define ALONE 100u

/* A process with one thread changes pages without others' help, unless this processor is not the
 * only one that knows it: so it stays on one. The others forget it at their next flush. */
static void check_alone(void)
{
	long long before = counted("pages_changed_alone"), lowered;
	cpu_set_t all, one;
	unsigned int i;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	expect(!sched_getaffinity(0, sizeof(all), &all) && !sched_setaffinity(0, sizeof(one), &one),
	       "one processor");
	if (before < 0)
		return expect(false, "the counter of pages changed alone");
	for (i = 0; i < ALONE; i++)
		if (protect_page(7, DSM_PROT_WRITE) || touch(window + 7 * PAGE, true) ||
		    protect_page(7, DSM_PROT_READ) || touch(window + 7 * PAGE, true) != SIGBUS)
			break;
	expect(i == ALONE, "a page opens and closes");
	expect(!protect_page(7, DSM_PROT_NONE) && touch(window + 7 * PAGE, false) == SIGBUS,
	       "it closes altogether");
	/* raising takes no lock where none is free */
	lowered = counted("pages_changed_alone") - before - ALONE;
	if (no_lock_is_free())
		expect(lowered == 0, "a worker has lowered all");
	else
		expect(lowered > ALONE / 2, "most were lowered without others");
	expect(!sched_setaffinity(0, sizeof(all), &all), "all processors");
}

#define TRACING "/sys/kernel/tracing/"

static bool trace_write(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	const size_t len = strlen(text);
	const bool written = fd >= 0 && write(fd, text, len) == (ssize_t)len;

	if (fd >= 0)
		close(fd);
	return written;
}

/* Both calls, with and without a batch, show in the trace. */
static void check_traced(void)
{
	char line[512];
	unsigned int seen = 0;
	FILE *f;

	expect(trace_write(TRACING "events/dsm/dsm_protect/enable", "1"), "a tracepoint");
	expect(!protect_page(7, DSM_PROT_WRITE) && !touch(window + 7 * PAGE, true), "it opens");
	expect(!protect_page(7, DSM_PROT_READ) && !protect_one(7, DSM_PROT_NONE, 0), "it closes");
	trace_write(TRACING "events/dsm/dsm_protect/enable", "0");
	f = fopen(TRACING "trace", "r");
	while (f && fgets(line, sizeof(line), f))
		seen += strstr(line, "dsm_protect: page=0x7 items=1") != NULL;
	if (f)
		fclose(f);
	expect(seen == 3, "three lines in the trace");
	trace_write(TRACING "trace", "\n");
}

static void check_calls(void)
{
	int fds[2];
	char c = 'x';

	if (pipe(fds))
		return expect(false, "pipe");
	expect(!protect_one(9, DSM_PROT_NONE, 0), "close");
	expect(write(fds[1], window + 9 * PAGE, 1) < 0 && errno == EFAULT,
	       "write(2) from a closed page");
	expect(!protect_one(9, DSM_PROT_READ, 0), "open");
	expect(write(fds[1], window + 9 * PAGE, 1) == 1, "write(2) from an open page");
	expect(read(fds[0], window + 9 * PAGE, 1) < 0 && errno == EFAULT,
	       "read(2) into a page for reading");
	expect(read(fds[0], &c, 1) == 1, "what could not be read is still there");
	c = 'x';
	expect(write(fds[1], &c, 1) == 1, "write");
	expect(!protect_one(9, DSM_PROT_WRITE, 0), "open for writing");
	expect(read(fds[0], window + 9 * PAGE, 1) == 1 && window[9 * PAGE] == 'x',
	       "read(2) into a page for writing");
	close(fds[0]);
	close(fds[1]);
}

static void check_child(void)
{
	int status;
	pid_t pid;

	expect(!protect_one(3, DSM_PROT_WRITE, 0), "open");
	window[3 * PAGE] = 5;
	pid = fork();
	if (!pid) {
		bool ok = protect_one(3, DSM_PROT_NONE, 0) == -ENXIO &&
			protect_page(3, DSM_PROT_NONE) == -ENXIO &&
			touch(window + 3 * PAGE, false) == SIGSEGV;

		_exit(ok ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	expect(status == 0, "a child has neither the memory nor a say");
	expect(window[3 * PAGE] == 5, "and its parent keeps both");
}

/* Frames count as locked memory of the user: an unprivileged process gets no more than its
 * limit. */
static void check_limit(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct rlimit limit = { 2 << 20, 2 << 20 }; /* frames are allocated by 2 MiB */

		setrlimit(RLIMIT_MEMLOCK, &limit);
		chmod("/dev/dsm", 0666);
		if (munmap(window, WINDOW) && errno != EINVAL)
			_exit(2);
		if (setresuid(12345, 12345, 12345) || open_window())
			_exit(3);
		if (protect_one(0, DSM_PROT_READ, 0) || protect_one(511, DSM_PROT_READ, 0))
			_exit(4);
		if (protect_page(512, DSM_PROT_READ) != -ENOMEM)
			_exit(5);
		_exit(protect_one(512, DSM_PROT_READ, 0) == -ENOMEM ? 0 : 6);
	}
	waitpid(pid, &status, 0);
	expect(status == 0, "frames count as locked memory");
}

static void check_unmapped(void)
{
	/* The kernel refuses the move only after it has tried it. */
	expect(mremap(window, WINDOW, WINDOW, MREMAP_MAYMOVE | MREMAP_FIXED, BASE + (1ul << 40)) ==
		       MAP_FAILED,
	       "mremap(2)");
	expect(!protect_one(1, DSM_PROT_WRITE, 0) && !touch(window + PAGE, true),
	       "a page can be opened after it");
	expect(!protect_one(1, DSM_PROT_NONE, 0) && touch(window + PAGE, false) == SIGBUS,
	       "and closed");
	expect(!munmap(window, WINDOW), "munmap");
	expect(protect_one(1, DSM_PROT_READ, 0) == -ENXIO, "nothing to protect after it");
	expect(protect_page(1, DSM_PROT_READ) == -ENXIO, "nor by value");
}

static int check(void)
{
	check_access(0);
	check_access(DSM_PROTECT_SOFTIRQ);
	check_access(PROTECT_PAGE);
	check_alone();
	check_traced();
	check_batch(0);
	check_batch(DSM_PROTECT_SOFTIRQ);
	check_batch(PROTECT_PAGE);
	check_arguments();
	check_page_arguments();
	check_calls();
	check_child();
	check_limit();
	check_unmapped();
	return failed ? 1 : 0;
}

/* ---- cost ----------------------------------------------------------------------------------- */

#define SPREAD 7 /* distance of scattered pages */

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static struct dsm_prot_item lists[2][512];
static char *plain; /* memory for mprotect(2) and userfaultfd */
static int uffd = -1;

enum method { KMOD, KMOD_SOFTIRQ, KMOD_PAGE, MPROTECT, UFFD, METHODS };
static const char *const method_names[METHODS] = { "dsm.ko", "dsm.ko in softirq",
						   "dsm.ko, a page a call", "mprotect",
						   "userfaultfd write-protect" };

/* Which pages change, and how. One call of mprotect(2) or of userfaultfd changes contiguous pages
 * to one protection; scattered pages, or mixed protections, take a call for each page. */
enum change { SCATTERED, MIXED, CONTIGUOUS, CHANGES };
static const char *const change_names[CHANGES] = { "rw to ro", "mixed", "rw to ro, contiguous" };

static void set_mprotect(unsigned int page, unsigned int n, unsigned int prot)
{
	static const int prots[3] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };

	if (mprotect(plain + page * PAGE, n * PAGE, prots[prot]))
		exit(3);
}

static void set_uffd(unsigned int page, unsigned int n, unsigned int prot)
{
	struct uffdio_writeprotect w = {
		.range = { (uintptr_t)plain + page * PAGE, n * PAGE },
		.mode = prot == DSM_PROT_WRITE ? 0 : UFFDIO_WRITEPROTECT_MODE_WP,
	};

	if (ioctl(uffd, UFFDIO_WRITEPROTECT, &w))
		exit(3);
}

static void change_pages(enum method m, enum change c, unsigned int n, int which)
{
	const struct dsm_prot_item *list = lists[which];
	void (*set)(unsigned int, unsigned int, unsigned int) =
		m == MPROTECT ? set_mprotect : set_uffd;
	unsigned int i, run = c == CONTIGUOUS ? n : 1;

	if (m == KMOD || m == KMOD_SOFTIRQ)
		protect(list, n, m == KMOD_SOFTIRQ ? DSM_PROTECT_SOFTIRQ : 0, NULL);
	else if (m == KMOD_PAGE)
		for (i = 0; i < n; i++)
			protect_page(list[i].page, list[i].prot);
	else
		for (i = 0; i < n; i += run)
			set(list[i].page, run, list[i].prot);
}

/* Touch all pages first, so that they are mapped. Make two lists, so that alternating between them
 * changes every page. */
static void prepare(enum method m, enum change c)
{
	unsigned int i;

	for (i = 0; i < 512; i++) {
		unsigned int page = c == CONTIGUOUS ? i : i * SPREAD;

		lists[0][i] = (struct dsm_prot_item){ page, c == MIXED ? i % 3 : DSM_PROT_WRITE };
		lists[1][i] =
			(struct dsm_prot_item){ page, c == MIXED ? (i + 1) % 3 : DSM_PROT_READ };
	}
	if (m != MPROTECT && m != UFFD) {
		protect(lists[0], 512, 0, NULL);
		for (i = 0; i < 512; i++)
			touch(window + lists[0][i].page * PAGE, lists[0][i].prot == DSM_PROT_WRITE);
		return;
	}
	if (plain)
		munmap(plain, 512 * SPREAD * PAGE);
	plain = mmap(NULL, 512 * SPREAD * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	memset(plain, 1, 512 * SPREAD * PAGE);
	if (m == UFFD) {
		struct uffdio_api api = { .api = UFFD_API,
					  .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | (1 << 12) };
		struct uffdio_register reg = { .range = { (uintptr_t)plain, 512 * SPREAD * PAGE },
					       .mode = UFFDIO_REGISTER_MODE_WP };

		if (uffd >= 0)
			close(uffd);
		uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
		if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg))
			exit(3);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void measure(enum method m, enum change c, unsigned int n)
{
	double v[15];
	unsigned int r;

	change_pages(m, c, 512, 0);
	for (r = 0; r < 15; r++) {
		double start;

		change_pages(m, c, n, 1);
		change_pages(m, c, n, 0);
		start = now_ns();
		change_pages(m, c, n, 1);
		v[r] = (now_ns() - start) / n;
		change_pages(m, c, n, 0);
	}
	qsort(v, 15, sizeof(v[0]), by_value);
	printf("{\"method\": \"%s\", \"change\": \"%s\", \"pages\": %u, \"ns_per_page\": %.1f}\n",
	       method_names[m], change_names[c], n, v[7]);
}

/* What an ioctl(2) costs that changes nothing: the floor of all that go through one. */
static bool measure_refused(const char *method, int fd, unsigned long cmd, unsigned long arg)
{
	bool refused = true;
	double v[15];
	unsigned int r;

	for (r = 0; r < 15; r++) {
		double start;

		refused &= ioctl(fd, cmd, arg) < 0;
		start = now_ns();
		refused &= ioctl(fd, cmd, arg) < 0;
		v[r] = now_ns() - start;
	}
	qsort(v, 15, sizeof(v[0]), by_value);
	printf("{\"method\": \"%s\", \"change\": \"refused\", \"pages\": 1, \"ns_per_page\": %.1f}\n",
	       method, v[7]);
	return refused;
}

/* The last method has left a userfaultfd. */
static bool measure_floor(void)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool refused;

	refused = measure_refused("ioctl of /dev/null", null, _IO(0xd5, 99), 0);
	refused &= measure_refused("ioctl of a userfaultfd", uffd, _IO(0xd5, 99), 0);
	refused &= measure_refused(method_names[KMOD_PAGE], dev, DSM_IOC_PROTECT_PAGE,
				   dsm_page_item(PAGES, 0));
	close(null);
	if (!refused)
		fprintf(stderr, "protect: a call was to be refused, and was not\n");
	return refused;
}

static int bench(void)
{
	static const unsigned int counts[] = { 1, 16, 128, 512 };
	unsigned int i;
	long long missing = 0;
	int m, c;

	for (m = 0; m < METHODS; m++)
		for (c = 0; c < CHANGES; c++)
			for (i = 0; i < 4; i++)
				if (m != UFFD || c != MIXED) {
					prepare((enum method)m, (enum change)c);
					missing -= counted("missing_tables");
					measure((enum method)m, (enum change)c, counts[i]);
					missing += counted("missing_tables");
				}
	if (missing)
		fprintf(stderr, "protect: pages were changed that had no table entries\n");
	return measure_floor() && !missing ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = caught };
	const char *what = argc > 1 ? argv[1] : "--help";
	int err;

	if (!strcmp(what, "--help")) {
		printf("usage: protect check | bench\n"
		       "The protection primitive of dsm.ko: tests, costs.\n");
		return 0;
	}
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	err = open_window();
	if (err) {
		fprintf(stderr, "protect: /dev/dsm: %s\n", strerror(-err));
		return 1;
	}
	if (!strcmp(what, "check"))
		return check();
	if (!strcmp(what, "bench"))
		return bench();
	fprintf(stderr, "protect: what is %s?\n", what);
	return 2;
}

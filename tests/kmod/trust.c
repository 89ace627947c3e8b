// SPDX-License-Identifier: BSD-2-Clause
/*
 * trust.c - guarantees of dsm.ko (docs/kernel.md, "Security") against processes of other users,
 * other processes of the same user, other namespaces, and arguments that name objects that do not
 * exist. Each test is an attack that must fail.
 *
 * Runs in a guest with the module loaded, as root; /dev/dsm is opened to everybody meanwhile.
 * Without arguments all tests run.
 */
#include "core/sync.h"
#include "tests/kmod/common_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIB (1ull << 40)

/* ---- arguments ------------------------------------------------------------------------------ */

/*
 * A mask that named a rank outside the job made the barrier's tree read beyond the table of ranks.
 */
static bool barrier(void)
{
	static const uint64_t wrong[] = { 2, 1 | 4, 1 | 1ull << 63, 1ull << 2, ~0ull, ~0ull - 3 };
	unsigned int i;
	bool ok = true;
	int fd[2];

	if (!two_ranks(fd, JOB_WINDOW, 0, 0))
		return false;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct dsm_ioc_call c = {
			.call = DSM_CALL_BARRIER, .value2 = wrong[i], .threads = 1, .object = i
		};

		ok &= refused(ioctl(fd[0], DSM_IOC_CALL, &c), EINVAL,
			      "a barrier of ranks that are not of the job, or not of this rank");
	}
	return ok;
}

static int arrive_in(int fd, uint32_t object, uint32_t gen, uint32_t threads)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_BARRIER,
				  .object = object,
				  .gen = gen,
				  .threads = threads,
				  .value2 = 1 };

	return ioctl(fd, DSM_IOC_CALL, &c) ? -errno : c.status;
}

static void *waits_in_7(void *fd)
{
	return (void *)(intptr_t)arrive_in(*(int *)fd, 5, 7, 2);
}

/* With the handle of a destroyed barrier, threads were counted at the next one. */
static bool generation(void)
{
	const double end = now_s() + patience(20);
	pthread_t thread;
	void *result;
	int fd[2];
	bool ok;

	if (!two_ranks(fd, JOB_WINDOW, 0, 0))
		return false;
	pthread_create(&thread, NULL, waits_in_7, &fd[0]);
	while (arrive_in(fd[0], 5, 7, 0) != -EBUSY && now_s() < end)
		usleep(1000);
	ok = expect(now_s() < end, "a thread waits in generation 7") &&
		expect(!arrive_in(fd[0], 5, 8, 0), "nobody waits in generation 8") &&
		expect(arrive_in(fd[0], 5, 6, 1) == -EINVAL, "generation 6 is no more") &&
		expect(arrive_in(fd[0], 5, DSM_BARRIER_GEN_MAX + 1, 1) == -EINVAL,
		       "a generation that there is not") &&
		expect(arrive_in(fd[0], 0, 1, 1) == -EINVAL,
		       "everybody's barrier has one generation") &&
		expect(!arrive_in(fd[0], 5, 8, 1), "a thread comes in generation 8, and is all") &&
		expect(!pthread_join(thread, &result) && (intptr_t)result == -EINVAL,
		       "that in 7 is told") &&
		expect(arrive_in(fd[0], 5, 7, 1) == -EINVAL, "generation 7 is no more") &&
		expect(!arrive_in(fd[0], 5, DSM_BARRIER_GEN_MAX, 1), "the last generation");
	return ok && expect(arrive_in(fd[0], 5, 8, 1) == -EINVAL, "generation 8 is no more");
}

/* A wrong hold number released the hold of another lock. */
static bool unlock(void)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_SYNC,
				  .op = SOP_CREATE,
				  .value2 = (uint64_t)SYNC_MUTEX << 32 },
			    lock = { .call = DSM_CALL_LOCK }, u = lock;
	static const uint16_t wrong[] = { DSM_HOLDS_MAX, DSM_HOLDS_MAX + 1, 0xffff };
	unsigned int i;
	bool ok = true;
	int fd[2];

	if (!two_ranks(fd, JOB_WINDOW, 0, 0) ||
	    !expect(!ioctl(fd[0], DSM_IOC_CALL, &c) && !c.status, "a mutex"))
		return false;
	lock.object = (uint32_t)c.result;
	if (!expect(!ioctl(fd[0], DSM_IOC_CALL, &lock) && !lock.status && lock.hold == 0,
		    "the first hold"))
		return false;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		u = (struct dsm_ioc_call){ .call = DSM_CALL_UNLOCK, .hold = wrong[i] };
		ok &= refused(ioctl(fd[0], DSM_IOC_CALL, &u), EINVAL,
			      "UNLOCK of a hold that cannot be");
	}
	u = (struct dsm_ioc_call){ .call = DSM_CALL_UNLOCK, .hold = 1 };
	ok &= refused(ioctl(fd[0], DSM_IOC_CALL, &u), EPERM, "UNLOCK of a hold that is not held");
	u.hold = lock.hold;
	return expect(!ioctl(fd[0], DSM_IOC_CALL, &u), "UNLOCK of what is held") && ok;
}

/*
 * The creator of a mutex set the last rank in line: the next request sent a message to a rank
 * beyond the table of ranks.
 */
static bool mutex(void)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_SYNC, .value2 = (uint64_t)SYNC_MUTEX << 32 },
			    lock = { .call = DSM_CALL_TRYLOCK };
	unsigned int bit;
	bool ok = true;
	int fd[2];

	if (!two_ranks(fd, JOB_WINDOW, 0, 0))
		return false;
	for (bit = 0; bit < 64; bit++) {
		c.value = 1ull << bit;
		ok &= refused(ioctl(fd[0], DSM_IOC_CALL, &c), EINVAL,
			      "a mutex that is held from the start");
	}
	c.value = 0;
	if (!expect(!ioctl(fd[0], DSM_IOC_CALL, &c) && !c.status, "a mutex"))
		return false;
	lock.object = (uint32_t)c.result;
	return expect(!ioctl(fd[0], DSM_IOC_CALL, &lock) && !lock.status, "it is free") && ok;
}

/*
 * Frames made for a region were too few for the next region at its place: an access faulted
 * forever, and in a system call even a kill did not end it.
 */
static bool regions(void)
{
	struct dsm_ioc_region g = { .pages = 256, .home = DSM_REGION_FIXED };
	int fd = rank_open(JOB_WINDOW), zero = open("/dev/zero", O_RDONLY);
	char *beyond = JOB_BASE + 300 * PAGE;
	struct dsm_ioc_key key;
	bool ok;

	new_key(&key);
	catch_signals();
	if (!expect(fd >= 0 && zero >= 0 && !rank_join(fd, &key, 0, 1) &&
			    !ioctl(fd, DSM_IOC_REGION, &g) &&
			    mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) == JOB_BASE,
		    "a rank with a region"))
		return false;
	ok = expect(!touch(JOB_BASE, true), "it can be used");
	g.op = DSM_REGION_REMOVE;
	ok &= expect(!ioctl(fd, DSM_IOC_REGION, &g), "it goes");
	g = (struct dsm_ioc_region){ .pages = 512, .home = DSM_REGION_FIXED };
	ok &= expect(!ioctl(fd, DSM_IOC_REGION, &g), "a larger one comes");
	alarm(30);
	ok &= expect(touch(beyond, true) == SIGBUS, "there is no memory for it");
	return refused((int)read(zero, beyond, 8), EFAULT,
		       "a system call to where there is none") &&
		ok;
}

/* The number of a block has 31 bits for its page. */
static bool window(void)
{
	const uint64_t end = 8 * TIB / PAGE - 512;
	struct dsm_ioc_region g = { .page = (uint32_t)end, .pages = 512 };
	char *at = (char *)0x100000000000ul;
	struct dsm_ioc_key key;
	volatile char *last;
	bool ok;
	int fd = rank_open(8 * TIB + (2 << 20));

	new_key(&key);
	ok = refused(fd, EINVAL, "a window of 8 TiB and 2 MiB");
	fd = rank_open(8 * TIB);
	if (!expect(fd >= 0, "a window of 8 TiB") || !expect(!rank_join(fd, &key, 0, 1), "JOIN") ||
	    !expect(!ioctl(fd, DSM_IOC_REGION, &g), "a region at its end") ||
	    !expect(mmap(at, 8 * TIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
			 0) == at,
		    "its mapping"))
		return false;
	catch_signals();
	last = at + 8 * TIB - 1;
	ok &= expect(!touch(last, true) && !touch(last, true) && *last == 2, "its last page");
	g.page = 0;
	g.id = 1;
	ok &= expect(!ioctl(fd, DSM_IOC_REGION, &g) && !touch(at, false) && *at == 0,
		     "its first page is another");
	return ok;
}

/* ---- identity ------------------------------------------------------------------------------- */

/* A second rank with the number of an existing one must have no effect. */
static bool twice(void)
{
	struct dsm_ioc_key key, other;
	int first = rank_open(JOB_WINDOW), second = rank_open(JOB_WINDOW);

	new_key(&key);
	new_key(&other);
	return expect(first >= 0 && second >= 0 && !rank_join(first, &key, 0, 2), "JOIN") &&
		refused(rank_join(second, &key, 0, 2), EEXIST, "a second rank 0") &&
		refused(ioctl(first, DSM_IOC_KEY, &other), EBUSY, "another key") &&
		expect(!ioctl(second, DSM_IOC_KEY, &other), "rank 0 of another job");
}

/* A process with another key, or with none, finds no rank. */
/* How many copies of keys the module has found where none may be left; -1: it does not say. */
static int keys_left(void)
{
	FILE *f = fopen("/sys/module/dsm/parameters/test_keys_left", "r");
	int n = -1;

	if (f && fscanf(f, "%d", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

/*
 * Keys are wiped: from the stack of KEY, whether it is refused or not, and from the rank before it
 * is freed.
 */
static bool wiped(void)
{
	struct dsm_ioc_key key;
	int fd = rank_open(JOB_WINDOW);

	new_key(&key);
	if (!expect(set_parameter("test_keys_left", "0") && fd >= 0 && !rank_join(fd, &key, 0, 1),
		    "JOIN, KEY") ||
	    !refused(ioctl(fd, DSM_IOC_KEY, &key), EBUSY, "a second key"))
		return false;
	close(fd);
	return expect(nothing_left(20), "the rank goes") &&
		expect(!keys_left(), "no copy of the key is left");
}

static bool keys(void)
{
	struct dsm_ioc_key key, other, none = { .key = { 0 } };
	int fd[2] = { rank_open(JOB_WINDOW), rank_open(JOB_WINDOW) },
	    without = rank_open(JOB_WINDOW);

	new_key(&key);
	other = key;
	other.key[15] ^= 1;
	return expect(fd[0] >= 0 && fd[1] >= 0 && !rank_join(fd[0], &key, 0, 2) &&
			      !rank_join(fd[1], &other, 1, 2),
		      "JOIN") &&
		refused(rank_connect(fd[0], 1), ENOENT, "CONNECT to a rank with another key") &&
		refused(rank_connect(fd[1], 0), ENOENT, "CONNECT with another key") &&
		refused(rank_join(without, &none, 1, 2), EINVAL, "a key of zeros") &&
		refused(rank_connect(without, 0), ENOKEY, "CONNECT without a key");
}

struct visit {
	struct dsm_ioc_key key;
	int come[2], go[2];
	bool own_namespace; /* in its own user namespace, with all capabilities there */
};

/*
 * Be a rank of another user, until the pipe is closed. It may lock any amount of memory, but is no
 * administrator.
 */
static bool be_rank(void *arg)
{
	struct visit *v = arg;
	struct rlimit limit = { 0, 0 };
	bool in_place = !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur == RLIM_INFINITY &&
		(!v->own_namespace || !unshare(CLONE_NEWUSER));
	int fd = rank_open(JOB_WINDOW);
	char byte = 0;
	bool ok = expect(in_place, "no limit of locked memory, a user namespace") &&
		expect(fd >= 0 && !rank_join(fd, &v->key, 1, 2), "JOIN of another user") &&
		refused(rank_connect(fd, 0), EACCES, "CONNECT to another user's rank");

	close(v->come[0]);
	close(v->go[1]);
	return write(v->come[1], &byte, 1) == 1 && read(v->go[0], &byte, 1) == 0 && ok;
}

/*
 * Another user's process is no rank of the job, even with the key. An administrator may connect to
 * the job.
 */
static bool visit(bool own_namespace)
{
	struct visit v = { .own_namespace = own_namespace };
	int fd = rank_open(JOB_WINDOW), status;
	char byte;
	pid_t pid;
	bool ok;

	new_key(&v.key);
	if (pipe(v.come) || pipe(v.go) || !expect(fd >= 0 && !rank_join(fd, &v.key, 0, 2), "JOIN"))
		return false;
	pid = start_somebody(be_rank, &v);
	close(v.come[1]);
	close(v.go[0]);
	ok = expect(read(v.come[0], &byte, 1) == 1, "a rank of another user") &&
		expect(!rank_connect(fd, 1), "CONNECT to it with CAP_SYS_ADMIN");
	close(v.go[1]);
	ok &= waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
	return !close(fd) && ok;
}

static bool users(void)
{
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	bool ok = expect(!setrlimit(RLIMIT_MEMLOCK, &none), "setrlimit");

	ok &= visit(false);
	return visit(true) && ok;
}

/* ---- devices -------------------------------------------------------------------------------- */

/*
 * Two ranks over RDMA write to each other's pages for a second. Returns whether a rank was told
 * that it is lost.
 */
static bool is_lost(uint32_t mode, const char *parameter, const char *value)
{
	struct job *j = job_new();
	pid_t pids[2];
	unsigned int r, i;

	job_set(j, 2, true);
	j->mode = mode;
	j->home = DSM_REGION_CYCLIC;
	set_parameter(parameter, value);
	fflush(stdout);
	for (r = 0; r < 2; r++) {
		pids[r] = fork();
		if (!pids[r]) {
			struct dsm_ioc_range all = { .op = DSM_RANGE_PREFETCH,
						     .pages = 128,
						     .write = 1 };
			struct dsm_ioc_lost l = { .rank = -1 };
			int fd = job_join(j, r);

			for (i = 0; fd >= 0 && i < 50 && l.rank < 0 && !atomic_load(&j->stop);
			     i++) {
				ioctl(fd, DSM_IOC_RANGE, &all);
				usleep(20000);
				ioctl(fd, DSM_IOC_LOST, &l);
			}
			if (l.rank == (int)r)
				atomic_store(&j->stop, 1);
			_exit(fd < 0);
		}
	}
	job_reap(pids, 2, 60);
	set_parameter(parameter, "0");
	return atomic_load(&j->stop);
}

/* The module does not make a completion queue that is too small. If one overruns, its rank ends. */
static bool overrun(void)
{
	bool ok = set_parameter("test_max_cqe", "255") &&
		refused(join_by_rdma(DSM_MODE_SOFTIRQ), E2BIG, "JOIN with queues too small");

	ok &= expect(!is_lost(DSM_MODE_WORKQUEUE, "test_max_cqe", "300"),
		     "ranks with small queues");
	ok &= expect(!is_lost(DSM_MODE_WORKQUEUE, "test_cqe", "0"),
		     "ranks with queues of the usual size");
	return expect(is_lost(DSM_MODE_WORKQUEUE, "test_cqe", "1"),
		      "a rank whose queue has run over is told") &&
		ok;
}

static int in_namespace(void)
{
	int result;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(unshare(CLONE_NEWNET) ? 255 : join_by_rdma(DSM_MODE_SOFTIRQ) < 0 ? errno : 0);
	waitpid(pid, &result, 0);
	return WEXITSTATUS(result);
}

/* -EBUSY while another namespace exists; a worker of the kernel frees it later. */
static bool set_netns(const char *command)
{
	const double end = now_s() + patience(10);
	int status;

	do
		status = system(command);
	while (status && now_s() < end && !usleep(100000));
	return expect(!status, command);
}

/*
 * A process in another network namespace must find no address, whether devices are shared or not.
 */
static bool namespaces(void)
{
	bool ok = expect(join_by_rdma(DSM_MODE_SOFTIRQ) >= 0, "JOIN where the device is") &&
		expect(in_namespace() == ENODEV, "JOIN elsewhere, devices shared");

	ok &= set_netns("rdma system set netns exclusive") &&
		expect(join_by_rdma(DSM_MODE_SOFTIRQ) >= 0, "JOIN, not shared") &&
		expect(in_namespace() == ENODEV, "JOIN elsewhere, devices not shared");
	return set_netns("rdma system set netns shared") && ok;
}

/* ---- memory that does not come --------------------------------------------------------------- */

#define DEVICE "rxe0"
#define ARGUMENT ((void *)JOB_BASE)

/* A call on a file whose argument is in a page of another rank's window. */
struct stuck_call {
	const char *what;
	int (*begin)(struct stuck_call *c); /* make the file, and write the argument; -1: FAILED */
	unsigned long request;
	/*
	 * as the other rank pins the page: for writing, so that it cannot be read; or for reading
	 */
	uint32_t pin;
	const char *state; /* of the page, here, while the call waits for it */
	int fd;
	_Atomic bool done;
};

static struct dsm_ioc_join join_by_device(void *address)
{
	return (struct dsm_ioc_join){ .size = 2,
				      .device = DEVICE,
				      .gid = -1,
				      .address_size = DSM_ADDRESS_MAX,
				      .address = (uintptr_t)address,
				      .vectors = { -1, -1, -1, -1 } };
}

static int begin_join(struct stuck_call *c)
{
	static char address[DSM_ADDRESS_MAX];

	*(struct dsm_ioc_join *)ARGUMENT = join_by_device(address);
	return c->fd = rank_open(JOB_WINDOW);
}

static int joined_by_device(struct stuck_call *c)
{
	struct dsm_ioc_key key;

	new_key(&key);
	c->fd = rank_open(JOB_WINDOW);
	return c->fd >= 0 && !rank_join_by(c->fd, DEVICE, &key, 0, 2) ? c->fd : -1;
}

/* A barrier at which one thread of this rank is all: it ends at once. */
static int begin_call(struct stuck_call *c)
{
	*(struct dsm_ioc_call *)ARGUMENT = (struct dsm_ioc_call){
		.call = DSM_CALL_BARRIER, .object = 1, .gen = 1, .threads = 1, .value2 = 1
	};
	return joined_by_device(c);
}

/* The argument itself is elsewhere: the module copies it before it enters the rank. */
static int begin_connect(struct stuck_call *c)
{
	memset(ARGUMENT, 0, PAGE);
	return joined_by_device(c);
}

static void *is_stuck(void *arg)
{
	struct dsm_ioc_connect to = { .rank = 1,
				      .address = (uintptr_t)ARGUMENT,
				      .address_size = 64 };
	struct stuck_call *c = arg;

	ioctl(c->fd, c->request, c->request == DSM_IOC_CONNECT ? (void *)&to : ARGUMENT);
	atomic_store(&c->done, true);
	return NULL;
}

/* Does the device go within the limit? Its process is *pid in any case. */
static bool goes_within(double limit, pid_t *pid)
{
	const char *const delete[] = { "rdma", "link", "delete", DEVICE, NULL };
	const double end = now_s() + limit;

	*pid = fork();
	if (!*pid) {
		execvp(delete[0], (char *const *)delete);
		_exit(127);
	}
	while (waitpid(*pid, NULL, WNOHANG) == 0 && now_s() < end)
		usleep(10000);
	return now_s() < end;
}

static bool comes_back(void)
{
	return expect(!system("rdma link add " DEVICE " type rxe netdev eth0"),
		      "the device comes back");
}

/*
 * Does the device go while the call waits for its page? It goes at the latest when the page has
 * come.
 */
static bool device_goes(const int fd[2], struct stuck_call *c)
{
	struct dsm_ioc_range pin = { .op = DSM_RANGE_PIN, .pages = 1, .write = c->pin };
	const double limit = patience(10);
	pthread_t thread;
	double end;
	pid_t pid;
	bool ok;

	if (!expect(c->begin(c) >= 0, c->what) ||
	    !expect(!ioctl(fd[1], DSM_IOC_RANGE, &pin), "a rank pins a page") ||
	    pthread_create(&thread, NULL, is_stuck, c))
		return false;
	/*
	 * Not any slot: to read the argument, and for the barrier of a call, there is one for a
	 * moment.
	 */
	for (end = now_s() + limit; !listed_with(LISTED_SLOT, c->state) && now_s() < end;)
		usleep(1000);
	ok = expect(listed_with(LISTED_SLOT, c->state) && !atomic_load(&c->done),
		    "the call waits for the page");
	ok = expect(goes_within(limit, &pid), c->what) && ok;
	ok = expect(!atomic_load(&c->done), "the call still waits") && ok;
	pin.op = DSM_RANGE_UNPIN;
	ok = expect(!ioctl(fd[1], DSM_IOC_RANGE, &pin), "UNPIN") && !pthread_join(thread, NULL) &&
		ok;
	waitpid(pid, NULL, 0);
	close(c->fd);
	return comes_back() && ok;
}

/*
 * A call copies its argument or its answer, and the page for that is memory of another rank, which
 * keeps it. Meanwhile the call must hold nothing that the removal of the device waits for.
 */
static bool removal(void)
{
	static struct stuck_call all[] = {
		{ "the device goes during CONNECT", begin_connect, DSM_IOC_CONNECT, DSM_PIN_WRITE,
		  "WANT_READ", -1, false },
		{ "the device goes during a call", begin_call, DSM_IOC_CALL, 0, "COUNT", -1,
		  false },
		{ "the device goes during JOIN", begin_join, DSM_IOC_JOIN, 0, "COUNT", -1, false },
	};
	unsigned int i;
	bool ok = true;
	int fd[2];

	if (!two_ranks(fd, JOB_WINDOW, 0, 0) ||
	    !expect(mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED_NOREPLACE, fd[0], 0) == JOB_BASE,
		    "a window"))
		return false;
	catch_signals();
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		ok &= device_goes(fd, &all[i]);
	return ok;
}

struct stuck_access {
	_Atomic bool done;
	int signal;
};

static void *is_accessing(void *arg)
{
	struct stuck_access *a = arg;

	a->signal = touch(JOB_BASE, true);
	atomic_store(&a->done, true);
	return NULL;
}

/*
 * A fault of a rank of the device waits for a page that another rank keeps: it is interrupted, for
 * the removal waits for it.
 */
static bool fault(void)
{
	struct dsm_ioc_range pin = { .op = DSM_RANGE_PIN, .pages = 1, .write = DSM_PIN_WRITE };
	static struct stuck_access a;
	pthread_t thread;
	int fd[2];
	double end;
	pid_t pid;
	bool ok;

	if (!two_ranks_by(fd, DEVICE, JOB_WINDOW, 0, 0) ||
	    !expect(mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED_NOREPLACE, fd[0], 0) == JOB_BASE,
		    "a window"))
		return false;
	catch_signals();
	if (!expect(!ioctl(fd[1], DSM_IOC_RANGE, &pin), "a rank pins a page") ||
	    pthread_create(&thread, NULL, is_accessing, &a))
		return false;
	for (end = now_s() + patience(10); !listed_with(LISTED_SLOT, "WANT_") && now_s() < end;)
		usleep(1000);
	ok = expect(listed_with(LISTED_SLOT, "WANT_") && !atomic_load(&a.done),
		    "an access waits for the page");
	ok = expect(goes_within(patience(10), &pid), "the device goes during an access") && ok;
	for (end = now_s() + patience(10); !atomic_load(&a.done) && now_s() < end;)
		usleep(1000);
	ok = expect(atomic_load(&a.done) && a.signal == SIGBUS, "the access ends with SIGBUS") &&
		ok;
	if (!atomic_load(&a.done)) {
		pin.op = DSM_RANGE_UNPIN;
		ioctl(fd[1], DSM_IOC_RANGE, &pin);
	}
	pthread_join(thread, NULL);
	waitpid(pid, NULL, 0);
	close(fd[0]);
	close(fd[1]);
	return comes_back() && ok;
}

int main(int argc, char **argv)
{
	static const struct attack attacks[] = {
		{ "barrier", barrier }, { "mutex", mutex },           { "regions", regions },
		{ "unlock", unlock },   { "window", window },         { "twice", twice },
		{ "keys", keys },       { "wiped", wiped },           { "users", users },
		{ "overrun", overrun }, { "namespaces", namespaces }, { "generation", generation },
		{ "removal", removal }, { "fault", fault },
	};

	return attacks_main(argc, argv, attacks, sizeof(attacks) / sizeof(attacks[0]));
}

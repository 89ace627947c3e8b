# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: what does not work across ranks: it is refused, and named.

program wishes <<'END'
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock;
static void *wait_for_it(void *arg) { pause(); return arg; }
int main(void)
{
	pthread_mutexattr_t attr;
	pthread_t t;
	int robust, killed, forked;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	robust = pthread_mutex_init(&lock, &attr);
	pthread_create(&t, NULL, wait_for_it, NULL);
	killed = pthread_kill(t, SIGCONT);
	forked = fork();
	printf("%d %d %d\n", robust == ENOTSUP, killed, forked);
	return 0; /* with a thread that never ends */
}
END
says "robust, kill, fork" "1 0 -1" 74 "${run[@]}" -n 2 "$scratch/wishes"
says "robust, kill, fork: named" "fork() (posix_spawn(), system() and popen() do) does not work" 74 "${run[@]}" -n 2 --nodes rank "$scratch/wishes"

# What the kernel does to a thread is asked for by its rank: of two ranks, the first thread is
# another's, the second is not. The clock of a thread exists in its process only.
program strangers <<'END'
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static void *wait_for_it(void *arg) { pause(); return arg; }
static pthread_t other, near;
static void both(const char *name, int there, int want, int here)
{
	if (there != want || here)
		printf("%s: %d, %d\n", name, there, here);
}
int main(void)
{
	struct sched_param param;
	struct timespec used;
	clockid_t clock;
	cpu_set_t set;
	int policy, there;
	pthread_create(&other, NULL, wait_for_it, NULL);
	pthread_create(&near, NULL, wait_for_it, NULL);
	both("getschedparam", pthread_getschedparam(other, &policy, &param), 0, pthread_getschedparam(near, &policy, &param));
	both("setschedparam", pthread_setschedparam(other, policy, &param), 0, pthread_setschedparam(near, policy, &param));
	there = pthread_getcpuclockid(other, &clock);
	both("getcpuclockid", there, ENOENT, pthread_getcpuclockid(near, &clock) || clock_gettime(clock, &used));
	both("getaffinity_np", pthread_getaffinity_np(other, sizeof(set), &set), 0,
	     pthread_getaffinity_np(near, sizeof(set), &set) || !CPU_COUNT(&set));
	both("kill", pthread_kill(other, 0), 0, pthread_kill(near, 0));
	pthread_cancel(near);
	pthread_join(near, NULL);
	puts("asked");
	return 0;
}
END
if is_chosen strangers; then
	for way in node two; do
		# shellcheck disable=SC2086
		got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]/4/2} "$scratch/strangers" 2>&1 </dev/null | sort | sed \
			's/.*: pthread_\(.*\)() does not work across ranks$/\1/')
		same "strangers: refused and named, $way" "$got" "$(printf '%s\n' asked getcpuclockid)"
	done
fi

# Futexes that libdsm does not have. On one node, the kernel has those with priority inheritance.
program inherits <<'END'
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static uint32_t word, other;
static void *lock_it(void *arg)
{
	if (syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, NULL) || syscall(SYS_futex, &word, FUTEX_UNLOCK_PI_PRIVATE))
		return (void *)strerrorname_np(errno);
	return arg;
}
int main(void)
{
	struct futex_waitv v = { .val = 1, .uaddr = (uintptr_t)&word, .flags = FUTEX_32 };
	void *here = lock_it("0"), *there;
	pthread_t t;
	long woken;
	pthread_create(&t, NULL, lock_it, "0");
	pthread_join(t, &there);
	woken = syscall(SYS_futex, &word, FUTEX_WAKE_OP_PRIVATE, 1, 1, &other, FUTEX_OP(FUTEX_OP_SET, 1, FUTEX_OP_CMP_EQ, 0));
	printf("%s %s %ld ", (char *)here, (char *)there, woken);
	printf("%s\n", syscall(SYS_futex_waitv, &v, 1, 0, NULL, 0) < 0 ? strerrorname_np(errno) : "0");
	return 0;
}
END
says "futexes refused, one" "0 0 0 EAGAIN" 0 "${run[@]}" -n 1 "$scratch/inherits"
says "futexes refused, node" "0 0 0 ENOSYS" 0 "${run[@]}" -n 2 "$scratch/inherits"
says "futexes refused, two" "ENOSYS ENOSYS -1 ENOSYS" 0 "${run[@]}" -n 2 --nodes rank "$scratch/inherits"
says "futexes refused: named" "a futex with priority inheritance between nodes does not work" 0 \
	"${run[@]}" -n 2 --nodes rank "$scratch/inherits"

program mappings <<'END'
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
static int is(void *p, int err) { return p == MAP_FAILED && errno == err; }
int main(int argc, char **argv)
{
	const int shared = MAP_SHARED | MAP_ANONYMOUS, rw = PROT_READ | PROT_WRITE;
	char *p = mmap(NULL, 3 * 4096, rw, shared, -1, 0), *q = mmap(NULL, 1 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)argv;
	if (argc > 1) /* by itself */
		return p == MAP_FAILED || mprotect(p, 4096, PROT_READ) || munmap(p + 4096, 4096);
	printf("%d %d %d", is(mmap(p, 4096, rw, shared | MAP_FIXED, -1, 0), ENOTSUP),
	       is(mmap(NULL, 4096, PROT_NONE, shared, -1, 0), ENOTSUP), is(mmap(NULL, 0, rw, shared, -1, 0), EINVAL));
	printf(" %d %d %d", munmap(p + 4096, 4096) && errno == EINVAL, mprotect(p, 4096, PROT_EXEC) && errno == ENOSYS,
	       is(mremap(p, 3 * 4096, 8 * 4096, MREMAP_MAYMOVE), ENOSYS));
	printf(" %d %d %d %d\n", q != MAP_FAILED && !mprotect(q, 4096, rw) && !munmap(q, 1 << 30), mprotect(p, 4096, rw),
	       munmap(p, 3 * 4096 - 10), is(mmap(NULL, 1ul << 46, rw, shared, -1, 0), ENOMEM));
	return 0;
}
END
for way in node two; do
	# shellcheck disable=SC2086
	says "mappings refused, $way" "1 1 1 1 1 1 1 0 0 1" 0 "${run[@]}" ${ways[$way]} "$scratch/mappings"
done
says "mappings refused: named" "at a fixed address does not work" 0 "${run[@]}" -n 2 "$scratch/mappings"
says "mappings, DSM_MMAP=0" "" 0 env DSM_MMAP=0 "${run[@]}" -n 2 "$scratch/mappings" private

# Requests of a ring are the kernel's affair: the library says what to do, once. The parameters are
# in shared memory.
program rings <<'END'
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static __attribute__((aligned(4096))) struct io_uring_params p[2];
static int made;
static void *touch(void *arg) { __atomic_fetch_or(&p[0].flags, 0, __ATOMIC_SEQ_CST); return arg; }
static int make(struct io_uring_params *at) { return syscall(SYS_io_uring_setup, 4, at) >= 0 && at->sq_entries == 4; }
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, touch, NULL);
	pthread_join(t, NULL);
	made = make(&p[0]);
	made += make(&p[1]);
	printf("%d rings\n", made);
	return 0;
}
END
if is_chosen "rings: named"; then
	want="$("$scratch/rings") 0" # by itself; a machine may have none
	for way in one node two mixed; do
		# shellcheck disable=SC2086
		got=$(timeout -k 5 60 "${run[@]}" ${ways[$way]} "$scratch/rings" 2>&1 </dev/null)
		[[ $way == one || $way == node || $want == 0* ]] || want=${want/% 0/ 1}
		named=$(grep -c 'io_uring_setup: pin buffers in shared memory .*dsm_pin(3)' <<<"$got")
		same "rings: named, $way" "$(grep rings$ <<<"$got") $named" "$want"
	done
fi

# Each rank but the first executes another program: of the same length, with another number in it,
# with a build id and without; and the same one at another path.
if is_chosen "another executable"; then
	printf '#!/bin/sh\n[ "$PMIX_RANK" = 0 ] || shift\nexec "$1"\n' >"$scratch/of-rank" && chmod +x "$scratch/of-rank"
	for id in sha1 none; do
		for number in 3 4; do
			program "version-$id-$number" -DNUMBER=$number "-Wl,--build-id=$id" <<'END'
#include <pthread.h>
#include <stdio.h>
static volatile int got;
static void *say(void *arg) { got = NUMBER; return arg; }
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, say, NULL);
	pthread_join(t, NULL);
	printf("version %d\n", got);
	return 0;
}
END
		done
		cp "$scratch/version-$id-3" "$scratch/version-$id-copy"
		for way in node two; do
			# shellcheck disable=SC2206
			ranks=(${ways[$way]/4/2})
			says "another executable, build id $id, $way" "rank 1: this rank runs another executable than rank 0" 70 \
				"${run[@]}" "${ranks[@]}" "$scratch/of-rank" "$scratch/version-$id-3" "$scratch/version-$id-4"
			says "the same one elsewhere, build id $id, $way (another executable)" "version 3" 0 \
				"${run[@]}" "${ranks[@]}" "$scratch/of-rank" "$scratch/version-$id-3" "$scratch/version-$id-copy"
		done
	done
fi

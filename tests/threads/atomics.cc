// SPDX-License-Identifier: BSD-2-Clause
// atomics.cc - atomic operations as the only synchronisation: litmus tests, numbers that all threads
// change, locks that are made of them, counts of shared_ptr, and waits by futexes. With a number,
// that many batches of litmus tests, and nothing else. With "fork", what libatomic does not do:
// a comparison in steps, loads of constant memory, and children.
#include <atomic>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <latch>
#include <linux/futex.h>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <semaphore>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

static constexpr int THREADS = 4, BATCH = 32, ROUNDS = 20, WORDS = 3 * 1024;

static unsigned int failures;
static pthread_barrier_t all;

static void report(const char *name)
{
	printf("%s: %s\n", name, failures ? "wrong" : "ok");
	failures = 0;
}

template <typename F> static void crowd(int n, F fn)
{
	std::vector<std::thread> threads;

	for (int i = 0; i < n; i++)
		threads.emplace_back(fn, i);
	for (auto &t : threads)
		t.join();
}

// ---- litmus tests -------------------------------------------------------------------------------

struct Sequential {
	static int load(int &at)
	{
		return std::atomic_ref(at).load();
	}

	static void store(int &at, int value)
	{
		std::atomic_ref(at).store(value);
	}
};

struct Released {
	static int load(int &at)
	{
		return std::atomic_ref(at).load(std::memory_order_acquire);
	}

	static void store(int &at, int value)
	{
		std::atomic_ref(at).store(value, std::memory_order_release);
	}
};

struct Old {
	static int load(int &at)
	{
		return __sync_fetch_and_add(&at, 0);
	}

	static void store(int &at, int value)
	{
		while (!__sync_bool_compare_and_swap(&at, load(at), value))
			;
	}
};

// Both variables of a round are in one page or in two.
static int xs[BATCH * 16], ys[BATCH * 16];
static int results[BATCH][THREADS][2];

struct Round {
	int &x, &y, *r;
	int number;
};

struct Litmus {
	const char *name;
	int threads;
	void (*body)(int thread, Round r);
	bool (*forbidden)(const int (*r)[2], int x, int y);
	void (*prepare)(int batch) = nullptr;
};

template <typename A> static void sb(int thread, Round r)
{
	A::store(thread ? r.y : r.x, 1);
	r.r[0] = A::load(thread ? r.x : r.y);
}

template <typename A> static void mp(int thread, Round r)
{
	if (!thread) {
		A::store(r.x, 1);
		A::store(r.y, 1);
		return;
	}
	r.r[0] = A::load(r.y);
	r.r[1] = A::load(r.x);
}

// The first variable is no atomic object, and read only if it has been written.
template <typename A> static void mp_plain(int thread, Round r)
{
	if (!thread) {
		r.x = 1;
		A::store(r.y, 1);
		return;
	}
	r.r[0] = A::load(r.y);
	r.r[1] = r.r[0] ? r.x : 0;
}

template <typename A> static void lb(int thread, Round r)
{
	r.r[0] = A::load(thread ? r.y : r.x);
	A::store(thread ? r.x : r.y, 1);
}

template <typename A> static void wrc(int thread, Round r)
{
	if (!thread) {
		A::store(r.x, 1);
	} else if (thread == 1) {
		r.r[0] = A::load(r.x);
		A::store(r.y, r.r[0]);
	} else {
		r.r[0] = A::load(r.y);
		r.r[1] = A::load(r.x);
	}
}

template <typename A> static void iriw(int thread, Round r)
{
	if (thread < 2) {
		A::store(thread ? r.y : r.x, 1);
		return;
	}
	r.r[0] = A::load(thread == 2 ? r.x : r.y);
	r.r[1] = A::load(thread == 2 ? r.y : r.x);
}

template <typename A> static void w22(int thread, Round r)
{
	A::store(thread ? r.y : r.x, 1);
	A::store(thread ? r.x : r.y, 2);
}

static bool sb_forbidden(const int (*r)[2], int, int)
{
	return !r[0][0] && !r[1][0];
}

static bool mp_forbidden(const int (*r)[2], int, int)
{
	return r[1][0] && !r[1][1];
}

static bool lb_forbidden(const int (*r)[2], int, int)
{
	return r[0][0] && r[1][0];
}

static bool wrc_forbidden(const int (*r)[2], int, int)
{
	return r[2][0] && !r[2][1];
}

static bool iriw_forbidden(const int (*r)[2], int, int)
{
	return r[2][0] && !r[2][1] && r[3][0] && !r[3][1];
}

static bool w22_forbidden(const int (*)[2], int x, int y)
{
	return x == 1 && y == 1;
}

// Where both variables are plain, and only a function of a library orders them: the last owner of an
// object sees what the others have stored, and nobody misses what one thread has done for all.
struct Seen {
	int number;

	~Seen()
	{
		results[number][0][0] += xs[number * 16] && ys[number * 16] ? 1 : BATCH;
	}
};

static std::shared_ptr<Seen> owners[BATCH][2];

static void prepare_owners(int)
{
	for (int i = 0; i < BATCH; i++)
		owners[i][0] = owners[i][1] = std::make_shared<Seen>(i);
}

static void last_owner(int thread, Round r)
{
	(thread ? ys : xs)[r.number * 16] = 1;
	owners[r.number][thread].reset();
}

static bool owner_forbidden(const int (*r)[2], int, int)
{
	return r[0][0] != 1;
}

static void futex_word(int thread, Round r)
{
	if (!thread) {
		r.x = 1;
		Released::store(r.y, 1);
		syscall(SYS_futex, &r.y, FUTEX_WAKE, 1, nullptr, nullptr, 0);
		return;
	}
	while (!Released::load(r.y))
		syscall(SYS_futex, &r.y, FUTEX_WAIT, 0, nullptr, nullptr, 0);
	r.r[0] = r.x;
}

static bool futex_forbidden(const int (*r)[2], int, int)
{
	return !r[1][0];
}

static pthread_once_t onces[BATCH];
static thread_local Round *once_for;

static void once_routine()
{
	once_for->x = 1;
	once_for->y++;
}

static void prepare_onces(int)
{
	for (pthread_once_t &once : onces)
		once = PTHREAD_ONCE_INIT;
}

static void once(int, Round r)
{
	once_for = &r;
	pthread_once(&onces[r.number], once_routine);
	r.r[0] = r.x;
}

static bool once_forbidden(const int (*r)[2], int x, int y)
{
	bool wrong = x != 1 || y != 1;

	for (int i = 0; i < THREADS; i++)
		wrong |= r[i][0] != 1;
	return wrong;
}

// What the compiler makes of a static variable. The memory of a guard is never used for another one.
static int64_t *guards;

static void prepare_guards(int batch)
{
	static constexpr int BATCHES = 64;

	guards = batch % BATCHES ? guards + BATCH : new int64_t[BATCHES * BATCH]();
}

static void guard(int, Round r)
{
	int64_t *const at = &guards[r.number];
	auto *const g = reinterpret_cast<abi::__guard *>(at);

	if (!*reinterpret_cast<volatile char *>(at) && abi::__cxa_guard_acquire(g)) {
		r.x = 1;
		r.y++;
		abi::__cxa_guard_release(g);
	}
	r.r[0] = r.x;
}

static const Litmus shapes[] = {
	{ "SB", 2, sb<Sequential>, sb_forbidden },
	{ "SB, __sync", 2, sb<Old>, sb_forbidden },
	{ "MP", 2, mp<Released>, mp_forbidden },
	{ "MP, plain data", 2, mp_plain<Released>, mp_forbidden },
	{ "MP, __sync, plain data", 2, mp_plain<Old>, mp_forbidden },
	{ "LB", 2, lb<Released>, lb_forbidden },
	{ "WRC", 3, wrc<Released>, wrc_forbidden },
	{ "IRIW", 4, iriw<Sequential>, iriw_forbidden },
	{ "2+2W", 2, w22<Sequential>, w22_forbidden },
	{ "shared_ptr", 2, last_owner, owner_forbidden, prepare_owners },
	{ "futex", 2, futex_word, futex_forbidden },
	{ "pthread_once()", THREADS, once, once_forbidden, prepare_onces },
	{ "static variable", THREADS, guard, once_forbidden, prepare_guards },
};

// Words that all nodes load again and again, and seldom store to, are loaded without a message.
static void load_often()
{
	for (int k = 0; k < 40; k++)
		for (int i = 0; i < BATCH; i++)
			for (int *at : { &xs[i * 16], &xs[i * 16 + 8], &ys[i * 16] })
				Sequential::load(*at);
}

static void litmus(const Litmus &l, int batches, bool often)
{
	crowd(THREADS, [&](int thread) {
		// All have copies; a thread may see what it should not until it synchronises.
		for (int batch = 0; batch < batches; batch++) {
			if (!thread) {
				std::memset(xs, 0, sizeof(xs));
				std::memset(ys, 0, sizeof(ys));
				std::memset(results, 0, sizeof(results));
				if (l.prepare)
					l.prepare(batch);
			}
			pthread_barrier_wait(&all);
			if (often) {
				load_often();
				pthread_barrier_wait(&all);
			}
			for (int i = 0; i < BATCH && thread < l.threads; i++) {
				int &x = xs[i * 16], &y = batch % 2 ? ys[i * 16] : xs[i * 16 + 8];

				l.body(thread, { x, y, results[i][thread], i });
			}
			pthread_barrier_wait(&all);
			for (int i = 0; !thread && i < BATCH; i++)
				failures += l.forbidden(results[i], xs[i * 16],
							batch % 2 ? ys[i * 16] : xs[i * 16 + 8]);
			pthread_barrier_wait(&all);
		}
	});
	report(often ? (std::string(l.name) + ", loaded often").c_str() : l.name);
}

// ---- what all threads change --------------------------------------------------------------------

struct Triple {
	long a, b, c;
};

static std::atomic<uint8_t> sum8;
static std::atomic<uint16_t> sum16;
static std::atomic<uint32_t> sum32, bits;
static std::atomic<uint64_t> sum64;
static std::atomic<double> sum_double;
static std::atomic<Triple> triple;
static unsigned __int128 sum128;
static volatile int old_sum;

static void numbers()
{
	const int n = 50;

	crowd(THREADS, [&](int thread) {
		for (int i = 0; i < n; i++) {
			Triple t = triple;
			unsigned __int128 wide = __atomic_load_n(&sum128, __ATOMIC_SEQ_CST);

			sum8++;
			sum16 += 3;
			sum32.fetch_sub(1);
			bits.fetch_xor(1u << thread);
			sum64 += uint64_t{ 1 } << 33;
			sum_double += 0.5;
			__sync_add_and_fetch(&old_sum, 2);
			while (!triple.compare_exchange_weak(t, { t.a + 1, t.b + 2, t.c + 3 }))
				;
			while (!__atomic_compare_exchange_n(
				&sum128, &wide, wide + (wide >> 64) + ((unsigned __int128)1 << 64),
				false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
				;
		}
	});
	const unsigned int times = THREADS * n;
	const Triple t = triple;

	failures += sum8 != (uint8_t)times;
	failures += sum16 != 3 * times;
	failures += sum32 != 0u - times;
	failures += bits != 0;
	failures += sum64 != (uint64_t)times << 33;
	failures += sum_double != 0.5 * times;
	failures += old_sum != (int)(2 * times);
	failures += t.a != times || t.b != 2 * times || t.c != 3 * times;
	failures += sum128 != ((unsigned __int128)times << 64) + times * (times - 1) / 2;
	report("numbers");
}

// What the compiler calls for a size that it does not know.
extern "C" bool compare_any(size_t size, void *at, void *expected, void *value, int then,
			    int otherwise) __asm__("__atomic_compare_exchange");

static bool is_early(int milliseconds)
{
	using namespace std::chrono;
	static thread_local steady_clock::time_point end;
	static thread_local bool runs;

	if (!runs)
		end = steady_clock::now() + std::chrono::milliseconds(milliseconds);
	runs = steady_clock::now() < end;
	return runs;
}

// One thread stores 0 and 1, the other 2 in place of 0: each 2 is found once.
static std::atomic<uint64_t> turned, stored, found;

static void comparisons()
{
	crowd(2, [](int thread) {
		while (is_early(30)) {
			for (uint64_t i = 0; thread && i < 16; i++)
				found += turned.exchange(i % 2) == 2;
			for (int i = 0; !thread && i < 16; i++) {
				uint64_t expected = 0, value = 2;

				stored += compare_any(sizeof(turned), &turned, &expected, &value,
						      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
			}
		}
	});
	failures += found + (turned == 2) != stored;
	report("comparisons");
}

// Operations on the whole and on a half of it are atomic with each other.
typedef unsigned __int128 wide;

static wide halves, twins, exchanged, scores[THREADS];
static std::atomic<uint64_t> wholes, lows;

static wide twin(uint64_t value)
{
	return (wide)value << 64 | value;
}

static bool is_twin(wide value)
{
	return (uint64_t)value == (uint64_t)(value >> 64);
}

// What was expected belongs to others as soon as the comparison has succeeded, as in a node that a
// list now has.
static std::atomic<long> given;
static struct alignas(64) Giver {
	long expected;
	std::atomic<long> seen;
} givers[THREADS];

static void handing()
{
	static constexpr int ROUNDS = 4000, GIVERS = THREADS / 2;
	std::atomic<int> left = GIVERS;

	crowd(THREADS, [&](int thread) {
		Giver &mine = givers[thread];
		long done = 0, seen;

		while (thread >= GIVERS && (left || given))
			if ((seen = given) && given.compare_exchange_strong(seen, 0)) {
				givers[seen - 1].expected = 77;
				givers[seen - 1].seen++;
			}
		while (thread < GIVERS && done < ROUNDS && !failures) {
			mine.expected = 0;
			if (!given.compare_exchange_strong(mine.expected, thread + 1)) {
				failures += mine.expected == 77;
				continue;
			}
			for (done++; mine.seen < done;)
				;
		}
		if (thread < GIVERS) {
			failures += mine.seen != done;
			left--;
		}
	});
	report("what was expected");
}

static void wides()
{
	crowd(THREADS, [](int thread) {
		uint64_t *low = (uint64_t *)(void *)&halves, n = 0;

		for (; is_early(100); n++) {
			if (thread % 2)
				__atomic_fetch_add(low, 1, __ATOMIC_SEQ_CST);
			else
				__atomic_fetch_add(&halves, (wide)1 << 64, __ATOMIC_SEQ_CST);
		}
		(thread % 2 ? lows : wholes) += n;
		while (is_early(10)) {
			__atomic_store_n(&twins, twin(++n), __ATOMIC_SEQ_CST);
			if (!is_twin(__atomic_load_n(&twins, __ATOMIC_SEQ_CST)))
				failures++;
			// What goes in comes out, once.
			scores[thread] += ++n;
			scores[thread] -= __atomic_exchange_n(&exchanged, n, __ATOMIC_SEQ_CST);
		}
	});
	wide sum = exchanged;

	for (wide score : scores)
		sum -= score;
	failures += sum != 0;
	failures += halves != ((wide)wholes << 64 | lows);
	report("wides");
}

// Neither a load is made by a store, as in older libatomic, nor a comparison that fails.
static const wide constant = (wide)7 << 64 | 9;

static void constants()
{
	wide expected = 1;

	if (__builtin_cpu_supports("avx")) {
		failures += __atomic_load_n(&constant, __ATOMIC_SEQ_CST) != ((wide)7 << 64 | 9);
		failures += __atomic_compare_exchange_n(const_cast<wide *>(&constant), &expected, 2,
							false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		failures += expected != constant;
	}
	report("constants");
}

// Somebody stores what is expected, between any two instructions of a comparison.
static volatile int steps, store_at;
static uint64_t stepped;

static void step(int)
{
	if (steps == store_at)
		__atomic_store_n(&stepped, 0, __ATOMIC_SEQ_CST);
	steps = steps + 1;
}

static bool compare_in_steps()
{
	const unsigned long long trap = 0x100;
	uint64_t expected = 0, value = 2;

	steps = 0;
	stepped = 1;
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | trap);
	const bool same = compare_any(sizeof(stepped), &stepped, &expected, &value,
				      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~trap);
	return same;
}

static void interleavings()
{
	int k = 0;

	signal(SIGTRAP, step);
	store_at = -1;
	failures += compare_in_steps();
	for (; k <= steps && k < 5000; k++) {
		store_at = k;
		failures += compare_in_steps() != (stepped == 2);
	}
	failures += k < 20;
	report("interleavings");
}

struct Many {
	long words[512];
};

static std::atomic<Many> many;

static Many many_of(long value)
{
	Many m;

	for (long &word : m.words)
		word = value;
	return m;
}

// A child has a whole object, and can use it, whatever the parent's threads do when it forks. It
// shares another one with its parent.
static void child(wide *both, int n)
{
	const Many m = many;
	int torn = 0;

	for (int i = 0; i < n; i++)
		__atomic_fetch_add(both, 1, __ATOMIC_SEQ_CST);
	for (long word : m.words)
		torn |= word != m.words[0];
	many = many_of(-1);
	_exit(torn);
}

// One that waits for a lock for ever may have signals blocked.
static bool ends_well(pid_t pid)
{
	int status = 0;

	for (int i = 0; i < 5000; i++) {
		if (waitpid(pid, &status, WNOHANG))
			return !status;
		usleep(1000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return false;
}

static void forks()
{
	static constexpr int CHILDREN = 50, n = 2000;
	wide *both = (wide *)mmap(nullptr, sizeof(*both), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	std::atomic<bool> over = false;

	crowd(2, [&](int thread) {
		for (long i = 0; thread && !over; i++)
			many = many_of(i);
		for (int i = 0; !thread && i < CHILDREN && !failures; i++) {
			const pid_t pid = fork();

			if (!pid)
				child(both, n);
			for (int k = 0; k < n; k++)
				__atomic_fetch_add(both, (wide)1 << 64, __ATOMIC_SEQ_CST);
			failures += !ends_well(pid);
		}
		if (!thread)
			over = true;
	});
	failures += *both != (wide)(CHILDREN * n) * (((wide)1 << 64) + 1);
	report("forks");
}

// ---- in handlers of signals ---------------------------------------------------------------------

static std::atomic<unsigned int> ticks, together;

static void tick(int)
{
	ticks++;
	together++;
}

// The handler interrupts operations on what it changes.
static void handlers()
{
	const itimerval often = { { 0, 300 }, { 0, 300 } }, never = {};
	std::atomic<unsigned int> added = 0;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, nullptr);
	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often, nullptr);
	crowd(THREADS, [&](int) {
		pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
		while (ticks < 30) {
			together++;
			added++;
		}
	});
	setitimer(ITIMER_REAL, &never, nullptr);
	usleep(1000);
	failures += together != ticks + added;
	report("handlers");
}

// ---- locks --------------------------------------------------------------------------------------

static int plain[WORDS];

// All words are as the last holder has left them.
static void section()
{
	const int before = plain[0];

	for (int &word : plain) {
		failures += word != before;
		word = before + 1;
	}
}

static std::atomic_flag flag = ATOMIC_FLAG_INIT;
static std::atomic<unsigned int> next_ticket, now_serving;
static int old_lock;

static void spin_lock(int)
{
	while (flag.test_and_set(std::memory_order_acquire))
		sched_yield();
	section();
	flag.clear(std::memory_order_release);
}

static void old_spin_lock(int)
{
	while (__sync_lock_test_and_set(&old_lock, 1))
		sched_yield();
	section();
	__sync_lock_release(&old_lock);
}

static void ticket_lock(int)
{
	const unsigned int mine = next_ticket.fetch_add(1, std::memory_order_relaxed);

	while (now_serving.load(std::memory_order_acquire) != mine)
		sched_yield();
	section();
	now_serving.store(mine + 1, std::memory_order_release);
}

static void waiting_lock(int)
{
	const unsigned int mine = next_ticket++;

	for (unsigned int now; (now = now_serving) != mine;)
		now_serving.wait(now);
	section();
	now_serving = mine + 1;
	now_serving.notify_all();
}

static void locks(const char *name, void (*fn)(int))
{
	std::memset(plain, 0, sizeof(plain));
	crowd(THREADS, [&](int thread) {
		for (int i = 0; i < ROUNDS; i++)
			fn(thread);
	});
	failures += plain[0] != THREADS * ROUNDS;
	report(name);
}

// Each thread waits for the one before it: what the first one has stored goes through all of them.
static std::atomic<int> passed[THREADS];

static void chain()
{
	crowd(THREADS, [](int thread) {
		for (int i = 1; i <= ROUNDS; i++) {
			while (passed[(thread + THREADS - 1) % THREADS].load(
				       std::memory_order_acquire) != (thread ? i : i - 1))
				sched_yield();
			if (!thread)
				for (int &word : plain)
					word = i;
			for (int word : plain)
				failures += word != i;
			passed[thread].store(i, std::memory_order_release);
		}
	});
	report("chain");
}

// ---- the C++ library ----------------------------------------------------------------------------

static std::atomic<int> destroyed;

struct Counted {
	int words[WORDS];

	~Counted()
	{
		destroyed++;
	}
};

static void shared_pointers()
{
	auto first = std::make_shared<Counted>();

	crowd(THREADS, [first](int thread) {
		std::vector<std::shared_ptr<Counted>> copies;

		for (int i = 0; i < 8 * ROUNDS; i++) {
			copies.push_back(first);
			if (i % 3 == thread % 3)
				copies.clear();
		}
	});
	failures += first.use_count() != 1 || destroyed;
	// Whoever is the last one to leave it destroys it.
	for (int i = 0; i < ROUNDS; i++) {
		auto mine = std::exchange(first, std::make_shared<Counted>());

		destroyed = 0;
		crowd(THREADS, [copy = std::move(mine)](int thread) mutable {
			copy->words[thread] = thread;
			copy.reset();
		});
		failures += destroyed != 1;
	}
	report("shared_ptr");
}

static void library()
{
	std::latch latch(THREADS);
	std::barrier barrier(THREADS);
	std::counting_semaphore<> semaphore(0);

	std::memset(plain, 0, sizeof(plain));
	crowd(THREADS, [&](int thread) {
		latch.arrive_and_wait();
		for (int i = 0; i < ROUNDS; i++) {
			if (i % THREADS == thread)
				section();
			barrier.arrive_and_wait();
			for (int word : plain)
				failures += word != i + 1;
			barrier.arrive_and_wait();
		}
		if (thread)
			semaphore.acquire();
		section();
		semaphore.release();
	});
	report("latch, barrier, semaphore");
}

int main(int argc, char **argv)
{
	const bool only = argc > 1 && std::strcmp(argv[1], "fork");
	const int batches = only ? std::atoi(argv[1]) : 4;

	if (argc > 1 && !only) {
		interleavings();
		constants();
		forks();
		return 0;
	}
	pthread_barrier_init(&all, nullptr, THREADS);
	for (bool often : { false, true })
		for (const Litmus &l : shapes)
			litmus(l, batches, often);
	if (only)
		return 0;
	numbers();
	comparisons();
	handing();
	wides();
	handlers();
	locks("test_and_set()", spin_lock);
	locks("__sync_lock_test_and_set()", old_spin_lock);
	locks("tickets", ticket_lock);
	locks("wait(), notify_all()", waiting_lock);
	chain();
	shared_pointers();
	library();
	return 0;
}

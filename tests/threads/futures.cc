// SPDX-License-Identifier: BSD-2-Clause
// futures.cc - a plain C++20 program: what the C++ library and its headers do by futexes. Local
// static variables, promises and futures, packaged tasks, async(), waits for atomic objects,
// latches, barriers and semaphores.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static constexpr int THREADS = 6;

template <typename F> static void crowd(F fn)
{
	std::vector<std::thread> threads;

	for (int i = 0; i < THREADS; i++)
		threads.emplace_back(fn, i);
	for (auto &t : threads)
		t.join();
}

// ---- a local variable whose making takes long, and fails the first time -------------------------

static std::atomic<int> made, failed;

struct Slow {
	int value;

	Slow()
	{
		std::this_thread::sleep_for(200ms);
		if (made.fetch_add(1) == 0)
			throw std::runtime_error("not yet");
		value = 42;
	}
};

static int once()
{
	static Slow slow;

	return slow.value;
}

static void statics()
{
	std::atomic<int> sum{ 0 };

	crowd([&](int) {
		for (;;)
			try {
				sum += once();
				return;
			} catch (std::runtime_error &) {
				failed++;
			}
	});
	std::printf("a local variable: made %d times, failed %d, sum %d\n", made.load(), failed.load(), sum.load());
}

// ---- results ------------------------------------------------------------------------------------

static void futures()
{
	std::promise<int> first, broken;
	auto shared = first.get_future().share();
	auto none = broken.get_future();
	std::atomic<int> sum{ 0 };
	std::packaged_task<int(int)> task([](int n) { return n * n; });
	auto square = task.get_future();
	bool late, early, thrown = false;
	std::vector<std::future<long>> many;
	long all = 0;

	early = shared.wait_for(20ms) == std::future_status::timeout;
	std::thread setter([&] {
		std::this_thread::sleep_for(200ms);
		first.set_value(7);
	});
	crowd([&](int i) { sum += shared.get() + i; });
	setter.join();

	std::thread worker(std::move(task), 12);
	square.wait();
	late = square.wait_until(std::chrono::system_clock::now() + 10s) == std::future_status::ready;
	worker.join();

	std::thread thrower([&] {
		std::this_thread::sleep_for(100ms);
		broken.set_exception(std::make_exception_ptr(std::runtime_error("broken")));
	});
	try {
		none.get();
	} catch (std::exception &) {
		thrown = true;
	}
	thrower.join();
	for (long n = 1; n <= 8; n++)
		many.push_back(std::async(std::launch::async, [n] {
			std::this_thread::sleep_for(std::chrono::milliseconds(10 * n));
			return n;
		}));
	for (auto &f : many)
		all += f.get();
	std::printf("futures: %d, early %d, ready %d, square %d, exception %d, async %ld\n", sum.load(), early, late,
		    square.get(), thrown, all);
}

// ---- atomic objects -----------------------------------------------------------------------------

static std::atomic<int> turn;
static std::atomic<long> wide; // not a word: the headers have a counter for it
static std::atomic_flag flag;

static void atomics()
{
	int rounds = 0;

	crowd([&](int me) {
		for (int round = 0; round < 20; round++) {
			int seen;

			while ((seen = turn.load()) % THREADS != me)
				turn.wait(seen);
			rounds++;
			turn.store(seen + 1);
			turn.notify_all();
		}
	});
	std::atomic<int> came{ 0 };
	std::thread other([&] {
		std::this_thread::sleep_for(200ms); // they sleep
		wide = 1;
		wide.notify_all();
		for (int seen; (seen = came.load()) < THREADS;)
			came.wait(seen);
		flag.test_and_set();
		flag.notify_all();
	});
	crowd([&](int) {
		wide.wait(0);
		if (++came == THREADS)
			std::this_thread::sleep_for(200ms);
		came.notify_all();
		flag.wait(false);
	});
	other.join();
	std::printf("atomics: %d rounds, %d\n", rounds, turn.load());
}

static void meetings()
{
	std::latch begin(THREADS + 1), done(THREADS);
	std::counting_semaphore<100> tokens(2);
	// libstdc++ 12: of two at once, one may sleep on a count that it read before the other one
	// took it, and that came back.
	std::mutex at_a_time;
	std::binary_semaphore empty(0);
	int phases = 0;
	std::atomic<int> inside{ 0 }, most{ 0 }, wrong{ 0 };
	auto next = [&]() noexcept { phases++; };
	std::barrier<decltype(next)> all(THREADS, next);
	bool none;

	std::thread starter([&] {
		std::this_thread::sleep_for(100ms);
		begin.count_down();
	});
	crowd([&](int) {
		begin.arrive_and_wait();
		for (int i = 0; i < 10; i++) {
			all.arrive_and_wait();
			wrong += phases != 2 * i + 1;
			{
				std::lock_guard<std::mutex> one(at_a_time);

				tokens.acquire();
			}
			int n = ++inside, seen = most.load();
			while (n > seen && !most.compare_exchange_weak(seen, n))
				;
			--inside;
			tokens.release();
			all.arrive_and_wait();
		}
		done.count_down();
	});
	done.wait();
	starter.join();
	none = !empty.try_acquire_for(30ms);
	std::thread giver([&] {
		std::this_thread::sleep_for(50ms);
		empty.release();
	});
	std::printf("meetings: phases %d, wrong %d, inside %d, none %d, then %d\n", phases, wrong.load(),
		    most.load() >= 1 && most.load() <= 2, none, empty.try_acquire_for(20s));
	giver.join();
}

int main()
{
	statics();
	futures();
	atomics();
	meetings();
}

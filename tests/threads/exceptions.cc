// SPDX-License-Identifier: BSD-2-Clause
// exceptions.cc - a plain C++ program: exceptions that several threads have. Each is caught and
// kept by one thread, thrown again by all others at once, and destroyed once, by whoever is last.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static constexpr int THREADS = 6, ROUNDS = 40;

static std::atomic<int> made, gone, wrong;

struct Trouble : std::runtime_error {
	int maker, round;
	std::vector<int> more;

	Trouble(int m, int r)
	    : std::runtime_error("trouble " + std::to_string(m)), maker(m), round(r), more(100, r)
	{
		made++;
	}
	Trouble(const Trouble &t) : std::runtime_error(t), maker(t.maker), round(t.round), more(t.more)
	{
		made++;
	}
	Trouble &operator=(const Trouble &t) = default;
	~Trouble()
	{
		gone++;
	}
};

static std::mutex lock;
static std::condition_variable moved;
static int arrived, turn;
static std::exception_ptr kept[THREADS];

static void meet()
{
	std::unique_lock<std::mutex> hold(lock);
	const int mine = turn;

	if (++arrived == THREADS) {
		arrived = 0;
		turn++;
		moved.notify_all();
	}
	moved.wait(hold, [&] { return turn != mine; });
}

static void look(const std::exception_ptr &e, int maker, int round)
{
	try {
		std::rethrow_exception(e);
	} catch (const Trouble &caught) {
		Trouble t(caught); // its text is its own

		t = caught;
		wrong += t.maker != maker || t.round != round || t.more != std::vector<int>(100, round) ||
			 t.what() != "trouble " + std::to_string(maker);
		return;
	} catch (...) {
	}
	wrong++;
}

// Thrown again in a handler, and kept from there.
static std::exception_ptr passed_on(const std::exception_ptr &e)
{
	try {
		try {
			std::rethrow_exception(e);
		} catch (...) {
			throw;
		}
	} catch (...) {
		return std::current_exception();
	}
}

// Half of them throw what they keep, the others only make it.
static std::exception_ptr trouble(int me, int round)
{
	if (me % 2)
		return std::make_exception_ptr(Trouble(me, round));
	try {
		throw Trouble(me, round);
	} catch (...) {
		return std::current_exception();
	}
}

static void work(int me)
{
	for (int round = 0; round < ROUNDS; round++) {
		std::vector<std::exception_ptr> mine;

		kept[me] = trouble(me, round);
		meet();
		for (int i = 0; i < THREADS; i++) {
			const int other = (me + i) % THREADS;

			mine.push_back(kept[other]);
			look(mine.back(), other, round);
			mine.push_back(passed_on(mine.back()));
		}
		meet();
		kept[me] = nullptr; // the last ones are in vectors, maybe of threads elsewhere
		for (int i = 0; i < 2 * THREADS; i++)
			look(mine[i], (me + i / 2) % THREADS, round);
	}
}

static void crowd(void (*fn)(int))
{
	std::vector<std::thread> threads;

	for (int i = 0; i < THREADS; i++)
		threads.emplace_back(fn, i);
	for (auto &t : threads)
		t.join();
}

// All have one exception at once, from when its maker's handler ends.
static void together(int me)
{
	for (int round = 0; round < ROUNDS; round++) {
		try {
			if (!me)
				throw Trouble(me, round);
			meet();
		} catch (...) {
			kept[0] = std::current_exception();
			meet();
		}
		for (int i = 0; i < 10; i++) {
			const std::exception_ptr mine = kept[0];

			look(passed_on(mine), 0, round);
		}
		meet();
		if (!me)
			kept[0] = nullptr;
	}
}

// A thread has it while its maker is still in the handler.
static void handed()
{
	std::promise<void> given, seen;
	std::exception_ptr e;
	std::thread taker([&] {
		given.get_future().wait();
		look(e, 7, 8);
		e = nullptr;
		seen.set_value();
	});

	try {
		throw Trouble(7, 8);
	} catch (const Trouble &t) {
		e = std::current_exception();
		given.set_value();
		seen.get_future().wait();
		wrong += e != nullptr || t.maker != 7 || t.more.size() != 100;
	}
	taker.join();
}

static void results()
{
	std::vector<std::future<int>> all;
	int caught = 0, sum = 0;

	for (int i = 0; i < 20; i++)
		all.push_back(std::async(std::launch::async, [i] {
			if (i % 3 == 0)
				throw Trouble(i, 0);
			return i;
		}));
	for (auto &f : all)
		try {
			sum += f.get();
		} catch (const Trouble &t) {
			caught += t.maker;
		}
	std::printf("results: sum %d, caught %d\n", sum, caught);
}

static void nested()
{
	std::exception_ptr e;

	std::thread([&] {
		try {
			try {
				throw Trouble(1, 2);
			} catch (...) {
				std::throw_with_nested(std::logic_error("outer"));
			}
		} catch (...) {
			e = std::current_exception();
		}
	}).join();
	try {
		std::rethrow_exception(e);
	} catch (const std::logic_error &outer) {
		try {
			std::rethrow_if_nested(outer);
		} catch (const Trouble &t) {
			std::printf("nested: %s, %s\n", outer.what(), t.what());
		}
	}
}

int main()
{
	crowd(work);
	crowd(together);
	handed();
	results();
	nested();
	std::printf("made %d, wrong %d, left %d\n", made.load(), wrong.load(), made - gone);
	return 0;
}

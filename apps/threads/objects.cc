// SPDX-License-Identifier: BSD-2-Clause
// objects.cc - a plain C++ program with std::thread: containers, a static constructor that
// allocates, futures, exceptions in threads.
#include <condition_variable>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifndef THREADS
#define THREADS 5
#endif
#ifndef ENTRIES
#define ENTRIES 50 // of a thread
#endif

struct Registry {
	std::map<std::string, std::unique_ptr<long>> entries;
	std::mutex lock;
	Registry() { entries["made before main"] = std::make_unique<long>(1); }
	void add(const std::string &name, long n)
	{
		std::lock_guard<std::mutex> hold(lock);
		auto &e = entries[name];
		if (!e)
			e = std::make_unique<long>(0);
		*e += n;
	}
};

static Registry registry;
static std::mutex turn_lock;
static std::condition_variable turn_came;
static int turn;

static void work(int id, int n, std::vector<long> &results)
{
	for (int i = 0; i < ENTRIES; i++)
		registry.add("entry " + std::to_string(i % 10), i);
	try {
		if (id % 2)
			throw std::runtime_error("odd");
		results[id] = 100 * id;
	} catch (const std::exception &e) {
		results[id] = static_cast<long>(std::string(e.what()).size());
	}
	std::unique_lock<std::mutex> hold(turn_lock);
	turn_came.wait(hold, [&] { return turn == id; });
	turn = (turn + 1) % (n + 1);
	turn_came.notify_all();
}

int main()
{
	const int n = THREADS;
	std::vector<std::thread> threads;
	std::vector<long> results(n);
	for (int i = 0; i < n; i++)
		threads.emplace_back(work, i, n, std::ref(results));
	for (auto &t : threads)
		t.join();
	long sum = 0, entries = 0;
	for (const auto &e : registry.entries) {
		sum += *e.second;
		entries++;
	}
	std::printf("objects: %ld entries, %ld, results", entries, sum);
	for (long r : results)
		std::printf(" %ld", r);
	std::printf("\n");
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * collect.cc - C++ threads append strings to a vector under a mutex, and run a program of their
 * own.
 */
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex lock;
static std::condition_variable all_there;
static std::vector<std::string> words;
static std::atomic<int> there;
static std::unique_ptr<std::string> title = std::make_unique<std::string>("a constructor's string");

static void collect(int me)
{
	for (int i = 0; i < 100; i++) {
		std::lock_guard<std::mutex> held(lock);
		words.push_back("number " + std::to_string(1000 * me + i));
	}
	std::unique_lock<std::mutex> held(lock);
	if (++there == 4)
		all_there.notify_all();
	all_there.wait(held, [] { return there == 4; });
}

int main()
{
	std::vector<std::thread> threads;
	size_t length = 0;

	for (int i = 0; i < 4; i++)
		threads.emplace_back(collect, i);
	for (auto &t : threads)
		t.join();
	for (const auto &w : words)
		length += w.size();
	std::cout << *title << ": " << words.size() << " words of " << length << " characters" << std::endl;
	return std::system("echo a child") != 0;
}

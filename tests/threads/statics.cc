// SPDX-License-Identifier: BSD-2-Clause
// statics.cc - static variables of functions: their constructors run once, and what they have stored
// is seen by whoever uses the variable, though nothing else synchronises the threads.
#include <cstdio>
#include <pthread.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

static constexpr int THREADS = 4, WORDS = 3 * 1024;

static pthread_barrier_t all;
static unsigned int failures[THREADS];
static int made, tries, plain[WORDS];

// So large that no page has guards of two variables.
struct Once {
	int value, space[4096];

	Once()
	{
		made++;
		for (int &word : plain)
			word = made;
		usleep(1000);
		value = made;
	}
};

template <int N> static const Once &once()
{
	static Once only;

	return only;
}

// Each thread has a copy of what the constructor changes. Some come a while after it has run.
template <int... N> static void use_all(int thread, std::integer_sequence<int, N...>)
{
	const Once &(*const functions[])() = { once<N>... };

	for (int i = 0; i < (int)sizeof...(N); i++) {
		for (int word : plain)
			failures[thread] += word != i;
		pthread_barrier_wait(&all);
		if (thread % 2 == i % 2)
			usleep(5000);
		failures[thread] += functions[i]().value != i + 1;
		for (int word : plain)
			failures[thread] += word != i + 1;
		pthread_barrier_wait(&all);
	}
	for (int i = 0; i < 1000; i++)
		failures[thread] += once<0>().value != 1;
}

struct Late {
	int value;

	Late()
	{
		if (++tries < 3)
			throw std::runtime_error("not yet");
		value = tries;
	}
};

static int late()
{
	static Late only;

	return only.value;
}

static int late_value()
{
	for (;;)
		try {
			return late();
		} catch (const std::runtime_error &) {
		}
}

int main()
{
	std::vector<std::thread> threads;
	unsigned int sum = 0;

	pthread_barrier_init(&all, nullptr, THREADS);
	for (int i = 0; i < THREADS; i++)
		threads.emplace_back([i] {
			use_all(i, std::make_integer_sequence<int, 10>());
			failures[i] += late_value() != 3;
		});
	for (auto &t : threads)
		t.join();
	for (unsigned int n : failures)
		sum += n;
	printf("%d made, %d tries, %s\n", made, tries, sum ? "stale" : "ok");
	return 0;
}

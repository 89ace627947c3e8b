// SPDX-License-Identifier: BSD-2-Clause
// objects.cc - OpenMP in C++: objects that are private, exceptions within a region, tasks with copies.
#include <omp.h>

#include <atomic>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

static std::atomic<long> made, gone;

struct Counted {
	long value;
	explicit Counted(long v = 0) : value(v) { made++; }
	Counted(const Counted &o) : value(o.value) { made++; }
	~Counted() { gone++; }
};

/* Its copies are made where they stay. */
struct Placed {
	const Placed *at = this;
	Placed() = default;
	Placed(const Placed &) : at(this) { }
};

static long moved()
{
	const Placed p;
	long wrong = 0;

#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 400; i++) {
#pragma omp task firstprivate(p) shared(wrong)
		{
			for (volatile int spin = 20000; spin;)
				spin = spin - 1;
			if (p.at != &p) {
#pragma omp atomic
				wrong++;
			}
		}
	}
	return wrong;
}

#pragma omp declare reduction(join : std::vector<int> : omp_out.insert(omp_out.end(), omp_in.begin(), omp_in.end()))

int main()
{
	std::vector<int> list;
	std::vector<double> squares(1000);
	long sum = 0, caught = 0, tasks = 0;
	{
		Counted c(7);

#pragma omp parallel for firstprivate(c) reduction(+ : sum)
		for (int i = 0; i < 100; i++)
		{
			const long before = c.value++;

			sum += c.value - before - 1 + i;
		}
#pragma omp parallel
#pragma omp single
		for (int i = 0; i < 50; i++)
#pragma omp task firstprivate(c) shared(tasks)
		{
			const std::string text = "number " + std::to_string(i + c.value);

#pragma omp atomic
			tasks += std::stol(text.substr(7)) - c.value;
		}
	}
#pragma omp parallel for reduction(join : list) schedule(dynamic, 3)
	for (int i = 0; i < 300; i++)
		list.push_back(i);
#pragma omp parallel for schedule(guided)
	for (auto it = squares.begin(); it < squares.end(); ++it)
		*it = double(it - squares.begin()) * double(it - squares.begin());
#pragma omp parallel for reduction(+ : caught)
	for (int i = 0; i < 90; i++)
		try {
			if (i % 3 == 0)
				throw std::runtime_error("third");
		} catch (const std::exception &) {
			caught++;
		}
	printf("moved %ld, sum %ld, tasks %ld, list %zu of %d, squares %.0f, caught %ld, %s\n", moved(), sum, tasks, list.size(),
	       std::accumulate(list.begin(), list.end(), 0), std::accumulate(squares.begin(), squares.end(), 0.0), caught,
	       made == gone ? "all objects gone" : "objects left");
}

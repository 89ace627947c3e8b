// SPDX-License-Identifier: BSD-2-Clause
// iostreams.cc - a plain C++ program: the standard streams are the same for all threads, with their
// formats, states, locales and buffers. Threads take turns, and each leaves the streams in another
// state.
#include <condition_variable>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <locale>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static constexpr int THREADS = 6;
static std::ostream *const out = &std::cout; // an address in data, which the loader fills in
static std::ostream &log = std::clog;

// Threads are on all ranks at the same time, and run fn one after the other.
template <typename F> static void turns(F fn)
{
	std::vector<std::thread> threads;
	std::condition_variable moved;
	std::mutex lock;
	int turn = 0;

	for (int i = 0; i < THREADS; i++)
		threads.emplace_back([&, i] {
			std::unique_lock<std::mutex> held(lock);

			moved.wait(held, [&] { return turn == i; });
			fn(i);
			turn++;
			moved.notify_all();
		});
	for (auto &t : threads)
		t.join();
}

struct Early {
	Early()
	{
		std::cout << "before main" << std::endl << std::setprecision(3);
	}
	~Early()
	{
		std::cout << "after main " << 2.0 / 3 << std::endl;
	}
} static early;

static void formats()
{
	std::cout << 1.0 / 3 << std::hex << std::showbase << std::setfill('.') << std::boolalpha << "\nfrom main ";
	turns([](int i) {
		std::cout << "thread " << std::setw(6) << 10 + i << ' ' << std::setw(8) << (i > 2) << ' ' << 1.0 / 7
			  << '\n';
		if (i == 2)
			*out << std::dec << std::setprecision(9) << std::setfill('_') << std::scientific;
	});
	std::cout << "main " << std::setw(6) << 10 << ' ' << true << ' ' << 1.0 / 7;
	std::cout << std::defaultfloat << std::noboolalpha << std::setprecision(3) << std::setfill(' ') << std::endl;
	turns([](int i) {
		std::wcout << std::setprecision(static_cast<int>(std::wcout.precision()) + i)
			   << std::setfill(static_cast<wchar_t>(std::wcout.fill() + 1));
		std::cerr << std::setw(4) << i << std::setfill('#') << std::endl;
		log << std::setw(4) << i << (i % 2 ? std::oct : std::hex) << std::showbase << 9 << ' ' << std::flush;
	});
	std::cerr << std::endl;
	std::cout << "wide " << std::wcout.precision() << ' ' << static_cast<int>(std::wcout.fill()) << std::endl;
}

static void states()
{
	std::ostringstream text;
	auto *own = std::cout.rdbuf(text.rdbuf());

	turns([](int i) { std::cout << "captured " << i << (i < THREADS - 1 ? ", " : ""); });
	std::cout.rdbuf(own);
	std::cout << text.str() << std::endl;
	std::cout.setstate(std::ios::failbit);
	turns([](int i) {
		std::cout << "not printed " << i;
		if (i == 3)
			std::cout.clear();
		else if (i > 3)
			std::cout << '\n';
	});
	std::cout.exceptions(std::ios::badbit);
	turns([](int i) {
		try {
			std::cout.setstate(std::ios::badbit);
		} catch (std::ios::failure &) {
			std::cout.clear();
			std::cout << "exception " << i << ", tied " << (std::cin.tie() == &std::cout)
				  << (std::cerr.tie() == out) << '\n';
		}
	});
	std::cout.exceptions(std::ios::goodbit);
}

struct Grouping : std::numpunct<char> {
	char do_thousands_sep() const override
	{
		return '\'';
	}
	std::string do_grouping() const override
	{
		return "\3";
	}
};

static void locales()
{
	const auto before = std::cout.imbue(std::locale(std::locale(), new Grouping));

	turns([&](int i) {
		std::cout << 1234567 * i << '\n';
		if (i == 4)
			std::cout.imbue(before);
	});
}

static void input()
{
	std::string word, line;
	char c;

	std::cin >> word;
	std::cout << "main: " << word << '\n';
	turns([&](int i) {
		std::getline(std::cin, line);
		std::cin >> word >> c;
		std::cout << i << ": [" << line << "] " << word << ' ' << c << ", next " << std::cin.peek() << '\n';
		std::cin.putback(c);
		c = 0;
		std::cin.get(c);
		std::cout << c << '\n';
	});
	turns([](int i) {
		int n = 0;

		if (i == 1)
			std::cin.clear();
		std::cin >> n;
		std::cout << i << ": " << n << ' ' << std::cin.fail() << '\n';
	});
}

static void order()
{
	std::cout << "main, ";
	turns([](int i) {
		std::cout << "thread " << i << ", ";
		std::cout.flush();
		std::printf("printf %d, ", i);
		std::fflush(stdout);
	});
	std::cout << "main\n";
	std::thread([] { std::cout << "the last line of a thread\n"; }).join();
	std::cout << "the last line of main\n";
}

int main()
{
	bool first, second;

	dup2(STDOUT_FILENO, STDERR_FILENO); // one file, so that the order counts
	std::cout << "main" << std::endl;
	first = std::ios::sync_with_stdio(false);
	std::thread([&] { second = std::ios_base::sync_with_stdio(true); }).join();
	std::cout << "synchronised " << first << second << std::endl;
	formats();
	states();
	locales();
	input();
	order();
}

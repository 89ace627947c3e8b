// SPDX-License-Identifier: BSD-2-Clause
// unwind.cc - a plain C++ program: destructors, handlers and catch clauses of threads that are
// cancelled or end by pthread_exit(), and destructors of their own objects before they are joined.
#include <atomic>
#include <cstdio>
#include <cxxabi.h>
#include <pthread.h>
#include <semaphore.h>
#include <string>
#include <unistd.h>

static std::string *line;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t none;
static std::atomic<bool> ready;

struct Guard {
	const char *name;
	Guard(const char *n) : name(n)
	{
	}
	~Guard()
	{
		*line += std::string(" ~") + name;
	}
};

// Of each thread: made by its first use, one by another's destructor.
struct Later {
	std::string text{ " later" };
	~Later()
	{
		*line += text;
	}
};
static thread_local Later later;

struct Last {
	std::string text{ " last" };
	~Last()
	{
		usleep(20000);
		*line += text;
		later.text += "!";
	}
};
static thread_local Last last;
static pthread_key_t key;

// Too late for an object to be destroyed.
static void destroyed(void *what)
{
	static thread_local Later latest;

	latest.text += "?";
	*line += std::string(" ") + static_cast<const char *>(what);
}

struct Locked {
	Locked()
	{
		pthread_mutex_lock(&lock);
	}
	~Locked()
	{
		*line += " ~locked";
		pthread_mutex_unlock(&lock);
	}
};

static void handler(void *what)
{
	*line += std::string(" ") + static_cast<const char *>(what);
}

static void in_cond()
{
	Locked hold;

	ready = true;
	for (;;)
		pthread_cond_wait(&never, &lock);
}

static void in_sem()
{
	ready = true;
	sem_wait(&none);
}

static void in_sleep()
{
	ready = true;
	for (;;)
		sleep(1000);
}

static void by_exit()
{
	ready = true;
	pthread_exit(line);
}

static void returns()
{
	ready = true;
}

static void catches(void (*fn)())
{
	Guard inner("inner");

	try {
		fn();
	} catch (abi::__forced_unwind &) {
		*line += " caught";
		throw;
	}
}

static void *work(void *fn)
{
	Guard outer("outer");

	last.text += "!";
	pthread_setspecific(key, "key");
	pthread_cleanup_push(handler, const_cast<char *>("handler"));
	catches(reinterpret_cast<void (*)()>(fn));
	pthread_cleanup_pop(0);
	return nullptr;
}

int main()
{
	static void (*const where[])() = { in_cond, in_sem, in_sleep, by_exit, returns };

	line = new std::string;
	pthread_key_create(&key, destroyed);
	sem_init(&none, 0, 0);
	for (auto *fn : where) {
		pthread_t t;
		void *result;

		pthread_create(&t, nullptr, work, reinterpret_cast<void *>(fn));
		while (!ready)
			usleep(1000);
		usleep(10000);
		if (fn != by_exit && fn != returns)
			pthread_cancel(t);
		pthread_join(t, &result);
		std::printf("%s %s\n", line->c_str(),
			    result == PTHREAD_CANCELED ? "cancelled"
				    : result == line   ? "exited"
				    : !result          ? "returned"
						       : "?");
		line->clear();
		ready = false;
	}
	delete line;
}

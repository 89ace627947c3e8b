# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: libraries that the program opens (dlopen()): parts of it on all ranks, or
# refused by name.

if is_chosen opened; then
	# A library of C++, with one that it needs, and one of C that is found by the executable's run path.
	mkdir -p "$scratch/plugins"
	cat >"$scratch/needed.c" <<-'END'
		#include <pthread.h>
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		static int calls;
		int needed(int n) { pthread_mutex_lock(&lock); calls += n; n = calls; pthread_mutex_unlock(&lock); return n; }
	END
	cat >"$scratch/plugin.cc" <<-'END'
		#include <cstdio>
		#include <iomanip>
		#include <iostream>
		#include <map>
		#include <stdexcept>
		#include <string>
		#include <thread>
		extern "C" int needed(int);
		extern "C" const char *named();
		static std::map<std::string, int> counts{{"a key that is longer than a string has room for", 1}};
		static int first, threads;
		struct last { ~last() { std::printf("last: %zu keys, %d\n", counts.size(), needed(0)); } };
		static last at_end;
		struct shape { virtual ~shape() {} virtual int area() const = 0; };
		struct square : shape { int side; square(int s) : side(s) {} int area() const override { return side * side; } };
		__attribute__((constructor)) static void begin()
		{
			first = needed(1);
			std::thread([] { threads = 1 + (needed(1) == 2); }).join();
		}
		extern "C" shape *make(int side) { counts["made"]++; std::cout << std::setw(side) << std::flush; return new square(side); }
		extern "C" int area(const shape *s) { return s->area() + threads; }
		extern "C" int count(const char *key)
		{
			auto at = counts.find(key);
			if (at == counts.end())
				throw std::out_of_range(named() + std::string(key));
			return at->second + needed(10);
		}
		extern "C" int counted(const char *key)
		{
			try { return count(key); } catch (const std::exception &e) { std::cout << e.what() << std::endl; return -1; }
		}
	END
	cat >"$scratch/opens.cc" <<-'END'
		#include <crypt.h>
		#include <cstdio>
		#include <cstring>
		#include <dlfcn.h>
		#include <exception>
		#include <iostream>
		#include <pthread.h>
		struct shape;
		extern "C" const char *named() { return "none: "; }
		static void *plugin, *needed, *secret;
		static shape *made;
		static const char *text;
		template <typename F> static F symbol(void *from, const char *name)
		{
			void *at = dlsym(from, name);
			if (!at)
				std::printf("%s\n", std::strstr(dlerror(), "undefined") ? "undefined" : "?");
			return reinterpret_cast<F>(at);
		}
		static void *opens(void *)
		{
			plugin = dlopen("plugin.so", RTLD_LAZY);
			if (!plugin)
				std::printf("%s\n", dlerror());
			made = symbol<shape *(*)(int)>(plugin, "make")(3);
			std::cout << 7 << std::endl;
			return nullptr;
		}
		static void *uses(void *)
		{
			std::printf("area %d\n", symbol<int (*)(const shape *)>(plugin, "area")(made));
			std::printf("made %d\n", symbol<int (*)(const char *)>(plugin, "counted")("made"));
			std::printf("none %d\n", symbol<int (*)(const char *)>(plugin, "counted")("nowhere"));
			try {
				symbol<int (*)(const char *)>(plugin, "count")("thrown");
			} catch (const std::exception &e) {
				std::printf("caught %s\n", e.what());
			}
			std::printf("again %d %d\n", dlopen("plugin.so", RTLD_NOW) == plugin, dlopen("plugin.so", RTLD_NOW | RTLD_NOLOAD) == plugin);
			std::printf("closed %d %d\n", dlclose(plugin), dlclose(plugin));
			return nullptr;
		}
		static void *global(void *)
		{
			needed = needed ? needed : dlopen("libneeded.so", RTLD_NOW | RTLD_GLOBAL);
			std::printf("needed %d\n", symbol<int (*)(int)>(RTLD_DEFAULT, "needed")(100));
			symbol<void *>(needed, "no_such");
			std::printf("%s\n", dlopen("./no-such.so", RTLD_NOW) ? "opened" : dlerror());
			std::printf("%d\n", dlerror() == nullptr);
			return nullptr;
		}
		static void *hide(void *)
		{
			secret = secret ? secret : dlopen("libcrypt.so.1", RTLD_NOW);
			if (!text)
				text = symbol<char *(*)(const char *, const char *)>(secret, "crypt")("word", "$1$salt");
			std::printf("%s\n", text);
			return nullptr;
		}
		static void on_each(void *(*fn)(void *))
		{
			for (int i = 0; i < 4; i++) {
				pthread_t t;
				pthread_create(&t, nullptr, fn, nullptr);
				pthread_join(t, nullptr);
			}
		}
		int main(int argc, char **)
		{
			pthread_t t;
			setvbuf(stdout, nullptr, _IOLBF, 0);
			pthread_create(&t, nullptr, opens, nullptr);
			pthread_join(t, nullptr);
			on_each(uses);
			on_each(global);
			if (argc > 1)
				on_each(hide);
			uses(nullptr);
			return 0;
		}
	END
	gcc -O2 -shared -fPIC "$scratch/needed.c" -o "$scratch/plugins/libneeded.so" &&
		g++ -O2 -shared -fPIC -pthread "$scratch/plugin.cc" -o "$scratch/plugins/plugin.so" -L"$scratch/plugins" -lneeded "-Wl,-rpath,$scratch/plugins" &&
		g++ -O2 -rdynamic -pthread "$scratch/opens.cc" -o "$scratch/opens" "-Wl,-rpath,$scratch/plugins" &&
		"$tools/dsm-c++" -O2 -rdynamic -pthread "$scratch/opens.cc" -o "$scratch/opens.dsm" "-Wl,-rpath,$scratch/plugins" ||
		count_failure "opened: build"
	want=$("$scratch/opens" secret)
	by=(timeout -k 5 60 "${run[@]}")
	for way in one node two mprotect; do
		setting=DSM_FAULT=auto
		[[ $way != mprotect ]] || setting=DSM_FAULT=mprotect
		# shellcheck disable=SC2086
		same "opened: $way" "$(env $setting "${by[@]}" ${ways[$way]} "$scratch/opens.dsm" secret 2>&1)" "$want"
	done
	# shellcheck disable=SC2086
	same "opened: preload" "$("${by[@]}" ${ways[preload]} "$scratch/opens" secret 2>&1)" "$want"

	# What ranks cannot share stays on rank 0, is named, and so is an access by the other one.
	program opens-one -rdynamic <<-'END'
		#include <dlfcn.h>
		#include <pthread.h>
		#include <stdio.h>
		#include <string.h>
		static int (*fn)(void);
		int inside(void);
		int inside(void) { return 5; }
		static void *call(void *arg) { printf("there %d\n", fn()); return arg; }
		int main(int argc, char **argv)
		{
			void *from = dlopen(argv[1], argc < 4 ? RTLD_NOW : *argv[3] == 'l' ? RTLD_LAZY : RTLD_NOW | RTLD_DEEPBIND);
			pthread_t t;
			if (!from) {
				printf("no: %s\n", dlerror());
				return 3;
			}
			fn = (int (*)(void))dlsym(from, argv[2]);
			printf("here %d\n", fn());
			fflush(stdout);
			pthread_create(&t, NULL, call, NULL);
			pthread_join(t, NULL);
			return dlclose(from);
		}
	END
	# [how=deep] stays NAME WHY FILE [SETTING]...
	stays() {
		local got status=0
		got=$(env "${@:4}" timeout -k 5 60 "${run[@]}" -n 2 --nodes rank "$scratch/opens-one" "$scratch/plugins/$3" call "${how:-lazy}" 2>&1 </dev/null) || status=$?
		[[ $got != *"dlopen(): ranks cannot share $scratch/plugins/$2"*"private memory of rank 0"* ]] || got=$2
		same "opened: $1" "$status $got" "139 $2"
	}
	plugin() { gcc -O2 -x c -shared -fPIC - "${@:2}" -o "$scratch/plugins/$1"; }
	plugin tls.so -ftls-model=initial-exec <<<'__thread int n; int call(void) { return ++n; }'
	stays "initial-exec" "tls.so: it needs thread-local variables at a fixed distance" tls.so
	plugin tlsdesc.so -mtls-dialect=gnu2 <<<'__thread int n; int call(void) { return ++n; }'
	stays "TLS descriptors" "tlsdesc.so: its thread-local variables are found by descriptors" tlsdesc.so
	plugin lacks.so <<<'int nowhere(void); int call(void) { return 1; } int calls(void) { return nowhere(); }'
	stays "a function is missing" "lacks.so: not all functions that it calls are found" lacks.so
	plugin begins.so <<<'#include <stdlib.h>
		int nowhere(void); void *p; __attribute__((constructor)) static void begin(void) { p = malloc(9); } int call(void) { return 1; } int calls(void) { return nowhere(); }'
	stays "and a constructor allocates" "begins.so: not all functions that it calls are found" begins.so
	plugin libgomp.so.1 -Wl,-soname,libgomp.so.1 <<<'int calls(void) { return 2; }'
	plugin gomp.so -L"$scratch/plugins" -l:libgomp.so.1 "-Wl,-rpath,$scratch/plugins" <<<'int calls(void); int call(void) { return calls(); }'
	stays "needs what is no part" "libgomp.so.1: it is never a part of a program" gomp.so
	plugin plain.so <<<'static int n; int call(void) { return ++n; }'
	how=deep stays "RTLD_DEEPBIND" "plain.so: it is opened with RTLD_DEEPBIND" plain.so
	# What a constructor opens is decided for itself, and its own library is shared.
	plugin needs.so -L"$scratch/plugins" -l:tls.so "-Wl,-rpath,$scratch/plugins" <<<'int call(void); int calls(void) { return call(); }'
	# shellcheck disable=SC2016
	plugin nested.so <<<'#include <dlfcn.h>
		#include <stdio.h>
		static int n; static int (*fn)(void), (*back)(void);
		int nested(void) { return ++n; }
		static void *in(const char *file, const char *name) { return dlsym(dlopen(file, RTLD_NOW), name); }
		__attribute__((constructor)) static void begin(void)
		{
			in("${ORIGIN}/tls.so", "call");
			fn = (int (*)(void))in("$ORIGIN/needs.so", "calls");
			back = (int (*)(void))in("$ORIGIN/../plugins/back.so", "back");
		}
		int call(void) { printf("nested %d\n", back()); fflush(stdout); return fn(); }'
	plugin back.so -L"$scratch/plugins" -l:nested.so "-Wl,-rpath,$scratch/plugins" <<<'int nested(void); int back(void) { return nested(); }'
	same "opened: by a constructor" \
		"$("${by[@]}" -n 2 --nodes rank "$scratch/opens-one" "$scratch/plugins/nested.so" call 2>&1 | sed -n 's/.*share .*plugins.\(.*\)\. It stays .*/\1/p; /^nested/p; s/.*\(private memory of rank 0\).*/\1/p')" \
		$'tls.so: it needs thread-local variables at a fixed distance (-ftls-model=initial-exec)\nneeds.so: it needs tls.so, of which each rank has its own\nnested 1\nnested 2\nprivate memory of rank 0'
	# A constructor initialises an object that the C library has in another form.
	plugin sem.so <<<'#include <semaphore.h>
		static sem_t s;
		__attribute__((constructor)) static void begin(void) { sem_init(&s, 0, 2); }
		int call(void) { return !sem_trywait(&s); }'
	plugin barrier.so <<<'#include <pthread.h>
		static pthread_barrier_t b;
		__attribute__((constructor)) static void begin(void) { pthread_barrier_init(&b, NULL, 1); }
		int call(void) { return pthread_barrier_wait(&b) == PTHREAD_BARRIER_SERIAL_THREAD; }'
	plugin cond.so <<<'#include <errno.h>
		#include <pthread.h>
		#include <time.h>
		static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
		static pthread_cond_t c;
		__attribute__((constructor)) static void begin(void)
		{
			pthread_condattr_t by;
			pthread_condattr_init(&by);
			pthread_condattr_setclock(&by, CLOCK_MONOTONIC);
			pthread_cond_init(&c, &by);
		}
		static long at(struct timespec t) { return t.tv_sec * 1000000000 + t.tv_nsec; }
		int call(void)
		{
			struct timespec now, until;
			int err;
			clock_gettime(CLOCK_MONOTONIC, &until);
			until.tv_nsec += 50000000;
			until.tv_sec += until.tv_nsec / 1000000000;
			until.tv_nsec %= 1000000000;
			pthread_mutex_lock(&m);
			err = pthread_cond_timedwait(&c, &m, &until);
			pthread_mutex_unlock(&m);
			clock_gettime(CLOCK_MONOTONIC, &now);
			return err == ETIMEDOUT && at(now) >= at(until);
		}'
	for object in sem barrier cond; do
		# shellcheck disable=SC2086
		same "opened: initialised by it, $object" "$("${by[@]}" ${ways[two]} "$scratch/opens-one" "$scratch/plugins/$object.so" call 2>&1)" $'here 1\nthere 1'
	done
	# Relative to the executable, and in a name to no folder.
	for way in one two preload; do
		# shellcheck disable=SC2016,SC2086
		same "opened: of the origin, $way" "$("${by[@]}" ${ways[$way]} "$scratch/opens-one" '$ORIGIN/plugins/plain.so' call 2>&1)" $'here 1\nthere 2'
	done
	cp "$scratch/plugins/plain.so" "$scratch/plugins/\$ORIGINAL.so"
	same "opened: of a name like it" "$("${by[@]}" -n 2 "$scratch/opens-one" "$scratch/plugins/\$ORIGINAL.so" call 2>&1)" $'here 1\nthere 2'
	says "opened: with release consistency" "nobody has looked for atomic instructions in it" 139 \
		"${run[@]}" ${ways[release]} "$scratch/opens-one" "$scratch/plugins/plain.so" call
	same "opened: with release consistency, trusted" \
		"$(DSM_ATOMICS=trust "${by[@]}" ${ways[release]} "$scratch/opens-one" "$scratch/plugins/plain.so" call 2>&1)" $'here 1\nthere 2'
	says "opened: of each rank" "private memory of rank 0" 139 env DSM_OWN_LIBRARIES=rank "${run[@]}" -n 2 "$scratch/opens-one" "$scratch/plugins/plain.so" call
fi

# Thread-local variables of what is opened: each thread has its own, by calls for one variable and for
# all of a file, aligned, with first values that are pointers, in C++ with constructors and destructors,
# and those of a library that it needs, and of the program.
if is_chosen opened; then
	gcc -O2 -shared -fPIC -x c - -o "$scratch/plugins/liblocals.so" <<<'__thread int of_needed = 5;'
	g++ -O2 -shared -fPIC -x c++ - -o "$scratch/plugins/locals.so" -L"$scratch/plugins" -llocals "-Wl,-rpath,$scratch/plugins" <<-'END'
		#include <cstdint>
		#include <cstdio>
		#include <string>
		extern "C" __thread int of_needed, of_program;
		static const char word[] = "word";
		extern "C" { __thread const char *text = word; }
		static __thread int counts[2], large[3000];
		static __thread struct { alignas(128) char c[256]; } aligned;
		static int alive;
		struct object {
			std::string s{"a text that is longer than a string has room for"};
			object() { alive++; }
			~object() { alive += 99 + counts[0] * 1000; }
		};
		static thread_local object made;
		__attribute__((constructor)) static void begin() { counts[0] = 7; }
		extern "C" int call(int n)
		{
			int wrong = reinterpret_cast<std::uintptr_t>(&aligned) % 128 || aligned.c[255] || text != word || large[2999];
			aligned.c[255] = large[2999] = 0;
			made.s += 'x';
			std::printf("%d: %d %d %d %d %zu, %d\n", n, counts[0] += n, counts[1]++, of_needed++, of_program++, made.s.size(), wrong);
			return alive;
		}
	END
	program opens-locals -rdynamic <<-'END'
		#include <dlfcn.h>
		#include <pthread.h>
		#include <stdio.h>
		#include <string.h>
		__thread int of_program = 3;
		static void *from;
		static int (*call)(int), count;
		static void *calls(void *arg)
		{
			int n = ++count;
			of_program += n;
			call(n);
			return arg ? arg : (void *)(long)call(n);
		}
		static void *takes(void *arg)
		{
			void *at = dlsym(from, "text");
			return at ? "found" : strdup(dlerror());
		}
		int main(int argc, char **argv)
		{
			pthread_t t;
			void *alive;
			int i;
			from = dlopen(argv[1], RTLD_NOW);
			*(void **)&call = dlsym(from, "call");
			for (i = 0; i < 5; i++) {
				pthread_create(&t, NULL, calls, NULL);
				pthread_join(t, &alive);
				printf("alive %ld\n", (long)alive);
			}
			calls(from);
			printf("alive %d\n", call(100));
			for (i = 0; argc > 2 && i < 2; i++) {
				pthread_create(&t, NULL, takes, NULL);
				pthread_join(t, &alive);
				printf("%s\n", (char *)alive);
			}
			return 0;
		}
	END
	gcc -O2 -rdynamic -pthread "$scratch/opens-locals.c" -o "$scratch/opens-locals.native" || count_failure "opened: build"
	want=$("$scratch/opens-locals.native" "$scratch/plugins/locals.so")
	for way in one node two; do
		# shellcheck disable=SC2086
		same "opened: thread-local variables, $way" "$("${by[@]}" ${ways[$way]} "$scratch/opens-locals" "$scratch/plugins/locals.so" 2>&1)" "$want"
	done
	# shellcheck disable=SC2086
	same "opened: thread-local variables, preload" "$("${by[@]}" ${ways[preload]} "$scratch/opens-locals.native" "$scratch/plugins/locals.so" 2>&1)" "$want"
	says "opened: the address of a thread-local variable" "cannot share the address of a thread-local variable" 0 \
		"${run[@]}" -n 2 --nodes rank "$scratch/opens-locals" "$scratch/plugins/locals.so" address
fi

# A program in C, which loads the C++ library with its plugin: objects of the plugin are the job's.
if is_chosen opened; then
	g++ -O2 -shared -fPIC -x c++ - -o "$scratch/plugins/objects.so" <<-'END'
		#include <stdexcept>
		#include <string>
		extern "C" void *make(int n) { return new std::string(100, (char)n); }
		extern "C" int sum(void *p) { int all = 0; for (char c : *(std::string *)p) all += c; return all; }
		extern "C" void drop(void *p) { delete (std::string *)p; }
		extern "C" int fails(void) { try { throw std::runtime_error("none"); } catch (const std::exception &e) { return *e.what(); } }
	END
	program opens-cxx <<-'END'
		#include <dlfcn.h>
		#include <pthread.h>
		#include <stdio.h>
		#include <stdlib.h>
		static void *(*make)(int), (*drop)(void *);
		static int (*sum)(void *), (*fails)(void);
		static void *objects[4];
		static int caught[4];
		static void *makes(void *me) { objects[(long)me] = make((int)(long)me + 1); caught[(long)me] = fails(); return NULL; }
		static void *sums(void *me) { void *p = objects[((long)me + 1) % 4]; long n = sum(p); drop(p); return (void *)n; }
		static void run(void *(*fn)(void *))
		{
			pthread_t t[4];
			void *n;
			long i;
			for (i = 0; i < 4; i++)
				pthread_create(&t[i], NULL, fn, (void *)i);
			for (i = 0; i < 4; i++, printf(" %ld", (long)n))
				pthread_join(t[i], &n);
		}
		int main(int argc, char **argv)
		{
			void *plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
			*(void **)&make = dlsym(plugin, "make");
			*(void **)&sum = dlsym(plugin, "sum");
			*(void **)&drop = dlsym(plugin, "drop");
			*(void **)&fails = dlsym(plugin, "fails");
			run(makes);
			run(sums);
			printf("; %d %d\n", caught[0], caught[3]);
			return 0;
		}
	END
	for way in one node two; do
		# shellcheck disable=SC2086
		says "opened: C++ in a program in C, $way" " 0 0 0 0 200 300 400 100; 110 110" 0 \
			"${run[@]}" ${ways[$way]} "$scratch/opens-cxx" "$scratch/plugins/objects.so"
	done
fi

# Functions are chosen for the processor of rank 0: a rank with another one is refused, and
# one with a library at another address.
if is_chosen features; then
	program features <<<'int main(void) { return 3; }'
	on_other=(mpirun -q --allow-run-as-root -n 1 setarch -R "$scratch/features" : -n 1 setarch -R env)
	says "features: one is missing" "GLIBC_TUNABLES=glibc.cpu.hwcaps=-SSE4_2 for all ranks" 70 "${on_other[@]}" GLIBC_TUNABLES=glibc.cpu.hwcaps=-SSE4_2 "$scratch/features"
	says "features: other functions" "the C library has chosen other functions" 70 "${on_other[@]}" GLIBC_TUNABLES=glibc.cpu.hwcaps=Prefer_ERMS "$scratch/features"
	says "features: other addresses" "is at another address than on rank 0: start" 70 "${on_other[@]}" LD_PRELOAD=libBrokenLocale.so.1 "$scratch/features"
	says "features: trusted" "" 3 "${on_other[@]}" GLIBC_TUNABLES=glibc.cpu.hwcaps=-SSE4_2 DSM_FEATURES=trust "$scratch/features"
	says "features: hidden on both" "" 3 env GLIBC_TUNABLES=glibc.cpu.hwcaps=-SSE4_2 "${run[@]}" -n 2 "$scratch/features"
	# One that no variable of the program shows to be elsewhere, as it comes behind the C library.
	mkdir -p "$scratch/larger"
	gcc -shared -fPIC -x c - -o "$scratch/libdeep.so" <<<'int deep(void) { return 3; }'
	gcc -shared -fPIC -x c - -o "$scratch/larger/libdeep.so" <<<'char room[1 << 20]; int deep(void) { return 3; }'
	gcc -shared -fPIC -x c - -o "$scratch/libabove.so" -L"$scratch" -ldeep <<<'int deep(void); int above(void) { return deep(); }'
	program places -L"$scratch" -Wl,--allow-shlib-undefined -labove <<<'int above(void); int main(void) { return above(); }'
	says "places: the same" "" 3 env DSM_OWN_LIBRARIES=rank "LD_LIBRARY_PATH=$scratch" "${run[@]}" -n 2 "$scratch/places"
	# Two of one name.
	mkdir -p "$scratch/namesake"
	gcc -shared -fPIC -x c - -o "$scratch/namesake/libdeep.so" <<<'int deeper(void) { return 3; }'
	program namesakes "$scratch/libdeep.so" "$scratch/namesake/libdeep.so" <<<'int deep(void), deeper(void); int main(void) { return deep() == deeper() ? 3 : 1; }'
	says "places: two of one name" "" 3 env DSM_OWN_LIBRARIES=rank "${run[@]}" -n 2 "$scratch/namesakes"
	says "places: a library elsewhere" "libdeep.so is at another address than on rank 0" 70 env DSM_OWN_LIBRARIES=rank \
		mpirun -q --allow-run-as-root -n 1 setarch -R env "LD_LIBRARY_PATH=$scratch" "$scratch/places" : \
		-n 1 setarch -R env "LD_LIBRARY_PATH=$scratch/larger:$scratch" "$scratch/places"
fi

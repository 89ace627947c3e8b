# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: memory that is one rank's: no other rank has any at its addresses, and
# an access there is reported.

# A library's memory and threads: the rank's.
export DSM_OWN_LIBRARIES=rank
cat >"$scratch/keeps.c" <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *here(void *arg)
{
	static volatile char *at;
	char some[8] = "stack";
	at = some;
	*(volatile char **)arg = at;
	return arg;
}
void *keep(size_t n, int again);
void *keep(size_t n, int again)
{
	char *p = malloc(n);
	if (again && p)
		p = realloc(p, 3 * n);
	return p ? strcpy(p, "contents") : NULL;
}
static char *early;
__attribute__((constructor)) static void begin(void) { early = strcpy(malloc(600), "early"); }
char *keep_early(void);
char *keep_early(void) { return early = realloc(early, 5000); }
void *keep_stack(void);
void *keep_stack(void)
{
	static void *at;
	pthread_t t;
	return pthread_create(&t, NULL, here, &at) || pthread_join(t, NULL) ? NULL : at;
}
END
gcc -shared -fPIC -pthread "$scratch/keeps.c" -o "$scratch/libkeeps.so"

# What a library has allocated before the start is resized in the rank's range. The next allocator
# is not the one that has it.
printf '%s\n' '#include <stdlib.h>' 'size_t malloc_usable_size(void *p) { (void)p; abort(); }' >"$scratch/sizes.c"
gcc -shared -fPIC "$scratch/sizes.c" -o "$scratch/libsizes.so"
program resized -L"$scratch" -lkeeps -Wl,--no-as-needed -lsizes "-Wl,-rpath,$scratch" <<'END'
#include <stdio.h>
char *keep_early(void);
int main(void) { return puts(keep_early()) == EOF; }
END
says "foreign: early memory, with another allocator" early 0 "${run[@]}" -n 2 "$scratch/resized"

# Each rank's private memory of every kind, and what the others have at these addresses.
program ranges -L"$scratch" -lkeeps "-Wl,-rpath,$scratch" <<'END'
#include <dlfcn.h>
#include <dsm.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { RANKS = 4, KINDS = 40 };
void *keep(size_t n, int again);
void *keep_stack(void);
static const char *at[RANKS][KINDS];
static pthread_barrier_t all;
static __thread int local;
static int wrong, asked;
static void fill(const char **p)
{
	int fd = open("/proc/self/exe", O_RDONLY), n = 0;
	p[n++] = mmap(NULL, 100, PROT_READ, MAP_PRIVATE, fd, 0);
	p[n++] = mmap(NULL, 1 << 28, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	p[n++] = mmap((void *)0x7ffff0000000, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p[n++] = dsm_rank() ? (const char *)&local : keep(9, 1);
	p[n++] = keep_stack();
	p[n++] = dlopen("libutil.so.1", RTLD_NOW);
	for (size_t i = 1; n < KINDS; i = i * 3 / 2 + 1)
		p[n++] = keep(i * 24, n & 1);
	close(fd);
}
/* Past the library, which has rank 0 open files. */
static long by_number(long n, long a, long b, long c)
{
	__asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return n;
}
/* May this rank access it? Rank 0 maps the file, kind 0, of each other rank. */
static int has(const char *p)
{
	static char text[RANKS][1 << 18];
	char *line = text[dsm_rank()], may[5];
	unsigned long low, high;
	long fd = by_number(SYS_open, (long)"/proc/self/maps", O_RDONLY, 0), n = 0, got;
	int found = 0;
	memset(line, 0, sizeof(text[0])); /* a system call brings no block here */
	while ((got = by_number(SYS_read, fd, (long)(line + n), (long)sizeof(text[0]) - 1 - n)) > 0)
		n += got;
	by_number(SYS_close, fd, 0, 0);
	line[n] = 0;
	for (; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (sscanf(line, "%lx-%lx %4s", &low, &high, may) == 3 && (unsigned long)p >= low && (unsigned long)p < high)
			found = may[0] != '-';
	return found;
}
static void *work(void *arg)
{
	const int me = dsm_rank();
	fill(at[me]);
	pthread_barrier_wait(&all);
	for (int r = 0; r < RANKS; r++)
		for (int k = 0; k < KINDS; k++) {
			__atomic_fetch_add(&asked, r != me, __ATOMIC_RELAXED);
			if (r == me || (k == 0 && me == 0) || (at[r][k] && at[r][k] != MAP_FAILED && !has(at[r][k])))
				continue;
			printf("rank %d has memory of rank %d, kind %d, at %p\n", me, r, k, (void *)at[r][k]);
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
		}
	return arg;
}
int main(void)
{
	pthread_t t[RANKS];
	pthread_barrier_init(&all, NULL, RANKS);
	for (int i = 0; i < RANKS; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < RANKS; i++)
		pthread_join(t[i], NULL);
	printf("%d wrong of %d\n", wrong, asked);
	return 0;
}
END
for way in node mixed mprotect; do
	settings=()
	[[ $way != mprotect ]] || settings+=(DSM_FAULT=mprotect)
	# shellcheck disable=SC2086
	says "ranges: $way" "0 wrong of 480" 0 env "${settings[@]}" "${run[@]}" ${ways[$way]/-n 3/-n 4} "$scratch/ranges"
done

# One address of each kind, read or written by a thread of the other rank.
program foreign -L"$scratch" -lkeeps "-Wl,-rpath,$scratch" <<'END'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
void *keep(size_t n, int again);
void *keep_stack(void);
static volatile char *p;
static __thread char local[8];
static const int rw = PROT_READ | PROT_WRITE;
static void *map(const char *file, int prot, int flags)
{
	return mmap(NULL, 100, prot, flags, file ? open(file, O_RDWR) : -1, 0);
}
static void *make(void *arg)
{
	const char *kind = arg;
	strcpy(local, "local");
	if (!strcmp(kind, "library"))
		p = keep(100, 0);
	else if (!strcmp(kind, "stack"))
		p = keep_stack();
	else if (!strcmp(kind, "private"))
		p = map("some", rw, MAP_PRIVATE);
	else if (!strcmp(kind, "made private")) {
		p = map("some", PROT_READ, MAP_PRIVATE);
		mprotect((void *)p, 100, rw);
	} else if (!strcmp(kind, "anonymous"))
		p = map(NULL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS);
	else if (!strcmp(kind, "device"))
		p = map("/dev/zero", PROT_READ, MAP_PRIVATE);
	else if (!strcmp(kind, "read-only"))
		p = map("some", PROT_READ, MAP_SHARED);
	else if (!strcmp(kind, "gone")) {
		p = map("some", PROT_READ, MAP_SHARED);
		munmap((void *)p, 100);
	} else if (!strcmp(kind, "break"))
		p = sbrk(4096) == (void *)-1 ? "none" : NULL;
	else if (!strcmp(kind, "fixed"))
		p = mmap((void *)0x100000000, 100, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? "failed" : NULL;
	else
		p = local;
	return arg;
}
int main(int argc, char **argv)
{
	pthread_t t;
	pthread_create(&t, NULL, make, argv[1]);
	pthread_join(t, NULL);
	if (argc > 2 && !strcmp(argv[2], "call"))
		return write(1, (const char *)p, 9) != 9;
	if (argc > 2)
		*p = 1;
	printf("there: %s\n", (char *)p);
	return 0;
}
END
cd "$scratch" || exit 1
echo contents >some
for kind in library stack; do
	for way in node two; do
		# shellcheck disable=SC2086
		says "foreign: $kind, $way" "rank 0: read of address 0x" 139 "${run[@]}" ${ways[$way]/4/2} "$scratch/foreign" $kind
	done
done
for kind in private "made private"; do
	says "foreign: $kind" "memory of rank 1: a private, writable mapping of $scratch/some" 139 \
		env DSM_MMAP=0 "${run[@]}" -n 2 --nodes rank "$scratch/foreign" "$kind"
done
says "foreign: anonymous" "memory of rank 1: an anonymous mapping" 139 "${run[@]}" -n 2 "$scratch/foreign" anonymous
says "foreign: device" "memory of rank 1: a mapping of a device" 139 "${run[@]}" -n 2 "$scratch/foreign" device
says "foreign: read-only" "there: contents" 0 "${run[@]}" -n 2 --nodes rank "$scratch/foreign" read-only
says "foreign: read-only, written" "is ended by SIGSEGV" 139 "${run[@]}" -n 2 "$scratch/foreign" read-only write
for way in node two; do
	# shellcheck disable=SC2086
	says "foreign: a call of rank 0, $way" "contents" 0 "${run[@]}" ${ways[$way]/4/2} "$scratch/foreign" read-only call
done
says "foreign: gone" "rank 0: read of address 0x" 139 "${run[@]}" -n 2 "$scratch/foreign" gone
says "foreign: break" "there: none" 0 "${run[@]}" -n 2 "$scratch/foreign" break
says "foreign: fixed" "there: failed" 0 "${run[@]}" -n 2 "$scratch/foreign" fixed
says "foreign: fixed, named" "MAP_FIXED outside the mappings of the rank does not work" 0 "${run[@]}" -n 2 "$scratch/foreign" fixed
says "foreign: named" ", which is private memory of rank 1: " 139 "${run[@]}" -n 2 "$scratch/foreign" local
says "foreign: write" "rank 0: write of address 0x" 139 "${run[@]}" -n 2 --nodes rank "$scratch/foreign" library write

# A thread of the other rank reads while main() unmaps; then another file is there. And
# mprotect() that the kernel refuses, as it does in one process.
program unmapped <<'END'
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char *volatile at;
static volatile int step;
static __thread sigjmp_buf back;
static void on_fault(int sig)
{
	siglongjmp(back, sig);
}
static void await(int n)
{
	while (__atomic_load_n(&step, __ATOMIC_SEQ_CST) < n)
		usleep(1000);
}
static void go(int n)
{
	__atomic_store_n(&step, n, __ATOMIC_SEQ_CST);
}
static void *reads(void *arg)
{
	const struct sigaction act = { .sa_handler = on_fault };
	sigaction(SIGSEGV, &act, NULL);
	for (int turn = 0; turn < 3; turn++) {
		await(3 * turn + 1);
		const int sig = sigsetjmp(back, 1);
		const char was = sig ? 0 : *at;
		if (!sig)
			for (printf("%c\n", was), go(3 * turn + 2); *at == was;)
				;
		printf("%s\n", sig == SIGSEGV ? "gone" : "changed");
		go(3 * turn + 3);
	}
	await(10);
	printf("%c\n", *at);
	go(11);
	await(12);
	if (!sigsetjmp(back, 1))
		*at = 'x';
	else
		printf("not written\n");
	return arg;
}
static char *map(char *where, char c)
{
	char name[] = "/tmp/unmapped-XXXXXX", page[4096];
	int fd = mkstemp(name);
	memset(page, c, sizeof(page));
	if (write(fd, page, sizeof(page)) != sizeof(page))
		abort();
	close(fd);
	fd = open(name, O_RDONLY);
	unlink(name);
	/* There again, unless the library has got the place meanwhile. */
	char *p = mmap(where, sizeof(page), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return p;
}
int main(void)
{
	pthread_t t;
	setvbuf(stdout, NULL, _IOLBF, 0);
	pthread_create(&t, NULL, reads, NULL);
	for (int turn = 0; turn < 3; turn++) {
		at = map(at, (char)('0' + turn));
		go(3 * turn + 1);
		await(3 * turn + 2);
		if (munmap(at, 4096))
			abort();
		await(3 * turn + 3);
	}
	at = map(at, '4');
	go(10);
	await(11);
	const int refused = mprotect(at, 4096, PROT_READ | PROT_WRITE);
	printf("mprotect: %s\n", refused && errno == EACCES ? "refused" : "done");
	go(12);
	pthread_join(t, NULL);
	return 0;
}
END
if is_chosen "foreign: unmapped"; then
	gcc -O2 -pthread -D_GNU_SOURCE "$scratch/unmapped.c" -o "$scratch/unmapped.own" || count_failure "unmapped: build"
	want=$("$scratch/unmapped.own")
	for way in node two mprotect; do
		settings=()
		[[ $way != mprotect ]] || settings+=(DSM_FAULT=mprotect)
		# shellcheck disable=SC2086
		same "foreign: unmapped, $way" \
			"$(env "${settings[@]}" timeout -k 5 60 "${run[@]}" ${ways[$way]/[34]/2} "$scratch/unmapped" 2>/dev/null)" "$want"
	done
fi
cd "$top" || exit 1

unset DSM_OWN_LIBRARIES

# The program's own libraries, of C and of C++, are parts of it: variables, what their constructors
# have allocated before the start, threads, and destructors. Their functions are bound late.
if is_chosen "foreign: own library"; then
	cat >"$scratch/plainly.c" <<-'END'
		#include <stdlib.h>
		#include <string.h>
		#include <time.h>
		static int calls;
		static char *name, *room;
		time_t when(void);
		time_t when(void) { return time(NULL); } /* in the vdso */
		static char *volatile turn;
		__attribute__((constructor)) static void begin(void)
		{
			for (int i = 0; i < 20000; i++) /* four times what constructors may have at a time */
				free(turn = i % 2 ? malloc(900 + i % 50) : realloc(calloc(1, 300), 1200));
			name = strdup("made by a constructor");
			room = aligned_alloc(64, 64);
		}
		int next_call(void) { return __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST); }
		const char *mark(int i) { room[i] = name[i] = '*'; return name; }
		int marks(void) { int n = 0; for (int i = 0; i < 4; i++) n += room[i] == '*'; return n; }
	END
	cat >"$scratch/parts.cc" <<-'END'
		#include <cstdio>
		#include <map>
		#include <mutex>
		#include <string>
		#include <thread>
		#include <unistd.h>
		#include <vector>
		#include <sys/auxv.h>
		static std::map<std::string, int> counts{{"a key that is longer than a string has room for", 1}, {"b", 2}};
		static std::string text = "a text that is longer than a string has room for";
		static std::mutex lock;
		static int calls;
		static long first;
		struct last { ~last() { std::printf("last: %zu keys, %d calls, %zu bytes\n", counts.size(), calls, text.size()); } };
		static last at_end;
		void note(const std::string &key)
		{
			std::lock_guard<std::mutex> hold(lock);
			counts[key]++;
			calls++;
			text += key;
		}
		int apart() /* processes that its threads run in */
		{
			std::vector<std::thread> t;
			int others = 0;
			first = *(const long *)getauxval(AT_RANDOM);
			for (int i = 0; i < 4; i++)
				t.emplace_back([&others] {
					note("thread");
					if (*(const long *)getauxval(AT_RANDOM) != first)
						__atomic_fetch_add(&others, 1, __ATOMIC_SEQ_CST);
				});
			for (std::thread &one : t)
				one.join();
			return others;
		}
		int count(const std::string &key) { return counts[key]; }
		std::string *made() { static std::string own = "made once, in a function of the library"; return &own; }
	END
	cat >"$scratch/whole.cc" <<-'END'
		#include <cstdio>
		#include <string>
		#include <thread>
		void note(const std::string &key);
		int apart(), count(const std::string &key);
		std::string *made();
		extern "C" { int next_call(void), marks(void); const char *mark(int i); }
		int main(int argc, char **)
		{
			std::string *m[4];
			std::thread t[4];
			for (int i = 0; i < 4; i++)
				t[i] = std::thread([&m, i] {
					for (int k = 0; k < 100; k++)
						note(next_call() && i % 2 ? "b" : "a key that is longer than a string has room for");
					mark(i);
					m[i] = made();
				});
			for (int i = 0; i < 4; i++) {
				t[i].join();
				std::thread([&m, i] { *m[i] += "+"; }).join();
			}
			const int others = apart();
			std::printf("%d %d %d %d %s\n", count("b"), count("a key that is longer than a string has room for"), count("thread"),
				    m[0] == m[3], m[1]->c_str());
			std::printf("%d calls, %d marks, %s\n", next_call(), marks(), mark(3));
			if (argc > 1)
				std::printf("%d apart\n", others);
		}
	END
	own=(-L"$scratch" -lparts -lplainly "-Wl,-rpath,$scratch")
	plainly() { gcc -O2 -shared -fPIC "$scratch/plainly.c" "$@"; }
	plainly -o "$scratch/libplainly.so" &&
		g++ -O2 -shared -fPIC -pthread "$scratch/parts.cc" -o "$scratch/libparts.so" &&
		g++ -O2 -pthread "$scratch/whole.cc" -o "$scratch/whole" "${own[@]}" &&
		"$tools/dsm-c++" -O2 -pthread "$scratch/whole.cc" -o "$scratch/whole.dsm" "${own[@]}" ||
		count_failure "foreign: own library: build"
	want=$("$scratch/whole")
	by=(timeout -k 5 60 "${run[@]}")
	for way in one node two mprotect; do
		setting=DSM_FAULT=auto
		[[ $way != mprotect ]] || setting=DSM_FAULT=mprotect
		# shellcheck disable=SC2086
		same "foreign: own library, preload, $way" "$(env $setting "${by[@]}" ${ways[$way]} --preload "$scratch/whole" 2>&1)" "$want"
		# shellcheck disable=SC2086
		same "foreign: own library, dsm-c++, $way" "$(env $setting "${by[@]}" ${ways[$way]} "$scratch/whole.dsm" 2>&1)" "$want"
	done
	same "foreign: own library, release" \
		"$(DSM_ATOMICS=trust "${by[@]}" ${ways[release]} "$scratch/whole.dsm" 2>&1)" "$want"
	same "foreign: own library, share" "$(DSM_OWN_LIBRARIES=share "${by[@]}" ${ways[two]} "$scratch/whole.dsm" 2>&1)" "$want"
	# Linked by its path and without a name of its own; called as one of the C library's; bound to itself.
	plainly -Wl,-Bsymbolic -o "$scratch/librt.so" &&
		g++ -O2 -pthread "$scratch/whole.cc" -o "$scratch/whole.path" "$scratch/librt.so" -L"$scratch" -lparts "-Wl,-rpath,$scratch" ||
		count_failure "foreign: own library: build by path"
	same "foreign: own library, by path" "$("${by[@]}" ${ways[two]} --preload "$scratch/whole.path" 2>&1)" "$want"
	says "foreign: own library, its threads" "3 apart" 0 "${by[@]}" -n 4 --nodes 2 --preload "$scratch/whole" apart
	# In front of the program by its user: it needs one that is the program's as well.
	gcc -shared -fPIC -x c - -Wl,--no-as-needed -L"$scratch" -lplainly "-Wl,-rpath,$scratch" -o "$scratch/libahead.so" <<<'int ahead;'
	same "foreign: own library, and the user's LD_PRELOAD" "$(LD_PRELOAD=$scratch/libahead.so "${by[@]}" ${ways[two]} --preload "$scratch/whole" 2>&1)" "$want"
	says "foreign: own library, of each rank" "201 calls" 0 env DSM_OWN_LIBRARIES=rank "${run[@]}" -n 2 "$scratch/whole.dsm"
	says "foreign: own library, share and release" "share does not work with release consistency" 70 \
		env DSM_OWN_LIBRARIES=share DSM_ATOMICS=trust "${run[@]}" ${ways[release]} "$scratch/whole.dsm"

	# What cannot be shared is refused, in one line that names it.
	# refused_library NAME TEXT COMMAND...
	refused_library() {
		local got status=0
		got=$(timeout -k 5 60 "${@:3}" 2>&1 </dev/null) || status=$?
		[[ $got != *"libplainly.so: ranks cannot share this library: $2"*"DSM_OWN_LIBRARIES=rank"*"DSM_OWN_LIBRARIES=outside"* ]] ||
			[[ $(grep -c "^libdsm-pthread" <<<"$got") != 1 ]] || got=$2
		same "foreign: own library, $1" "$status $got" "70 $2"
	}
	mkdir "$scratch/other"
	printf '%s\n' '#include <pthread.h>' '#include <unistd.h>' 'static void *waits(void *arg) { for (;;) pause(); return arg; }' \
		'__attribute__((constructor)) static void busy(void) { pthread_t t; pthread_create(&t, 0, waits, 0); }' >"$scratch/busy.c"
	printf '%s\n' '#include <stdlib.h>' 'char *much;' '__attribute__((constructor)) static void fill(void) { much = malloc(5 << 20); }' >"$scratch/much.c"
	printf '%s\n' 'int nowhere(void), calls_it(void);' 'int calls_it(void) { return nowhere(); }' >"$scratch/lacks.c"
	g++ -O2 -pthread "$scratch/whole.cc" -o "$scratch/whole.found" -L"$scratch" -lparts -lplainly || count_failure "whole.found: build"
	on_other=(env "LD_LIBRARY_PATH=$scratch/other:$scratch")
	plainly "$scratch/busy.c" -o "$scratch/other/libplainly.so"
	refused_library "thread of a constructor" "one of its constructors creates a thread" "${on_other[@]}" "${run[@]}" -n 2 --preload "$scratch/whole.found"
	plainly -x c - -o "$scratch/other/libplainly.so" <<<'void *dlopen(const char *, int); __attribute__((constructor)) static void more(void) { static void *volatile at; at = dlopen("libcrypt.so.1", 2); }'
	refused_library "constructor opens a library" "one of its constructors opens a library" "${on_other[@]}" "${run[@]}" -n 2 --preload "$scratch/whole.found"
	plainly "$scratch/much.c" -o "$scratch/other/libplainly.so"
	refused_library "large constructor" "its constructors allocate more than 4 MiB" "${on_other[@]}" "${run[@]}" -n 2 --preload "$scratch/whole.found"
	plainly -Wl,-z,norelro -o "$scratch/other/libplainly.so"
	refused_library "no RELRO" "it has no RELRO segment" "${on_other[@]}" "${run[@]}" -n 2 --preload "$scratch/whole.found"
	"$tools/dsm-c++" -O2 -pthread "$scratch/whole.cc" -o "$scratch/whole.found" -Wl,--allow-shlib-undefined -L"$scratch" -lparts -lplainly
	plainly "$scratch/lacks.c" -o "$scratch/other/libplainly.so"
	refused_library "lacks a function" "no library has its function nowhere" "${on_other[@]}" "${run[@]}" -n 2 "$scratch/whole.found"
	plainly -DOTHER -O1 -o "$scratch/other/libplainly.so"
	refused_library "another one on rank 1" "rank 0 has another one" mpirun -q -n 1 setarch -R env "LD_LIBRARY_PATH=$scratch" "$scratch/whole.found" : \
		-n 1 setarch -R "${on_other[@]}" "$scratch/whole.found"
fi

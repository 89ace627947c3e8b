# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: the program and the commands of README.md; packages built by CMake and
# by autotools, with dsm-cc as the compiler and with pkg-config.

# ---- README.md -----------------------------------------------------------------------------------

# readme_block LANGUAGE: the first block of this language of the section about programs with
# threads.
readme_block() {
	awk -v wanted="\`\`\`$1" '/^## / { section = ($0 == "## Programs with threads") }
		!section { next }
		!begun && /^```/ { begun = $0; next }
		begun && $0 == "```" { if (begun == wanted) exit; begun = ""; next }
		begun == wanted { print }' README.md
}

# The commands are run as they stand there, and print what follows them there.
if is_chosen "README"; then
	mkdir "$scratch/readme"
	readme_block c >"$scratch/readme/program.c"
	readme_block '' >"$scratch/readme/shown"
	while IFS= read -r line; do
		[[ $line == '$ '* ]] || continue
		printf '%s\n' "$line"
		(cd "$scratch/readme" && PATH=$tools:$PATH timeout -k 5 60 bash -c "${line#??}" 2>&1 </dev/null) || echo "status $?"
	done <"$scratch/readme/shown" >"$scratch/readme/printed"
	same "README: the program with threads" "$(<"$scratch/readme/printed")" "$(<"$scratch/readme/shown")"
	same "README: its commands" "$(grep -oE '^\$ (dsm-cc|dsmrun)' "$scratch/readme/printed" | paste -sd ' ')" '$ dsm-cc $ dsmrun'
	gcc -O2 -Wall -Wextra -Werror -pthread "$scratch/readme/program.c" -o "$scratch/readme/own" &&
		says "README: the same without libdsm" "sum 10; 0 of 4 threads ran in other processes" 0 "$scratch/readme/own"
fi

# ---- packages ------------------------------------------------------------------------------------

# A program in C, and in C++ a library for it. The executable has a copy of `environ` if the code is
# not -fPIC.
package=$scratch/package
mkdir "$package"
cat >"$package/main.c" <<'END'
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>
int pieces(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sum, processes;
static long seen[4];
static void *add(void *arg)
{
	const long pid = *(const long *)getauxval(AT_RANDOM); /* differs by process: getpid() is the same on all ranks */
	int i;
	pthread_mutex_lock(&lock);
	sum += *(int *)arg;
	for (i = 0; i < processes && seen[i] != pid; i++)
		;
	if (i == processes)
		seen[processes++] = pid;
	pthread_mutex_unlock(&lock);
	return arg;
}
int main(void)
{
	pthread_t t[4];
	int n[4];
	for (int i = 0; i < 4; i++) {
		n[i] = i + 1;
		pthread_create(&t[i], NULL, add, &n[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	printf("sum %d of %d processes, %d pieces, %d\n", sum, processes, pieces(), environ != NULL);
	return 0;
}
END
cat >"$package/pieces.cc" <<'END'
#include <memory>
#include <thread>
extern "C" int pieces(void);
int pieces(void)
{
	auto piece = std::make_shared<int>(1);
	std::thread([piece] { ++*piece; }).join();
	return *piece;
}
END
over_ranks="sum 10 of 4 processes, 2 pieces, 1"

# in_folder NAME FOLDER COMMANDS: there, with dsm-cc on the path; what they print is shown if they
# fail.
in_folder() {
	local name=$1 folder=$2
	mkdir -p "$folder"
	(cd "$folder" && PATH=$tools:$PATH PKG_CONFIG_PATH=$scratch/pkgconfig bash -ec "$3") >"$scratch/log" 2>&1 </dev/null && return 0
	count_failure "$name: build"
	show_end "$scratch/log"
	return 1
}

if command -v cmake >/dev/null; then
	cat >"$package/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(package C CXX)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
find_package(Threads REQUIRED)
add_library(pieces STATIC pieces.cc)
target_link_libraries(pieces Threads::Threads)
add_executable(package main.c)
target_link_libraries(package pieces Threads::Threads)
END
	# As in dsm-cc(1), and for C++.
	! is_chosen "build: CMake" || ! in_folder "build: CMake" "$scratch/by-cmake" 'cmake -DCMAKE_C_COMPILER=dsm-cc -DCMAKE_C_FLAGS=-pthread \
		-DCMAKE_CXX_COMPILER=dsm-c++ -DCMAKE_CXX_FLAGS=-pthread ../package; cmake --build .' ||
		says "build: CMake" "$over_ranks" 0 "${run[@]}" -n 4 "$scratch/by-cmake/package"

	mkdir "$scratch/pkgconfig" "$scratch/package-pc"
	sed -e "s|@PREFIX@|$top|; s|@LIBDIR@|$tools|; s|@INCLUDEDIR@|$top/libdsm/include|; s|@VERSION@|1|" \
		libdsm/pthread/libdsm-pthread.pc.in >"$scratch/pkgconfig/dsm-pthread.pc"
	cp "$package"/*.c* "$scratch/package-pc"
	cat >"$scratch/package-pc/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(package C CXX)
find_package(PkgConfig REQUIRED)
pkg_check_modules(DSM REQUIRED IMPORTED_TARGET dsm-pthread)
add_executable(package main.c pieces.cc)
target_link_libraries(package PkgConfig::DSM)
END
	! is_chosen "build: CMake, pkg-config" ||
		! in_folder "build: CMake, pkg-config" "$scratch/by-cmake-pc" 'cmake ../package-pc; cmake --build .' ||
		says "build: CMake, pkg-config" "$over_ranks" 0 "${run[@]}" -n 4 "$scratch/by-cmake-pc/package"
else
	echo "cmake is not installed (make setup): its tests are not run"
fi

# One package looks for the library of pthread_create() and finds the C library; the other asks for
# -lpthread.
if command -v automake >/dev/null && command -v autoreconf >/dev/null; then
	cat >"$package/configure.ac" <<'END'
AC_INIT([package], [1])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CC
AC_PROG_CXX
AC_PROG_RANLIB
AM_PROG_AR
AC_ARG_ENABLE([lpthread])
AS_IF([test "$enable_lpthread" = yes], [AC_CHECK_LIB([pthread], [pthread_create])], [AC_SEARCH_LIBS([pthread_create], [pthread])])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
END
	cat >"$package/Makefile.am" <<'END'
bin_PROGRAMS = package
noinst_LIBRARIES = libpieces.a
libpieces_a_SOURCES = pieces.cc
package_SOURCES = main.c
nodist_EXTRA_package_SOURCES = none.cc
package_LDADD = libpieces.a
END
	if is_chosen "build: autotools" && in_folder "build: autotools" "$package" 'autoreconf -i'; then
		! in_folder "build: autotools" "$scratch/by-autotools" \
			'../package/configure CC="dsm-cc -pthread" CXX="dsm-c++ -pthread"; make' ||
			says "build: autotools" "$over_ranks" 0 "${run[@]}" -n 4 "$scratch/by-autotools/package"
		! in_folder "build: autotools, -lpthread" "$scratch/by-autotools-l" \
			'CC=dsm-cc CXX=dsm-c++ ../package/configure --enable-lpthread; make' ||
			says "build: autotools, -lpthread" "$over_ranks" 0 "${run[@]}" -n 4 "$scratch/by-autotools-l/package"
	fi
else
	echo "automake is not installed (make setup): its tests are not run"
fi

# A configure script finds the functions that it would find without libdsm, in the same libraries.
# Not in the C library are lgamma(), those of zlib, atomic operations, those of C++ and what
# jemalloc reads, which are no functions for a configure script; setkey() is there for old programs only.
# links FUNCTION LIBRARY COMPILER...: does a program that calls it?
links() {
	printf 'char %s(void);\nint main(void) { return %s(); }\n' "$1" "$1" >"$scratch/conftest.c"
	if "${@:3}" -w "$scratch/conftest.c" ${2:+"$2"} -o "$scratch/conftest" 2>/dev/null; then echo yes; else echo no; fi
}
# symbols LIBRARY: those that a linker finds in it.
symbols() { nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sed -n 's/@@.*//; /@/!p' | LC_ALL=C sort -u; }
if is_chosen "configure"; then
	for names in "setkey -lcrypt" "lgamma -lm" "gamma -lm" "lgammaf128 -lm" "gzopen -l:libz.so.1" "gzbuffer -l:libz.so.1" pthread_create getgrent_r; do
		read -r name with <<<"$names"
		for library in '' ${with:+"$with"}; do
			same "configure: $name $library" "$(links "$name" "$library" "$tools/dsm-cc" -pthread)" \
				"$(links "$name" "$library" cc -pthread)"
		done
	done
	c=$(ldd /bin/sh | sed -n 's/.*libc\.so\.6 => \([^ ]*\).*/\1/p')
	for name in pthread syscall; do
		same "configure: libdsm-$name.so has what the C library has" "$(symbols "$tools/libdsm-$name.so" | grep -vE '^(dsm_files_|_Z|__atomic_|__cxa_guard_|malloc_conf$)' |
			LC_ALL=C comm -23 - <(symbols "$c") | paste -sd ' ')" ""
	done
	z=$(ldconfig -p | sed -n 's/.*libz\.so\.1 .*x86-64.* => //p' | head -1)
	got=$(nm -D --defined-only "$tools/libdsm-syscall.so" | awk '$3 ~ /^gz/ { print $3 }' | sed 's/@DSM_ZLIB$//' | LC_ALL=C sort)
	same "configure: versions of zlib" "$got" "$(nm -D --defined-only "$z" | awk '$3 ~ /^gz/ { print $3 }' | sed 's/@@/@/' | grep -xF "$got" | LC_ALL=C sort)"
fi

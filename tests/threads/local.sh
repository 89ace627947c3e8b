# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: functions whose state is of one rank: the first call of each in the job
# is reported, and nothing else changes.

# Of two ranks, the first thread is another's. Some calls need no privilege, and the others fail for
# anybody.
program local -lm <<'END'
#define _REGEX_RE_COMP
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>
#include <wchar.h>
static int wrong;
static void check(const char *what, int good)
{
	if (!good)
		printf("%s: WRONG\n", what);
	wrong += !good;
}
static void call_each(void)
{
	const wchar_t *wide = L"\u00e9";
	char text[16] = "";
	volatile double four = 4;
	wchar_t c = 0;
	const int before = getpriority(PRIO_PROCESS, 0);
	check("nice", nice(1) == (before < 19 ? before + 1 : 19));
	check("setpriority", !setpriority(PRIO_PROCESS, 0, 19) && getpriority(PRIO_PROCESS, 0) == 19);
	check("setuid", !setuid(getuid()));
	check("setresgid", !setresgid((gid_t)-1, getgid(), (gid_t)-1));
	check("chroot", chroot("/no/such/folder") == -1 && errno == ENOENT);
	check("prctl", !syscall(SYS_prctl, PR_SET_DUMPABLE, 1) && !prctl(PR_SET_DUMPABLE, 1) && prctl(PR_GET_DUMPABLE) == 1);
	check("mblen", mblen("\303\251", 2) == 2);
	check("mbtowc", mbtowc(&c, "\303\251", 2) == 2 && c == 0xe9);
	check("wctomb", wctomb(text, c) == 2 && !strcmp(text, "\303\251"));
	check("mbrlen", mbrlen("\303\251", 2, NULL) == 2);
	check("mbrtowc", mbrtowc(&c, "\303", 1, NULL) == (size_t)-2 && mbrtowc(&c, "\251", 1, NULL) == 1 && c == 0xe9);
	check("wcsrtombs", wcsrtombs(text, &wide, sizeof(text), NULL) == 2 && !wide);
	check("re_comp", !re_comp("b[0-9]") && re_exec("ab7") == 1);
	openlog("local", 0, LOG_USER);
	check("setlogmask", setlogmask(LOG_UPTO(LOG_DEBUG)) == LOG_UPTO(LOG_DEBUG));
	signgam = 0;
	check("lgamma", fabs(lgamma(four) - log(6)) < 1e-12 && signgam == 1 && fabsl(lgammal(four) - logl(6)) < 1e-12L &&
	      fabsf(lgammaf((float)four) - logf(6)) < 1e-5f);
	check("gamma", fabs(gamma(four) - log(6)) < 1e-12 && signgam == 1);
}
static void *call_twice(void *arg)
{
	call_each();
	call_each();
	return arg;
}
int main(void)
{
	pthread_t t;
	setlocale(LC_ALL, "C.UTF-8");
	pthread_create(&t, NULL, call_twice, NULL);
	pthread_join(t, NULL);
	call_each();
	printf("%d wrong\n", wrong);
	return wrong;
}
END
if is_chosen "state of a rank"; then
	want=$'0 wrong\n'$(printf 'libdsm-pthread: rank 1: the state of %s() is that of this rank only, see dsm-cc(1)\n' chroot gamma lgamma \
		lgammaf lgammal mblen mbrlen mbrtowc mbtowc nice openlog prctl re_comp setlogmask setpriority setresgid setuid wcsrtombs wctomb)
	for way in "-n 2" "-n 2 --nodes rank"; do
		status=0
		# shellcheck disable=SC2086
		got=$(timeout -k 5 60 "${run[@]}" $way "$scratch/local" 2>&1 </dev/null) || status=$?
		same "state of a rank, $way" "$status $(LC_ALL=C sort <<<"$got")" "0 $want"
	done
	same "state of a rank, -n 1" "$(timeout -k 5 60 "${run[@]}" -n 1 "$scratch/local" 2>&1 </dev/null)" "0 wrong"
fi

# What these change or use is of the thread, of the caller, of a child, or nothing. Nobody reads
# signgam.
program common -lm <<'END'
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>
#include <wchar.h>
static int done;
static void *call_each(void *arg)
{
	volatile double four = 4;
	mbstate_t state = { 0 };
	char name[16], text[16];
	wchar_t c;
	done += !prctl(PR_SET_NAME, "common") + !prctl(PR_GET_NAME, name);
	done += nice(0) != 100;
	done += setlogmask(0) != 0;
	done += mbrtowc(&c, "\303\251", 2, &state) == 2 && mbrlen("a", 1, &state) == 1 && wcrtomb(text, c, &state) == 2;
	done += lgamma(four) > 1;
	return arg;
}
int main(void)
{
	pthread_t t;
	pid_t child;
	done += mblen("a", 1) == 1 && mbtowc(NULL, "a", 1) == 1 && wctomb(NULL, 0) == 0 && mbrlen("a", 1, NULL) == 1;
	setlocale(LC_ALL, "C.UTF-8");
	pthread_create(&t, NULL, call_each, NULL);
	pthread_join(t, NULL);
	call_each(NULL);
	child = vfork();
	if (!child)
		_exit(nice(1) == -1 || prctl(PR_SET_DUMPABLE, 1));
	done += waitpid(child, NULL, 0) == child;
	printf("%d done\n", done);
	return 0;
}
END
if is_chosen "no state of a rank"; then
	for way in "-n 1" "-n 2" "-n 2 --nodes rank"; do
		# shellcheck disable=SC2086
		same "no state of a rank, $way" "$(timeout -k 5 60 "${run[@]}" $way "$scratch/common" 2>&1 </dev/null)" "14 done"
	done
fi

# A program that was linked with a C library before 2.23, whose linker knew one name of signgam: it
# has a copy, which the functions of that version set. With today's, it would get the sign under the
# other name.
if is_chosen "an old program"; then
	cat >"$scratch/old-libm.c" <<'END'
int signgam;
double lgamma(double x) { return x; }
END
	echo 'GLIBC_2.2.5 { global: lgamma; signgam; local: *; };' >"$scratch/old-libm.map"
	cat >"$scratch/old.c" <<'END'
#include <pthread.h>
#include <stdio.h>
extern int signgam;
extern double lgamma(double x);
static volatile double below = -0.5;
static void *call(void *arg)
{
	below = lgamma(below);
	return arg;
}
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, call, NULL);
	pthread_join(t, NULL);
	return printf("%.3f %d\n", below, signgam) < 0;
}
END
	gcc -shared -fPIC -fno-builtin -Wl,-soname,libm.so.6 -Wl,--version-script="$scratch/old-libm.map" "$scratch/old-libm.c" -o "$scratch/old-libm.so"
	gcc -fno-pic -no-pie -fno-builtin -pthread "$scratch/old.c" "$scratch/old-libm.so" -o "$scratch/old"
	same "an old program: alone" "$("$scratch/old")" "1.266 -1"
	for way in "-n 2" "-n 2 --nodes rank"; do
		# shellcheck disable=SC2086
		same "an old program, $way" "$(timeout -k 5 60 "${run[@]}" $way --preload "$scratch/old" 2>&1 </dev/null)" "1.266 -1"
	done
fi

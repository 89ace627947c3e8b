// SPDX-License-Identifier: BSD-2-Clause
/*
 * local.c - functions of the C library whose state each rank has for itself, though the program is
 * one process to its author. They are passed on unchanged; the first call of each by the program is
 * reported, once in the job.
 *
 * The ROWs are the functions that dsm-cc(1) lists. A call that changes or uses no such state is not
 * reported: prctl() of an attribute that only the thread has, conversions in a locale without
 * multibyte characters or with a state of the caller, lgamma() where the program does not read
 * signgam, or reads one in shared memory.
 */
#include "shim.h"

#include "interpose/raw_syscall.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copies.h"

/* ROW(name, condition): a function of up to six words, a to f. ALIAS(symbol, name, condition):
 * another symbol of it. OLD(name, version, condition): one that new programs are not linked with.
 * REAL(name, symbol, version, type): a function of one number that sets signgam; the old one also
 * in an executable whose copy of signgam has no other name. Those with a version are not in the C
 * library: see pthread.map. */
#define ROWS                                                       \
	ROW(nice, (int)a)                                          \
	ROW(setpriority, true)                                     \
	ROW(setuid, true)                                          \
	ROW(setgid, true)                                          \
	ROW(seteuid, true)                                         \
	ROW(setegid, true)                                         \
	ROW(setreuid, true)                                        \
	ROW(setregid, true)                                        \
	ROW(setresuid, true)                                       \
	ROW(setresgid, true)                                       \
	ROW(setgroups, true)                                       \
	ROW(initgroups, true)                                      \
	ROW(chroot, true)                                          \
	ROW(prctl, prctl_changes_process(a, b))                    \
	ROW(mblen, has_multibyte())                                \
	ROW(mbtowc, has_multibyte())                               \
	ROW(wctomb, has_multibyte())                               \
	ALIAS(__wctomb_chk, wctomb, has_multibyte())               \
	ROW(mbrlen, !c && has_multibyte())                         \
	ALIAS(__mbrlen, mbrlen, !c && has_multibyte())             \
	ROW(mbrtowc, !d && has_multibyte())                        \
	ROW(wcrtomb, !c && has_multibyte())                        \
	ALIAS(__wcrtomb_chk, wcrtomb, !c && has_multibyte())       \
	ROW(mbsrtowcs, !d && has_multibyte())                      \
	ALIAS(__mbsrtowcs_chk, mbsrtowcs, !d && has_multibyte())   \
	ROW(mbsnrtowcs, !e && has_multibyte())                     \
	ALIAS(__mbsnrtowcs_chk, mbsnrtowcs, !e && has_multibyte()) \
	ROW(wcsrtombs, !d && has_multibyte())                      \
	ALIAS(__wcsrtombs_chk, wcsrtombs, !d && has_multibyte())   \
	ROW(wcsnrtombs, !e && has_multibyte())                     \
	ALIAS(__wcsnrtombs_chk, wcsnrtombs, !e && has_multibyte()) \
	ROW(mbrtoc8, !d && has_multibyte())                        \
	ROW(mbrtoc16, !d && has_multibyte())                       \
	ROW(mbrtoc32, !d && has_multibyte())                       \
	ROW(c8rtomb, !c && has_multibyte())                        \
	ROW(c16rtomb, !c && has_multibyte())                       \
	ROW(c32rtomb, !c && has_multibyte())                       \
	ROW(re_comp, true)                                         \
	OLD(setkey, "GLIBC_2.2.5", true)                           \
	ROW(openlog, true)                                         \
	ROW(setlogmask, (int)a)                                    \
	REAL(lgamma, lgamma, "GLIBC_2.23", double)                 \
	REAL(lgammaf, lgammaf, "GLIBC_2.23", float)                \
	REAL(lgammal, lgammal, "GLIBC_2.23", long double)          \
	REAL(lgammaf32, lgammaf32, "GLIBC_2.27", float)            \
	REAL(lgammaf64, lgammaf64, "GLIBC_2.27", double)           \
	REAL(lgammaf32x, lgammaf32x, "GLIBC_2.27", double)         \
	REAL(lgammaf64x, lgammaf64x, "GLIBC_2.27", long double)    \
	REAL(lgammaf128, lgammaf128, "GLIBC_2.26", __float128)     \
	REAL(old_lgamma, lgamma, "GLIBC_2.2.5", double)            \
	REAL(old_lgammaf, lgammaf, "GLIBC_2.2.5", float)           \
	REAL(old_lgammal, lgammal, "GLIBC_2.2.5", long double)     \
	REAL(gamma, gamma, "GLIBC_2.2.5", double)                  \
	REAL(gammaf, gammaf, "GLIBC_2.2.5", float)                 \
	REAL(gammal, gammal, "GLIBC_2.2.5", long double)

#define ALIAS(...)
#define ROW(name, condition) LOCAL_##name,
#define OLD(name, version, condition) LOCAL_##name,
#define REAL(name, symbol, version, type) LOCAL_##name,
enum local_state { ROWS LOCAL_NONE };
#undef ROW
#undef OLD
#undef REAL

#define ROW(name, condition) [LOCAL_##name] = #name,
#define OLD(name, version, condition) [LOCAL_##name] = #name,
#define REAL(name, symbol, version, type) [LOCAL_##name] = #symbol,
static const char *const names[] = { ROWS };
#undef ROW
#undef OLD
#undef REAL
#undef ALIAS

_Static_assert(LOCAL_NONE <= LOCAL_MOST, "the team has a flag for each");

static uint8_t noted[LOCAL_NONE]; /* here; atomic. `reported` of the team is that of all ranks */

/* On the private stack. */
static void local_print(void *name)
{
	start_print("the state of %s() is that of this rank only, see dsm-cc(1)",
		    (const char *)name);
}

static void local_note(enum local_state p, const void *caller)
{
	if (__atomic_load_n(&noted[p], __ATOMIC_RELAXED) || !caller_is_ours(caller) || !is_rank())
		return;
	__atomic_store_n(&noted[p], 1, __ATOMIC_RELAXED);
	if (!__atomic_exchange_n(&team->reported[p], 1, __ATOMIC_RELAXED))
		dsm_call(local_print, (void *)names[p]);
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool has_multibyte(void)
{
	return MB_CUR_MAX > 1;
}

/* What the process has, or threads inherit from the one that creates them; but for the name and
 * what concerns speed only. */
static bool prctl_changes_process(long option, long what)
{
	switch ((int)option) {
	case PR_SET_PDEATHSIG:
	case PR_SET_DUMPABLE:
	case PR_SET_KEEPCAPS:
	case PR_SET_SECCOMP:
	case PR_CAPBSET_DROP:
	case PR_SET_TSC:
	case PR_SET_SECUREBITS:
	case PR_MCE_KILL:
	case PR_SET_MM:
	case PR_SET_PTRACER:
	case PR_SET_CHILD_SUBREAPER:
	case PR_SET_NO_NEW_PRIVS:
	case PR_SET_THP_DISABLE:
	case PR_SET_SPECULATION_CTRL:
	case PR_SET_IO_FLUSHER: return true;
	case PR_CAP_AMBIENT: return what != PR_CAP_AMBIENT_IS_SET;
	default: return false;
	}
}

static bool sign_is_private(void)
{
	return copies_refers_sign() && !is_shared(&signgam);
}

/* ---- system calls by number ------------------------------------------------------------------ */

void local_note_number(long n, const long *arg, const void *caller)
{
	enum local_state p = LOCAL_NONE;

	switch (n) {
	case SYS_setpriority: p = LOCAL_setpriority; break;
	case SYS_setuid: p = LOCAL_setuid; break;
	case SYS_setgid: p = LOCAL_setgid; break;
	case SYS_setreuid: p = LOCAL_setreuid; break;
	case SYS_setregid: p = LOCAL_setregid; break;
	case SYS_setresuid: p = LOCAL_setresuid; break;
	case SYS_setresgid: p = LOCAL_setresgid; break;
	case SYS_setgroups: p = LOCAL_setgroups; break;
	case SYS_chroot: p = LOCAL_chroot; break;
	case SYS_prctl: p = prctl_changes_process(arg[0], arg[1]) ? LOCAL_prctl : LOCAL_NONE; break;
	default: break;
	}
	if (p != LOCAL_NONE)
		local_note(p, caller);
}

/* ---- functions ------------------------------------------------------------------------------- */

typedef long words_fn(long, long, long, long, long, long);

#define FUNCTION(function, symbol, version, name, condition)                          \
	EXPORT long function(long a, long b, long c, long d, long e, long f)          \
	{                                                                             \
		words_fn *const at = NEXT_BY(words_fn *, symbol, version, next_find); \
		if (shim.active && (condition))                                       \
			local_note(LOCAL_##name, CALLER);                             \
		return at(a, b, c, d, e, f);                                          \
	}
#define ALIAS(symbol, name, condition)                                     \
	EXPORT long local_##symbol(long a, long b, long c, long d, long e, \
				   long f) __asm__(#symbol);               \
	FUNCTION(local_##symbol, #symbol, NULL, name, condition)
#define ROW(name, condition) ALIAS(name, name, condition)
#define OLD(name, version, condition)                                             \
	EXPORT long local_##name(long a, long b, long c, long d, long e, long f); \
	__asm__(".symver local_" #name ", " #name "@" version);                   \
	FUNCTION(local_##name, #name, version, name, condition)
#define REAL(name, symbol, version, type)                                                     \
	EXPORT type local_##name(type x);                                                     \
	__asm__(".symver local_" #name ", " #symbol "@" version);                             \
	EXPORT type local_##name(type x)                                                      \
	{                                                                                     \
		type (*const at)(type) = NEXT_BY(type(*)(type), #symbol, version, next_find); \
		if (shim.active && sign_is_private())                                         \
			local_note(LOCAL_##name, CALLER);                                     \
		return at(x);                                                                 \
	}
ROWS

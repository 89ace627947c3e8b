// SPDX-License-Identifier: BSD-2-Clause
/*
 * exceptions.c - C++ exceptions that several threads have: std::exception_ptr, and so std::future.
 *
 * The C++ library counts who has an exception, in front of the object, by atomic instructions.
 * Where stores of other nodes come by synchronisation alone, these would lose counts. So there
 * all changes of the count are atomic operations as those of programs (atomics.c):
 *
 *   std::exception_ptr    counts by two functions, which are here, also for calls of the library
 *   rethrow_exception()   counts by an instruction: it is here as well
 *   the end of a handler  counts by an instruction, in a function that the exception names: the
 *                         first exception_ptr has it name one of this file
 *   the text              of std::logic_error and std::runtime_error is shared by copies, and its
 *                         count changed by instructions in their constructors: here, a copy gets
 *                         a text of its own
 *
 * An exception of which there is no exception_ptr is its thread's own, and stays the library's.
 *
 * The layouts are those of the Itanium C++ ABI as libstdc++ has them for 64-bit processors (in
 * front of an object, and of its part for the unwinder), which its binaries depend on. This file is
 * compiled with -fexceptions, since rethrow_exception() is unwound.
 */
#include "shim.h"

#include <stddef.h>
#include <stdlib.h>
#include <unwind.h>

#include "atomics.h"
#include "callbacks.h"

/* "GNUCC++", and 1: it depends on another one */
#define CLASS_DEPENDENT 0x474e5543432b2b01u

/* Of an object that is thrown. */
struct thrown {
	void *type;
	void (*destroy)(void *object);
	void (*unexpected)(void), (*terminate)(void);
	void *next;
	int handlers, found;
	const void *action, *data;
	void *landing, *adjusted;
	struct _Unwind_Exception unwind;
};

/* In front of the object. */
struct counted {
	uint32_t count;
	struct thrown of __attribute__((aligned(16)));
};
_Static_assert(sizeof(struct counted) == 128 && offsetof(struct counted, of.destroy) == 24,
	       "as the C++ library has it");

/* Thrown again: it refers to the object of another one. */
struct dependent {
	void *object;
	void *unused;
	void (*unexpected)(void), (*terminate)(void);
	void *rest[6];
	struct _Unwind_Exception unwind;
};
_Static_assert(sizeof(struct dependent) == 112 && sizeof(struct thrown) == 112,
	       "as the C++ library has it");

struct globals {
	void *caught;
	unsigned int uncaught;
};

/* std::exception_ptr */
struct pointer {
	void *object;
};

static struct counted *counted_of(void *object)
{
	return (struct counted *)object - 1;
}

static void let_go(void *object)
{
	struct counted *c = counted_of(object);

	if (atomics_fetch_sub_4(&c->count, 1, __ATOMIC_ACQ_REL) != 1)
		return;
	if (c->of.destroy)
		call_program((void *)c->of.destroy, (long)object, 0, 0);
	NEXT_NAMED(void (*)(void *), "__cxa_free_exception")(object);
}

/* As in the C++ library: only the end of a handler may delete an exception. */
static void must_be_caught(_Unwind_Reason_Code code, void (*terminate)(void))
{
	if (code == _URC_FOREIGN_EXCEPTION_CAUGHT || code == _URC_NO_REASON)
		return;
	terminate();
	abort();
}

static void ended(_Unwind_Reason_Code code, struct _Unwind_Exception *e)
{
	struct counted *c = (struct counted *)(void *)(e + 1) - 1;

	must_be_caught(code, c->of.terminate);
	let_go(c + 1);
}

static void ended_again(_Unwind_Reason_Code code, struct _Unwind_Exception *e)
{
	struct dependent *d = (struct dependent *)(void *)(e + 1) - 1;
	void *object = d->object;

	must_be_caught(code, d->terminate);
	NEXT_NAMED(void (*)(struct dependent *), "__cxa_free_dependent_exception")(d);
	let_go(object);
}

EXPORT void
exceptions_add(struct pointer *p) __asm__("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
EXPORT void exceptions_release(struct pointer *p) __asm__(
	"_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
EXPORT __attribute__((noreturn)) void exceptions_rethrow(struct pointer *p) __asm__(
	"_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE");

EXPORT void exceptions_add(struct pointer *p)
{
	struct counted *c = p->object ? counted_of(p->object) : NULL;

	/*
	 * Not more than one had it: the caller alone. If that is the thread that has caught it,
	 * others may have it when its handler ends.
	 */
	if (c && atomics_fetch_add_4(&c->count, 1, __ATOMIC_RELAXED) <= 1 &&
	    atomics_are_calls(&c->count))
		c->of.unwind.exception_cleanup = ended;
}

EXPORT void exceptions_release(struct pointer *p)
{
	if (p->object)
		let_go(p->object);
	p->object = NULL;
}

EXPORT __attribute__((noreturn)) void exceptions_rethrow(struct pointer *p)
{
	struct counted *c = counted_of(p->object);
	struct dependent *d;

	if (!atomics_are_calls(&c->count))
		NEXT_NAMED(void (*)(struct pointer *),
			   "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE")
	(p);
	d = NEXT_NAMED(struct dependent * (*)(void), "__cxa_allocate_dependent_exception")();
	atomics_fetch_add_4(&c->count, 1, __ATOMIC_ACQ_REL);
	d->object = p->object;
	d->unexpected = c->of.unexpected;
	d->terminate = NEXT_NAMED(void (*(*)(void))(void), "_ZSt13get_terminatev")();
	d->unwind.exception_class = CLASS_DEPENDENT;
	d->unwind.exception_cleanup = ended_again;
	NEXT_NAMED(struct globals * (*)(void), "__cxa_get_globals")()->uncaught++;
	_Unwind_RaiseException(&d->unwind);
	/* Nobody catches it. */
	NEXT_NAMED(void *(*)(void *), "__cxa_begin_catch")(&d->unwind);
	d->terminate();
	abort();
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* std::logic_error or std::runtime_error */
struct error {
	void *table;
	char *text; /* behind its count */
};

#define ERROR(name, symbol)                                                                     \
	EXPORT void name##_copy(struct error *e,                                                \
				const struct error *of) __asm__("_ZNSt" symbol "C1ERKS_");      \
	EXPORT void name##_copy_base(struct error *e,                                           \
				     const struct error *of) __asm__("_ZNSt" symbol "C2ERKS_"); \
	EXPORT struct error *name##_assign(struct error *e, const struct error *of) __asm__(    \
		"_ZNSt" symbol "aSERKS_");                                                      \
                                                                                                \
	EXPORT void name##_copy_base(struct error *e, const struct error *of)                   \
	{                                                                                       \
		if (atomics_are_calls(of->text))                                                \
			NEXT_NAMED(void (*)(struct error *, const char *),                      \
				   "_ZNSt" symbol "C2EPKc")                                     \
		(e, of->text);                                                                  \
		else NEXT_NAMED(void (*)(struct error *, const struct error *),                 \
				"_ZNSt" symbol "C2ERKS_")(e, of);                               \
	}                                                                                       \
                                                                                                \
	EXPORT void name##_copy(struct error *e, const struct error *of)                        \
	{                                                                                       \
		name##_copy_base(e, of);                                                        \
	}                                                                                       \
                                                                                                \
	EXPORT struct error *name##_assign(struct error *e, const struct error *of)             \
	{                                                                                       \
		struct error copy;                                                              \
		char *text = e->text;                                                           \
                                                                                                \
		name##_copy_base(&copy, of);                                                    \
		e->text = copy.text;                                                            \
		copy.text = text;                                                               \
		NEXT_NAMED(void (*)(struct error *), "_ZNSt" symbol "D2Ev")(&copy);             \
		return e;                                                                       \
	}

ERROR(logic_error, "11logic_error")
ERROR(runtime_error, "13runtime_error")

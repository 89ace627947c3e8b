// SPDX-License-Identifier: BSD-2-Clause
/*
 * fortran.c - the functions of omp.h as gfortran calls them: with an underscore behind their names,
 * and arguments by reference; those that take a default integer also with one of eight bytes. A
 * lock is an integer of four bytes, a nested one an address.
 */
#include <stdint.h>
#include <stdlib.h>

#include "entry.h"
#include "team.h"

#define ASK(type, name)          \
	type name(void);         \
	ENTRY type name##_(void) \
	{                        \
		return name();   \
	}
#define SET(name)                              \
	void name(int);                        \
	ENTRY void name##_(const int32_t *x)   \
	{                                      \
		name(*x);                      \
	}                                      \
	ENTRY void name##_8_(const int64_t *x) \
	{                                      \
		name((int)*x);                 \
	}
#define ASK_AT(name)                          \
	int name(int);                        \
	ENTRY int name##_(const int32_t *x)   \
	{                                     \
		return name(*x);              \
	}                                     \
	ENTRY int name##_8_(const int64_t *x) \
	{                                     \
		return name((int)*x);         \
	}
#define LOCK(type, name)                   \
	type name(uint32_t *);             \
	ENTRY type name##_(uint32_t *lock) \
	{                                  \
		return name(lock);         \
	}
#define NEST(type, name)                    \
	type name(void *);                  \
	ENTRY type name##_(uintptr_t *lock) \
	{                                   \
		return name((void *)*lock); \
	}

ASK(int, omp_get_thread_num)
ASK(int, omp_get_num_threads)
ASK(int, omp_get_max_threads)
ASK(int, omp_get_num_procs)
ASK(int, omp_get_thread_limit)
ASK(int, omp_in_parallel)
ASK(int, omp_in_final)
ASK(int, omp_get_level)
ASK(int, omp_get_active_level)
ASK(int, omp_get_dynamic)
ASK(int, omp_get_nested)
ASK(int, omp_get_max_active_levels)
ASK(int, omp_get_supported_active_levels)
ASK(int, omp_get_cancellation)
ASK(int, omp_get_proc_bind)
ASK(int, omp_get_num_places)
ASK(int, omp_get_place_num)
ASK(int, omp_get_max_task_priority)
ASK(int, omp_get_num_teams)
ASK(int, omp_get_team_num)
ASK(int, omp_get_num_devices)
ASK(int, omp_get_default_device)
ASK(int, omp_get_initial_device)
ASK(int, omp_is_initial_device)
ASK(double, omp_get_wtime)
ASK(double, omp_get_wtick)
SET(omp_set_num_threads)
SET(omp_set_dynamic)
SET(omp_set_nested)
SET(omp_set_max_active_levels)
SET(omp_set_default_device)
ASK_AT(omp_get_ancestor_thread_num)
ASK_AT(omp_get_team_size)
LOCK(void, omp_init_lock)
LOCK(void, omp_destroy_lock)
LOCK(void, omp_set_lock)
LOCK(void, omp_unset_lock)
LOCK(int, omp_test_lock)
NEST(void, omp_set_nest_lock)
NEST(void, omp_unset_nest_lock)
NEST(int, omp_test_nest_lock)

void omp_set_schedule(unsigned int, int);
void omp_get_schedule(unsigned int *, int *);
void omp_init_nest_lock(void *);
void omp_destroy_nest_lock(void *);

ENTRY void omp_set_schedule_(const int32_t *kind, const int32_t *chunk)
{
	omp_set_schedule((unsigned int)*kind, *chunk);
}

ENTRY void omp_set_schedule_8_(const int32_t *kind, const int64_t *chunk)
{
	omp_set_schedule((unsigned int)*kind, (int)*chunk);
}

ENTRY void omp_get_schedule_(int32_t *kind, int32_t *chunk)
{
	omp_get_schedule((unsigned int *)kind, chunk);
}

#define NEST_BYTES 16u /* of an omp_nest_lock_t */

ENTRY void omp_init_nest_lock_(uintptr_t *lock)
{
	void *made = openmp_must(malloc(NEST_BYTES), "a lock");

	omp_init_nest_lock(made);
	*lock = (uintptr_t)made;
}

ENTRY void omp_destroy_nest_lock_(uintptr_t *lock)
{
	omp_destroy_nest_lock((void *)*lock);
	free((void *)*lock);
	*lock = 0;
}

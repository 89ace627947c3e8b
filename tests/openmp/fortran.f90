! SPDX-License-Identifier: BSD-2-Clause
! fortran.f90 - OpenMP as gfortran compiles it: loops, reductions, critical, single, tasks, locks, queries; units that all
! threads write.
program fortran
  use omp_lib
  implicit none
  integer, parameter :: n = 2000
  integer :: i, threads, ids, total, wrong, got
  integer(kind=omp_lock_kind) :: lock
  integer(kind=omp_nest_lock_kind) :: nest
  double precision, allocatable :: a(:), b(:)
  double precision :: s, start
  integer :: kept
  common /saved/ kept
!$omp threadprivate(/saved/)

  start = omp_get_wtime()
  allocate (a(n), b(n))
  threads = 0; ids = 0; total = 0; wrong = 0; s = 0
  call omp_init_lock(lock)
  call omp_init_nest_lock(nest)
  call omp_set_num_threads(3)
!$omp parallel reduction(+:ids)
  ids = ids + 2 ** omp_get_thread_num()
!$omp single
  threads = omp_get_num_threads()
!$omp end single
!$omp critical
  total = total + 1
!$omp end critical
!$omp end parallel
!$omp parallel do schedule(dynamic, 7)
  do i = 1, n
    a(i) = i * 0.5d0
    b(i) = n - i
  end do
!$omp end parallel do
!$omp parallel do reduction(+:s) schedule(guided)
  do i = 1, n
    s = s + a(i) + b(i)
  end do
!$omp end parallel do
  kept = 5
!$omp parallel copyin(kept) reduction(+:wrong)
  if (kept /= 5) wrong = wrong + 1
  call omp_set_lock(lock)
  total = total + 10
  call omp_unset_lock(lock)
  call omp_set_nest_lock(nest)
  call omp_set_nest_lock(nest)
  total = total + 100
  call omp_unset_nest_lock(nest)
  call omp_unset_nest_lock(nest)
!$omp end parallel
!$omp parallel
!$omp single
  do i = 1, 20
!$omp task firstprivate(i)
!$omp atomic
    total = total + i
!$omp end task
  end do
!$omp end single
!$omp end parallel
!$omp parallel workshare
  a = b * 2
!$omp end parallel workshare
  call omp_destroy_lock(lock)
  call omp_destroy_nest_lock(nest)
  if (omp_get_wtime() < start) wrong = wrong + 1
  if (omp_in_parallel()) wrong = wrong + 1
  open (unit=10, status='scratch')
!$omp parallel private(i)
  do i = 1, 3
!$omp critical
    print '(A)', 'a line'
    write (10, *) omp_get_thread_num() * 10 + i
!$omp end critical
  end do
!$omp end parallel
  rewind (10)
  do i = 1, 9
    read (10, *) got
    total = total + 1000 * got
  end do
  close (10)
  print '(A,I2,A,I3,A,F12.1,A,I7,A,F12.1,A,I2)', 'threads', threads, ' ids', ids, ' sum', s, ' total', total, &
    ' workshare', sum(a), ' wrong', wrong
end program

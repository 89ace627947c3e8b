# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: when ranks wait for long, one line says who waits where, and the job goes
# on.

# MODE WHAT PATTERN: one of three seconds; reports come after one and two.
stalls() {
	local n
	mode "$1"
	ranks=3
	settings+=(DSM_STALL_MS=1000)
	works "$bin/stall" "$2"
	n=$(grep -c 'a report, not an error: DSM_STALL_MS' "$folder/out")
	((n >= 1 && n <= 3)) || problem "$n reports"
	says "^libdsm: .*after [1-3] s without an answer .*: $3"
}

# Long work is no stall, and 0 switches reports off.
no_stall() {
	mode "$1"
	ranks=3
	settings+=(DSM_STALL_MS=1000)
	works "$bin/stall" busy
	says 'DSM_STALL_MS' 0
	settings+=(DSM_STALL_MS=0)
	works "$bin/stall" barrier
	says 'DSM_STALL_MS' 0
}

# Waits that end are none, though all wait for seconds; then all wait for ever.
deadlocked() {
	mode "$1"
	ranks=3
	settings+=(DSM_STALL_MS=500 DSM_DEADLOCK=abort)
	works "$bin/stall" mutex
	says 'deadlock' 0
	plain 30 "$bin/stall" deadlock
	((status == 71)) || problem "the job ended with status $status"
	says 'rank 0: deadlock: the threads of all ranks wait for each other [(]3 threads' 1
	says 'deadlock: thread [0-9]* of rank 0 waits for mutex [0-9]* of node 0, held by rank 1' 1
	says 'deadlock: thread [0-9]* of rank 1 waits for mutex [0-9]* of node 0, held by rank 0' 1
	says 'deadlock: thread [0-9]* of rank 2 waits for dsm_barrier' 1
}

for m in node rank mprotect mixed; do
	one "stall-barrier-$m" stalls $m barrier 'dsm_barrier[(][)] or a collective: ranks 0,2 wait, rank 1 has not arrived; rank 1 is not waiting in libdsm'
done
one stall-group stalls rank group 'dsm_barrier.*barrier [0-9]* of rank 0: rank 2 waits, rank 1 has not arrived'
for m in node rank mixed; do
	one "stall-mutex-$m" stalls $m mutex 'mutex [0-9]* of node 0: ranks 0,2 wait, rank 1 holds it'
	one "stall-semaphore-$m" stalls $m semaphore 'semaphore [0-9]* of node 0: ranks 0,2 wait'
done
one stall-condition stalls rank condition 'condition [0-9]* of node 0: ranks 0,2 wait'
# Two nodes wait for the block, in the fault handler; one reports for both.
for m in rank mprotect; do
	one "stall-block-$m" stalls $m block 'block 0x[0-9a-f]* of shared, home node [0-2]: ranks 0,2 wait; rank 1 is not waiting in libdsm$'
done
# A job of one rank has no service thread that could look.
deadlocked_alone() {
	ranks=1
	settings+=(DSM_STALL_MS=500 DSM_DEADLOCK=abort)
	plain 30 "$bin/stall" semaphore
	((status == 71)) || problem "the job ended with status $status"
	says 'deadlock: thread [0-9]* of rank 0 waits for semaphore' 1
}

for m in node rank mixed; do
	one "stall-deadlock-$m" deadlocked $m
done
one stall-deadlock-alone deadlocked_alone
one stall-none no_stall rank

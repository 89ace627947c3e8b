# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: a rank goes while the others wait for it, in every way of both.

modes='node rank tcp mprotect mixed'

# MODE WHAT HOW
lost() {
	local victim=1 want=70 r
	mode "$1"
	[[ $2 != attach ]] || victim=0
	[[ $3 != abort ]] || want=3
	job 20 "$bin/block" "$2" "$3"
	survivors $victim $want
	case $3 in
	kill) [[ $(status_of $victim) == 137 ]] || problem "the victim ended with status $(status_of $victim)" ;;
	segv) [[ $(status_of $victim) == 139 ]] || problem "the victim ended with status $(status_of $victim)" ;;
	abort) [[ $(status_of $victim) == 3 ]] || problem "the victim ended with status $(status_of $victim)" ;;
	esac
	if [[ $3 == abort ]]; then
		says "libdsm: rank $victim: the water has run out" 1
		says 'is lost' 0
	else
		says "rank $victim.* is lost: " 1
		for ((r = 0; r < ranks; r++)); do
			((r == victim)) || says "rank $r[^:]* is lost: " 0
		done
	fi
	[[ $3 != exit && $3 != return ]] || says "rank $victim: exits without dsm_finalize" 1
}

# MODE HOW: the launcher's status, too.
lost_plain() {
	mode "$1"
	plain 20 "$bin/block" barrier "$2"
	((status != 0)) || problem "mpirun ended with status 0"
	((status != 124)) || problem "the job hung"
	[[ $2 != abort ]] || ((status == 3)) || problem "mpirun ended with status $status instead of 3"
	((took < 7000)) || problem "the job took $took ms"
}

for m in $modes; do
	for what in fault fault-home mutex mutex-home rwlock-home sem-home cond-home barrier reduce attach finalize compute; do
		[[ $m == @(node|mixed) && $what == fault* ]] || # nothing faults there, or the victim has the block for its node
			one "lost-$what-$m" lost "$m" "$what" kill
	done
	for how in exit return segv abort; do
		one "lost-by-$how-$m" lost "$m" barrier "$how"
	done
	one "lost-by-abort-computing-$m" lost "$m" compute abort
	for how in kill exit abort; do
		one "plain-$how-$m" lost_plain "$m" "$how"
	done
done

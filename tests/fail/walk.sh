# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: something happens to a thread at each step of a miss and of calls that
# wait (walk.c). The job goes on, or ends; the latter at some steps only without --full.

build_walk() {
	make -s -C "$top" VARIANT=hooks build/hooks/tests/fail/walk || problem 'cannot be built'
}

# MODE [STEP[,STEP...]]: the job goes on. Each step must have been come to with every action; but
# those that do not exist in that mode.
walk_on() {
	local missed
	mode "$1"
	ranks=3
	build_walk
	works "$hooks/walk" all ${2:+"$2"}
	grep -q '^reached ' "$folder/out" || problem "no step was come to"
	while read -r missed; do problem "not come to: $missed"; done < <(sed -n 's/^missed //p' "$folder/out")
}

# MODE STEP ACTION: rank 1 ends there.
walk_out() {
	local r when want
	mode "$1"
	ranks=3
	build_walk
	job 12 "$hooks/walk" "$2" "$3"
	when=$(sed -n 's/^reached //p' "$folder/out.1")
	[[ $when ]] || problem "rank 1 did not come to $2"
	case $3 in
	term) want=143 ;;
	exec) want=0 ;;
	kill) want=137 ;;
	esac
	[[ $(status_of 1) == "$want" ]] || problem "rank 1 ended with status $(status_of 1)"
	[[ $3 == exec ]] || (($(time_of 1) - when <= 500)) || problem "rank 1 ended $(($(time_of 1) - when)) ms after $3"
	for r in 0 2; do
		[[ $(status_of "$r") == 70 ]] || problem "rank $r ended with status $(status_of "$r")"
		(($(time_of "$r") - when <= 5000)) || problem "rank $r ended $(($(time_of "$r") - when)) ms after rank 1"
	done
	says 'rank 1 of this host is lost' 1
	says 'is lost' 1
}

one walk-on-rank walk_on rank
one walk-on-mixed walk_on mixed deliver
one walk-on-mprotect walk_on mprotect take
one walk-on-mixmp walk_on mixmp take,deliver

# MODE STEP: does it come there? Where rank 1 shares a node with rank 0, that one takes what the
# third sends.
comes() {
	[[ $1 != @(mprotect|mixmp) || $2 != take ]] && [[ $1 != @(mixed|mixmp) || $2 != deliver ]]
}

if [[ $full ]]; then
	build_walk
	for m in rank mprotect mixed mixmp; do
		for p in $("$hooks/walk" points); do
			for a in term exec kill; do
				! comes "$m" "$p" || one "walk-$p-$a-$m" walk_out "$m" "$p" "$a"
			done
		done
	done
else
	one walk-miss-sent-term-rank walk_out rank miss_sent term
	one walk-take-kill-rank walk_out rank take kill
	one walk-sleep-sem-exec-rank walk_out rank sleep-sem exec
	one walk-cond-left-term-rank walk_out rank cond_left term
fi

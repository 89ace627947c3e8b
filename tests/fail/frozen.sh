# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: ranks that are stopped, interrupted, or killed at the worst moment.

# start_job SECONDS PROGRAM...: a job in the background, until it says that it is ready.
start_job() {
	local i
	job "$@" &
	background=$!
	for i in {1..200}; do
		! grep -qs ready "$folder/out.0" || break
		sleep 0.05
	done
	((i < 200)) || problem "the job did not start"
	sleep 0.5
}

# All in one moment, and before any of them can have ended because another did.
signal_ranks() {
	local r name=$1 pids=()
	shift
	for r; do
		pids+=("$(<"$folder/pid.$r")")
	done
	kill "-$name" "${pids[@]}"
}

# MODE SECONDS RANK...: these stop for so long, and nobody minds.
stopped_briefly() {
	local mode=$1 seconds=$2 r
	mode "$1"
	shift 2
	settings+=("${more[@]}")
	start_job $((seconds + 37)) "$bin/steady" $((seconds + 3))
	signal_ranks STOP "$@"
	sleep "$seconds"
	for ((r = 0; r < ranks; r++)); do
		[[ ! -e $folder/end.$r ]] || problem "rank $r ended meanwhile"
	done
	signal_ranks CONT "$@"
	wait "$background"
	for ((r = 0; r < ranks; r++)); do
		[[ $(status_of "$r") == 0 ]] || problem "rank $r ended with status $(status_of "$r") ($mode)"
	done
	says 'is lost' 0
}

# Silent for more than DSM_LOST_MS, rank 1 is lost to all ranks of other hosts. Each rank is in a
# user namespace of its own, and so takes the others for ranks of other hosts.
silent() {
	local r began
	settings=(DSM_NODE=rank DSM_FAULT=mprotect UCX_TLS=tcp DSM_LOST_MS=1000)
	start_job 30 unshare -Ur "$bin/steady" 15
	signal_ranks STOP 1
	began=$(date +%s%3N)
	for ((r = 0; r < ranks; r++)); do
		while ((r != 1)) && [[ ! -e $folder/end.$r ]] && (($(date +%s%3N) - began < 6000)); do
			sleep 0.05
		done
	done
	signal_ranks KILL 1
	wait "$background"
	survivors 1 70
	for ((r = 0; r < ranks; r++)); do
		((r == 1 || $(time_of "$r") < $(time_of 1))) || problem "rank $r did not end before rank 1 was killed"
	done
	says 'rank 1 is lost: nothing was heard of it for DSM_LOST_MS'
	says 'is lost: nothing' 1
}

# MODE: rank 1 stops for longer than DSM_LOST_MS, while its node lives and others call it. Their
# calls wait, and say so.
called() {
	local r
	mode "$1"
	ranks=3
	settings+=(DSM_LOST_MS=1000 DSM_STALL_MS=1000)
	start_job 30 setarch -R "$bin/called" 6
	signal_ranks STOP 1
	sleep 4
	for ((r = 0; r < ranks; r++)); do
		[[ ! -e $folder/end.$r ]] || problem "rank $r ended meanwhile"
	done
	signal_ranks CONT 1
	wait "$background"
	for ((r = 0; r < ranks; r++)); do
		[[ $(status_of "$r") == 0 ]] || problem "rank $r ended with status $(status_of "$r")"
	done
	says 'is lost' 0
	says '^libdsm: .*after [1-3] s without an answer .*: answers to calls: ranks 0,2 wait'
}

# Rank 1 stops before it has acknowledged what rank 0 has stored in release memory. A report by
# messages would wait as well.
closes() {
	local r
	mode rank
	ranks=2
	settings+=(DSM_STALL_MS=1000)
	start_job 30 "$bin/closes"
	signal_ranks STOP 1
	sleep 4
	[[ ! -e $folder/end.0 ]] || problem "rank 0 ended meanwhile"
	signal_ranks CONT 1
	wait "$background"
	for ((r = 0; r < ranks; r++)); do
		[[ $(status_of "$r") == 0 ]] || problem "rank $r ended with status $(status_of "$r")"
	done
	says 'rank 0: after [1-3] s without an answer .*: node 1 has not acknowledged stores of this node'
}

# mpirun is told to stop, as by Ctrl-C: everything ends.
interrupted() {
	local began pid
	env "${settings[@]}" setsid mpirun -n "$ranks" "$bin/steady" 30 >"$folder/out" 2>&1 </dev/null &
	pid=$!
	for _ in {1..100}; do
		! grep -qs ready "$folder/out" || break
		sleep 0.05
	done
	began=$(date +%s%3N)
	kill "-$1" "$pid"
	wait "$pid"
	status=$?
	((status != 0)) || problem "mpirun ended with status 0"
	(($(date +%s%3N) - began < 8000)) || problem "it took $(($(date +%s%3N) - began)) ms"
}

# mpirun is killed: the ranks do not go on for ever.
no_launcher() {
	local r
	mode "$1"
	start_job 20 "$bin/steady" 15
	pkill -KILL -f "^mpirun -n $ranks $bin/keeper $folder "
	wait "$background"
	for ((r = 0; r < ranks; r++)); do
		[[ $(status_of "$r") == 70 ]] || problem "rank $r ended with status $(status_of "$r")"
	done
	says 'the launcher is gone' 1
	says 'is lost' 0
}

# One rank gets SIGTERM.
terminated() {
	mode "$1"
	start_job 30 "$bin/steady" 20
	signal_ranks TERM 1
	wait "$background"
	survivors 1 70
	[[ $(status_of 1) == 143 ]] || problem "rank 1 ended with status $(status_of 1)"
	says 'rank 1 of this host is lost' 1
}

# A rank dies with all locks of the node held; the others wait for those locks.
held() {
	mode "$1"
	job 20 "$bin/held"
	survivors 1 70
	says "^$2 segments held"
	says 'rank 1 of this host is lost' 1
}

# A rank dies where all are leaving: the others finish, or say that it is lost.
fence() {
	local r
	mode "$1"
	job 30 "$bin/fence"
	[[ $(status_of 1) == 137 ]] || problem "rank 1 ended with status $(status_of 1)"
	for ((r = 0; r < ranks; r++)); do
		((r == 1)) || [[ $(status_of "$r") == @(0|70) ]] || problem "rank $r ended with status $(status_of "$r")"
		(($(time_of "$r") - $(time_of 1) < 12000)) || problem "rank $r took $(($(time_of "$r") - $(time_of 1))) ms"
	done
}

# Killed at any moment, while all are busy.
storm() {
	local r
	mode "$1"
	ranks=5
	start_job 30 "$bin/steady" 20
	sleep "0.$((RANDOM % 10))"
	# The first of them to die may end the other before the signal does.
	signal_ranks KILL 1 2 2>/dev/null
	wait "$background"
	for r in 0 3 4; do
		[[ $(status_of "$r") == 70 ]] || problem "rank $r ended with status $(status_of "$r")"
		(($(time_of "$r") - $(time_of 1) <= 5000)) || problem "rank $r ended $(($(time_of "$r") - $(time_of 1))) ms later"
	done
	says 'rank [12] of this host is lost' 1
}

more=()
one stopped-rank stopped_briefly rank 3 1
one stopped-mixed stopped_briefly mixed 3 1
one stopped-tcp stopped_briefly tcp 3 1
if [[ $full ]]; then
	for m in rank tcp mprotect; do
		one "stopped-minute-$m" stopped_briefly $m 60 1
	done
fi
more=(DSM_LOST_MS=1000)
one stopped-all-rank stopped_briefly rank 3 0 1 2 3
for m in rank tcp mprotect; do
	one "stopped-long-$m" stopped_briefly $m 4 1
done
more=()
one silent-apart silent
for m in node mixed; do
	one "called-$m" called $m
done
one closes closes
one interrupted interrupted INT
one terminated-mpirun interrupted TERM
one no-launcher-rank no_launcher rank
one no-launcher-tcp no_launcher tcp
one terminated-rank terminated rank
one held-node held node 1
one held-mixed held mixed 1
for m in rank tcp mprotect mixed; do
	one "fence-$m" fence $m
done
for m in rank rank2 rank3 rank4 mprotect mixed mixed2 mixmp; do
	one "storm-$m" storm "${m%[0-9]}"
done

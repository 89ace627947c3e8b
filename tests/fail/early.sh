# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: ranks die inside dsm_init(). The build with hooks says where.

hooks=$top/build/hooks/tests/fail

# MODE RANK[,RANK...] POINT: one line names all of them.
early() {
	local r dead when last=0
	mode "$1"
	make -s -C "$top" VARIANT=hooks build/hooks/tests/fail/early || problem 'cannot be built'
	job 20 "$hooks/early" "$2" "$3"
	for dead in ${2//,/ }; do
		when=$(sed -n 's/^reached //p' "$folder/out.$dead")
		[[ $when ]] || problem "rank $dead did not come to $3"
		((when <= last)) || last=$when
	done
	for ((r = 0; r < ranks; r++)); do
		[[ ,$2, != *,$r,* ]] || continue
		[[ $(status_of "$r") == 70 ]] || problem "rank $r ended with status $(status_of "$r")"
		(($(time_of "$r") - last <= 5000)) || problem "rank $r ended $(($(time_of "$r") - last)) ms after rank $2"
	done
	dead=${2%%,*}
	if [[ $2 == *,* ]]; then
		says "rank $dead is lost: .*; so did rank $(sed 's/,/, rank /g' <<<"${2#*,}")\." 1
	else
		says "rank $dead.* is lost: " 1
	fi
	says '^(libdsm|dsm_init)' 1
}

# Rank 1 has stopped, and the launcher's server has all ranks: whom it does not have by its end
# fails in another way.
all_launched() {
	local r
	grep -qs '^reached ' "$folder/out.1" || return 1
	for ((r = 0; r < ranks; r++)); do
		grep -qs '^launched' "$folder/out.$r" || return 1
	done
}

# MODE POINT WHAT: rank 1 stops there, mpirun and its PMIx server are killed, and rank 1 goes on
# (CONT) or is killed (KILL). In the mode `apart` each rank takes the others for ranks of other
# hosts: it is in a user namespace of its own.
unled() {
	local i r began apart=()
	mode "$1"
	[[ $1 != apart ]] || apart=(unshare -Ur) settings=(DSM_NODE=rank DSM_FAULT=mprotect UCX_TLS=tcp)
	make -s -C "$top" VARIANT=hooks build/hooks/tests/fail/early || problem 'cannot be built'
	job 20 "${apart[@]}" "$hooks/early" 1 "start_$2" stop &
	for i in {1..200}; do
		! all_launched || break
		sleep 0.05
	done
	((i < 200)) || problem "rank 1 did not come to start_$2, or another was not launched"
	sleep 0.5 # the others come as far as they can without it
	began=$(awk '{ printf "%d", $1 * 1000 }' /proc/uptime)
	pkill -KILL -f "^mpirun -n $ranks $bin/keeper $folder "
	[[ $3 != KILL ]] || sleep 0.2
	kill "-$3" "$(<"$folder/pid.1")"
	wait $!
	for ((r = 0; r < ranks; r++)); do
		if [[ $3 == KILL && $r == 1 ]]; then
			[[ $(status_of 1) == 137 ]] || problem "rank 1 ended with status $(status_of 1)"
			continue
		fi
		[[ $(status_of "$r") == 70 ]] || problem "rank $r ended with status $(status_of "$r")"
		(($(time_of "$r") - began <= 5000)) || problem "rank $r ended $(($(time_of "$r") - began)) ms after mpirun"
	done
	if [[ $3 == KILL ]]; then
		says 'the launcher is gone|rank 1.* is lost: |a rank is lost: abort' 1
	else
		says 'the launcher is gone' 1
	fi
	says '^(libdsm|dsm_init)' 1
}

# MODE POINT: rank 1 calls abort() there, as UCX may while it connects.
aborted() {
	mode "$1"
	make -s -C "$top" VARIANT=hooks build/hooks/tests/fail/early || problem 'cannot be built'
	job 20 "$hooks/early" 1 "$2" abort
	[[ $(status_of 1) == 70 ]] || problem "rank 1 ended with status $(status_of 1)"
	survivors 1 70
	says '^libdsm: rank 1: a rank is lost: abort\(\) was called inside libdsm, as UCX does' 1
	says '^(libdsm|dsm_init)' 1
}

# abort() outside the runtime is the program's.
aborted_by_program() {
	mode rank
	make -s -C "$top" VARIANT=hooks build/hooks/tests/fail/early || problem 'cannot be built'
	job 20 "$hooks/early" 1 running abort
	[[ $(status_of 1) == 134 ]] || problem "rank 1 ended with status $(status_of 1)"
	survivors 1 70
	says 'rank 1 of this host is lost: its process was ended by SIGABRT' 1
	says '^(libdsm|dsm_init)' 1
}

points='launched info exchanged agreed memory rendezvous connected serving fenced'
for m in node rank mixed ${full:+mprotect mixmp}; do
	for p in $points; do
		[[ $m != @(node|mixed) || $full || $p == @(info|memory|serving) ]] || continue
		one "early-$p-$m" early "$m" 1 "start_$p"
	done
	[[ $m == node ]] || one "early-info-several-$m" early "$m" 1,2,3 start_info
	one "early-said-$m" early "$m" 1 rendezvous_said
	one "early-heard-$m" early "$m" 1 rendezvous_heard
	[[ $full ]] || continue
	one "early-connected-to-$m" early "$m" 1 rendezvous_connected
	one "early-info-0-$m" early "$m" 0 start_info
	one "early-rendezvous-0-$m" early "$m" 0 start_rendezvous
done
for p in connected serving; do
	one "early-aborted-$p" aborted rank "start_$p"
done
one early-aborted-running aborted_by_program
for m in node rank tcp apart; do
	for p in $points; do
		[[ $m != node || $full || $p == @(info|rendezvous|serving) ]] || continue
		[[ $m != tcp || $full || $p == @(rendezvous|connected) ]] || continue
		one "early-unled-$p-$m" unled "$m" "$p" CONT
		[[ $m != @(rank|apart) ]] || one "early-unled-$p-dies-$m" unled "$m" "$p" KILL
	done
done

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: too little of something, wrong settings, ranks that do not fit together,
# strangers.

# fails SECONDS PATTERN [SETTING...] -- PROGRAM...: the job ends with a failure and says so.
fails() {
	local seconds=$1 pattern=$2
	shift 2
	while [[ $1 != -- ]]; do
		settings+=("$1")
		shift
	done
	shift
	plain "$seconds" "$@"
	((status != 0)) || problem "the job ended with status 0"
	((status != 124 && status < 128)) || problem "the job ended with status $status after $took ms"
	says "^libdsm: .*$pattern"
}

# fail_alike SECONDS PATTERN PROGRAM...: each rank says that, and no more; but if rank 0 failed before
# some had met all others, those find it lost, and one of them says so. mpirun would end the last
# ones before they can.
fail_alike() {
	local r found=0 late=0
	job "$1" "${@:3}"
	for ((r = 0; r < ranks; r++)); do
		case $r-$(status_of $r) in
		*-2)
			[[ $(grep -c '^libdsm: ' "$folder/err.$r") == 1 ]] && grep -qE "^libdsm: .*$2" "$folder/err.$r" ||
				problem "rank $r says: $(<"$folder/err.$r")"
			;;
		[!0]-70)
			late=1
			grep -q '^libdsm: ' "$folder/err.$r" || continue
			found=$((found + 1))
			grep -qE '^libdsm: rank [0-9]*: rank [0-9]* of this host is lost: it(s process ended| failed) in dsm_init' "$folder/err.$r" ||
				problem "rank $r says: $(<"$folder/err.$r")"
			;;
		*) problem "rank $r ended with status $(status_of $r)" ;;
		esac
	done
	((found == late)) || problem "$found late ranks say that one is lost"
	rm -f "$folder"/{pid,end,out,err}.*
}

# SIZE: of /dev/shm, in the mount namespace of what "$folder/small" starts.
shm_of() {
	printf '#!/bin/bash\nmount -t tmpfs -o size=%s tmpfs /dev/shm && exec "$@"\n' "$1" >"$folder/small"
	chmod +x "$folder/small"
}

works() {
	plain 60 "$@"
	((status == 0)) || problem "the job ended with status $status after $took ms"
}

# ulimit OPTION VALUE around a program, not around mpirun.
limited() {
	local option=$1 value=$2
	shift 2
	printf '#!/bin/bash\nulimit %s %s && exec "$@"\n' "$option" "$value" >"$folder/limited"
	chmod +x "$folder/limited"
}

descriptors() {
	limited -n "$1"
	ranks=$2
	fails 30 'ulimit -n' "${@:3}" -- "$folder/limited" "$bin/steady"
}

memlock() {
	limited -l 0
	works "$folder/limited" "$bin/steady"
}

address_space() {
	limited -v $((4 << 20))
	ranks=$1
	fails 30 'DSM_SPACE' -- "$folder/limited" "$bin/steady"
	# What the message advises helps.
	settings=(DSM_SPACE=64M)
	limited -v $((16 << 20))
	works "$folder/limited" "$bin/steady"
}

memory() {
	ranks=2
	settings=("${@:2}")
	works "$bin/memory" "$1"
}

# The same with two ranks on one node, and a third on another.
memory_mixed() {
	mode mixmp
	ranks=3
	works "$bin/memory" "$1"
}

# WHAT TIMES PATTERN [SETTING...]: as memory, and so many lines say so.
memory_says() {
	memory "$1" "${@:4}"
	says "$3" "$2"
}

# Each of two ranks names its own size, and that of the rank that has made the region; who wants the
# same is told nothing.
memory_sizes() {
	local does
	memory sizes
	for does in 'opens it with 20000' 'creates it with 30000' 'opens it with 40000'; do
		says "rank 1: region \"two sizes\": rank 0 has made it with 10000 bytes, and this rank $does" 1
	done
	says 'region "two blocks": rank 0 has made it with blocks of 4096 bytes, and this rank opens it with blocks of 65536' 1
	says 'region "two' 4
}

# A bad setting: SETTING VALUE ALLOWED
bad_setting() {
	ranks=$4
	fails 20 "$1=$2 is not allowed; allowed: .*$3" "$1=$2" -- "$bin/steady"
}

unknown_setting() {
	ranks=$1
	settings=(DSM_SPINN_US=3 DSM_DIRECTORY=/somewhere)
	works "$bin/steady"
	says 'DSM_SPINN_US is not a setting; did you mean DSM_SPIN_US[?] .*DSM_HELP=1' 1
	says 'DSM_DIRECTORY is not a setting .*DSM_HELP=1' 1
	settings=()
	fails 20 'DSM_HEEP is not a setting; did you mean DSM_HEAP[?]' DSM_HEEP=1G DSM_STRICT=1 -- "$bin/steady"
}

help_text() {
	local name
	env DSM_HELP=1 "$bin/steady" >"$folder/out" 2>&1 || problem "status $?"
	for name in FAULT NET NODE STATS SPACE HEAP BLOCK HOLD_US SPIN_US READAHEAD HOME LOST_MS; do
		says "^ *DSM_$name "
	done
	says 'libdsm [0-9.]*: settings' 1
}

# mixed SECONDS PATTERN ARGUMENT...: of mpirun, for two kinds of ranks.
mixed() {
	local pattern=$1 began
	shift
	began=$(date +%s%3N)
	timeout -k 5 30 mpirun "$@" >"$folder/out" 2>&1 </dev/null
	status=$?
	((status != 0 && status < 124)) || problem "the job ended with status $status"
	(($(date +%s%3N) - began < 10000)) || problem "it took $(($(date +%s%3N) - began)) ms"
	says "$pattern"
}

other_version() {
	local cc flags other=$folder/other
	mkdir -p "$folder/include"
	sed 's/^#define DSM_VERSION_MINOR .*/#define DSM_VERSION_MINOR 99/' "$top/libdsm/include/dsm.h" >"$folder/include/dsm.h"
	cc=$(make -s -C "$top" "VARIANT=${VARIANT:-release}" print-CC)
	flags=$(make -s -C "$top" "VARIANT=${VARIANT:-release}" print-DSM_LIBS)
	make -s -C "$top" "VARIANT=${VARIANT:-release}" "build/${VARIANT:-release}/libdsm-internal.a" >/dev/null
	# shellcheck disable=SC2086
	$cc -std=gnu11 -O1 -pthread -D_GNU_SOURCE -I"$folder/include" -I"$top/libdsm" \
		$(make -s -C "$top" print-CPPFLAGS_LIB) -o "$other" "$top/tests/fail/steady.c" "$top/libdsm/start/info.c" \
		"$top/build/${VARIANT:-release}/libdsm-internal.a" $flags || problem 'the other version cannot be built'
	mixed 'rank [12] runs another version of libdsm than rank 0' -n 1 "$other" : -n 2 "$bin/steady"
}

# SETTING VALUE [VALUE]: rank 0 has the one, the others have the other one, or the default.
other_setting() {
	mixed "rank [12] has another $1 than rank 0; it must be the same on all ranks$" \
		-n 1 -x "$1=$2" "$bin/steady" : -n 2 ${3:+-x "$1=$3"} "$bin/steady"
}

# tests/unit/test_start_info.c has the other names.
other_settings() {
	other_setting DSM_SPACE 1G 2G
	other_setting DSM_ATOMICS trust
	other_setting DSM_OWN_LIBRARIES share
	mixed 'rank 1 has a DSM_MEMORY of 64 MiB, and rank 0 of the same node one of 32 MiB' \
		-n 1 -x DSM_MEMORY=32M "$bin/steady" : -n 2 -x DSM_MEMORY=64M "$bin/steady"
}

# One rank that is to be a node of its own makes all of them nodes; one that cannot have userfaultfd
# is of the node all the same.
nodes() {
	timeout -k 5 60 mpirun -n 2 -x DSM_STATS=table "$bin/steady" : -n 1 "$bin/refuse" 1 "$bin/steady" >"$folder/out" 2>&1 </dev/null ||
		problem "a job of one node ended with status $?"
	says '3 ranks in 1 node, faults by none$' 1
	timeout -k 5 60 mpirun -n 2 -x DSM_STATS=table "$bin/steady" : -n 1 -x DSM_NODE=rank "$bin/steady" >"$folder/out" 2>&1 </dev/null ||
		problem "a job of which one rank is a node ended with status $?"
	says '3 ranks in 3 nodes, faults by .*, messages by ' 1
}

# ERRNO: userfaultfd(2) fails so.
refused() {
	ranks=2
	settings=(DSM_NODE=rank)
	works "$bin/refuse" "$1" "$bin/steady"
	says 'userfaultfd.* is refused here; using mprotect' 1
	settings=(DSM_NODE=rank DSM_FAULT=mprotect)
	works "$bin/refuse" "$1" "$bin/steady"
	says 'refused' 0
	fails 20 'DSM_FAULT=uffd: .*DSM_FAULT=mprotect' DSM_NODE=rank DSM_FAULT=uffd -- "$bin/refuse" "$1" "$bin/steady"
}

# On one rank only.
refused_on_one() {
	DSM_NODE=rank timeout -k 5 60 mpirun -n 1 "$bin/steady" : -n 1 "$bin/refuse" 1 "$bin/steady" : -n 2 "$bin/steady" >"$folder/out" 2>&1 </dev/null
	status=$?
	((status == 0)) || problem "the job ended with status $status"
}

in_handler() {
	mode "$1"
	job 20 "$bin/signals" handler
	[[ $(status_of 0) == @(135|139) ]] || problem "rank 0 ended with status $(status_of 0)"
	survivors 0 70
	says 'is touched by a signal handler that interrupted a libdsm call that does not sleep, which is not supported' 1
}

in_call() {
	mode "$1"
	ranks=2
	works "$bin/signals" kept
}

in_sleep() {
	mode "$1"
	ranks=2
	works "$bin/signals" asleep
}

between() {
	mode "$1"
	ranks=2
	works "$bin/signals" between
}

forked() {
	mode "$1"
	ranks=2
	works "$bin/signals" fork
	says 'libdsm: .*lost' 0
}

# UID: somebody calls all our sockets while jobs start.
strangers() {
	local pid
	"$bin/stranger" 6 "$1" "$bin/steady" >"$folder/calls" 2>&1 &
	pid=$!
	# The sockets are there for some milliseconds of a job: on a busy host, a few jobs may pass
	# before one is called.
	while kill -0 "$pid" 2>/dev/null; do
		works "$bin/steady"
		((took < 12000)) || problem "the job took $took ms"
	done
	wait "$pid"
	((status = $?, status == 0 || status == 77)) || problem "the stranger ended with status $status"
	grep -q ' 0 answers' "$folder/calls" || problem "strangers were answered: $(<"$folder/calls")"
	! grep -q '^0 calls' "$folder/calls" || problem 'no stranger came through'
}

# UID: somebody takes the names that the sockets of the next job would have if they followed from
# those of the last one.
squatters() {
	local collector pid i
	while :; do grep -o '@libdsm-[0-9]*-[0-9]*-.*' /proc/net/unix || true; done >"$folder/seen" &
	collector=$!
	works "$bin/steady"
	kill "$collector"
	sort -u "$folder/seen" | tail -n 6 >"$folder/names"
	[[ -s $folder/names ]] || problem 'no socket was seen'
	"$bin/squatter" 30 "$1" "$BASHPID" 4000 <"$folder/names" >"$folder/taken" &
	pid=$!
	for i in {1..100}; do
		[[ ! -s $folder/taken ]] || break
		sleep 0.1
	done
	grep -q '^[1-9]' "$folder/taken" || problem "the squatter has taken $(<"$folder/taken")"
	works "$bin/steady"
	kill "$pid"
}

# SIZE: of /dev/shm, for jobs in a mount namespace of their own.
small_shm() {
	shm_of "$1"
	ranks=3
	settings=(unshare -m "$folder/small")
	works "$bin/steady"
	says 'UCX|/dev/shm' 0
	settings=(DSM_NODE=rank unshare -m "$folder/small")
	fail_alike 30 "/dev/shm has $2 KiB, of which [0-9]* are free, and each rank of a host needs about" "$bin/steady"
	settings=(DSM_NODE=rank UCX_TLS=tcp unshare -m "$folder/small")
	works "$bin/steady"
}

# Rank 1 is late to meet rank 2; rank 0 has met both meanwhile, and fails, which rank 2 notices before
# rank 1 goes on, and before the process of rank 0 ends. Rank 1 fails as rank 0, or finds one lost.
failed_while_late() {
	local r
	mode rank
	ranks=3
	make -s -C "$top" VARIANT=hooks build/hooks/tests/fail/early || problem 'cannot be built'
	shm_of 16k
	settings+=(unshare -m "$folder/small")
	job 20 "$top/build/hooks/tests/fail/early" 1 rendezvous_heard "$folder/end.2"
	for r in 0 1 2; do
		[[ $r-$(status_of $r) == @(0-3|1-3|1-70|2-70) ]] || problem "rank $r ended with status $(status_of $r)"
	done
	says '^libdsm: rank [01]: /dev/shm has 16 KiB'
	says '^libdsm: rank 2: rank 0 of this host is lost: it failed in dsm_init\(\)\.' 1
	says 'executed another program' 0
}

# UCX_TLS may choose UCX's shared memory under other names, or leave it out.
shm_names() {
	local tls
	shm_of 16k
	ranks=2
	for tls in tcp,sm shm mm,tcp all '\posix,tcp' ^tcp; do
		settings=(DSM_NODE=rank UCX_TLS="$tls" unshare -m "$folder/small")
		fail_alike 30 "/dev/shm has 16 KiB, of which [0-9]* are free, and each rank of a host needs about" "$bin/steady"
	done
	for tls in '\sm,tcp' ^posix ^self,shm; do
		settings=(DSM_NODE=rank UCX_TLS="$tls" UCX_RNDV_THRESH=bad unshare -m "$folder/small")
		fails 30 'UCX: settings: ' -- "$bin/steady"
		says '/dev/shm' 0
	done
}

# A dsm_init() that fails leaves the process as it was.
undone() {
	env "$@" timeout 60 "$bin/undo" >"$folder/out" 2>&1 || problem "status $?"
	says '^nothing is left' 1
}

one descriptors-18 descriptors 18 4
one descriptors-28 descriptors 28 8
one descriptors-24-rank descriptors 24 4 DSM_NODE=rank
one memlock memlock
one shm-16k small_shm 16k 16
one shm-256k small_shm 256k 256
one shm-late failed_while_late
one shm-names shm_names
one address-space address_space 1
one address-space-ranks address_space 3
one memory-regions memory regions DSM_SPACE=1G DSM_HEAP=64M
one memory-regions-default memory regions
one memory-lazy memory_says lazy 2 'region "more" of 107374182400 bytes finds no room: .*DSM_SPACE.*DSM_HEAP'
one memory-sizes memory_sizes
one memory-heap memory_says heap 2 'the heap has no room for 1048576 bytes in a row: DSM_HEAP is 64 MiB' DSM_SPACE=256M DSM_HEAP=64M
one memory-space-64M memory heap DSM_SPACE=64M
one memory-maps memory maps DSM_NODE=rank DSM_FAULT=mprotect
one memory-pins memory pins DSM_NODE=rank DSM_FAULT=mprotect
one memory-pins-mixmp memory_mixed pins
one memory-pins-together memory_mixed together
for n in 1 3; do
	one "settings-unknown-$n" unknown_setting $n
done
for n in 1 2; do
	one "settings-choice-$n" bad_setting DSM_FAULT maybe 'auto uffd mprotect' $n
	one "settings-number-$n" bad_setting DSM_HOLD_US -1 '0 to 10000' $n
	one "settings-range-$n" bad_setting DSM_LOST_MS 499 '500 to 600000' $n
	one "settings-size-$n" bad_setting DSM_SPACE 1X '64M to 4T' $n
	one "settings-power-$n" bad_setting DSM_BLOCK 5000 'a power of two' $n
	one "settings-empty-$n" bad_setting DSM_SPACE '' '64M to 4T' $n
	one "settings-overflow-$n" bad_setting DSM_SPACE 99999999999999999999 '64M to 4T' $n
	one "settings-net-$n" bad_setting DSM_NET verbz 'one of: auto' $n
	one "settings-homes-$n" bad_setting DSM_HOME blocked:4K 'one of: first cyclic blocked cyclic:SIZE, 4K to 1G' $n
done
one settings-help help_text
one other-version other_version
one other-settings other_settings
one nodes nodes
one refused-eperm refused 1
one refused-enosys refused 38
one refused-on-one refused_on_one
for m in rank mprotect; do
	one "signal-handler-$m" in_handler $m
	one "signal-kept-$m" in_call $m
	one "signal-asleep-$m" in_sleep $m
	one "signal-between-$m" between $m
	one "fork-$m" forked $m
done
one strangers-same-user strangers 0
one strangers-other-user strangers 65534
one squatters squatters 65534
one undone undone DSM_SPACE=1G

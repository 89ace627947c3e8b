#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Usage: tests/cluster/preload.sh [CLUSTER]
#
# Run unmodified perftest in two guests with libcqgroup-preload.so: node0 is the server, node1 the
# client, each in a group. Both check in their kernel which vector was requested from the device (a
# probe on rxe_create_cq; `rdma resource` does not show it), and the CPUs of the threads that wait
# for events. Then tests/cluster/vectors runs in the same guests. With CLUSTER, use that cluster,
# whose guests need at least two CPUs; otherwise start and stop one. Ends with "N passed, N failed".
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
preload=$top/build/release/libcqgroup-preload.so

# ---- the host's side -----------------------------------------------------------------------------

if [[ ! ${CLUSTER_NODE:-} ]]; then
	name=${1:-preload-$$}
	[[ -e $preload ]] || make -j"$(nproc)" lib
	if (($# == 0)); then
		trap 'scripts/cluster down --name "$name" >/dev/null 2>&1 || true' EXIT
		scripts/cluster up --name "$name" -n 2 --cpus 2
	fi
	status=0
	output=$(timeout 480 scripts/cluster run --name "$name" --node 0 --node 1 -- "$top/tests/cluster/preload.sh" $$ 2>&1) || status=$?
	# Each guest counts for itself.
	grep -vE '[0-9]+ passed, [0-9]+ failed$' <<<"$output" || true
	read -r passed failed guests <<<"$(awk '/[0-9]+ passed, [0-9]+ failed$/ { p += $(NF - 3); f += $(NF - 1); n++ }
		END { print p + 0, f + 0, n + 0 }' <<<"$output")"
	((guests == 2 && (status == 0 || failed > 0))) || failed=$((failed + 1))
	# The same guests, with a device that honours vectors.
	output=$(timeout 480 tests/cluster/vectors "$name" 2>&1) || true
	grep -vE '[0-9]+ passed, [0-9]+ failed$' <<<"$output" || true
	read -r more wrong <<<"$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' <<<"${output:-}" | tail -n 1)"
	passed=$((passed + ${more:-0})) failed=$((failed + ${wrong:-1}))
	echo "$passed passed, $failed failed"
	((failed == 0))
	exit
fi

# ---- a guest's side ------------------------------------------------------------------------------

tracing=/sys/kernel/tracing
run=${1:?} # what the host calls this run: the guests may have seen others
side=$([[ $CLUSTER_NODE == 0 ]] && echo server || echo client)
passed=0 failed=0 port=18600

check() {
	if [[ $2 == "$3" ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL %s, %s: expected %s, but: %s\n' "$name" "$1" "$3" "$2"
	fi
}

mountpoint -q $tracing || mount -t tracefs none $tracing
# struct ib_cq_init_attr, the second argument: u32 cqe, u32 comp_vector.
[[ ! -d $tracing/events/kprobes ]] || echo 0 >$tracing/events/kprobes/enable
echo 'p:cqgroup rxe_create_cq vector=+4($arg2):u32' >$tracing/kprobe_events
echo 1 >$tracing/events/kprobes/cqgroup/enable
vectors_seen_by_kernel() {
	sed -nE 's/^.* cqgroup: .*vector=([0-9]+)$/\1/p' $tracing/trace | sort -u | paste -sd,
}

# The CPUs that threads of a program are seen bound to while it runs, below timeout(1).
watch_cpus() {
	local all now seen='' child
	all=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
	while kill -0 "$1" 2>/dev/null; do
		read -r child _ 2>/dev/null <"/proc/$1/task/$1/children" || true
		now=$(cat /proc/"${child:-$1}"/task/*/status 2>/dev/null | sed -n 's/^Cpus_allowed_list:\t//p' | sort -u | grep -vx -- "$all" | paste -sd,) || true
		[[ ! $now ]] || seen=$now
		sleep 0.05
	done
	echo "${seen:-all}"
}

listening() {
	grep -q "$(printf ':%04X 0[0-9A-F:]* 0A' "$port")" /proc/net/tcp /proc/net/tcp6 ||
		rdma resource show cm_id 2>/dev/null | grep -q "LISTEN.*:$port "
}

# perftest NAME "SETTING..." TOOL OPTION...: run it on both sides; its output to $output, CPUs to
# $cpus, vectors to $kernel.
perftest() {
	local program tool=$3 settings ready to=()
	name=$1
	read -ra settings <<<"$2"
	shift 3
	port=$((port + 1))
	ready=$CLUSTER_SHARE/preload.$run.$port
	echo >$tracing/trace
	if [[ $side == client ]]; then
		for ((i = 0; i < 300; i++)); do
			[[ ! -e $ready ]] || break
			sleep 0.1
		done
		to=(10.10.0.1)
	fi
	env "${settings[@]}" timeout 120 "$tool" -d rxe0 -p $port -u 18 -F "$@" "${to[@]}" >/tmp/output 2>&1 &
	program=$!
	if [[ $side == server ]]; then
		for ((i = 0; i < 200; i++)); do
			! listening || break
			sleep 0.1
		done
		: >"$ready"
	fi
	watch_cpus $program >/tmp/cpus
	status=0
	wait $program || status=$?
	output=$(sed -E 's/\[[0-9]+\]//' /tmp/output)
	cpus=$(cat /tmp/cpus) kernel=$(vectors_seen_by_kernel)
	check "exit status" $status 0
	((status == 0)) || echo "$output"
}

said() { grep -c -- "$1" <<<"$output" || true; }

with="LD_PRELOAD=$preload CQGROUP_VERBOSE=1"

perftest "send, no group" "X=" ib_send_lat -e -n 500
check "vectors in the kernel" "$kernel" 0
check "CPUs" "$cpus" all

perftest "send, vector and CPU" "$with CQGROUP_VECTORS=1 CQGROUP_CPUS=1" ib_send_lat -e -n 500
check "vectors in the kernel" "$kernel" 1
check "CPUs" "$cpus" 1
check "its group" "$(said '^cqgroup-preload: ib_send_lat: rxe0: group preload: vectors 1 of 0-[0-9]*, waiting threads on CPUs 1$')" 1
check "rxe ignores vectors" "$(said 'rxe0 ignores completion vectors')" 1
counts=$(sed -nE 's/.*rxe0: vector 1: ([0-9]+) CQs, ([0-9]+) events, ([0-9]+) completions$/\1 \2 \3/p' <<<"$output")
read -r cqs events completions <<<"${counts:-0 0 0}"
check "figures ($counts)" $((cqs >= 1 && events >= 500 && completions >= 1000)) 1

perftest "write, a group of the table" "$with CQGROUP=bulk DSM_CQ_GROUPS=coherence=0;bulk=1@none" ib_write_bw -n 100 -s 4096
check "vectors in the kernel" "$kernel" 1
check "CPUs" "$cpus" all
check "its group" "$(said 'rxe0: group bulk: vectors 1 of 0-')" "$(said 'rxe0: group ')"

perftest "write, many QPs and CQs by turns" "$with CQGROUP_VECTORS=0-1 CQGROUP_POLICY=turns" ib_send_bw -n 50 -s 1024 -q 4
check "vectors in the kernel" "$kernel" 0,1

perftest "send over rdma_cm" "$with CQGROUP_VECTORS=1" ib_send_lat -e -n 100 -R
check "vectors in the kernel" "$kernel" 1

perftest "a mistake" "LD_PRELOAD=$preload CQGROUP_VECTORS=1-99" ib_send_lat -e -n 100
check "vectors in the kernel" "$kernel" 0
check "what is said" "$(said 'there is no vector [0-9]*: rxe0 has [0-9]* completion vectors, .*; the program runs outside of groups$')" 1

echo 0 >$tracing/events/kprobes/cqgroup/enable
echo >$tracing/kprobe_events
echo "$passed passed, $failed failed"
((failed == 0))

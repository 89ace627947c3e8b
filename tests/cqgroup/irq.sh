# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# irq.sh - scripts/irq-affinity on a recorded machine: 16 CPUs on two nodes, mlx5_0 with 8 vectors
# on node 1, rxe0, which has no interrupts. Sourced by run.

machine=$(mktemp -d "${TMPDIR:-/tmp}/dsm-irq.XXXXXX")
trap 'rm -rf "$machine"' EXIT
fresh() {
	rm -rf "${machine:?}"/*
	cp -a tests/cqgroup/tree/. "$machine"
}

# affinity WORD...: output and exit status, in one line; blanks in a row are one.
affinity() {
	local status=0 output
	output=$(scripts/irq-affinity --root "$machine" "$@" 2>&1) || status=$?
	output=$(tr -s ' \t' ' ' <<<"$output" | sed "s|$machine||g; s/^ //; s/ $//" | paste -sd'|' | sed 's/|/ | /g')
	echo "$output${status/#0/}"
}

# "132=8 133=9 ...": what the interrupts of mlx5_0 are set to.
settings() {
	local n
	for n in {131..139}; do
		printf '%s=%s ' "$n" "$(cat "$machine/proc/irq/$n/smp_affinity_list")"
	done
}

# device NAME COUNT: another one on node 1, whose interrupts are called as the printf format NAME
# says, from 200 on.
device() {
	local folder=$machine/sys/class/infiniband/$1/device i
	mkdir -p "$folder/msi_irqs"
	echo 8-15 >"$folder/local_cpulist"
	for ((i = 0; i < $3; i++)); do
		mkdir -p "$machine/proc/irq/$((200 + i))"
		echo 0-15 >"$machine/proc/irq/$((200 + i))/smp_affinity_list"
		echo msix >"$folder/msi_irqs/$((200 + i))"
		# shellcheck disable=SC2059
		printf "%4d: 7 0 IR-PCI-MSIX-0000:c1:00.0 1-edge $2\n" $((200 + i)) $i >>"$machine/proc/interrupts"
	done
}

fresh
same "show" "$(affinity --device mlx5_0 --show)" "mlx5_0: 8 completion vectors, beside CPUs 8-15 | vector irq CPUs effective interrupts name | 0 132 8-15 8 68 mlx5_comp0@pci:0000:81:00.0 | 1 133 8-15 8 85 mlx5_comp1@pci:0000:81:00.0 | 2 134 8-15 8 102 mlx5_comp2@pci:0000:81:00.0 | 3 135 8-15 8 119 mlx5_comp3@pci:0000:81:00.0 | 4 136 8-15 8 136 mlx5_comp4@pci:0000:81:00.0 | 5 137 8-15 8 153 mlx5_comp5@pci:0000:81:00.0 | 6 138 0-15 0 170 mlx5_comp6@pci:0000:81:00.0 | 7 139 0-15 0 187 mlx5_comp7@pci:0000:81:00.0 | - 131 8-15 8 51 mlx5_async0@pci:0000:81:00.0"
before=$(settings)
same "a dry run" "$(affinity --device mlx5_0 --dry-run --groups 'sync=7;data=6@2;coherence=0@none;bulk=1-5@none')" \
	"mlx5_0: 8 completion vectors, beside CPUs 8-15 | vector 6 (data): echo 2 > /proc/irq/138/smp_affinity_list | vector 7 (sync): echo 15 > /proc/irq/139/smp_affinity_list"
same "a dry run changes nothing" "$(affinity --dry-run >/dev/null; settings)" "$before"
fresh
affinity --device mlx5_0 --groups auto >/dev/null
same "defaults go to the node's CPUs" "$(settings)" "131=8-15 132=8 133=9 134=10 135=11 136=12 137=13 138=14 139=15 "
fresh
affinity --device mlx5_0 --groups 'coherence=0-3@1-2;data=4@10;sync=5@none;bulk=6-7' >/dev/null
same "groups go to their CPUs by turns" "$(settings)" "131=8-15 132=1 133=2 134=1 135=2 136=10 137=8-15 138=14 139=15 "
fresh
affinity --device mlx5_0 --groups off >/dev/null
same "no groups" "$(settings)" "131=8-15 132=8 133=9 134=10 135=11 136=12 137=13 138=14 139=15 "
fresh
affinity --groups 'data=2@5' >/dev/null
same "all devices" "$(settings)" "131=8-15 132=8 133=9 134=5 135=11 136=12 137=13 138=14 139=15 "

fresh
text="has no interrupts for completion vectors, as software devices (rxe, siw) have none: the vector of a CQ means nothing there; bind the threads that handle its events instead (cqgroup_bind_thread, CQGROUP_CPUS)"
same "rxe is shown" "$(affinity --device rxe0)" "rxe0 $text"
same "rxe cannot be set" "$(affinity --device rxe0 --groups auto)" "irq-affinity: rxe0 ${text}1"
same "a device that is not there" "$(affinity --device mlx5_9)" "irq-affinity: there is no device mlx5_9: mlx5_0 rxe01"
wrong() {
	same "wrong: $1" "$(affinity --device mlx5_0 --groups "$1" | sed 's/^mlx5_0: 8 completion vectors, beside CPUs 8-15 | //')" "irq-affinity: ${2}1"
}
wrong 'dat=1' "there is no group 'dat': the groups are coherence, data, sync and bulk"
wrong 'data' "'data' is not like NAME=VECTORS or NAME=VECTORS@CPUS"
wrong 'data=x' "data: this host has no device x"
wrong 'data=mlx5_0:x' "vectors of data: 'x' is no list of numbers from 0 to 4095, like 0-1,4"
wrong 'data=mlx5_0:1;sync=1' "vector 1 is in data and in sync: a vector belongs to one group"
wrong 'devices' "devices is no table of interrupts: name the device of each class, like coherence=mlx5_0;bulk=mlx5_1"
wrong 'data=1;data=2' "data is there twice"
wrong 'data=0-2;sync=2-3' "vector 2 is in data and in sync: a vector belongs to one group"
wrong 'data=1,1' "vectors of data: 1 is in '1,1' twice"
wrong 'bulk=7-8' "bulk: there is no vector 8: mlx5_0 has 8 completion vectors, 0 to 7"
wrong 'data=0-7' "no vector of the 8 of mlx5_0 is left for coherence: name it, too, or give the others fewer"
wrong 'data=1@16' "CPUs of data: CPU 16 is not online, 0-15 are"
same "nothing was written" "$(settings)" "$before"
# Root may write to any file; a folder is none.
rm "$machine/proc/irq/132/smp_affinity_list"
mkdir "$machine/proc/irq/132/smp_affinity_list"
same "an interrupt that cannot be moved" "$(affinity --device mlx5_0 --groups 'coherence=0;data=1@3;sync=2@none;bulk=3@none')" \
	"mlx5_0: 8 completion vectors, beside CPUs 8-15 | irq-affinity: interrupt 132 of vector 0 cannot be moved to CPU 8: /proc/irq/132/smp_affinity_list is not to be written (are you root? does the driver manage it?)1"
same "the others are moved" "$(cat "$machine/proc/irq/133/smp_affinity_list")" 3

# The CPU of each vector, which the library has too.
while read -r groups wanted; do
	[[ $groups != '#' ]] || continue
	fresh
	for n in {132..139}; do echo - >"$machine/proc/irq/$n/smp_affinity_list"; done
	affinity --device mlx5_0 --groups "$groups" >/dev/null
	same "CPUs of $groups" "$(cat "$machine"/proc/irq/13[2-9]/smp_affinity_list | paste -sd' ')" "$wanted"
done <tests/cqgroup/cpus

# The defaults of every number of vectors, which the library has too; and the names that drivers
# give.
names=('mlx5_comp%d@pci:0000:c1:00.0' 'irdma-0000:c1:00.0-CEQ-%d' 'bnxt_re-nq-%d@pci:0000:c1:00.0' 'mlx4-%d@0000:c1:00.0' 'efa-comp%d@pci:0000:c1:00.0')
i=0
while read -r n wanted; do
	[[ $n != '#' ]] || continue
	fresh
	device hca0 "${names[i++ % ${#names[@]}]}" "$n"
	groups=$(affinity --device hca0 --dry-run | tr '|' '\n' | sed -nE 's/^ *vector ([0-9]+) \(([a-z+]+)\): .*/\2 \1/p' | awk '
		!($1 in first) { first[$1] = $2 }
		{ last[$1] = $2 }
		END { for (g in first) print g "=" first[g] (last[g] > first[g] ? "-" last[g] : "") }')
	same "$n vectors" "$(sort <<<"$groups" | paste -sd';')" "$(tr ';' '\n' <<<"$wanted" | sort | paste -sd';')"
done <tests/cqgroup/defaults

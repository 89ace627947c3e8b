# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# preload.sh - libcqgroup-preload.so under programs that know nothing of it, over a libibverbs that
# tells of every CQ. Sourced by run.

preload=$top/$BUILD/libcqgroup-preload.so
folder=$top/$BUILD/tests/cqgroup
mkdir -p "$folder"
compile=(gcc -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra)
"${compile[@]}" -shared -fPIC -Wl,-soname,libibverbs.so.1 -Wl,--version-script,tests/cqgroup/fake_verbs.map \
	-o "$folder/libibverbs.so.1" tests/cqgroup/fake_verbs.c
"${compile[@]}" -o "$folder/program" tests/cqgroup/program.c -libverbs -lpthread
"${compile[@]}" -DPLUGIN -shared -fPIC -o "$folder/plugin.so" tests/cqgroup/program.c -libverbs -lpthread
"${compile[@]}" -DPLUGIN -shared -fPIC -o "$folder/librdmacm-plugin.so" tests/cqgroup/program.c -libverbs -lpthread
"${compile[@]}" -DLOADER -o "$folder/loader" tests/cqgroup/program.c -ldl

# with SETTING... -- WORD...: the program's output, messages included, in one line of text.
with() {
	local settings=()
	while [[ $1 != -- ]]; do
		settings+=("$1")
		shift
	done
	shift
	env -u CQGROUP -u CQGROUP_VECTORS -u CQGROUP_CPUS -u CQGROUP_VERBOSE -u DSM_CQ_GROUPS LD_LIBRARY_PATH="$folder" \
		LD_PRELOAD="$preload" CQGROUP_VERBOSE=0 "${settings[@]}" "${program[@]}" "$@" 2>&1 |
		sed -E 's/(cqgroup-preload: [a-z]*)\[[0-9]+\]/\1/' | paste -sd'|' | sed 's/|/ | /g' || true
}
program=("$folder/program")
here=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//') # a CPU that may be used
all=$(with -- cpus)

same "no setting" "$(with -- open cq=1 ex=2 cq=0 event)" "create_cq 1 | create_cq_ex 2 | create_cq 0"
same "a group of the table" "$(with CQGROUP=sync -- open cq cq ex=1)" "create_cq 2 | create_cq 2 | create_cq_ex 2"
same "a table of its own" "$(with CQGROUP=bulk DSM_CQ_GROUPS='bulk=1,3;data=0' -- open cq cq ex cq)" \
	"create_cq 1 | create_cq 3 | create_cq_ex 1 | create_cq 3"
same "vectors" "$(with CQGROUP_VECTORS=2-3 -- open cq ex=7 cq)" "create_cq 2 | create_cq_ex 3 | create_cq 2"
same "vectors, and a name" "$(with CQGROUP_VECTORS=3 CQGROUP=noise -- open cq)" "create_cq 3"
same "the least loaded vector" "$(with CQGROUP_VECTORS=2-3 CQGROUP_POLICY=least -- open cq cq destroy cq cq)" \
	"create_cq 2 | create_cq 3 | create_cq 3 | create_cq 2"
same "vectors by turns" "$(with CQGROUP_VECTORS=2-3 CQGROUP_POLICY=turns -- open cq cq destroy cq cq)" \
	"create_cq 2 | create_cq 3 | create_cq 2 | create_cq 3"
same "an imported device" "$(with CQGROUP_VECTORS=3 -- import ex cq)" "create_cq_ex 3 | create_cq 3"
same "a device that is closed and opened" "$(with CQGROUP_VECTORS=3 CQGROUP_VERBOSE= -- \
	open ex poll destroy close open ex poll cq destroy close open ex)" \
	"$(with CQGROUP_VECTORS=3 -- open ex poll destroy close open ex poll cq destroy close open ex | sed 's/^/cqgroup-preload: program: fake0 ignores completion vectors: only threads are placed | /')"
same "a CQ that is in use" "$(with CQGROUP_VECTORS=2-3 FAKE_BUSY=1 CQGROUP_POLICY=least -- open cq destroy cq cq)" \
	"create_cq 2 | busy | create_cq 3 | create_cq 2"

same "threads stay without CPUs" "$(with CQGROUP_VECTORS=3 -- open cq event cpus)" "create_cq 3 | $all"
same "a thread that waits is placed" "$(with CQGROUP_VECTORS=3 CQGROUP_CPUS=$here -- open cq event cpus)" "create_cq 3 | cpus $here"
same "only threads that wait are placed" "$(with CQGROUP_VECTORS=3 CQGROUP_CPUS=$here -- open cq cpus thread cpus)" \
	"create_cq 3 | $all | cpus $here | $all"
same "CPUs alone leave the vectors" "$(with CQGROUP_CPUS=$here -- open cq=1 ex=2 event cpus)" \
	"create_cq 1 | create_cq_ex 2 | cpus $here"
same "CPUs of a group of the table" "$(with CQGROUP=data DSM_CQ_GROUPS="data=2@$here" -- open cq event cpus)" "create_cq 2 | cpus $here"
same "other CPUs than the table's" "$(with CQGROUP=data DSM_CQ_GROUPS="data=2@$here" CQGROUP_CPUS=none -- open cq event cpus)" \
	"create_cq 2 | $all"

outside="the program runs outside of groups"
say="cqgroup-preload: program"
same "a group that is none" "$(with CQGROUP=noise -- open cq=1 cq event poll destroy)" \
	"$say: CQGROUP: there is no group 'noise': the groups are coherence, data, sync and bulk; $outside | create_cq 1 | create_cq 0 | polled 3"
same "a bad table" "$(with CQGROUP=data DSM_CQ_GROUPS='data=9' -- open cq=1)" \
	"$say: DSM_CQ_GROUPS: data: there is no vector 9: fake0 has 4 completion vectors, 0 to 3; $outside | create_cq 1"
same "a vector that is not there" "$(with CQGROUP_VECTORS=3-4 -- open cq=1 cq=2)" \
	"$say: preload: there is no vector 4: fake0 has 4 completion vectors, 0 to 3; $outside | create_cq 1 | create_cq 2"
same "no list" "$(with CQGROUP_VECTORS=x -- open cq=1)" \
	"$say: vectors of preload: 'x' is no list of numbers from 0 to 4095, like 0-1,4; $outside | create_cq 1"
same "a CPU that is not there" "$(with CQGROUP_CPUS=4095 -- open cq=1 | sed 's/, [0-9,-]* are/, N are/')" \
	"$say: CPUs of preload: CPU 4095 is not online, N are; $outside | create_cq 1"
same "a policy that is none" "$(with CQGROUP=data CQGROUP_POLICY=best -- open cq=1)" \
	"$say: CQGROUP_POLICY is turns or least, not 'best'; $outside | create_cq 1"
same "a vector that the device refuses" "$(with CQGROUP_VECTORS=3 FAKE_REFUSE=3 -- open cq=1 ex=2 cq=0)" \
	"create_cq 3 | create_cq 1 | $say: fake0: cannot create a CQ on vector 3; using the program's own choice | create_cq_ex 3 | create_cq_ex 2 | create_cq 3 | create_cq 0"
same "a CQ that is refused anyway" "$(with CQGROUP_VECTORS=3 FAKE_REFUSE=3 -- open cq=3)" "create_cq 3 | no CQ"

# Devices that own groups. The second is fake1; the program opens fake0.
two='coherence=fake0;bulk=fake1:2-3'
same "a device that owns the group" "$(with CQGROUP=bulk DSM_CQ_GROUPS="$two" -- open cq ex cq)" "fake1 create_cq 2 | fake1 create_cq_ex 3 | fake1 create_cq 2"
same "it says so" "$(with CQGROUP=bulk DSM_CQ_GROUPS="$two" CQGROUP_VERBOSE= -- open cq close open cq)" \
	"$say: fake1 instead of fake0: it owns the group | $say: fake1 ignores completion vectors: only threads are placed | fake1 create_cq 2 | fake1 create_cq 3"
same "the program's own device" "$(with CQGROUP=coherence DSM_CQ_GROUPS="$two" -- open cq cq)" "create_cq 0 | create_cq 1"
same "a class that no device owns" "$(with CQGROUP=sync DSM_CQ_GROUPS="$two" -- open cq)" "create_cq 3"
same "CPUs of a device's group" "$(with CQGROUP=bulk DSM_CQ_GROUPS="bulk=fake1@$here" -- open cq event cpus)" "fake1 create_cq 3 | cpus $here"
same "an imported device is another's" "$(with CQGROUP=bulk DSM_CQ_GROUPS="$two" -- import cq=1)" \
	"$say: group bulk belongs to fake1, and not to fake0; $outside | create_cq 1"
same "a device that cannot be opened" "$(with CQGROUP=bulk DSM_CQ_GROUPS="$two" FAKE_DEAD=fake1 -- open cq=1)" \
	"$say: fake1, which owns the group, cannot be opened; using fake0 | $say: group bulk belongs to fake1, and not to fake0; $outside | create_cq 1"
same "vectors instead of a group" "$(with CQGROUP=bulk CQGROUP_VECTORS=1 DSM_CQ_GROUPS="$two" -- open cq)" "create_cq 1"
program=("$folder/loader" "$folder/librdmacm-plugin.so")
same "librdmacm has the device of an address" "$(with CQGROUP=bulk DSM_CQ_GROUPS="$two" -- open cq=1)" \
	"${say/program/loader}: group bulk belongs to fake1, and not to fake0; $outside | create_cq 1"
program=("$folder/program")

same "a report" "$(with CQGROUP_VECTORS=1,3 CQGROUP_CPUS=$here CQGROUP_VERBOSE=1 -- open cq ex cq event event poll poll destroy destroy)" \
	"$say: fake0: group preload: vectors 1,3 of 0-3, waiting threads on CPUs $here | $say: fake0 ignores completion vectors: only threads are placed | create_cq 1 | create_cq_ex 3 | create_cq 1 | polled 3 | polled 3 | $say: fake0: vector 1: 2 CQs, 2 events, 6 completions | $say: fake0: vector 3: 1 CQs, 0 events, 0 completions"
same "many CQs" "$(with CQGROUP_VECTORS=1,3 CQGROUP_VERBOSE=1 -- open $(yes cq | head -n 3000) poll event destroy poll destroy poll | sed 's/.*polled 3 | //')" \
	"$say: fake0: vector 1: 1500 CQs, 0 events, 3 completions | $say: fake0: vector 3: 1500 CQs, 1 events, 6 completions"

same "threads at once" "$(with CQGROUP_VECTORS=1,3 CQGROUP_VERBOSE=1 -- open stir | sed 's/create_cq [13] | //g; s/.*threads are placed | //')" \
	"$say: fake0: vector 1: 2000 CQs, 0 events, 6000 completions | $say: fake0: vector 3: 2000 CQs, 0 events, 6000 completions"

program=("$folder/loader" "$folder/plugin.so")
same "a plugin of a program without verbs" "$(with CQGROUP_VECTORS=2-3 -- open cq ex=7 cq event poll destroy)" \
	"create_cq 2 | create_cq_ex 3 | create_cq 2 | polled 3"
program=(sh -c 'echo "$@"' sh)
same "a shell" "$(with CQGROUP=noise CQGROUP_VERBOSE=1 LD_BIND_NOW=1 -- hello)" "hello"

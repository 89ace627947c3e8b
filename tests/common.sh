# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# What the test runners share, besides scripts/common.sh (--help, die, $top): which build is tested,
# an environment without settings of the user, and results.
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

export VARIANT=${VARIANT:-release}
export BUILD=${BUILD:-build/$VARIANT}

# A wrong argument; exit status 2, which no failed test has.
wrong() {
	printf '%s: %s\n' "$me" "$*" >&2
	exit 2
}

# takes_word OPTION [WORD]: an option that needs a word has one.
takes_word() {
	[[ -n ${2:-} ]] || wrong "$1 takes a word"
}

# takes_number OPTION [NUMBER]: an option that needs a number from 0 to 999 has one.
takes_number() {
	[[ ${2:-} =~ ^(0|[1-9][0-9]{0,2})$ ]] || wrong "$1 takes a number"
}

unknown_option() {
	wrong "what is $1? (--help)"
}

# Jobs of a test see the settings that the test gives them, and no others.
job_environment() {
	local name
	while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(DSM_|UCX_)')
	mpirun_environment
}

# A test's name is chosen if it has one of these in it, or if there are none.
only=()
is_chosen() {
	local word
	((${#only[@]})) || return 0
	for word in "${only[@]}"; do [[ $1 != *"$word"* ]] || return 0; done
	return 1
}

# The names of all tests come in: each word of --only has to choose one.
check_words() {
	local names word
	names=$(cat)
	for word in "${only[@]}"; do [[ $names == *"$word"* ]] || wrong "--only $word chooses nothing (--list)"; done
}

passed=0 failed=0 failures=()
count_success() {
	passed=$((passed + 1))
}

# count_failure NAME
count_failure() {
	failed=$((failed + 1))
	failures+=("$1")
}

# expect WHAT COMMAND...: the command must succeed; its value tells whether it did.
expect() {
	local what=$1
	shift
	if "$@" >/dev/null 2>&1; then
		count_success
		return 0
	fi
	count_failure "$what"
	echo "FAILED: $what"
	return 1
}

refuses() {
	! "$@"
}

# eventually COMMAND...: within a minute.
eventually() {
	local try
	for ((try = 0; try < 600; try++)); do ! "$@" || return 0; sleep 0.1; done
	return 1
}

# run_slices N COMMAND...: COMMAND --slice 0 to N - 1 at the same time. Their rows come at the end,
# in this order; their results are added.
run_slices() {
	local n=$1 i good bad name folder
	shift
	folder=$(mktemp -d "${TMPDIR:-/tmp}/dsm-slices.XXXXXX")
	# shellcheck disable=SC2064
	trap "kill \$(jobs -p) 2>/dev/null; wait; rm -rf '$folder'; exit 130" INT TERM HUP
	for ((i = 0; i < n; i++)); do
		"$@" --slice $i >"$folder/$i" 2>&1 &
	done
	wait
	trap - INT TERM HUP
	for ((i = 0; i < n; i++)); do
		sed -E '/^failed: |^[0-9]+ passed, [0-9]+ failed$/d' "$folder/$i"
		while read -r name; do failures+=("$name"); done < <(sed -n 's/^failed: //p' "$folder/$i")
		if read -r good _ bad _ < <(tail -n 1 "$folder/$i" | grep -E '^[0-9]+ passed, [0-9]+ failed$'); then
			passed=$((passed + good)) failed=$((failed + bad))
		else
			count_failure "slice $i, which did not end"
		fi
	done
	rm -rf "$folder"
}

# show_end FILE [LINES]: the end of an output, below its row.
show_end() {
	tail -n "${2:-25}" "$1" | cut -c1-300 | sed 's/^/  | /'
}

# complaint FILE: the first line of an output that tells of a failure, if there is one.
complaint() {
	grep -m1 -E 'FAIL|^libdsm: |BUG:|WARNING:|stall|left: ' "$1" | cut -c1-100
}

# The last lines of a runner: who failed, and how many. Its value is the exit status.
conclude() {
	((!failed)) || printf 'failed: %s\n' "${failures[@]}" | sort -u
	echo "$passed passed, $failed failed"
	((failed == 0))
}

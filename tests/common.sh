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

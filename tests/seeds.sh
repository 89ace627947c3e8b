# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Tables of faults to seed into copies of sources (tests/model/mutations, tests/orders/mutations).
# An entry: "@ name file ...", lines of the old text each after "-", of the new one after "+"; a
# line "&" begins another replacement. A blank line ends it.

# seeds_read TABLE FUNCTION: FUNCTION is called with each entry's name, its file, the rest of its
# first line, and its pairs of old and new text.
seeds_read() {
	local table=$1 function=$2 line name='' file='' rest='' old='' new='' pairs=()
	while IFS= read -r line || [[ -n $line ]]; do
		case $line in
		'#'*) ;;
		'@ '*) read -r _ name file rest <<<"$line"; old='' new='' pairs=() ;;
		-*) old+=${line#-}$'\n' ;;
		+*) new+=${line#+}$'\n' ;;
		'&') pairs+=("$old" "$new"); old='' new='' ;;
		'')	[[ -z $name ]] || "$function" "$name" "$file" "$rest" "${pairs[@]}" "$old" "$new" </dev/null
			name='' ;;
		*) wrong "$table: what is: $line" ;;
		esac
	done < <(cat "$table"; echo)
}

# seeds_apply SOURCE TARGET OLD NEW...: copy a source with each OLD replaced by its NEW. Fails if a
# text is not there exactly once.
seeds_apply() {
	local source=$1 target=$2 text rest
	shift 2
	text=$(cat "$source"; echo x)
	text=${text%x}
	while (($#)); do
		rest=${text#*"$1"}
		[[ $rest != "$text" && ${rest#*"$1"} == "$rest" ]] || return 1
		text=${text/"$1"/"$2"}
		shift 2
	done
	printf '%s' "$text" >"$target"
}

# seeds_wanted NAME: it is one of $names, or there are none.
seeds_wanted() {
	local n
	((${#names[@]})) || return 0
	for n in "${names[@]}"; do [[ $n != "$1" ]] || return 0; done
	return 1
}

# seeds_start NAME COMMAND...: judge a fault by a command, which prints a row that begins with
# "caught" if it was found. As many at a time as there are processors.
seeds_order=() seeds_running=0
seeds_start() {
	((seeds_running < $(nproc))) || { wait -n; seeds_running=$((seeds_running - 1)); }
	seeds_running=$((seeds_running + 1))
	seeds_order+=("$1")
	"${@:2}" >"$scratch/$1.log" 2>&1 &
}

# seeds_count: wait for all of them. The rows, in the order of their starts, and their results.
seeds_count() {
	local name
	wait
	for name in "${seeds_order[@]}"; do
		cat "$scratch/$name.log"
		if grep -q '^caught' "$scratch/$name.log"; then count_success; else count_failure "$name"; fi
	done
}

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: threads that are cancelled, interrupted by signals, or end, while they are
# in the runtime.

cancelled() {
	mode "$1"
	ranks=3
	works "$bin/cancel" "$2"
}

# A heap of a size that the program knows.
cancelled_at_limits() {
	mode "$1"
	ranks=3
	settings+=(DSM_HEAP=64M)
	works "$bin/cancel" limits
}

# The job ends by rank 1's status, and none of its threads runs a cleanup handler.
cancelled_in_abort() {
	local r
	mode "$1"
	ranks=3
	job 12 "$bin/cancel" abort
	for r in 0 1 2; do
		[[ $(status_of "$r") == 3 ]] || problem "rank $r ended with status $(status_of "$r")"
	done
	says 'on purpose' 1
	says '^unwound' 0
}

for m in node rank ${full:+mprotect mixed}; do
	for what in acting waiting not; do
		one "cancel-$what-$m" cancelled "$m" "$what"
	done
	one "cancel-limits-$m" cancelled_at_limits "$m"
	one "cancel-abort-$m" cancelled_in_abort "$m"
done
[[ $full ]] || one cancel-waiting-mixed cancelled mixed waiting

interrupted_miss() {
	mode "$1"
	ranks=3
	works "$bin/interrupt" "$2"
}

# Once; $late: by how many ms.
end_in_miss() {
	local due victim=$3
	mode "$1"
	[[ $2 != asked ]] || settings+=(DSM_HOLD_US=0)
	ranks=3
	start_job 15 "$bin/interrupt" "$2"
	for _ in {1..100}; do
		[[ ! -e $folder/end.$victim ]] || break
		sleep 0.1
	done
	[[ $2 == fatal ]] || signal_ranks CONT "$4"
	wait "$background"
	[[ $(status_of "$victim") == 142 ]] || problem "rank $victim ended with status $(status_of "$victim")"
	due=$(sed -n 's/^due //p' "$folder/out.$victim")
	late=$(($(time_of "$victim") - due))
	[[ $(status_of "$5") == 70 ]] || problem "rank $5 ended with status $(status_of "$5")"
	says "rank $victim of this host is lost" 1
}

# MODE HOW VICTIM KEEPER WITNESS: the victim ends by SIGALRM, in time, while its miss lasts, for
# which it needs the keeper, which may be stopped; the witness notices. A busy host may be late,
# too, but not three times.
ended_in_miss() {
	local late all=''
	for _ in 1 2 3; do
		rm -f "$folder"/{pid,end,out,err}.*
		end_in_miss "$@"
		((problems == 0 && late >= 100)) || return 0
		all+="${all:+, }$late"
	done
	problem "rank $3 ended $all ms after its signal"
}

for m in rank ${full:+mprotect mixed mixmp}; do
	for what in handler jump directed call; do
		one "interrupt-$what-$m" interrupted_miss "$m" "$what"
	done
	one "interrupt-fatal-$m" ended_in_miss "$m" fatal 1 2 0
done
one interrupt-call-node interrupted_miss node call
if [[ ! $full ]]; then
	one interrupt-call-mixed interrupted_miss mixed call
	one interrupt-fatal-mixed ended_in_miss mixed fatal 1 2 0
fi
for m in rank ${full:+tcp mprotect mixed mixmp}; do
	one "interrupt-stopped-$m" ended_in_miss "$m" stopped 1 2 0
done
one interrupt-asked-mixmp ended_in_miss mixmp asked 0 1 2

# MODE HOW TEXT STATUS: rank 1 leaves; the others say so within five seconds of it, though a process
# of it may live on.
left() {
	local r when
	mode "$1"
	job 12 "$bin/leave" "$2"
	when=$(sed -n 's/^left //p' "$folder/out.1")
	for r in 0 2 3; do
		[[ $(status_of "$r") == 70 ]] || problem "rank $r ended with status $(status_of "$r")"
		(($(time_of "$r") - when <= 5000)) || problem "rank $r ended $(($(time_of "$r") - when)) ms after rank 1 had left"
	done
	[[ $(status_of 1) == "$4" ]] || problem "rank 1 ended with status $(status_of 1)"
	says "rank 1 of this host is lost: $3" 1
	says 'is lost' 1
}

stayed() {
	mode "$1"
	ranks=3
	works "$bin/leave" "$2"
	says 'libdsm' 0
}

# The launcher may mind that its library was not finalized.
left_alone() {
	ranks=1
	plain 20 "$bin/leave" thread
	((status < 124 && took < 8000)) || problem "the job ended with status $status after $took ms"
}

one left-thread-alone left_alone
for m in node rank ${full:+mprotect mixed}; do
	for what in exec exec-child exec-thread; do
		one "left-$what-$m" left "$m" $what 'it executed another program' 0
	done
	for what in thread thread-last daemon; do
		one "left-$what-$m" left "$m" $what 'its process ended' 0
	done
	for what in exit-thread quick; do
		one "left-$what-$m" left "$m" $what 'its process ended' 5
	done
	for what in stay-child stay-thread stay-early; do
		one "left-$what-$m" stayed "$m" $what
	done
done
if [[ ! $full ]]; then
	one left-exec-mixed left mixed exec 'it executed another program' 0
	one left-thread-mixed left mixed thread 'its process ended' 0
	one left-stay-child-mixed stayed mixed stay-child
fi

# Misses of a thread that has interrupted malloc().
allocating() {
	mode "$1"
	ranks=3
	works "$bin/alloc"
}

for m in rank tcp mixed ${full:+mprotect}; do
	one "alloc-$m" allocating "$m"
done

# Keys that a program makes before it loads the library: KEYS LINES.
loaded() {
	env GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 "$bin/late" "$top/$BUILD/libdsm.so" "$1" >"$folder/out" 2>&1 ||
		problem "status $?"
	says '^done' 1
	says 'loaded after the program has made 32 thread-specific keys' "$2"
}

one loaded-early loaded 0 0
one loaded-late loaded 40 1

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: the edges of shared memory. Behind a region's last page there is none,
# whatever its block size.

# MODE RANKS: accesses on both sides of every edge.
edges() {
	mode "$1"
	ranks=$2
	works "$bin/window" probe
	says 'past the end of' # those that failed were told of
	says 'has detached'
}

# MODE RANKS WHERE PATTERN: without a handler the process ends, after one line.
ends() {
	mode "$1"
	ranks=$2
	job 20 "$bin/window" "$3"
	[[ $(status_of 0) == 139 ]] || problem "rank 0 ended with status $(status_of 0), not by SIGSEGV"
	((ranks == 1)) || survivors 0 70
	says "write of address 0x[0-9a-f]*, which is in no region that this rank is attached to: it is $4" 1
}

one window-alone edges rank 1
for m in node rank mprotect mixed mixmp; do
	one "window-$m" edges $m 3
done
one window-past-alone ends rank 1 past '2288 bytes past the end of "short", which has 10000 bytes at 0x'
for m in rank mprotect; do
	one "window-past-$m" ends $m 2 past '2288 bytes past the end of "short", which has 10000 bytes at 0x'
	one "window-detached-$m" ends $m 2 detached '100 bytes into "short", which this rank has detached'
done
one window-gap ends rank 2 gap '6281456 bytes past the end of "short"'

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: calls about regions that fail, or that wait for long (region.c).

region() {
	mode "$1"
	ranks=3
	works "$bin/region" "$2"
}

# The report comes once the wait has lasted for a second.
leaving() {
	mode "$1"
	ranks=3
	settings+=(DSM_STALL_MS=1000)
	works "$bin/region" leaving
	says "after [1-3] s without an answer .*block 0x[0-9a-f]* of leaving, home node [0-2]: rank 2 waits"
}

# Not with mprotect: there the blocks of other regions need mappings, too.
for m in node rank ${full:+mixed}; do
	one "region-contents-$m" region "$m" contents
done
for m in node rank mixed; do
	one "region-stale-$m" region "$m" stale
done
for m in rank mprotect mixed; do
	one "region-leaving-$m" leaving "$m"
done

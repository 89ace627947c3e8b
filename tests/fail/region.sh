# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/fail/run: calls about regions that fail, or that wait for long (region.c).

region() {
	mode "$1"
	ranks=3
	works "$bin/region" "$2"
}

# Not with mprotect: there the blocks of other regions need mappings, too.
for m in node rank ${full:+mixed}; do
	one "region-contents-$m" region "$m" contents
done

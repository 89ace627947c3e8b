// SPDX-License-Identifier: BSD-2-Clause
/*
 * quota.c - members of the group that use more of dsm.ko than their share: memory, directly and
 * through the messages that they send, contexts, threads, processors (docs/kernel.md, "Security").
 * Each test is an attack that must fail.
 *
 * Runs in a guest with the module loaded, as root; /dev/dsm is opened to everybody meanwhile.
 * Without arguments all tests run.
 */
#include "tests/kmod/common_trust.h"
#include "tests/kmod/quota.h"

int main(int argc, char **argv)
{
	static const struct attack attacks[] = {
		{ "states", quota_states },   { "lines", quota_lines },
		{ "blocks", quota_blocks },   { "barriers", quota_barriers },
		{ "keys", quota_keys },       { "transactions", quota_transactions },
		{ "timers", quota_timers },   { "frames", quota_frames },
		{ "foreign", quota_foreign }, { "regions", quota_regions },
		{ "cgroup", quota_cgroup },   { "contexts", quota_contexts },
		{ "pollers", quota_pollers }, { "homes", quota_homes },
	};

	return attacks_main(argc, argv, attacks, sizeof(attacks) / sizeof(attacks[0]));
}

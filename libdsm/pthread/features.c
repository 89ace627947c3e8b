// SPDX-License-Identifier: BSD-2-Clause
/*
 * features.c - do the processors of all ranks have the same features?
 *
 * A pointer to a function has one value on all ranks, and functions are chosen for the processor:
 * by the loader (memcpy() of the C library is one of a dozen), and by programs that look for
 * features at their start and keep the result in variables, which are rank 0's. On a processor with
 * other features, such a function ends the program by SIGILL at best.
 *
 * Compared is what the C library uses, which GLIBC_TUNABLES restricts, and what it has chosen.
 */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/platform/x86.h>

#include "parts.h"

#define REGISTERS 4u
/* bits of a register, and of a leaf's four, in the numbers that the C library gives features */
#define BITS 32u
#define LEAF (REGISTERS * BITS)

/* Features that matter to functions; others tell of the kernel and of this processor of many. */
#define X(name)                       \
	{                             \
		x86_cpu_##name, #name \
	}
static const struct {
	unsigned int number;
	const char *name;
	/* clang-format off */
} features[] = {
	X(SSE3), X(PCLMULQDQ), X(SSSE3), X(FMA), X(CMPXCHG16B), X(SSE4_1), X(SSE4_2), X(MOVBE),
	X(POPCNT), X(AES), X(XSAVE), X(AVX), X(F16C), X(RDRAND), X(FSGSBASE), X(BMI1), X(HLE),
	X(AVX2), X(BMI2), X(ERMS), X(RTM), X(AVX512F), X(AVX512DQ), X(RDSEED), X(ADX),
	X(AVX512_IFMA), X(CLFLUSHOPT), X(CLWB), X(AVX512PF), X(AVX512ER), X(AVX512CD), X(SHA),
	X(AVX512BW), X(AVX512VL), X(PREFETCHWT1), X(AVX512_VBMI), X(PKU), X(WAITPKG),
	X(AVX512_VBMI2), X(GFNI), X(VAES), X(VPCLMULQDQ), X(AVX512_VNNI), X(AVX512_BITALG),
	X(AVX512_VPOPCNTDQ), X(RDPID), X(CLDEMOTE), X(MOVDIRI), X(MOVDIR64B), X(AVX512_4VNNIW),
	X(AVX512_4FMAPS), X(FSRM), X(AVX512_VP2INTERSECT), X(SERIALIZE), X(AMX_BF16),
	X(AVX512_FP16), X(AMX_TILE), X(AMX_INT8), X(LAHF64_SAHF64), X(LZCNT), X(SSE4A),
	X(PREFETCHW), X(XOP), X(FMA4), X(TBM), X(RDTSCP), X(AVX_VNNI), X(AVX512_BF16),
};
/* clang-format on */
#undef X
#define COUNT (sizeof(features) / sizeof(features[0]))

struct chosen {
	bool has[COUNT];
	const void *functions[8];
};

bool features_has(unsigned int number)
{
	const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(number / LEAF);

	return leaf->active_array[number % LEAF / BITS] >> (number % BITS) & 1;
}

static void features_read(struct chosen *c)
{
	unsigned int i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < COUNT; i++)
		c->has[i] = features_has(features[i].number);
	c->functions[0] = (const void *)memcpy;
	c->functions[1] = (const void *)memset;
	c->functions[2] = (const void *)memchr;
	c->functions[3] = (const void *)memcmp;
	c->functions[4] = (const void *)strlen;
	c->functions[5] = (const void *)strchr;
	c->functions[6] = (const void *)strcmp;
	c->functions[7] = (const void *)strcpy;
}

/* The features that one has and the other has not, to be hidden; an empty text: none. */
static void list_more(const struct chosen *one, const struct chosen *other, char *text, size_t size)
{
	unsigned int i;
	size_t n = 0;

	*text = 0;
	for (i = 0; i < COUNT && n < size; i++)
		if (one->has[i] && !other->has[i])
			n += (size_t)snprintf(text + n, size - n, "%s-%s", n ? "," : "",
					      features[i].name);
}

static void features_report(const struct chosen *first, const struct chosen *mine)
{
	char more[300], less[300];
	const char *both;

	list_more(first, mine, less, sizeof(less));
	list_more(mine, first, more, sizeof(more));
	both = *less && *more ? "," : "";
	if (!*less && !*more)
		start_print(
			"the C library has chosen other functions for the processor than on rank 0: GLIBC_TUNABLES must be the same for all ranks");
	else
		start_print(
			"this rank's processor has other features than rank 0's, and pointers to functions are shared. To hide them "
			"from the C library: GLIBC_TUNABLES=glibc.cpu.hwcaps=%s%s%s for all ranks, and DSM_FEATURES=trust if the "
			"program itself does not look for features; see dsm-cc(1)",
			less, both, more);
}

int features_compare(void)
{
	const char *setting = getenv("DSM_FEATURES");
	struct chosen first, mine;
	int32_t differs;
	int err;

	features_read(&mine);
	memcpy(&first, &mine, sizeof(first));
	err = dsm_broadcast(&first, sizeof(first), 0);
	if (err)
		return err;
	differs = (!setting || strcmp(setting, "trust")) && memcmp(&first, &mine, sizeof(mine));
	if (differs)
		features_report(&first, &mine);
	err = dsm_reduce(&differs, DSM_INT32, DSM_MAX);
	return err ? err : differs ? -EPROTO : 0;
}

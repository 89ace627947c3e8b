// SPDX-License-Identifier: GPL-2.0
/*
 * fit.c - can the module run on this kernel and machine? pte.c changes page table entries and
 * flushes translations by itself. It is right only where the memory manager does both as
 * docs/kernel.md says ("What pte.c relies on"). What a compiler can see is checked here when the
 * module is built, the rest when it is loaded.
 */
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mm_types.h>
#include <linux/module.h>
#include <linux/pgtable.h>
#include <linux/utsname.h>

#include <asm/tlbflush.h>

#include "compat.h"
#include "test.h"

#ifndef CONFIG_X86_64
#error "dsm.ko runs on x86-64 only: pte.c relies on its page tables and tlb_gen"
#endif
/* the name before and since Linux 6.10 */
#if !defined(CONFIG_HAVE_FAST_GUP) && !defined(CONFIG_HAVE_GUP_FAST)
#error "dsm.ko needs a kernel that walks page tables with interrupts off (HAVE_GUP_FAST)"
#endif
#ifndef CONFIG_MMU_NOTIFIER
#error "dsm.ko needs CONFIG_MMU_NOTIFIER: kvm, rdma and others select it"
#endif
#ifndef CONFIG_PARAVIRT
#error "dsm.ko needs CONFIG_PARAVIRT: no other kernel exports what flushes a translation"
#endif

enum { TEST_UNFIT_RT = 1, TEST_UNFIT_BROADCAST, TEST_UNFIT_XEN, TEST_UNFIT_UNKNOWN };
TEST_PARAM(
	uint, test_unfit, 0,
	"1: as with PREEMPT_RT; 2: with INVLPGB; 3: under Xen; 4: on a kernel of unknown version");

#define FIELD_IS(type, field, wanted) __same_type(((type *)NULL)->field, wanted)

static void fit_check_types(void)
{
	BUILD_BUG_ON(!FIELD_IS(struct mm_struct, context.tlb_gen, atomic64_t));
	BUILD_BUG_ON(!FIELD_IS(struct mm_struct, context.ctx_id, u64));
	BUILD_BUG_ON(
		!__same_type(pte_lockptr((struct mm_struct *)NULL, (pmd_t *)NULL), spinlock_t *));
	BUILD_BUG_ON(!__same_type(mm_cpumask((struct mm_struct *)NULL), struct cpumask *));
	/* mm_tlb_flush_nested() reads it */
	BUILD_BUG_ON(!FIELD_IS(struct mm_struct, tlb_flush_pending, atomic_t));
	BUILD_BUG_ON(!__same_type(mm_tlb_flush_nested((struct mm_struct *)NULL), bool));
	/* one store changes an entry */
	BUILD_BUG_ON(sizeof(pte_t) != sizeof(u64));
	/* one page table: a chunk (ctx.h) */
	BUILD_BUG_ON(PTRS_PER_PTE * PAGE_SIZE != PMD_SIZE || PTRS_PER_PTE != 512);
}

int fit_check(void)
{
	const char *why = NULL;
	const unsigned int unfit = test_value(test_unfit);

	fit_check_types();
	if (IS_ENABLED(CONFIG_PREEMPT_RT) || unfit == TEST_UNFIT_RT)
		why = "it has PREEMPT_RT, where page table locks sleep; use a kernel without";
	else if (compat_broadcasts_flushes() || unfit == TEST_UNFIT_BROADCAST)
		why = "it flushes translations by broadcast (INVLPGB, RAR), which would leave stale ones; boot with clearcpuid=419 (INVLPGB)";
	else if (cpu_feature_enabled(X86_FEATURE_XENPV) || unfit == TEST_UNFIT_XEN)
		why = "it is a paravirtual guest of Xen, whose page tables belong to the hypervisor; use a PVH or HVM guest";
	if (why) {
		pr_err("dsm: does not run on this kernel: %s\n", why);
		return -EOPNOTSUPP;
	}
	if (!COMPAT_KNOWN_KERNEL || unfit == TEST_UNFIT_UNKNOWN)
		pr_warn("dsm: Linux %s is no version that this module is made for (DSM_UNKNOWN_KERNEL)\n",
			utsname()->release);
	return 0;
}

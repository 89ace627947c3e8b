// SPDX-License-Identifier: GPL-2.0
/*
 * iommu.c - plays the driver of an IOMMU that uses the page tables of a process (SVA): an mmu
 * notifier that hears of flushes only. For tests/kmod/iommu.c. Parameters, in
 * /sys/module/iommu/parameters:
 *
 *   watch     1: watch the process that writes this; 0: no longer
 *   page      an address of it
 *   flushes   how many flushes had that page in their range
 */
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/version.h>

static unsigned long page;
module_param(page, ulong, 0600);

static atomic_t flushes;

/* Under a spinlock, maybe. */
static void flushed(struct mmu_notifier *n, struct mm_struct *mm, unsigned long start,
		    unsigned long end)
{
	if (start <= READ_ONCE(page) && READ_ONCE(page) < end)
		atomic_inc(&flushes);
}

static const struct mmu_notifier_ops ops = {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	.arch_invalidate_secondary_tlbs = flushed,
#else
	.invalidate_range = flushed,
#endif
};

static struct mmu_notifier notifier = { .ops = &ops };
static struct mm_struct *watched; /* writers of a parameter exclude each other */

static void unwatch(void)
{
	if (watched)
		mmu_notifier_unregister(&notifier, watched);
	watched = NULL;
}

static int set_watch(const char *value, const struct kernel_param *kp)
{
	bool on;
	int err = kstrtobool(value, &on);

	if (err)
		return err;
	unwatch();
	if (!on)
		return 0;
	err = mmu_notifier_register(&notifier, current->mm);
	if (!err)
		watched = current->mm;
	return err;
}

static int get_flushes(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(&flushes));
}

static const struct kernel_param_ops watch_ops = { .set = set_watch },
				     flushes_ops = { .get = get_flushes };
module_param_cb(watch, &watch_ops, NULL, 0200);
module_param_cb(flushes, &flushes_ops, NULL, 0400);

static int __init iommu_init(void)
{
	return 0;
}

static void __exit iommu_exit(void)
{
	unwatch();
}

module_init(iommu_init);
module_exit(iommu_exit);
MODULE_DESCRIPTION("plays an IOMMU with the page tables of a process, for tests");
MODULE_LICENSE("GPL");

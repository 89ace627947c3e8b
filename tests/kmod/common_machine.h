/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_machine.h - a virtual machine of KVM, with memory of the window: it has translations of
 * its own.
 */
#ifndef KMOD_TEST_MACHINE_H
#define KMOD_TEST_MACHINE_H

#include <linux/kvm.h>
#include <stdbool.h>

struct machine {
	int kvm, vm, cpu;
	const struct kvm_run *run;
};

#define MACHINE_PAGES 15u /* its processor reaches no more */

/*
 * With these pages of the caller as its memory. False: there is no KVM here. Exits if it has KVM
 * and cannot be made.
 */
bool machine_create(struct machine *m, const void *memory, unsigned int pages);
/*
 * Its processor adds 1 to the 32 bits at this offset of the memory, n times. False: it was refused,
 * at the latest the last time.
 */
bool machine_adds(struct machine *m, unsigned int offset, unsigned int n);
void machine_destroy(struct machine *m);

#endif

// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_machine.h"

#include "tests/kmod/common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_AT 0x1000u /* where the machine has its code, */
#define DATA_AT 0x2000u /* and its memory */

static void cannot(const char *what)
{
	printf("FAILED: KVM: %s (errno %d)\n", what, errno);
	exit(1);
}

static void memory_slot(int vm, uint32_t slot, uint64_t at, const void *p, unsigned int pages)
{
	struct kvm_userspace_memory_region m = { .slot = slot,
						 .guest_phys_addr = at,
						 .memory_size = pages * PAGE,
						 .userspace_addr = (uintptr_t)p };

	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &m))
		cannot("memory");
}

bool machine_create(struct machine *m, const void *memory, unsigned int pages)
{
	static const unsigned char code[] = { 0x66, 0xff, 0x07, /* again: incl (%bx) */
					      0xe2, 0xfb,       /* loop again */
					      0xe6, 0x10 };     /* out %al, $0x10 */
	char *text = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_sregs sregs;

	m->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	m->vm = m->kvm < 0 ? -1 : ioctl(m->kvm, KVM_CREATE_VM, 0);
	if (m->vm < 0)
		return false;
	memcpy(text, code, sizeof(code));
	memory_slot(m->vm, 0, CODE_AT, text, 1);
	memory_slot(m->vm, 1, DATA_AT, memory, pages);
	m->cpu = ioctl(m->vm, KVM_CREATE_VCPU, 0);
	m->run = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, m->cpu, 0);
	if (m->run == MAP_FAILED || ioctl(m->cpu, KVM_GET_SREGS, &sregs))
		cannot("a processor");
	sregs.cs.base = sregs.cs.selector = 0;
	sregs.ds.base = DATA_AT;
	if (ioctl(m->cpu, KVM_SET_SREGS, &sregs))
		cannot("its registers");
	return true;
}

bool machine_adds(struct machine *m, unsigned int offset, unsigned int n)
{
	struct kvm_regs regs = { .rip = CODE_AT, .rflags = 2, .rbx = offset, .rcx = n };
	int err;

	if (ioctl(m->cpu, KVM_SET_REGS, &regs))
		cannot("its registers");
	do {
		err = ioctl(m->cpu, KVM_RUN, 0);
	} while (err && errno == EINTR);
	return !err && m->run->exit_reason == KVM_EXIT_IO;
}

void machine_destroy(struct machine *m)
{
	munmap((void *)(uintptr_t)m->run, PAGE);
	close(m->cpu);
	close(m->vm);
	close(m->kvm);
}

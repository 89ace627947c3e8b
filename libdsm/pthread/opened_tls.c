// SPDX-License-Identifier: BSD-2-Clause
/*
 * opened_tls.c - thread-local variables of libraries that the program opens. The code of such a
 * library calls __tls_get_addr() with the number of a module, which only rank 0's loader has given.
 * So the library's references to this function lead to opened_tls_address(). At rank 0, that passes
 * the call on. On the other ranks, it makes the thread's copy of the variables at the first use.
 *
 * The variables are private memory of the rank, as those of the executable are.
 */
#include "opened_tls.h"

#include "shim.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "binding.h"
#include "interpose/raw_syscall.h"
#include "library.h"
#include "masks.h"
#include "space.h"
#include "util/sizes.h"

#include <dlfcn.h>

extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *p);

/* The argument of __tls_get_addr(), of the ABI. */
struct tls_index {
	size_t module, offset;
};
extern void *__tls_get_addr(struct tls_index *index);

/* ---- at rank 0: the library's references ----------------------------------------------------- */

/* Where the variable is for the calling thread, by its distance from the thread pointer. */
struct found {
	const char *at;
	bool of_start; /* in a module of the start, which has the same distance on all ranks */
};

static int opened_tls_find(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct found *f = arg;
	const char *tls = info->dlpi_tls_data;
	int i;

	(void)size;
	for (i = 0; tls && i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS && f->at >= tls &&
		    f->at < tls + info->dlpi_phdr[i].p_memsz) {
			f->of_start = space_owner((const void *)info->dlpi_addr) < 0;
			return 1;
		}
	return 0;
}

static bool is_of_start(const ptrdiff_t *distance)
{
	struct found f = { (const char *)__builtin_thread_pointer() + *distance, false };

	dl_iterate_phdr(opened_tls_find, &f);
	return f.of_start;
}

static int note_fault(const struct reference *r, void *arg)
{
	const char **why = arg;

	if (r->type == R_X86_64_TLSDESC)
		*why = "its thread-local variables are found by descriptors (-mtls-dialect=gnu2)";
	else if (r->type == R_X86_64_TPOFF64 && !is_of_start((const ptrdiff_t *)r->slot))
		*why = "it needs thread-local variables at a fixed distance (-ftls-model=initial-exec)";
	return *why != NULL;
}

const char *opened_tls_fault(const struct link_map *m)
{
	const char *why = NULL;

	binding_each(m, note_fault, &why);
	return why;
}

static void *opened_tls_address(struct tls_index *index);

/* The loader has protected the table where it does not bind late (RELRO). */
static int lead(const struct reference *r, void *arg)
{
	const struct library *l = arg;
	const uintptr_t page = (uintptr_t)r->slot & ~(PAGE_BYTES - 1);
	const bool is_data = (char *)r->slot >= l->data && (char *)r->slot < l->data_end;
	long words[6] = { (long)page, PAGE_BYTES, PROT_READ | PROT_WRITE };

	if (!r->name || strcmp(r->name, "__tls_get_addr") ||
	    (r->type != R_X86_64_JUMP_SLOT && r->type != R_X86_64_GLOB_DAT))
		return 0;
	if (!is_data && raw_syscall(SYS_mprotect, words))
		return -errno;
	__atomic_store_n(r->slot, (uintptr_t)opened_tls_address, __ATOMIC_RELAXED);
	words[2] = PROT_READ;
	return !is_data && raw_syscall(SYS_mprotect, words) ? -errno : 0;
}

int opened_tls_lead(const struct link_map *m, struct opened_tls *out)
{
	const ElfW(Phdr) * h;
	struct library l;
	int i, n;

	*out = (struct opened_tls){ 0 };
	if (!library_read(m, &l) || dlinfo((void *)(uintptr_t)m, RTLD_DI_TLS_MODID, &out->module))
		return -EINVAL;
	h = library_headers(m, &n);
	for (i = 0; i < n; i++)
		if (h[i].p_type == PT_TLS) {
			out->image = (const char *)(m->l_addr + h[i].p_vaddr);
			out->image_size = h[i].p_filesz;
			out->size = h[i].p_memsz;
			out->align = h[i].p_align;
		}
	return binding_each(m, lead, &l);
}

/* ---- on the other ranks: variables of threads ------------------------------------------------ */

struct module {
	struct opened_tls is;
	const struct module *next;
};

static const struct module *modules; /* atomic; none is ever removed */

/* A thread's copy of the variables of one module. */
struct copy {
	struct copy *next;
	size_t module;
	char *at;
};

static __thread struct copy *own __attribute__((tls_model("initial-exec")));

int opened_tls_add(const struct opened_tls *tls)
{
	struct module *m = tls->module ? malloc(sizeof(*m)) : NULL;

	if (!tls->module)
		return 0;
	if (!m)
		return -ENOMEM;
	*m = (struct module){ *tls, modules };
	/* pairs with the acquire in module_find() */
	__atomic_store_n(&modules, m, __ATOMIC_RELEASE);
	return 0;
}

static const struct opened_tls *module_find(size_t module)
{
	const struct module *m = __atomic_load_n(&modules, __ATOMIC_ACQUIRE);

	while (m && m->is.module != module)
		m = m->next;
	return m ? &m->is : NULL;
}

static char *copy_find(size_t module)
{
	const struct copy *c = own;

	while (c && c->module != module)
		c = c->next;
	return c ? c->at : NULL;
}

/* On the private stack. */
static void report_no_memory(void *arg)
{
	(void)arg;
	dsm_abort(70, "no memory for thread-local variables of a library that was opened");
}

/* The memory is the C library's, as it is at rank 0: the program's malloc() may have such
 * variables. */
static struct copy *copy_make(const struct opened_tls *tls)
{
	const size_t align =
		tls->align > _Alignof(struct copy) ? tls->align : _Alignof(struct copy);
	const size_t head = (sizeof(struct copy) + align - 1) / align * align;
	struct copy *c = __libc_memalign(align, head + tls->size);

	if (!c) {
		dsm_call(report_no_memory, NULL);
		return NULL;
	}
	*c = (struct copy){ own, tls->module, (char *)c + head };
	memcpy(c->at, tls->image, tls->image_size);
	memset(c->at + tls->image_size, 0, tls->size - tls->image_size);
	return c;
}

/* A handler of a signal may be the first to use them as well. */
static char *copy_first(const struct opened_tls *tls)
{
	const uint64_t before = block_signals();

	if (!copy_find(tls->module))
		own = copy_make(tls);
	masks_let_signals(before);
	return copy_find(tls->module);
}

/* Some compilers call it with a stack that is not aligned. */
__attribute__((force_align_arg_pointer)) static void *opened_tls_address(struct tls_index *index)
{
	const struct opened_tls *tls;
	char *at = shim.rank ? copy_find(index->module) : NULL;

	if (at)
		return at + index->offset;
	tls = shim.rank ? module_find(index->module) : NULL;
	/* rank 0 has its loader, and modules of the start have the same number on all ranks */
	return tls ? copy_first(tls) + index->offset : __tls_get_addr(index);
}

void opened_tls_thread_ended(void)
{
	struct copy *c;

	while ((c = own)) {
		own = c->next;
		__libc_free(c);
	}
}

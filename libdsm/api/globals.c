// SPDX-License-Identifier: BSD-2-Clause
/*
 * globals.c - dsm_adopt_globals(): finds the part of the executable's memory that holds the
 * program's variables, and only those.
 *
 * The writable segment of an executable begins with what the loader fills in and then protects
 * (RELRO): the GOT, vtables, constant pointers. The rest, .data and .bss, is the program's, on two
 * conditions. With lazy binding the loader also writes to .got.plt there, so functions must be
 * bound at the start. And an executable compiled without -fPIC has copies of variables of shared
 * libraries in .bss (copy relocations). The standard streams are pointers into the C library, which
 * is at the same address on all ranks; `environ` differs between ranks and must not be shared,
 * unless libdsm-pthread.so keeps it equal.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/init.h"
#include "fault/fault.h"
#include "job/job.h"
#include "util/kept.h"
#include "util/log.h"
#include "util/sys.h"
#include "util/valgrind.h"

#define SPACE_MOST (1ul << 46) /* of a file's addresses */
#define PAGE_UP(x) (((x) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1))

/*
 * The executable, as loaded; or of a process that is still to come, its file as the loader would
 * map it.
 */
struct program {
	uintptr_t base;
	/* no loader has made addresses of the numbers in its dynamic segment */
	bool is_file;
	uintptr_t relro, data, end; /* end of RELRO; end of the writable segment */
	bool now;                   /* functions are bound at the start */
	const Elf64_Rela *rela;
	size_t relas;
	const Elf64_Sym *symbols;
	const char *names;
	bool named;  /* it has a build id */
	uint64_t id; /* hash of the segments, and of the build id or the whole file */
};

static uint64_t globals_hash(uint64_t h, const void *data, size_t size)
{
	const uint8_t *p = data;

	while (size--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

/* Hash a segment of notes, one of which may be the build id. */
static void globals_read_notes(struct program *p, const char *at, const Elf64_Phdr *h)
{
	const size_t unit = h->p_align == 8 ? 8 : 4;
	const char *end = at + h->p_filesz;

	p->id = globals_hash(p->id, at, h->p_filesz);
	while ((size_t)(end - at) >= sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *n = (const Elf64_Nhdr *)at;
		const size_t name = (n->n_namesz + 3ul) & ~3ul;
		const size_t size = (sizeof(*n) + name + n->n_descsz + unit - 1) & ~(unit - 1);

		p->named |= n->n_type == NT_GNU_BUILD_ID && name == 4 && !memcmp(n + 1, "GNU", 4);
		if (size > (size_t)(end - at))
			return;
		at += size;
	}
}

/* Without a build id, programs with the same layout differ only in the file's contents. */
static void read_file(struct program *p)
{
	int fd = sys_open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *at;

	if (fd < 0)
		return;
	if (!fstat(fd, &st) && st.st_size > 0) {
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (at != MAP_FAILED) {
			p->id = globals_hash(p->id, at, (size_t)st.st_size);
			munmap(at, (size_t)st.st_size);
		}
	}
	sys_close(fd);
}

static void globals_read_dynamic(struct program *p, const Elf64_Dyn *d)
{
	const char *env = getenv("LD_BIND_NOW");
	const uintptr_t by = p->is_file ? p->base : 0;

	p->now = env && env[0];
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_RELA: p->rela = (const Elf64_Rela *)(by + d->d_un.d_ptr); break;
		case DT_RELASZ: p->relas = d->d_un.d_val / sizeof(Elf64_Rela); break;
		case DT_SYMTAB: p->symbols = (const Elf64_Sym *)(by + d->d_un.d_ptr); break;
		case DT_STRTAB: p->names = (const char *)(by + d->d_un.d_ptr); break;
		case DT_BIND_NOW: p->now = true; break;
		case DT_FLAGS: p->now |= !!(d->d_un.d_val & DF_BIND_NOW); break;
		case DT_FLAGS_1: p->now |= !!(d->d_un.d_val & DF_1_NOW); break;
		default: break;
		}
	}
}

static int read_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct program *p = arg;
	int i;

	(void)size;
	p->base = info->dlpi_addr;
	p->id = globals_hash(0xcbf29ce484222325ull, info->dlpi_phdr,
			     info->dlpi_phnum * sizeof(*info->dlpi_phdr));
	for (i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *h = &info->dlpi_phdr[i];
		const uintptr_t at = p->base + h->p_vaddr;

		switch (h->p_type) {
		case PT_LOAD:
			if (!(h->p_flags & PF_W))
				break;
			p->data = at;
			p->end = at + h->p_memsz;
			break;
		case PT_GNU_RELRO: p->relro = at + h->p_memsz; break;
		case PT_DYNAMIC: globals_read_dynamic(p, (const Elf64_Dyn *)at); break;
		case PT_NOTE: globals_read_notes(p, (const char *)at, h); break;
		default: break;
		}
	}
	return 1; /* the first is the executable */
}

/* The list ends with NULL. */
static bool globals_is_listed(const char *const *list, const char *word)
{
	while (*list && strcmp(*list, word))
		list++;
	return *list;
}

/*
 * The number of a facet of locales (std::numpunct<char>::id): libdsm-pthread.so has the C++ library
 * give these on each rank, before.
 */
static bool globals_is_facet(const char *name)
{
	const size_t n = strlen(name);

	return n > 4 && !strncmp(name, "_ZNSt", 5) && !strcmp(name + n - 4, "2idE");
}

/*
 * May this variable of a library be shared? Some are constant, or have the same value on all ranks.
 * Streams point into libraries, which are at the same address everywhere; Of settings that the
 * program makes, all ranks should see the same. What libdsm-pthread.so keeps equal is shared with
 * it only (keeps).
 */
static bool harmless(const char *name, bool keeps)
{
	static const char *const good[] = {
		"stdin", "stdout", "stderr", "optarg", "optind", "opterr", "optopt", "signgam",
		"__signgam",
		/* false since libdsm has made threads */
		"__libc_single_threaded",
		/* set by the program */
		"obstack_alloc_failed_handler", "obstack_exit_failure", "error_print_progname",
		"error_message_count", "error_one_per_line", "re_syntax_options",
		"argp_err_exit_status", "argp_program_version", "argp_program_version_hook",
		"argp_program_bug_address", "_nl_msg_cat_cntr",
		/* constants */
		"in6addr_any", "in6addr_loopback", "imath_half_to_float_table", "sys_siglist",
		"_sys_siglist", "sys_sigabbrev",
		/* numbers of the time zone */
		"timezone", "__timezone", "daylight", "__daylight", NULL
	};

	if (globals_is_listed(good, name) || (keeps && (kept_has(name) || globals_is_facet(name))))
		return true;
	/* std::cout and its like, for the same reason as streams */
	return !strncmp(name, "_ZSt", 4);
}

static int copies(const struct program *p)
{
	const bool keeps = p->is_file || getenv("DSM_PTHREAD_INSIDE");
	char list[400] = "";
	size_t i, n = 0;

	for (i = 0; i < p->relas; i++) {
		const char *name = p->names + p->symbols[ELF64_R_SYM(p->rela[i].r_info)].st_name;

		if (ELF64_R_TYPE(p->rela[i].r_info) != R_X86_64_COPY ||
		    p->base + p->rela[i].r_offset < p->relro || harmless(name, keeps))
			continue;
		if (n < sizeof(list))
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
					      name);
	}
	if (!n)
		return 0;
	log_line(
		"the executable holds copies of variables of shared libraries that ranks cannot share: %s (compile with "
		"-fPIC, as dsm-cc does)",
		list);
	return -ENOTSUP;
}

static int globals_refuse(const char *why)
{
	log_line("the program's global variables cannot be shared: %s", why);
	return -ENOTSUP;
}

/* How it was linked. */
static int check_link(const struct program *p)
{
	if (!p->symbols || !p->names)
		return globals_refuse("it is linked statically (dsm-cc links it with libdsm.so)");
	if ((uintptr_t)&job >= p->data && (uintptr_t)&job < p->end)
		return globals_refuse(
			"it contains libdsm itself (link with libdsm.so, not libdsm.a)");
	if (!p->relro)
		return globals_refuse("it has no RELRO segment (link with -Wl,-z,relro)");
	if (p->relro % PAGE_BYTES)
		return globals_refuse(
			"its RELRO segment does not end at a page (link with GNU ld 2.39 or later, or lld)");
	if (!p->now)
		return globals_refuse(
			"its functions are bound when they are called (link with -Wl,-z,now, or set LD_BIND_NOW=1)");
	return copies(p);
}

static int check_program(const struct program *p)
{
	if (job.size > 1 && under_valgrind())
		return globals_refuse(
			"valgrind runs it, with a malloc() of its own for each rank (start one rank)");
	if (!job.fault->adopt)
		return globals_refuse(
			"the kernel helper hosts this job (set DSM_BACKEND=user, or start one node)");
	return check_link(p);
}

/* Do all ranks run the same program, with the C library and this one at the same addresses? */
static int globals_are_alike(const struct program *p)
{
	const uint64_t mine[] = { p->id, p->base, (uintptr_t)&stdout, (uintptr_t)stdout,
				  (uintptr_t)&job };
	uint64_t first[5];
	int32_t differs;
	int err;

	memcpy(first, mine, sizeof(first));
	err = dsm_broadcast(first, sizeof(first), 0);
	if (err)
		return err;
	if (first[0] != mine[0])
		log_line(
			"this rank runs another executable than rank 0 (%s): all ranks need the same file",
			program_invocation_name);
	else if (memcmp(first, mine, sizeof(mine)))
		log_line(
			"the program or a library is at another address than on rank 0: start it with dsmrun, or with "
			"`setarch -R`, and with the same libraries");
	differs = memcmp(first, mine, sizeof(mine)) ? 1 : 0;
	err = dsm_reduce(&differs, DSM_INT32, DSM_MAX);
	return err ? err : differs ? -EPROTO : 0;
}

DSM_API int dsm_adopt_globals(dsm_region_t **out)
{
	const struct dsm_region_options opt = { .block_size = PAGE_BYTES,
						.consistency = heap_upper()
							? DSM_CONSISTENCY_RELEASE
							: DSM_CONSISTENCY_SEQUENTIAL };
	struct program p = { 0 };
	int32_t err = job_ready(), all;

	if (err)
		return err;
	dl_iterate_phdr(read_program, &p);
	if (!p.named)
		read_file(&p);
	all = err = check_program(&p);
	err = dsm_reduce(&all, DSM_INT32, DSM_MIN);
	if (!err)
		err = all;
	if (!err)
		err = globals_are_alike(&p);
	if (err)
		return err;
	return dsm_region_adopt((void *)p.relro, PAGE_UP(p.end) - p.relro, &opt, out);
}

/* ---- before the job -------------------------------------------------------------------------- */

/* A file of the size, as it is on disk. */
struct image {
	const char *at;
	size_t size;
	int fd;
};

/* Its program headers; NULL: it is no executable that this machine loads. */
static const Elf64_Phdr *image_headers(const struct image *m, unsigned int *n)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)m->at;
	const Elf64_Phdr *h;
	unsigned int i;

	if (m->size < sizeof(*e) || memcmp(e->e_ident, ELFMAG, SELFMAG) ||
	    e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_phentsize != sizeof(*h) || e->e_phoff % 8 ||
	    e->e_phoff > m->size || e->e_phnum > (m->size - e->e_phoff) / sizeof(*h))
		return NULL;
	h = (const Elf64_Phdr *)(m->at + e->e_phoff);
	for (i = 0; i < e->e_phnum; i++)
		if (h[i].p_offset > m->size || h[i].p_filesz > m->size - h[i].p_offset ||
		    h[i].p_memsz > SPACE_MOST || h[i].p_vaddr > SPACE_MOST)
			return NULL;
	*n = e->e_phnum;
	return h;
}

/* Map the segments as the loader does, to be read only: what is not in the file cannot be read.
 * Returns what is added to addresses of the file; -1: it does not work. */
static uintptr_t image_load(const struct image *m, const Elf64_Phdr *h, unsigned int n)
{
	uintptr_t end = 0;
	unsigned int i;
	char *at;

	for (i = 0; i < n; i++)
		if (h[i].p_type == PT_LOAD && h[i].p_vaddr + h[i].p_memsz > end)
			end = h[i].p_vaddr + h[i].p_memsz;
	at = mmap(NULL, PAGE_UP(end) + PAGE_BYTES, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return (uintptr_t)-1;
	for (i = 0; i < n; i++) {
		const uintptr_t in = h[i].p_vaddr % PAGE_BYTES;

		if (h[i].p_type != PT_LOAD || !h[i].p_filesz)
			continue;
		if (h[i].p_offset % PAGE_BYTES != in ||
		    mmap(at + h[i].p_vaddr - in, h[i].p_filesz + in, PROT_READ,
			 MAP_PRIVATE | MAP_FIXED, m->fd, (off_t)(h[i].p_offset - in)) == MAP_FAILED)
			return (uintptr_t)-1;
	}
	return (uintptr_t)at;
}

/* The mappings stay: the process is about to end. */
int globals_check_file(const char *path)
{
	struct image m = { .fd = sys_open(path, O_RDONLY | O_CLOEXEC) };
	struct dl_phdr_info info = { 0 };
	struct program p = { .is_file = true };
	const Elf64_Phdr *h = NULL;
	unsigned int n = 0;
	struct stat st;

	if (m.fd < 0)
		return 0;
	if (!fstat(m.fd, &st) && st.st_size > 0) {
		m.size = (size_t)st.st_size;
		m.at = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, m.fd, 0);
		h = m.at == MAP_FAILED ? NULL : image_headers(&m, &n);
	}
	info.dlpi_addr = h ? image_load(&m, h, n) : (uintptr_t)-1;
	sys_close(m.fd);
	if (info.dlpi_addr == (uintptr_t)-1)
		return 0;
	info.dlpi_phdr = h;
	info.dlpi_phnum = (Elf64_Half)n;
	read_program(&info, sizeof(info), &p);
	return check_link(&p);
}

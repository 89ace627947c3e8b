# SPDX-License-Identifier: BSD-2-Clause
#
# libdsm - one file builds everything, into build/<variant>/.  `make help` lists the targets.
#
#   VARIANT=release|debug|asan|ubsan|tsan    what to build (fuzz is used by `make fuzz`, hooks and
#                                            trace by tests)
#   WERROR=1                                 warnings are errors (what .ci/run uses)
#   V=1                                      show the commands
#   PREFIX=/usr/local DESTDIR=               where to install
#
# Targets that run something (demo, check, bench, bench-cluster, bench-hosts, bench-kmod,
# bench-share, fuzz) call a script, which calls make again to build: only then are the packages that
# scripts/setup installs there to be asked for their flags.

VARIANT ?= release
WERROR  ?= 0
PREFIX  ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR  ?= $(PREFIX)/share/man
DOCDIR  ?= $(PREFIX)/share/doc/libdsm
DATADIR ?= $(PREFIX)/share/libdsm
INSTALL ?= install
OBJCOPY ?= objcopy
FUZZ_SECONDS ?= 30
ifeq ($(origin CC),default)
CC := $(if $(filter fuzz,$(VARIANT)),clang,gcc)
endif

VARIANTS := release debug asan ubsan tsan fuzz hooks trace
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT=$(VARIANT) is none of: $(VARIANTS))
endif

export VARIANT WERROR V FUZZ_SECONDS
MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

B := build/$(VARIANT)
Q := $(if $(filter-out 0,$(V)),,@)
SILENT := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
say = $(if $(SILENT),@:,$(if $(Q),@printf '  %-7s %s\n' '$(1)' '$(2)',@:))

# ---- version: dsm.h has it ------------------------------------------------------------------

HEADER  := libdsm/include/dsm.h
HEADERS := $(sort $(wildcard libdsm/include/*.h))
version_part = $(shell sed -n 's/^.define DSM_VERSION_$(1) *\([0-9]*\).*/\1/p' $(HEADER))
MAJOR   := $(call version_part,MAJOR)
VERSION := $(MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)

# ---- sources --------------------------------------------------------------------------------

LAYERS   := util core launch cqgroup share net net/shared net/ucx net/verbs fault job miss calls watch kernel start api sync heap
LIB_C    := $(sort $(foreach l,$(LAYERS),$(wildcard libdsm/$(l)/*.c)))
APP_C    := $(sort $(filter-out apps/common.c,$(wildcard apps/*.c)))
SHARE_APP_C := $(sort $(wildcard apps/share/*.c))
UNIT_C   := $(sort $(wildcard tests/unit/test_*.c))
MODEL_C  := $(sort $(wildcard tests/model/*.c))
ORDERS_C := $(sort $(wildcard tests/orders/*.c))
SCENES_C := $(sort $(wildcard tests/orders/scenes/*.c))
SIM_C    := $(sort $(wildcard tests/sim/*.c))
PROC_C   := $(sort $(filter-out tests/proc/common.c tests/proc/crowd_%.c tests/proc/release_%.c,$(wildcard tests/proc/*.c)))
FAIL_C   := $(sort $(wildcard tests/fail/*.c))
SHARE_TEST_C := $(sort $(filter-out tests/share/common%.c,$(wildcard tests/share/*.c)))
KMOD_C   := $(sort $(filter-out tests/kmod/common%.c tests/kmod/quota_%.c tests/kmod/signals_%.c tests/kmod/storm_%.c,$(wildcard tests/kmod/*.c)))
FUZZ_C   := $(sort $(wildcard tests/fuzz/fuzz_*.c))
BENCH_C  := $(sort $(filter-out tests/bench/common%.c tests/bench/lanes_%.c tests/bench/micro_%.c tests/bench/share_%.c,$(wildcard tests/bench/*.c)))

# Files beside the programs that are linked into each of them.
APP_COMMON_C   := $(wildcard apps/common.c)
UNIT_COMMON_C  := $(sort $(filter-out $(UNIT_C),$(wildcard tests/unit/*.c)))
PROC_COMMON_C  := $(wildcard tests/proc/common.c)
PROC_CROWD_C   := $(sort $(wildcard tests/proc/crowd_*.c)) # of tests/proc/crowd alone
PROC_RELEASE_C := $(sort $(wildcard tests/proc/release_*.c)) # of tests/proc/release alone
SHARE_COMMON_C := $(sort $(wildcard tests/share/common*.c))
KMOD_COMMON_C  := $(sort $(wildcard tests/kmod/common*.c))
KMOD_QUOTA_C   := $(sort $(wildcard tests/kmod/quota_*.c)) # of tests/kmod/quota alone
KMOD_SIGNALS_C := $(sort $(wildcard tests/kmod/signals_*.c)) # of tests/kmod/signals alone
KMOD_STORM_C   := $(sort $(wildcard tests/kmod/storm_*.c)) # of tests/kmod/storm alone
FUZZ_COMMON_C  := $(sort $(filter-out $(FUZZ_C),$(wildcard tests/fuzz/*.c)))
BENCH_COMMON_C := $(sort $(wildcard tests/bench/common*.c))
BENCH_LANES_C  := $(sort $(wildcard tests/bench/lanes_*.c)) # of tests/bench/lanes, and of its unit test
BENCH_MICRO_C  := $(sort $(wildcard tests/bench/micro_*.c)) # of tests/bench/micro alone
BENCH_SHARE_C  := $(sort $(wildcard tests/bench/share_*.c)) # of tests/bench/share alone

# libdsm/core/x.c is compiled to $(B)/core/x.o, any other a/b/x.c to $(B)/obj/a/b/x.o.
objects = $(patsubst %.c,$(B)/obj/%.o,$(patsubst libdsm/core/%.c,$(B)/core/%.o,$(1)))

LIB_O   := $(call objects,$(LIB_C))
APPS    := $(APP_C:apps/%.c=$(B)/apps/%)
SHARE_APPS := $(SHARE_APP_C:apps/%.c=$(B)/apps/%) # examples of librshare
UNIT    := $(UNIT_C:tests/unit/%.c=$(B)/tests/unit/%)
MODEL   := $(if $(MODEL_C),$(B)/tests/model)
ORDERS_O := $(ORDERS_C:%.c=$(B)/obj/%.o)
ORDERS  := $(if $(filter release,$(VARIANT)),$(SCENES_C:tests/orders/scenes/%.c=$(B)/tests/orders/%))
SIM     := $(if $(SIM_C),$(B)/tests/sim)
PROC    := $(PROC_C:tests/proc/%.c=$(B)/tests/proc/%)
FAIL    := $(FAIL_C:tests/fail/%.c=$(B)/tests/fail/%)
KMOD    := $(KMOD_C:tests/kmod/%.c=$(B)/tests/kmod/%)
SHARE_TEST := $(SHARE_TEST_C:tests/share/%.c=$(B)/tests/share/%)
FUZZ    := $(FUZZ_C:tests/fuzz/%.c=$(B)/tests/fuzz/%)
BENCH   := $(BENCH_C:tests/bench/%.c=$(B)/bench/%)
RECORD  := $(patsubst apps/%.c,$(B)/record/%,$(filter-out apps/example.c,$(APP_C)))

# libdsm.a is what is installed and what apps, process tests and benchmarks link: one object with
# nothing but dsm.h's functions global.  libdsm-internal.a is for tests of the inside.
LIB_A      := $(B)/libdsm.a
INTERNAL_A := $(B)/libdsm-internal.a
LIB_SO     := $(B)/libdsm.so.$(VERSION)
LIB        := $(LIB_A) $(LIB_SO) $(B)/libdsm.so.$(MAJOR) $(B)/libdsm.so

# The CQ groups are in libdsm, where only libdsm sees them, and in libraries of their own.
CQGROUP_O  := $(call objects,$(sort $(wildcard libdsm/cqgroup/*.c)))
CQGROUP_A  := $(B)/libcqgroup.a
CQGROUP_SO := $(B)/libcqgroup.so.$(VERSION)
PRELOAD_O  := $(call objects,$(sort $(wildcard libdsm/cqgroup/preload/*.c)))
PRELOAD_SO := $(if $(PRELOAD_O),$(B)/libcqgroup-preload.so)
# POSIX threads over the ranks: in front of the C library, in programs that dsm-cc links.
PTHREAD_O  := $(call objects,libdsm/interpose/next.c $(sort $(wildcard libdsm/pthread/*.c)))
PTHREAD_SO := $(B)/libdsm-pthread.so
# System calls on shared memory: in front of the C library, too.
SYSCALL_O  := $(call objects,libdsm/interpose/next.c $(sort $(wildcard libdsm/syscall/*.c)))
SYSCALL_SO := $(B)/libdsm-syscall.so
# The ANL macros, over POSIX threads.
ANL_O      := $(call objects,$(sort $(wildcard libdsm/anl/*.c)))
ANL_A      := $(B)/libdsm-anl.a
ANL_M4     := libdsm/anl/c.m4.dsm
# Directives of OpenMP, over POSIX threads, in place of libgomp: dsm-cc gives the linker the folder.
OPENMP_O   := $(call objects,$(sort $(wildcard libdsm/openmp/*.c)))
OPENMP_SO  := $(B)/libdsm-openmp.so
GOMP_SO    := $(B)/dsm-openmp/libgomp.so
TOOLS      := $(B)/dsm-cc $(B)/dsm-c++ $(B)/dsm-fc $(B)/dsmrun
LIB        += $(PTHREAD_SO) $(SYSCALL_SO) $(ANL_A) $(OPENMP_SO) $(GOMP_SO) $(TOOLS)
LIB        += $(CQGROUP_A) $(CQGROUP_SO) $(B)/libcqgroup.so.$(MAJOR) $(B)/libcqgroup.so $(PRELOAD_SO)

# Shared queue pairs: in libdsm, where only libdsm sees them, and a library of its own, which needs
# libcqgroup, and not libdsm.
SHARE_O    := $(call objects,$(sort $(wildcard libdsm/share/*.c)))
SHARE_A    := $(B)/librshare.a
SHARE_SO   := $(B)/librshare.so.$(VERSION)
LIB        += $(SHARE_A) $(SHARE_SO) $(B)/librshare.so.$(MAJOR) $(B)/librshare.so

# ---- flags ----------------------------------------------------------------------------------

TRIPLET   := $(shell $(CC) -print-multiarch)
PKGCONFIG ?= pkg-config
pkg_flags  = $(or $(shell $(PKGCONFIG) $(1) $(2) 2>/dev/null),$(3))

# Debian ships PMIx without a .pc file; its library may lie where the loader does not look.
PMIX_DIR   ?= /usr/lib/$(TRIPLET)/pmix2
PMIX_RPATH := $(if $(shell PATH=$$PATH:/sbin ldconfig -p 2>/dev/null | grep -o 'libpmix[.]so[.]2 '),,-Wl,-rpath,$(PMIX_DIR)/lib)
PMIX_LIBS  := -L$(PMIX_DIR)/lib $(PMIX_RPATH) -lpmix

UCX_CFLAGS   := $(call pkg_flags,--cflags,ucx,)
UCX_LIBS     := $(call pkg_flags,--libs,ucx,-lucp -luct -lucs)
VERBS_CFLAGS := $(call pkg_flags,--cflags,libibverbs,)
VERBS_LIBS   := $(call pkg_flags,--libs,libibverbs,-libverbs)
CHECK_CFLAGS := $(call pkg_flags,--cflags,check,)
CHECK_LIBS   := $(call pkg_flags,--libs,check,-lcheck -lsubunit -lrt)

DSM_LIBS := $(UCX_LIBS) $(VERBS_LIBS) $(PMIX_LIBS) -ljemalloc -lnuma -lpthread -lm
# jemalloc has operators new and delete of its own, for C++ programs. Those of the C++ library, which it needs in any case, come first:
# they call malloc(), which may be libdsm-pthread's.
CXX_LIBS := -Wl,--push-state,--no-as-needed -l:libstdc++.so.6 -Wl,--pop-state

SAN_asan  := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SAN_ubsan := -fsanitize=undefined -fno-sanitize-recover=undefined
SAN_tsan  := -fsanitize=thread
SAN_fuzz  := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
SAN := $(SAN_$(VARIANT))

OPT_release := -O2
OPT_debug   := -Og
OPT_hooks   := -O2
OPT := $(or $(OPT_$(VARIANT)),-O1 -fno-omit-frame-pointer)
APP_OPT := $(if $(filter release,$(VARIANT)),-O3)

# trace: each function of the library reports that it is entered, to a program that listens
# (tests/trace).
ENTRIES := $(if $(filter trace,$(VARIANT)),-fno-inline -finstrument-functions -Wno-clobbered)
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla $(if $(filter 1,$(WERROR)),-Werror)
CPPFLAGS_DSM := -Ilibdsm -Ilibdsm/include
# hooks: points that tests/fail/walk stops at.
CPPFLAGS_LIB := $(if $(filter hooks,$(VARIANT)),-DDSM_HOOKS) -D_GNU_SOURCE -I$(PMIX_DIR)/include $(UCX_CFLAGS) $(VERBS_CFLAGS)
CFLAGS_DSM   := -std=gnu11 $(OPT) -g -fPIC -fvisibility=hidden -pthread $(WARN) $(SAN) $(CFLAGS)
LINK         := $(CC) -pthread $(SAN) -Wl,--as-needed $(LDFLAGS)
# Sanitizer symbols of a shared object come from the program.
SO_DEFS      := $(if $(SAN),,-Wl,-z,defs)

# Per folder: what is special about compiling it.
$(B)/core/%.o:            EXTRA = -ffreestanding $(ENTRIES)
$(B)/obj/libdsm/%.o:      EXTRA = $(CPPFLAGS_LIB) $(ENTRIES)
$(B)/obj/libdsm/pthread/thread.o $(B)/obj/libdsm/pthread/once.o: EXTRA = $(CPPFLAGS_LIB) -fexceptions # they have handlers that unwinding passes
$(B)/obj/libdsm/pthread/exceptions.o $(B)/obj/libdsm/pthread/pending.o $(B)/obj/libdsm/pthread/callbacks.o: EXTRA = $(CPPFLAGS_LIB) -fexceptions
$(B)/obj/libdsm/pthread/contexts.o: EXTRA = $(CPPFLAGS_LIB) -fcf-protection=none # it leaves a shadow stack alone, so the library must not claim support
# A part of the program, so as dsm-cc compiles one.
$(B)/obj/libdsm/openmp/%.o: EXTRA = $(CPPFLAGS_LIB) $(if $(SAN),,-fno-inline-atomics -include dsm_atomics.h)
$(B)/obj/apps/%.o:        EXTRA = -D_GNU_SOURCE $(APP_OPT)
$(B)/obj/tests/unit/%.o:  EXTRA = $(CPPFLAGS_LIB) $(CHECK_CFLAGS)
$(B)/obj/tests/model/%.o: EXTRA = -D_GNU_SOURCE
$(B)/obj/tests/sim/%.o:   EXTRA = -D_GNU_SOURCE
$(B)/obj/tests/proc/%.o:  EXTRA = -D_GNU_SOURCE
$(B)/obj/tests/fail/%.o:  EXTRA = -D_GNU_SOURCE
$(B)/obj/tests/share/%.o: EXTRA = $(CPPFLAGS_LIB)
$(B)/obj/tests/kmod/%.o:  EXTRA = -D_GNU_SOURCE -I.
$(B)/obj/tests/fuzz/%.o:  EXTRA = $(CPPFLAGS_LIB)
$(B)/obj/tests/bench/%.o: EXTRA = $(CPPFLAGS_LIB)

COMPILE = $(CC) -MMD -MP $(CPPFLAGS_DSM) $(CPPFLAGS) $(CFLAGS_DSM) $(EXTRA)

# The checker of memory orders. Each file of scenes includes the sources that it checks; the
# compiler's instrumentation for data races calls tests/orders/hooks.c.
ORDERS_COMPILE = $(CC) $(CPPFLAGS_DSM) $(CPPFLAGS_LIB) $(CPPFLAGS) -std=gnu11 -O2 -g -fno-pie $(WARN) $(CFLAGS)
SCENES_COMPILE = $(ORDERS_COMPILE) -Wno-unused-function -Wno-tsan -fsanitize=thread --param tsan-instrument-func-entry-exit=0 \
	-include tests/orders/redirect.h

# ---- targets that run something -------------------------------------------------------------

.PHONY: all lib apps test-programs unit-programs model-program orders-programs sim-program proc-programs fail-programs \
	bench-programs fuzz-programs demo cluster-demo bench bench-cluster bench-hosts bench-kmod bench-share predict fuzz check check-cluster check-unit check-cqgroup check-model check-sim check-proc check-threads check-posix check-programs check-guests check-fail check-fail-full check-gates \
	check-asan check-tsan check-large check-soak check-mutations check-trace check-kmod check-siw check-kdebug check-kfuzz model-full install uninstall install-kmod uninstall-kmod clean format tags compile-commands help setup FORCE

all: lib apps ## the library and the applications (default)

setup: ## install the packages that are missing
	@scripts/setup

demo: ## build, then LU factorisation by four processes over shared memory
	@scripts/setup
	@scripts/demo

cluster-demo: ## build, then applications by RDMA over four QEMU guests
	@scripts/setup
	@scripts/cluster-demo

check: ## everything that must pass: build, gates, all tests, sanitizers; ends with "N passed, N failed"
	@scripts/setup
	@scripts/check

check-unit: ## unit tests, one program for each module
check-cqgroup: ## the preload library of the CQ groups, and interrupts of a recorded machine
check-model: ## the protocol model: exhaustive search, quick depths
check-sim: ## seeded simulated schedules
check-proc: ## several processes on this host
check-threads: ## ordinary threaded programs over the ranks of a job
check-posix: ## interfaces of programs with threads, as one process, one node and two nodes: what differs is listed (minutes)
check-programs: ## packaged programs, unchanged, as jobs of two ranks (installs the packages)
check-guests: ## minimap2 and bwa over two guests, with an index that does not fit into one, beside one with swap (20 minutes)
check-fail: ## what happens when ranks die, settings are wrong, resources are short
check-fail-full: ## the same at every step of a miss and of calls that wait, in every mode (long)
check-gates: ## core purity, layers, headers, kernel build, links, documents, man pages, installation
check-asan: ## unit, model, sim and process tests with address and undefined behaviour checks
check-tsan: ## unit and process tests with data race detection
check-large: ## process tests with 10,000 waiting threads and 10,000 regions (minutes)
check-soak: ## the long version: simulation and process tests for hours, asynchronous cancellation and litmus tests
check-mutations: ## would the tests notice? mechanical changes of the protocol core, one by one (hours); MUTATIONS="--resume" goes on
check-trace: ## does docs/life-of-a-miss.md name the functions of a miss in their order? (a build that reports each function)
model-full: ## the protocol model at full depths (long)
check-unit check-cqgroup check-model check-sim check-proc check-threads check-posix check-programs check-guests check-fail check-fail-full check-gates check-asan check-tsan check-large check-soak check-mutations check-trace model-full:
	@scripts/setup
	@scripts/check $(@:check-%=%)

check-cluster: ## the process tests over RDMA in 1, 2 and 4 QEMU guests, with faults (two hours)
	@scripts/setup
	@scripts/check cluster-full

check-kmod: ## the kernel helper itself, in a guest: fuzzing, broken peers, deaths, short resources
check-siw: ## iWARP, in a guest with a software device, which is built first: refused by name
check-kdebug: ## the same and process tests on kernels 6.1 and 6.12 with KASAN, lockdep, kmemleak, which are built first
check-kfuzz: ## the fuzzers of the kernel helper on kernel 6.1 with KASAN, KFUZZ_INPUTS=10000000 calls
check-kmod check-siw check-kdebug check-kfuzz:
	@scripts/setup
	@scripts/check $(@:check-%=%)

bench: ## benchmarks; writes build/bench.json and prints a table
	@scripts/setup
	@scripts/bench

bench-cluster: ## benchmarks over RDMA, in QEMU guests; writes build/bench-cluster.json and prints tables
	@scripts/setup
	@scripts/bench-cluster

bench-kmod: ## the kernel helper against the user-level path, in QEMU guests; writes build/bench-kmod.json
	@scripts/setup
	@scripts/bench-kmod

bench-share: ## shared queue pairs against native ones, in a QEMU guest; writes build/bench-share.json
	@scripts/setup
	@scripts/bench-share

bench-hosts: ## cluster, share and kernel benchmarks on real machines over ssh: HOSTS=A,B; writes build/bench-*-hosts.json, build/bench-hosts.md
	@scripts/setup
	@scripts/bench-hosts '$(HOSTS)'

predict: ## predicted run times of the applications on 4 to 1,024 nodes; writes build/predict.json and prints a table
	@scripts/setup
	@$(MAKE) sim-program
	@tests/sim/predict

fuzz: ## fuzz the decoders, FUZZ_SECONDS=30 for each
	@scripts/setup
	@scripts/check fuzz

# ---- building -------------------------------------------------------------------------------

lib: $(LIB)
apps: $(APPS) $(SHARE_APPS)
unit-programs: $(UNIT)
model-program: $(MODEL)
orders-programs: $(ORDERS)
sim-program: $(SIM) $(RECORD)
proc-programs: $(PROC)
fail-programs: $(FAIL)
bench-programs: $(BENCH)
fuzz-programs: $(FUZZ)
test-programs: $(UNIT) $(MODEL) $(ORDERS) $(SIM) $(RECORD) $(PROC) $(FAIL) $(SHARE_TEST) $(KMOD) $(BENCH) ## all test and benchmark programs

# Everything is rebuilt when the compiler or a flag changes.
FLAGS_NOW = $(CC) $(CPPFLAGS_DSM) $(CPPFLAGS_LIB) $(CPPFLAGS) $(CFLAGS_DSM) $(APP_OPT) $(CHECK_CFLAGS) $(LDFLAGS) $(DSM_LIBS)
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@test -e $@ || scripts/setup --check || true
	@printf '%s\n' '$(FLAGS_NOW)' | cmp -s - $@ || printf '%s\n' '$(FLAGS_NOW)' > $@

$(B)/core/%.o: libdsm/core/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c $< -o $@

$(B)/obj/tests/orders/%.o: tests/orders/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(if $(filter tests/orders/scenes/%,$<),$(SCENES_COMPILE),$(ORDERS_COMPILE)) -MMD -MP -c $< -o $@

$(B)/tests/orders/%: $(B)/obj/tests/orders/scenes/%.o $(ORDERS_O)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -no-pie -o $@ $^

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c $< -o $@

# The list of sources is a file too, so that taking one away makes a new library.
$(B)/sources: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(LIB_C)' | cmp -s - $@ || printf '%s\n' '$(LIB_C)' > $@

$(INTERNAL_A): $(LIB_O) $(B)/sources
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(LIB_O)

$(LIB_A): $(LIB_O) $(B)/sources
	$(call say,AR,$@)
	$(Q)ld -r -o $(B)/libdsm.o $(LIB_O) && \
		$(OBJCOPY) --localize-hidden --wildcard --localize-symbol='cqgroup_*' --localize-symbol='rshare_*' \
		$(B)/libdsm.o
	$(Q)rm -f $@ && ar rcs $@ $(B)/libdsm.o

$(LIB_SO): $(LIB_O) $(B)/sources libdsm/libdsm.map
	$(call say,LD,$@)
	$(Q)$(LINK) -shared $(SO_DEFS) -Wl,-soname,libdsm.so.$(MAJOR) -Wl,--version-script,libdsm/libdsm.map \
		-o $@ $(LIB_O) $(CXX_LIBS) $(DSM_LIBS)

$(B)/libdsm.so.$(MAJOR) $(B)/libdsm.so: $(LIB_SO)
	$(Q)ln -sf $(<F) $@

$(CQGROUP_A): $(CQGROUP_O)
	$(call say,AR,$@)
	$(Q)ld -r -o $(B)/libcqgroup.o $^ && $(OBJCOPY) --localize-hidden $(B)/libcqgroup.o
	$(Q)rm -f $@ && ar rcs $@ $(B)/libcqgroup.o

$(CQGROUP_SO): $(CQGROUP_O) libdsm/cqgroup/libcqgroup.map
	$(call say,LD,$@)
	$(Q)$(LINK) -shared $(SO_DEFS) -Wl,-soname,libcqgroup.so.$(MAJOR) -Wl,--version-script,libdsm/cqgroup/libcqgroup.map \
		-o $@ $(CQGROUP_O) $(VERBS_LIBS)

$(B)/libcqgroup.so.$(MAJOR) $(B)/libcqgroup.so: $(CQGROUP_SO)
	$(Q)ln -sf $(<F) $@

$(SHARE_A): $(SHARE_O) $(B)/sources
	$(call say,AR,$@)
	$(Q)ld -r -o $(B)/librshare.o $(SHARE_O) && $(OBJCOPY) --localize-hidden $(B)/librshare.o
	$(Q)rm -f $@ && ar rcs $@ $(B)/librshare.o

# libcqgroup lies beside it.
$(SHARE_SO): $(SHARE_O) $(B)/sources $(B)/libcqgroup.so $(B)/libcqgroup.so.$(MAJOR) libdsm/share/librshare.map
	$(call say,LD,$@)
	$(Q)$(LINK) -shared $(SO_DEFS) -Wl,-z,nodelete -Wl,-soname,librshare.so.$(MAJOR) -Wl,--version-script,libdsm/share/librshare.map \
		-Wl,-rpath,'$$ORIGIN' -o $@ $(SHARE_O) -L$(B) -lcqgroup $(VERBS_LIBS)

$(B)/librshare.so.$(MAJOR) $(B)/librshare.so: $(SHARE_SO)
	$(Q)ln -sf $(<F) $@

# Needs no libibverbs: it is loaded into programs that have it, and into their shells that have not.
$(PRELOAD_SO): $(PRELOAD_O) $(CQGROUP_O) libdsm/cqgroup/preload/preload.map
	$(call say,LD,$@)
	$(Q)$(LINK) -shared -Wl,--version-script,libdsm/cqgroup/preload/preload.map -o $@ $(PRELOAD_O) $(CQGROUP_O) -ldl

# Bound at once: a thread may be cancelled where the loader would look up a name, with its lock
# held.
$(PTHREAD_SO): $(PTHREAD_O) $(B)/libdsm.so libdsm/pthread/pthread.map
	$(call say,LD,$@)
	$(Q)$(LINK) -shared -Wl,-z,now -Wl,-soname,libdsm-pthread.so -Wl,--version-script,libdsm/pthread/pthread.map \
		-Wl,-rpath,'$$ORIGIN' -o $@ $(PTHREAD_O) -L$(B) -ldsm -ldl -lm

$(SYSCALL_SO): $(SYSCALL_O) $(B)/libdsm.so libdsm/syscall/syscall.map
	$(call say,LD,$@)
	$(Q)$(LINK) -shared -Wl,-soname,libdsm-syscall.so -Wl,--version-script,libdsm/syscall/syscall.map -Wl,-rpath,'$$ORIGIN' \
		-o $@ $(SYSCALL_O) -L$(B) -ldsm -ldl

$(OPENMP_SO): $(OPENMP_O) $(PTHREAD_SO)
	$(call say,LD,$@)
	$(Q)$(LINK) -shared -Wl,-z,relro,-z,now -Wl,-soname,libdsm-openmp.so -Wl,-rpath,'$$ORIGIN' -o $@ $(OPENMP_O) -L$(B) -ldsm-pthread

$(GOMP_SO): $(OPENMP_SO)
	$(Q)mkdir -p $(@D) && ln -sf ../$(<F) $@

$(ANL_A): $(ANL_O)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(ANL_O)

# In the build folder the tools use the build.
SED_TOOL = sed -e 's|@LIBDIR@|$(1)|' -e 's|@INCLUDEDIR@|$(2)|' -e 's|@MACROS@|$(3)|'
$(B)/dsm-cc: libdsm/tools/dsm-cc.in
	$(Q)$(call SED_TOOL,$(abspath $(B)),$(abspath libdsm/include),$(abspath $(ANL_M4))) $< > $@ && chmod +x $@
$(B)/dsm-c++ $(B)/dsm-fc: $(B)/dsm-cc
	$(Q)ln -sf dsm-cc $@
$(B)/dsmrun: libdsm/tools/dsmrun.in
	$(Q)$(call SED_TOOL,$(abspath $(B))) $< > $@ && chmod +x $@

# $(call program,file,objects,library,more flags): how a program is linked.
define program
$(1): $(2) $(3)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(LINK) -o $$@ $(2) $(3) $(4) $$(DSM_LIBS)

endef

$(foreach p,$(APP_C),$(eval $(call program,$(p:%.c=$(B)/%),\
	$(call objects,$(p) $(if $(filter apps/example.c,$(p)),,$(APP_COMMON_C))),$(LIB_A))))
# Examples of librshare need it, and not libdsm.
define share_program
$(1): $(2) $(SHARE_A) $(CQGROUP_A)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(LINK) -o $$@ $(2) $(SHARE_A) $(CQGROUP_A) $$(VERBS_LIBS)

endef

$(foreach p,$(SHARE_APP_C),$(eval $(call share_program,$(p:%.c=$(B)/%),$(call objects,$(p)))))
$(foreach p,$(UNIT_C),$(eval $(call program,$(p:%.c=$(B)/%),$(call objects,$(p) $(UNIT_COMMON_C) \
	$(if $(filter tests/unit/test_bench_lanes.c,$(p)),$(BENCH_LANES_C) $(BENCH_COMMON_C)) \
	$(if $(filter tests/unit/test_bag.c,$(p)),libdsm/openmp/bag.c)),$(INTERNAL_A),$(CHECK_LIBS))))
$(foreach p,$(PROC_C),$(eval $(call program,$(p:%.c=$(B)/%),$(call objects,$(p) $(PROC_COMMON_C) \
	$(if $(filter tests/proc/crowd.c,$(p)),$(PROC_CROWD_C)) $(if $(filter tests/proc/release.c,$(p)),$(PROC_RELEASE_C))),$(LIB_A))))
$(foreach p,$(FAIL_C),$(eval $(call program,$(p:%.c=$(B)/%),$(call objects,$(p)),$(LIB_A))))
$(foreach p,$(SHARE_TEST_C),$(eval $(call program,$(p:%.c=$(B)/%),$(call objects,$(p) $(SHARE_COMMON_C)),$(INTERNAL_A))))
$(foreach p,$(KMOD_C),$(eval $(call program,$(p:%.c=$(B)/%),$(call objects,$(p) $(KMOD_COMMON_C) libdsm/core/wire.c \
	$(if $(filter tests/kmod/quota.c,$(p)),$(KMOD_QUOTA_C)) $(if $(filter tests/kmod/signals.c,$(p)),$(KMOD_SIGNALS_C)) $(if $(filter tests/kmod/storm.c,$(p)),$(KMOD_STORM_C))))))
$(foreach p,$(BENCH_C),$(eval $(call program,$(p:tests/%.c=$(B)/%),$(call objects,$(p) $(BENCH_COMMON_C) \
	$(if $(filter tests/bench/lanes.c,$(p)),$(BENCH_LANES_C)) $(if $(filter tests/bench/micro.c,$(p)),$(BENCH_MICRO_C)) $(if $(filter tests/bench/share.c,$(p)),$(BENCH_SHARE_C))),$(INTERNAL_A))))
$(foreach p,$(FUZZ_C),$(eval $(call program,$(p:%.c=$(B)/%),$(call objects,$(p) $(FUZZ_COMMON_C)),$(INTERNAL_A),-fsanitize=fuzzer)))
$(if $(MODEL),$(eval $(call program,$(MODEL),$(call objects,$(MODEL_C)),$(INTERNAL_A))))
$(foreach p,$(RECORD),$(eval $(call program,$(p),\
	$(call objects,$(p:$(B)/record/%=apps/%.c) $(APP_COMMON_C) tests/sim/record/record.c))))
$(if $(SIM),$(eval $(call program,$(SIM),$(call objects,$(SIM_C)),$(INTERNAL_A))))

# ---- installing -----------------------------------------------------------------------------

PAGES := $(sort $(wildcard docs/man/*.[1-9]))
SED_PC = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	-e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(DSM_LIBS)|'

# A page docs/man/x.3 goes to $(MANDIR)/man3.
install: lib ## headers, libraries, pkg-config files, man pages, examples
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR) \
		$(DESTDIR)$(DATADIR) $(DESTDIR)$(DOCDIR)/examples/share
	$(Q)$(INSTALL) -m 644 $(HEADERS) $(DESTDIR)$(INCLUDEDIR)
	$(Q)$(INSTALL) -m 644 $(LIB_A) $(CQGROUP_A) $(SHARE_A) $(ANL_A) $(DESTDIR)$(LIBDIR)
	$(Q)$(INSTALL) -m 755 $(LIB_SO) $(CQGROUP_SO) $(SHARE_SO) $(PRELOAD_SO) $(PTHREAD_SO) $(SYSCALL_SO) $(OPENMP_SO) $(DESTDIR)$(LIBDIR)
	$(Q)$(INSTALL) -d $(DESTDIR)$(LIBDIR)/dsm-openmp && ln -sf ../$(notdir $(OPENMP_SO)) $(DESTDIR)$(LIBDIR)/dsm-openmp/libgomp.so
	$(Q)for lib in libdsm libcqgroup librshare; do \
		ln -sf $$lib.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$$lib.so.$(MAJOR) && \
		ln -sf $$lib.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$$lib.so || exit 1; done
	$(Q)$(SED_PC) libdsm/libdsm.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/dsm.pc
	$(Q)$(SED_PC) libdsm/pthread/libdsm-pthread.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/dsm-pthread.pc
	$(Q)$(SED_PC) libdsm/cqgroup/libcqgroup.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/cqgroup.pc
	$(Q)$(SED_PC) libdsm/share/librshare.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/rshare.pc
	$(Q)$(INSTALL) -m 644 $(ANL_M4) $(DESTDIR)$(DATADIR)
	$(Q)$(call SED_TOOL,$(LIBDIR),$(INCLUDEDIR),$(DATADIR)/$(notdir $(ANL_M4))) libdsm/tools/dsm-cc.in > $(DESTDIR)$(BINDIR)/dsm-cc
	$(Q)chmod 755 $(DESTDIR)$(BINDIR)/dsm-cc && ln -sf dsm-cc $(DESTDIR)$(BINDIR)/dsm-c++ && ln -sf dsm-cc $(DESTDIR)$(BINDIR)/dsm-fc
	$(Q)$(call SED_TOOL,$(LIBDIR)) libdsm/tools/dsmrun.in > $(DESTDIR)$(BINDIR)/dsmrun && chmod 755 $(DESTDIR)$(BINDIR)/dsmrun
	$(Q)$(INSTALL) -m 644 LICENSE COPYING $(DESTDIR)$(DOCDIR)
	$(Q)$(INSTALL) -m 644 $(wildcard apps/example.c) $(DESTDIR)$(DOCDIR)/examples
	$(Q)$(INSTALL) -m 644 $(wildcard apps/share/*.[ch]) $(DESTDIR)$(DOCDIR)/examples/share
	$(Q)for page in $(PAGES); do \
		$(INSTALL) -D -m 644 $$page $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/} || exit 1; done
	$(Q)if [ -z "$(DESTDIR)" ]; then PATH=$$PATH:/sbin ldconfig 2>/dev/null || true; fi

# The source of dsm.ko, where dkms(8) builds it for each kernel; the rule and the group that
# /dev/dsm is for.
KMOD_SRC  ?= /usr/src/dsm-$(VERSION)
UDEVDIR   ?= /usr/lib/udev/rules.d
SYSUSERS  ?= /usr/lib/sysusers.d
install-kmod: ## the kernel helper: its source for DKMS, a udev rule, a group
	$(call say,INSTALL,$(DESTDIR)$(KMOD_SRC))
	$(Q)$(INSTALL) -d $(addprefix $(DESTDIR)$(KMOD_SRC)/,kmod/base kmod/net kmod/node libdsm/core libdsm/cqgroup libdsm/share libdsm/include) $(DESTDIR)$(UDEVDIR) $(DESTDIR)$(SYSUSERS)
	$(Q)$(INSTALL) -m 644 $(wildcard kmod/*.[ch]) kmod/Kbuild $(DESTDIR)$(KMOD_SRC)/kmod
	$(Q)for layer in base net node; do $(INSTALL) -m 644 kmod/$$layer/*.[ch] $(DESTDIR)$(KMOD_SRC)/kmod/$$layer || exit 1; done
	$(Q)$(INSTALL) -m 644 $(wildcard libdsm/core/*.[ch]) $(DESTDIR)$(KMOD_SRC)/libdsm/core
	$(Q)$(INSTALL) -m 644 libdsm/cqgroup/divide.h $(DESTDIR)$(KMOD_SRC)/libdsm/cqgroup
	$(Q)$(INSTALL) -m 644 libdsm/share/schedule.c libdsm/share/schedule.h $(DESTDIR)$(KMOD_SRC)/libdsm/share
	$(Q)$(INSTALL) -m 644 libdsm/include/dsm_uapi.h libdsm/include/dsm_uapi_rules.h $(DESTDIR)$(KMOD_SRC)/libdsm/include
	$(Q)sed 's|@VERSION@|$(VERSION)|' kmod/dkms.conf > $(DESTDIR)$(KMOD_SRC)/dkms.conf
	$(Q)$(INSTALL) -m 644 kmod/60-dsm.rules $(DESTDIR)$(UDEVDIR)
	$(Q)$(INSTALL) -m 644 kmod/dsm.sysusers $(DESTDIR)$(SYSUSERS)/dsm.conf

uninstall-kmod: ## take away what install-kmod installed
	$(Q)rm -rf $(DESTDIR)$(KMOD_SRC)
	$(Q)rm -f $(DESTDIR)$(UDEVDIR)/60-dsm.rules $(DESTDIR)$(SYSUSERS)/dsm.conf

uninstall: ## take away what install installed
	$(call say,RM,$(DESTDIR)$(PREFIX))
	$(Q)rm -f $(addprefix $(DESTDIR)$(INCLUDEDIR)/,$(notdir $(HEADERS))) \
		$(addprefix $(DESTDIR)$(LIBDIR)/pkgconfig/,dsm.pc dsm-pthread.pc cqgroup.pc rshare.pc) \
		$(foreach l,libdsm libcqgroup librshare,$(addprefix $(DESTDIR)$(LIBDIR)/$(l).,a so so.$(MAJOR) so.$(VERSION))) \
		$(DESTDIR)$(LIBDIR)/libcqgroup-preload.so $(addprefix $(DESTDIR)$(LIBDIR)/,libdsm-pthread.so libdsm-syscall.so libdsm-openmp.so libdsm-anl.a) \
		$(addprefix $(DESTDIR)$(BINDIR)/,dsm-cc dsm-c++ dsm-fc dsmrun)
	$(Q)rm -rf $(DESTDIR)$(DOCDIR) $(DESTDIR)$(DATADIR) $(DESTDIR)$(LIBDIR)/dsm-openmp
	$(Q)for page in $(PAGES); do rm -f $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; done

# ---- the rest -------------------------------------------------------------------------------

clean: ## take away build/
	$(Q)rm -rf build

format: ## clang-format all C files, in place
	$(Q)find apps kmod libdsm scripts tests -name '*.[ch]' -print0 | sort -z | xargs -0 clang-format -i

tags: ## an index for editors
	$(Q)ctags -R -f tags apps kmod libdsm tests

# From what make would run for everything, with all that VARIANT and the flags say.
compile-commands: ## compile_commands.json, for editors and checkers of C
	@env -u MAKEFLAGS -u MFLAGS $(MAKE) -nB V=1 VARIANT=$(VARIANT) all test-programs | awk -v folder='$(CURDIR)' ' \
		match($$0, / -c [^ ]+[.]c /) { source = substr($$0, RSTART + 4, RLENGTH - 5); \
			gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); sub(/^[ \t@]+/, ""); \
			printf "%s{\"directory\": \"%s\", \"file\": \"%s\", \"command\": \"%s\"}", n++ ? ",\n" : "[\n", folder, source, $$0 } \
		END { print "\n]"; exit !n }' > compile_commands.json

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

print-%: # the value of a variable, for scripts
	@printf '%s\n' '$($*)'

-include $(sort $(shell find $(B) -name '*.d' 2>/dev/null))

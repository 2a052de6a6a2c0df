# milcgpu: one GNU Makefile for the library, the example programs and the tests.
#
# `make help` lists the targets. Variables, on the command line or in the environment:
#   CUDA=0              build the host backend only, with the C++ compiler alone (default: use nvcc if it is found; demo
#                       and check use it only if there is a GPU, too)
#   ARCH="sm_90"        GPU architectures, space or comma separated; sm_NN is machine code, compute_NN is PTX (default:
#                       those of this machine's GPUs, else sm_80 sm_90 compute_90)
#   HOST_ARCH=native    value of -march=; empty for none (default: x86-64-v3 on x86_64, none elsewhere)
#   MPI=mpicc           MPI's compiler, whose flags the example programs need for --grid (default: mpicc, if it is in
#                       the PATH; 0: no MPI). The library contains no MPI
#   SANITIZE=1          host backend under the address and undefined-behaviour sanitizers (implies CUDA=0)
#   STRIPED=1           host backend with its memory laid out as the GPU's (slow; for tests; implies CUDA=0)
#   LINEINFO=1          GPU code with the lines of its sources, for profilers; the library is larger
#   TESTS="[smoke]"     arguments of the test program in `make check`: names, tags, options
#   LONG=1              all tests, and every case of their sweeps, not a sample of each (CI; the default on a GPU)
#   BENCH="--quick"     arguments of the program bench in `make bench`
#   CXX NVCC CPPFLAGS CXXFLAGS LDFLAGS LDLIBS    as usual; the FLAGS are added to the project's own
#   PREFIX=/usr/local LIBDIR=PREFIX/lib DESTDIR  for install and uninstall: docs/install.md
#   V=1                 show the commands
#
# Each variant (cuda, host, host-sanitize, host-striped, host-striped-sanitize) has its own folder under build/, so that
# several can exist side by side.
#
# Each folder of sources has the rules for its files, in the .mk files that are included below.

# MAJOR.MINOR is the interface: a program needs a library with the numbers that it was built with (SONAME).
VERSION   := $(shell sed -n 's/^\#define MILCGPU_VERSION "\(.*\)"/\1/p' milc_glue/api/milcgpu.h)
interface := $(basename $(VERSION))
comma   := ,
empty   :=
space   := $(empty) $(empty)

# Not empty in make -n and make -q.
dry_run := $(findstring n,$(firstword -$(MAKEFLAGS)))$(findstring q,$(firstword -$(MAKEFLAGS)))
# Targets that install missing packages; make -n installs nothing.
install_goals := $(if $(dry_run),,$(filter demo check,$(MAKECMDGOALS)))

.DEFAULT_GOAL := all
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Use all cores, unless there is a -j on the command line. nproc would return OMP_NUM_THREADS, which MPI jobs often set
# to 1. A make that calls this one (MAKELEVEL > 0) passes on its job slots.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || echo 2)
endif

Q := $(if $(V),,@)

ifeq ($(origin CXX),default)
CXX := g++
endif
# This comes before the search for compilers and MPI, so that the first make finds what the second one finds.
ifneq ($(install_goals),)
ifneq ($(shell CXX='$(CXX)' CPPFLAGS='$(CPPFLAGS)' sh tests/install_needs.sh $(install_goals) >&2 || echo failed),)
$(error packages are missing: see the lines above)
endif
endif

include gpu_kernels/variant.mk gpu_kernels/compile.mk milc_glue/libraries.mk examples/examples.mk tests/tests.mk
include milc_glue/install/install.mk gpu_kernels/objects.mk

# ---- targets ------------------------------------------------------------------------------------------------------
.PHONY: all lib demo check bench dense pictures list-kernels layers measures reference compile_commands install uninstall clean help FORCE

all: lib $(programs) ## the library and the example programs (the default)

lib: $(libraries) ## libmilcgpu.a, libmilcgpu.so and libquda.so (for MILC's WANTQUDA=true), in build/<variant>

demo: ## make a lattice, solve on it in every precision, compare with the reference; a short RHMC; a spectrum
check: ## build and run the tests (LONG=1: all of them); the last line is 'N passed, N failed', and what was skipped
bench: ## time every operation against the copy bandwidth; build/bench.csv and pictures (BENCH="--quick": its options)
dense: ## matrix products step by step, compared with cuBLAS; build/gemm_ladder.png
pictures: ## draw every table of docs/ and build/ again (gnuplot)
list-kernels: ## print every dispatch table
layers: ## draw the layers of the code from its includes, for docs/design.md
measures: ## count the measures of docs/design.md
reference: ## write docs/headers.md again, from the headers and the tables of members
compile_commands: ## build/compile_commands.json, for clangd and similar tools
install: ## install what is built into $(DESTDIR)$(PREFIX) (docs/install.md)
uninstall: ## remove all that make install has put into $(DESTDIR)$(PREFIX)

clean: ## remove build/, every variant
	rm -rf build

help: ## this list
	@sed -nE 's/^([a-z_-]+):.*## (.*)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='	' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done
	@$(if $(no_gpu),echo '  $(no_gpu)')
	@echo '  this build:   $(O), $(if $(filter cuda,$(variant)),$(NVCC) for $(arch_list),$(CXX) alone)'

# milcgpu: one GNU Makefile for the library, the example programs and the tests.
#
# `make help` lists the targets. Variables, on the command line or in the environment:
#   CUDA=0              build the host backend only, with the C++ compiler alone (default: nvcc is used when found; demo
#                       and check use it where there is a GPU, too)
#   ARCH="sm_90"        GPU architectures, space or comma separated; sm_NN is machine code, compute_NN is PTX (default:
#                       those of this machine's GPUs, else sm_80 sm_90 compute_90)
#   HOST_ARCH=native    value of -march=; empty for none (default: x86-64-v3 on x86_64, none elsewhere)
#   MPI=mpicc           MPI's compiler, whose flags the example programs take for --grid (default: mpicc, where it is in
#                       the PATH; 0: without MPI). The library has no MPI in it
#   SANITIZE=1          host backend under the address and undefined-behaviour sanitizers (implies CUDA=0)
#   STRIPED=1           host backend with its memory laid out as the GPU's (slow; for tests; implies CUDA=0)
#   LINEINFO=1          GPU code with the lines of its sources, for profilers; the library is larger
#   TESTS="[smoke]"     arguments of the test program in `make check`: names, tags, options
#   BENCH="--quick"     arguments of the program bench in `make bench`
#   CXX NVCC CPPFLAGS CXXFLAGS LDFLAGS LDLIBS    as usual; the FLAGS add to the ones below
#   PREFIX=/usr/local LIBDIR=PREFIX/lib DESTDIR  for install and uninstall: docs/install.md
#   V=1                 show the commands
#
# Each variant (cuda, host, host-sanitize, host-striped, host-striped-sanitize) has a folder of its own under build/, so
# they stand side by side.

# MAJOR.MINOR is the interface: programs that were built with one need a library of the same (SONAME).
VERSION   := $(shell sed -n 's/^\#define MILCGPU_VERSION "\(.*\)"/\1/p' milc_glue/api/milcgpu.h)
interface := $(basename $(VERSION))
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
comma   := ,
empty   :=
space   := $(empty) $(empty)

# Those that install what is missing; make -n installs nothing.
install_goals := $(if $(findstring n,$(firstword -$(MAKEFLAGS))),,$(filter demo check,$(MAKECMDGOALS)))

.DEFAULT_GOAL := all
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# All cores unless the user says otherwise: a -j on the command line wins over this one. A make that calls this one
# (MAKELEVEL > 0) hands its job slots down.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

Q := $(if $(V),,@)

# ---- what to build with -------------------------------------------------------------------------------------------
ifeq ($(origin CXX),default)
CXX := g++
endif
# Before anything below looks for a compiler or an MPI, so that the first make finds what the second one does.
ifneq ($(install_goals),)
ifneq ($(shell CXX='$(CXX)' CPPFLAGS='$(CPPFLAGS)' sh tests/install_needs.sh $(install_goals) >&2 || echo failed),)
$(error what is missing stands above)
endif
endif
SANITIZE ?= 0
STRIPED  ?= 0
CUDA     ?= auto
NVCC     ?= $(firstword $(shell command -v nvcc 2>/dev/null) \
              $(wildcard $(if $(CUDA_HOME),$(CUDA_HOME)/bin/nvcc) /usr/local/cuda/bin/nvcc))
NVCC     := $(NVCC)

# demo and check alone build what this machine can run; install takes what is built.
runs_here := $(if $(MAKECMDGOALS),$(if $(filter-out demo check,$(MAKECMDGOALS)),,yes))
gpus_here := $(if $(filter 0,$(CUDA)),,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/sm_\1\2/p' | sort -u))
gpus      := $(filter-out sm_2% sm_3% sm_5% sm_6% sm_7%,$(gpus_here))
too_old   := $(if $(gpus),,$(gpus_here))
built     := $(patsubst build/%/libmilcgpu.so,%,$(wildcard build/cuda/libmilcgpu.so build/host/libmilcgpu.so))

ifneq ($(filter 1,$(SANITIZE) $(STRIPED)),)
  variant := host$(if $(filter 1,$(STRIPED)),-striped)$(if $(filter 1,$(SANITIZE)),-sanitize)
else ifeq ($(CUDA),0)
  variant := host
else ifeq ($(MAKECMDGOALS)$(CUDA),install1)
  variant := cuda
else ifeq ($(MAKECMDGOALS)$(words $(built)),install1)
  variant := $(built)
else ifeq ($(if $(too_old),yes,$(runs_here))$(CUDA)$(origin ARCH)$(gpus),yesautoundefined)
  variant := host
  no_gpu  := $(if $(NVCC),$(if $(too_old),the GPU here is $(too_old) and milcgpu needs sm_80 or newer,no GPU here)$(comma) so this is built for the host backend alone (CUDA=1 or ARCH=... builds for GPUs))
else ifneq ($(NVCC),)
  variant := cuda
else ifeq ($(CUDA),1)
  $(error CUDA=1, but no nvcc in PATH, $$CUDA_HOME/bin or /usr/local/cuda/bin; give NVCC=/path/to/nvcc)
else
  variant := host
endif
O := build/$(variant)
$(if $(and $(no_gpu),$(or $(install_goals),$(too_old)),$(filter-out help,$(or $(MAKECMDGOALS),all))),$(info $(no_gpu)))

ifeq ($(origin HOST_ARCH),undefined)
HOST_ARCH := $(if $(filter x86_64,$(shell uname -m)),x86-64-v3)
endif

# Warnings are errors for the compilers that this was tried with. What a newer one warns of must not stop a user's build.
# __GNUC__ is 4 for every clang.
# No -Werror under the sanitizers: their instrumentation makes gcc's flow warnings report what is not there, above all
# -Wmaybe-uninitialized (the gcc manual, "Instrumentation Options", advises against the two together).
host_flags := -fPIC -fopenmp $(if $(HOST_ARCH),-march=$(HOST_ARCH)) -Wall -Wextra
ifeq ($(SANITIZE),1)
  sanitizers := -fsanitize=address,undefined
  # Loops over words, optimized with both sanitizers in them, take gcc ten minutes a file. Reports need files and lines.
  optimize   := $(if $(filter 1,$(STRIPED)),-O0,-O1) -g1
  host_flags += $(sanitizers) -fno-sanitize-recover=undefined -fno-omit-frame-pointer -Wno-maybe-uninitialized
else
  optimize   := -O3
  host_flags += $(if $(filter 12 13 14,$(shell echo __GNUC__ | $(CXX) -E -P -x c++ - 2>/dev/null)),-Werror)
endif
host_flags := $(strip $(host_flags) $(CXXFLAGS))
cpp_flags  := -I. -Imilc_glue/api $(if $(filter 1,$(STRIPED)),-DMILCGPU_STRIPED) $(CPPFLAGS)
cxx        := $(CXX) -std=c++17 $(optimize) $(host_flags) $(cpp_flags)

# What mpicc -show adds to a compiler's line; Open MPI, MPICH and their kin know it. nvcc takes -Wl, by another name. An
# MPI in the environment may mean anything.
ifeq ($(origin MPI),command line)
  mpi_words := $(if $(filter-out 0,$(MPI)),$(or $(shell $(MPI) -show),$(error MPI=$(MPI): '$(MPI) -show' names no flags; give MPI's C compiler, or MPI=0)))
else
  mpi_words := $(shell mpicc -show 2>/dev/null)
endif
mpi_compile := $(if $(mpi_words),-DMILCGPU_WITH_MPI $(patsubst -I%,-isystem%,$(filter -I% -D%,$(mpi_words))))
mpi_link    := $(filter -L% -l% -Wl$(comma)%,$(mpi_words))
ifeq ($(variant),cuda)
  mpi_link  := $(patsubst -Wl$(comma)%,-Xlinker=%,$(mpi_link))
endif

ifeq ($(variant),cuda)
  # The GPUs of this machine, else what most have.
  ARCH ?= $(or $(gpus),sm_80 sm_90 compute_90)
  arch_list   := $(subst $(comma),$(space),$(ARCH))
  arch_number  = $(patsubst compute_%,%,$(patsubst sm_%,%,$(1)))
  gencode := $(foreach a,$(arch_list),-gencode=arch=compute_$(call arch_number,$(a)),code=$(if \
               $(filter compute_%,$(a)),$(a),sm_$(call arch_number,$(a))))
  # The headers stand beside nvcc; /usr/include must not be named, or libstdc++ loses its #include_next chain.
  cuda_home    := $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(NVCC) 2>/dev/null)))
  cuda_include := $(filter-out /usr/include,$(wildcard $(cuda_home)/include))
  cxx  += -DMILCGPU_WITH_CUDA=1 $(addprefix -isystem ,$(cuda_include))
  nvcc := $(NVCC) -ccbin $(lastword $(CXX)) -std=c++17 $(optimize) $(if $(filter 1,$(LINEINFO)),-lineinfo) -Xfatbin=-compress-all --extended-lambda $(gencode) \
            -Werror all-warnings -Xcompiler=$(subst $(space),$(comma),$(host_flags)) $(cpp_flags) -DMILCGPU_WITH_CUDA=1 \
            '-DMILCGPU_ARCH="$(strip $(arch_list))"'
  compile_cu := $(nvcc)
  link       := $(NVCC) -ccbin $(lastword $(CXX)) $(gencode) -Xcompiler=-fopenmp
  # What a static link against libmilcgpu.a needs beside OpenMP: nvcc links the CUDA runtime statically.
  private_libs := $(addprefix -L,$(wildcard $(cuda_home)/lib64)) -lcudart_static -ldl -lrt -lpthread
else
  compile_cu := $(cxx) -x c++
  link       := $(CXX) -fopenmp $(sanitizers)
  private_libs :=
endif
to_linker = $(if $(filter cuda,$(variant)),-Xlinker=$(1),-Wl$(comma)$(1))

# ---- sources ------------------------------------------------------------------------------------------------------
objects = $(patsubst %,$(O)/obj/%.o,$(1))

lib_sources   := $(sort $(shell find gpu_kernels -name '*.cu' -o -name '*.cpp') \
                   $(wildcard reorder/*.cu $(addsuffix /*.cpp,reorder $(addprefix milc_glue/,api solve links measure host plugin))))
# The interface for MILC's own GPU switches: a library of its own, because its names are QUDA's.
quda_sources  := $(wildcard milc_glue/quda_compat/*.cpp)
ref_sources   := $(wildcard tests/reference/*.cpp)
# Where TESTS is one tag, as [smoke], only the files that have tests of it.
tag           := $(shell echo '$(TESTS)' | grep -x '\[[a-z_]*\]')
tagged        := $(if $(tag),$(shell grep -lF '$(tag)' tests/*.cpp))
test_sources  := $(if $(tagged),tests/main.cpp tests/failing_new.cpp $(tagged),$(wildcard tests/*.cpp))
tests_of       = $(filter $(1:%=tests/test_%.cpp),$(test_sources))
# Three programs, which run side by side, the longest first: tests that start programs in MILC's shape, tests of the
# library, and tests that start other programs.
host_tests     := $(call tests_of,milc_host)
starting_tests := $(call tests_of,docs install milc_build mpi_ranks programs quda_calls spectrum)
library_tests  := $(filter-out $(host_tests) $(starting_tests) tests/main.cpp tests/failing_new.cpp,$(test_sources))
test_runs      := $(if $(host_tests),milc_host_tests) $(if $(library_tests),milcgpu_tests) $(if $(starting_tests),program_tests)
# An example with a main is a program; the other examples/*.cpp are helpers for programs and tests, which take from the
# archive what they need: ranks.cpp, and MPI with it, are in the programs only.
main_sources  := $(sort $(shell grep -lE '^ *int +main\>' /dev/null $(wildcard examples/*.cpp)))
help_sources  := $(filter-out $(main_sources),$(wildcard examples/*.cpp))
bench_sources := $(filter examples/bench_%.cpp examples/sweep.cpp examples/table.cpp,$(help_sources))

lib_objects   := $(call objects,$(lib_sources))
quda_objects  := $(call objects,$(quda_sources))
aside         := $(O)/obj/aside.a
bench_objects := $(call objects,$(bench_sources))
aside_objects := $(filter-out $(bench_objects),$(call objects,$(help_sources) $(ref_sources)))
test_objects  := $(call objects,$(test_sources))
test_main     := $(call objects,tests/main.cpp tests/failing_new.cpp)
# What nearly all tests include, compiled once. Not by ccache, which by default keeps nothing that comes after it.
first         := $(if $(findstring ccache,$(CXX)),,$(O)/obj/tests/first.h.gch)
main_objects  := $(call objects,$(main_sources))
programs      := $(patsubst examples/%.cpp,$(O)/%,$(main_sources))
demo_programs := $(addprefix $(O)/,make_lattice solve rhmc spectrum)
libraries     := $(O)/libmilcgpu.a $(O)/libmilcgpu.so $(O)/libquda.so $(O)/built
# What libquda.so has of the library by itself: nothing with a state.
quda_parts    := $(call objects,gpu_kernels/comm/exchange.cpp gpu_kernels/comm/ranks.cpp gpu_kernels/mesons/spin_taste.cpp \
                   milc_glue/host/host_fields.cpp milc_glue/host/lent_messages.cpp)

# Catch2 version 3 is a library, version 2 a header. Looked up when the tests are linked, after it may have been installed.
catch_libs = $(shell $(cxx) -E -include catch2/catch_all.hpp -x c++ /dev/null >/dev/null 2>&1 && echo -lCatch2)

# Programs in MILC's shape, with the glue in them; test_milc_host.cpp runs them.
# Under the sanitizers the test tagged [sanitize] runs two of them.
host_programs := $(patsubst %,$(O)/milc_host/%/program,asqtad-P1 hisq-P2 \
                   $(if $(and $(sanitizers),$(filter [sanitize],$(tag))),,asqtad-P2 hisq-P1 asqtad-master-P1 hisq-master-P2 hisq-newer-P2))

# Ranks of a real MPI: a program for each MPI that is found; test_mpi_ranks.cpp runs them.
mpi_list := $(O)/mpi_ranks/list

# The example programs with MPI; test_programs.cpp runs them. Not under the sanitizers: they would take minutes to build.
mpi_programs := $(if $(and $(mpi_words),$(filter cuda host,$(variant))),$(programs))
mpirun       := $(if $(mpi_programs),$(wildcard $(dir $(shell command -v $(if $(filter command%,$(origin MPI)),$(MPI),mpicc)))mpirun))

# Makes every call of the CUDA runtime fail in turn; test_faults.cpp runs it. The linker's list of what is wrapped comes
# from the library.
fault_program := $(if $(filter cuda,$(variant)),$(O)/cuda_faults)
fault_objects := $(call objects,$(wildcard tests/cuda_faults/*.cpp))

# What the tests that start programs start.
test_programs := $(if $(call tests_of,mpi_ranks),$(mpi_list)) \
                   $(if $(call tests_of,programs spectrum),$(mpi_programs))

# ---- targets ------------------------------------------------------------------------------------------------------
.PHONY: all lib demo check check-milc_host_tests check-milcgpu_tests check-program_tests bench dense pictures install uninstall list-kernels compile_commands clean help FORCE

all: lib $(programs) ## the library and the example programs (the default)

lib: $(libraries) ## libmilcgpu.a, libmilcgpu.so and libquda.so (for MILC's WANTQUDA=true), in build/<variant>

demo: $(demo_programs) ## make a lattice, solve on it in every precision, compare with the reference; a short RHMC; a spectrum
	$(O)/make_lattice --size 8 8 8 16 --beta 6.0 --out build/demo.lat
	@status=0; $(O)/solve --lattice build/demo.lat --csv build/demo.csv --history build/demo_history.csv || status=$$?; \
	$(draw) build/demo_history.csv || status=$$?; \
	$(O)/rhmc --trajectories 3 --warm 2 --csv build/demo_rhmc.csv --history build/demo_energy.csv || status=$$?; \
	$(draw) build/demo_energy.csv || status=$$?; \
	$(O)/spectrum --beta 5.7 --sweeps 24 --configurations 4 --between 8 --tolerance 1e-6 --csv build/demo_spectrum.csv || status=$$?; \
	$(draw) build/demo_spectrum.csv || status=$$?; \
	exit $$status

check: $(test_runs:%=check-%) ## build and run the tests; the last line is 'N passed, N failed', and what was skipped
	@cat $(test_runs:%=$(O)/%.counts) | awk '$(add_counts)'

check-milcgpu_tests: $(O)/milcgpu_tests $(if $(call tests_of,faults),$(fault_program))
	@$(call run_tests,milcgpu_tests)

# On a GPU not at once with the others, some of which need all of its memory.
after = $(if $(gpus),$(filter $(1:%=check-%),$(test_runs:%=check-%)))
check-milc_host_tests: $(O)/milc_host_tests $(host_programs) | $(call after,milcgpu_tests)
	@$(call run_tests,milc_host_tests)

check-program_tests: $(O)/program_tests $(libraries) $(test_programs) | $(call after,milcgpu_tests milc_host_tests)
	@$(call run_tests,program_tests)

bench: $(O)/bench ## time every operation against the copy bandwidth; build/bench.csv and pictures (BENCH="--quick": its options)
	@status=0; $(O)/bench --csv build/bench.csv $(BENCH) || status=$$?; \
	$(draw) build/bench.csv || status=$$?; \
	exit $$status

dense: $(O)/gemm_ladder ## matrix products step by step, beside cuBLAS; build/gemm_ladder.png
	@status=0; $(O)/gemm_ladder --csv build/gemm_ladder.csv || status=$$?; \
	$(draw) build/gemm_ladder.csv || status=$$?; \
	exit $$status

pictures: ## draw every table of docs/ and build/ again (gnuplot)
	@$(draw) $(wildcard docs/*.csv build/*.csv)

list-kernels: $(O)/list_kernels ## print every dispatch table
	@$(O)/list_kernels

# An object a source; flags of single files are left out.
to_list := $(lib_sources) $(quda_sources) $(ref_sources) $(help_sources) $(main_sources) $(test_sources)
in_json  = "$(subst ",\",$(1))"
command  = {"directory": "$(CURDIR)", "file": "$(1)", "command": $(call in_json,$(if $(filter %.cu,$(1)),$(compile_cu),$(cxx)) -c $(1))}
compile_commands: ## build/compile_commands.json, for clangd and its kin
	@$(shell mkdir -p build)$(file >build/compile_commands.json,[$(call command,$(firstword $(to_list))))
	@$(foreach source,$(wordlist 2,$(words $(to_list)),$(to_list)),$(file >>build/compile_commands.json,$(comma)$(call command,$(source))))
	@$(file >>build/compile_commands.json,])echo build/compile_commands.json

two_are_built = $(if $(filter install2auto,$(MAKECMDGOALS)$(words $(built))$(CUDA)),build/cuda and build/host are both built: say which to install$(comma) CUDA=1 or CUDA=0)

# Builds nothing: it takes what stands in build/, and says what to do where that is not whole, or not of these sources.
install: | $(filter all lib,$(MAKECMDGOALS)) ## what is built, into $(DESTDIR)$(PREFIX): docs/install.md
	@$(if $(two_are_built),echo 'milcgpu: $(two_are_built)' >&2; exit 1)
	@$(MAKE) -q --no-print-directory -o $(O)/flags -o $(O)/mpi_flags O=$(O) CUDA=0 lib $$(ls $(programs) 2>/dev/null) 2>/dev/null || { \
	  echo "milcgpu: $(O) is not built, not whole or older than its sources, and make install builds nothing. First run: make all$(if $(filter host,$(variant)), CUDA=0)" >&2; exit 1; }
	@PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' sh milc_glue/install/install.sh $(O) $(VERSION) $(programs)

uninstall: ## all that make install has put into $(DESTDIR)$(PREFIX)
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh milc_glue/install/uninstall.sh

clean: ## remove build/, every variant
	rm -rf build

help: ## this list
	@sed -nE 's/^([a-z_-]+):.*## (.*)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='	' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done
	@$(if $(no_gpu),echo '  $(no_gpu)')
	@echo '  this build:   $(O), $(if $(filter cuda,$(variant)),$(NVCC) for $(arch_list),$(CXX) alone)'

# No failure where gnuplot is missing.
draw := sh examples/draw.sh

# What a test program says is shown when it has ended. Its counts are checked against its exit status: a run that crashed
# before it could count, or that failed after it did (a leak found at exit), is at least one failure. So is a run of all
# in which no test passed or was skipped.
run_tests = echo '  TEST  $(O)/$(1)'; \
  $(O)/$(1) $(TESTS) >$(O)/$(1).log 2>&1; \
  awk -v status=$$? -v counts=$(O)/$(1).counts '$(take_counts)' $(O)/$(1).log
take_counts = /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$$/ { passed = $$1; failed = $$3; skipped = $$5; next } \
  /^skipped [0-9]+: / { why = why $$0 "\n"; next } { print } \
  END { if (status != 0 && failed + 0 == 0) failed = 1; printf "%d %d %d\n%s", passed, failed, skipped, why >counts; \
        printf "$(1): %d passed, %d failed, %d skipped\n", passed, failed, skipped }
add_counts = /^skipped / { n = $$2 + 0; sub(/^[^:]*: /, ""); lack[$$0] += n; next } { passed += $$1; failed += $$2; skipped += $$3 } \
  END { if (passed + failed + skipped == 0) failed = 1; for (what in lack) why = why (why != "" ? "; " : ": ") lack[what] " " what; \
        printf "%d passed, %d failed%s\n", passed, failed, (skipped > 0 ? ", " skipped " skipped" why : ""); exit failed > 0 }

# ---- rules --------------------------------------------------------------------------------------------------------
# The same for what MPI adds, which is in one object.
$(O)/mpi_flags: FORCE
	@mkdir -p $(@D); echo '$(mpi_compile) $(mpi_link)' | cmp -s - $@ || echo '$(mpi_compile) $(mpi_link)' >$@
program_tests := $(call objects,tests/test_programs.cpp tests/test_spectrum.cpp)
$(O)/obj/examples/ranks.cpp.o $(program_tests): $(O)/mpi_flags

# Rewritten only when the flags differ from the last build's; every object depends on it.
$(O)/flags: FORCE
	@mkdir -p $(@D); if printf '%s\n' '$(cxx)' '$(compile_cu)' | cmp -s - $@; then ls $(to_compile) >$(O)/compiled 2>/dev/null || :; \
	  else : >$(O)/compiled; printf '%s\n' '$(cxx)' '$(compile_cu)' >$@; fi

# How far the build is. What is compiled again, after a change, comes without numbers.
goals      := $(or $(MAKECMDGOALS),all)
testing_bench    := $(if $(filter check,$(goals)),$(call tests_of,sweep))
testing_programs := $(if $(filter check,$(goals)),$(filter $(programs),$(test_programs)))
to_compile := $(lib_objects) $(if $(filter all lib check,$(goals)),$(quda_objects)) $(if $(filter-out lib,$(goals)),$(aside_objects)) \
                $(if $(filter all bench,$(goals))$(testing_bench),$(bench_objects)) $(if $(filter check,$(goals)),$(first) $(test_objects) $(fault_objects)) \
                $(if $(filter all,$(goals))$(testing_programs),$(main_objects),$(patsubst %,$(O)/obj/examples/%.cpp.o,$(notdir $(if $(filter demo,$(goals)),$(demo_programs)) $(filter bench $(programs),$(goals)))))
say_compiling = echo '$<' >>$(O)/compiled; n=$$(wc -l <$(O)/compiled); [ $$n -le $(words $(to_compile)) ] && \
                  printf '[%3d/%d] $(1) $<\n' $$n $(words $(to_compile)) || echo '          $(1) $<'

# Catch2 takes long to compile at -O3, the more so under the sanitizers (three times as long at -O1 as at -O0). The tests
# themselves need no speed. main.cpp, which is Catch2 alone, needs no sanitizer.
test_flags := $(if $(sanitizers),-O0,-O1) -DCATCH_CONFIG_FAST_COMPILE
$(test_objects): private last_flags := $(test_flags)
$(O)/obj/tests/test_milc_host.cpp.o: private last_flags := $(test_flags) -DMILC_HOST_PROGRAMS='"$(abspath $(O))/milc_host/"'
$(O)/obj/tests/test_mpi_ranks.cpp.o: private last_flags := $(test_flags) -DMPI_RANKS_LIST='"$(abspath $(mpi_list))"'
$(program_tests): private last_flags := $(test_flags) -DMILCGPU_PROGRAMS='"$(abspath $(O))/"' -DMILCGPU_MPIRUN='"$(mpirun)"'
$(O)/obj/tests/test_faults.cpp.o: private last_flags := $(test_flags) $(if $(fault_program),-DMILCGPU_CUDA_FAULTS='"$(abspath $(fault_program))"')
$(O)/obj/examples/ranks.cpp.o: private last_flags := $(mpi_compile)
# They call what computes. Two have kernels of their own.
with_kernels  := $(call objects,examples/gemm_ladder.cpp examples/bench_stream.cpp)
$(filter-out $(with_kernels),$(bench_objects) $(main_objects)): private last_flags := -O1
$(O)/obj/tests/main.cpp.o: private last_flags := -O0 -fno-sanitize=all
ifneq ($(first),)
with_first := $(filter-out $(test_main),$(test_objects))
$(with_first): $(first)
$(with_first): private cxx += -include $(first:.gch=)
$(first): tests/support.h $(O)/flags
	@mkdir -p $(@D); echo '#include "$<"' >$(@:.gch=); $(call say_compiling,CXX )
	$(Q)$(cxx) $(test_flags) -MMD -MP -MT $@ -MF $(@:.h.gch=.d) -c -x c++-header $(@:.gch=) -o $@
endif

# Programs with kernels of their own. The ladder's products of four warps need machine code for sm_90a, which every GPU
# of sm_90 takes.
ifeq ($(variant),cuda)
$(O)/obj/examples/bench_stream.cpp.o: private cxx := $(compile_cu) -x cu
$(O)/obj/examples/gemm_ladder.cpp.o: private cxx := $(subst compute_90$(comma)code=sm_90,compute_90a$(comma)code=sm_90a,$(compile_cu)) -x cu
endif

$(O)/obj/%.cpp.o: %.cpp $(O)/flags
	@mkdir -p $(@D); $(call say_compiling,CXX )
	$(Q)$(cxx) $(last_flags) -MMD -MP -MT $@ -MF $(@:.o=.d) -c $< -o $@

$(O)/obj/%.cu.o: %.cu $(O)/flags
	@mkdir -p $(@D); $(call say_compiling,$(if $(filter cuda,$(variant)),NVCC,CXX ))
	$(Q)$(compile_cu) -MMD -MP -MT $@ -MF $(@:.o=.d) -c $< -o $@

$(O)/libmilcgpu.a: $(lib_objects)
	@echo '  AR    $@'; rm -f $@
	$(Q)$(AR) rcs $@ $^

# The name that programs ask for at run time stands beside the library.
$(O)/libmilcgpu.so: $(lib_objects) milc_glue/api/exports.map
	@echo '  LINK  $@'
	$(Q)$(link) -shared $(call to_linker,-soname=libmilcgpu.so.$(interface)) $(call to_linker,--version-script=milc_glue/api/exports.map) \
	  $(call to_linker,-znodelete) $(LDFLAGS) -o $@ $(lib_objects) $(LDLIBS)
	$(Q)ln -sf libmilcgpu.so $@.$(interface)

$(O)/libquda.so: $(quda_objects) $(quda_parts) $(O)/libmilcgpu.so milc_glue/quda_compat/exports.map
	@echo '  LINK  $@'
	$(Q)$(CXX) $(host_flags) -shared -Wl,-soname=libmilcgpu-quda.so.$(interface) -Wl,--version-script=milc_glue/quda_compat/exports.map \
	  $(if $(sanitizers),,-Wl$(comma)-z$(comma)defs) $(LDFLAGS) -o $@ $(quda_objects) $(quda_parts) -L$(O) -lmilcgpu '-Wl,-rpath,$$ORIGIN' $(LDLIBS)
	$(Q)ln -sf libquda.so $(@D)/libmilcgpu-quda.so.$(interface)

# What make install must know of a build. <milcgpu/milcgpu.h> is found in build/<variant>/include.
$(O)/built: $(O)/flags
	@mkdir -p $(@D)/include; ln -sfn $(CURDIR)/milc_glue/api $(@D)/include/milcgpu
	@printf '%s\n' "milcgpu_arch='$(strip $(arch_list))'" "milcgpu_private_libs='$(strip $(private_libs) -lgomp -lstdc++ -lm)'" >$@

$(aside): $(aside_objects)
$(O)/obj/bench.a: $(bench_objects)
$(aside) $(O)/obj/bench.a:
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(O)/bench: $(O)/obj/examples/bench.cpp.o $(O)/obj/bench.a
$(programs): $(O)/%: $(O)/obj/examples/%.cpp.o $(aside) $(O)/libmilcgpu.a
	@echo '  LINK  $@'
	$(Q)$(link) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %bench.a,$^) $(aside) $(O)/libmilcgpu.a $(LDLIBS) $(mpi_link) -ldl

# The library's objects come first: inline functions that tests have, too, are then those that it was compiled with.
$(O)/milcgpu_tests: $(lib_objects) $(test_main) $(call objects,$(library_tests)) $(if $(call tests_of,sweep),$(O)/obj/bench.a) $(aside) $(quda_objects)
$(O)/milc_host_tests: $(test_main) $(call objects,$(host_tests)) $(aside) $(O)/libmilcgpu.a
$(O)/program_tests: $(test_main) $(call objects,$(starting_tests)) $(aside) $(O)/libmilcgpu.a
$(O)/milc_host_tests $(O)/milcgpu_tests $(O)/program_tests: $(O)/test_list
	@echo '  LINK  $@'
	$(Q)$(link) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(catch_libs) $(LDLIBS)

# Which tests are in the programs: linked again when others are asked for.
$(O)/test_list: FORCE
	@mkdir -p $(@D); echo '$(test_sources)' | cmp -s - $@ || echo '$(test_sources)' >$@

$(O)/cuda_faults: $(fault_objects) $(aside) $(O)/libmilcgpu.a
	@echo '  LINK  $@'
	$(Q)$(link) $(LDFLAGS) -o $@ $^ $(LDLIBS) $$(nm -u $(O)/libmilcgpu.a | sort -u | \
	  sed -n '/cudaGetError/d; s/^ *U \(cuda[A-Z].*\)/-Xlinker --wrap=\1/p')

# Looked at in every `make check`: an MPI may have come since the last one.
$(mpi_list): $(quda_objects) $(O)/libmilcgpu.a FORCE
	@sh tests/mpi_ranks/build.sh $(abspath $(@D)) '$(lastword $(CXX))' -std=c++17 -O1 -g1 -Wall -Wextra $(or $(sanitizers),-Werror) \
	  $(cpp_flags) $(wildcard tests/mpi_ranks/*.cpp) tests/failing_new.cpp $(LDFLAGS) $(quda_objects) $(O)/libmilcgpu.a -fopenmp $(private_libs) $(LDLIBS)

# By way of the make fragment, as MILC's own make does it.
$(host_programs): $(O)/milc_host/%/program: $(O)/libmilcgpu.so $(call objects,$(ref_sources)) \
    $(wildcard tests/milc_host/* tests/milc_host/*/*.h milc_glue/api/*.h milc_glue/use_gpu/*)
	@mkdir -p $(@D); echo '  GLUE  $@'
	$(Q)cd $(@D) && rm -f *.o localmake && $(MAKE) --no-print-directory $(if $(V),,-s) -f $(CURDIR)/tests/milc_host/Makefile \
	  CC='$(CC)' CXX='$(lastword $(CXX))' ACTION=$(firstword $(subst -, ,$*)) PRECISION=$(lastword $(subst -P, ,$*)) MASTER=$(if $(findstring -master,$*),-DMILC_HOST_MASTER)$(if $(findstring -newer,$*),-DMILC_HOST_NEWER) \
	  OPT='-O0$(if $(sanitizers), -g1 $(sanitizers))' ORIGINALS=$(if $(sanitizers),,-O1) LDFLAGS='$(sanitizers) -fopenmp' REFERENCE='$(abspath $(call objects,$(ref_sources)))' \
	  MILCGPU_LIB=$(abspath $(O)) MAKEFILES=$(CURDIR)/milc_glue/use_gpu/milc_gpu.mk

-include $(patsubst %.o,%.d,$(lib_objects) $(quda_objects) $(call objects,$(help_sources) $(ref_sources)) $(test_objects) $(main_objects) $(fault_objects)) $(first:.h.gch=.d)

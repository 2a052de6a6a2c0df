# Compilers, GPU architectures and flags: $(cxx) compiles C++, $(compile_cu) kernels, $(link) links.

# The major version of gcc; 4 for every clang.
gcc_is := $(shell echo __GNUC__ | $(CXX) -E -P -x c++ - 2>/dev/null)
ifeq ($(gcc_is),)
  $(if $(or $(dry_run),$(if $(filter-out help clean install uninstall,$(or $(MAKECMDGOALS),all)),,yes)),,$(error no C++ compiler: CXX=$(CXX) cannot be run. Install g++ 10 or newer (Debian: apt-get install g++), or name yours: make CXX=...))
endif

# gcc before 11 knows the CPUs of x86-64-v3 as haswell.
ifeq ($(origin HOST_ARCH),undefined)
HOST_ARCH := $(if $(filter x86_64,$(shell uname -m)),$(if $(filter 8 9 10,$(gcc_is)),haswell,x86-64-v3))
endif

# Warnings are errors for the compilers that were tested. Warnings of a newer compiler must not stop a user's build.
# No -Werror under the sanitizers: their instrumentation causes false flow warnings of gcc, above all
# -Wmaybe-uninitialized (the gcc manual, "Instrumentation Options", advises against the two together).
host_flags := -fPIC -fopenmp $(if $(HOST_ARCH),-march=$(HOST_ARCH)) -Wall -Wextra
ifeq ($(SANITIZE),1)
  sanitizers := -fsanitize=address,undefined
  # With both sanitizers, gcc takes ten minutes to optimize a file with loops over words. Reports need files and lines.
  optimize   := $(if $(filter 1,$(STRIPED)),-O0,-O1) -g1
  host_flags += $(sanitizers) -fno-sanitize-recover=undefined -fno-omit-frame-pointer -Wno-maybe-uninitialized
else
  optimize   := -O3
  host_flags += $(if $(filter 12 13 14,$(gcc_is)),-Werror)
endif
# Code that only calls kernels needs no speed of its own.
light      := $(if $(sanitizers),,-O1)
host_flags := $(strip $(host_flags) $(CXXFLAGS))
cpp_flags  := -I. -Imilc_glue/api $(if $(filter 1,$(STRIPED)),-DMILCGPU_STRIPED) $(CPPFLAGS)
cxx        := $(CXX) -std=c++17 $(optimize) $(host_flags) $(cpp_flags)

ifeq ($(variant),cuda)
  # The GPUs of this machine, or else the most common ones.
  ARCH ?= $(or $(gpus),sm_80 sm_90 compute_90)
  arch_list   := $(subst $(comma),$(space),$(ARCH))
  arch_number  = $(patsubst compute_%,%,$(patsubst sm_%,%,$(1)))
  gencode := $(foreach a,$(arch_list),-gencode=arch=compute_$(call arch_number,$(a)),code=$(if \
               $(filter compute_%,$(a)),$(a),sm_$(call arch_number,$(a))))
  # The headers are beside nvcc; /usr/include must not be named, or libstdc++ loses its #include_next chain.
  cuda_home    := $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(NVCC) 2>/dev/null)))
  cuda_include := $(filter-out /usr/include,$(wildcard $(cuda_home)/include))
  cxx  += -DMILCGPU_WITH_CUDA=1 $(addprefix -isystem ,$(cuda_include))
  # -O only affects the host's code, which a build for GPUs contains for machines without one.
  nvcc := $(NVCC) -ccbin $(lastword $(CXX)) -std=c++17 $(patsubst -O3,-O1,$(optimize)) $(if $(filter 1,$(LINEINFO)),-lineinfo) -Xfatbin=-compress-all $(gencode) \
            -Werror all-warnings -Xcompiler=$(subst $(space),$(comma),$(host_flags)) $(cpp_flags) -DMILCGPU_WITH_CUDA=1 \
            '-DMILCGPU_ARCH="$(strip $(arch_list))"'
  compile_cu := $(nvcc)
  link       := $(NVCC) -ccbin $(lastword $(CXX)) $(gencode) -Xcompiler=-fopenmp
  # A static link against libmilcgpu.a needs these beside OpenMP, because nvcc links the CUDA runtime statically.
  private_libs := $(addprefix -L,$(wildcard $(cuda_home)/lib64)) -lcudart_static -ldl -lrt -lpthread
else
  compile_cu := $(cxx) -x c++
  # gcc puts the reals of one vector into SIMD registers, and the stores and shuffles for that take longer than the
  # arithmetic. With them D on one source takes 1.4 times as long (half 1.2), D on several sources in double and Laplace's
  # D in double 1.3 to 1.5 times, Wilson's D in single 1.1 to 1.25 times. D on several sources in half and
  # single gains by them (1.6 times), but with 18 reals in single they round in other places than the rows of several
  # sites (lanes_stencil.h).
  of_rows = $(foreach part,$(2),$(O)/obj/gpu_kernels/$(1)/$(1)_rows.$(part).cu.o)
  $(call of_rows,laplace,double): private compile_cu += -fno-tree-slp-vectorize
  $(call of_rows,staggered,double single half true_residual double_sources single_sources) $(call of_rows,wilson,double single): private compile_cu += -fno-tree-vectorize
  link       := $(CXX) -fopenmp $(sanitizers)
  private_libs :=
endif
to_linker = $(if $(filter cuda,$(variant)),-Xlinker=$(1),-Wl$(comma)$(1))

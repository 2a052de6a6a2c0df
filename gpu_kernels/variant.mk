# The variant that is built: for GPUs or for the host alone, under the sanitizers, with the GPU's memory layout. $(O) is
# its folder.

SANITIZE ?= 0
STRIPED  ?= 0
CUDA     ?= auto
NVCC     ?= $(firstword $(shell command -v nvcc 2>/dev/null) \
              $(wildcard $(if $(CUDA_HOME),$(CUDA_HOME)/bin/nvcc) /usr/local/cuda/bin/nvcc))
NVCC     := $(NVCC)

# demo and check build only what this machine can run; install uses what is built.
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

# The objects of sources.
objects = $(patsubst %,$(O)/obj/%.o,$(1))

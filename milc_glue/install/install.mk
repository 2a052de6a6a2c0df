# make install and uninstall.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
places  = $(foreach name,PREFIX LIBDIR DESTDIR,$(name)=$(call in_quotes,$($(name))))

two_are_built = $(if $(filter install2auto,$(MAKECMDGOALS)$(words $(built))$(CUDA)),build/cuda and build/host are both built: say which to install$(comma) CUDA=1 or CUDA=0)

# What was built, by its own flags: whoever installs need not have nvcc or ccache.
as_built     = $(if $(shell grep -l MILCGPU_WITH_CUDA $(O)/flags 2>/dev/null),CUDA=1 NVCC='$(or $(NVCC),nvcc)',CUDA=0)
headers_made = $(foreach folder,gpu_kernels milc_glue examples,$(O)/obj/$(folder)/standard.h.gch)

# Builds nothing: installs what is in build/. If that is incomplete or older than its sources, a message says what to do.
install: | $(filter all lib,$(MAKECMDGOALS))
	@$(if $(two_are_built),echo 'milcgpu: $(two_are_built)' >&2; exit 1)
	@$(MAKE) -q --no-print-directory -o $(O)/flags -o $(O)/mpi_flags $(headers_made:%=-o %) O=$(O) $(as_built) lib $$(ls $(programs) 2>/dev/null) 2>/dev/null || { \
	  echo "milcgpu: $(O) is not built, not whole or older than its sources, and make install builds nothing. First run: make all$(if $(filter host,$(variant)), CUDA=0)" >&2; exit 1; }
	@$(places) sh milc_glue/install/install.sh $(O) $(VERSION) $(programs)

uninstall:
	@$(places) sh milc_glue/install/uninstall.sh

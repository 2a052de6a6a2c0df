# The libraries: libmilcgpu of gpu_kernels, reorder and milc_glue, and libquda for MILC's own GPU switches.

lib_sources   := $(sort $(shell find gpu_kernels -name '*.cu' -o -name '*.cpp') \
                   $(wildcard reorder/*.cu $(addsuffix /*.cpp,reorder $(addprefix milc_glue/,api solve links measure host residency routines))))
# The interface for MILC's own GPU switches: a library of its own, because its names are QUDA's.
quda_sources  := $(wildcard milc_glue/quda_compat/*.cpp)

# The rows of each table of kernels are compiled in parts, side by side: FOLDER_rows.cu once for each function of its
# header that is named here, and on GPUs again for lattices that are cut. The host has one kind of lattice.
parts_of      = $(patsubst %,gpu_kernels/$(1)/$(1)_rows.%.cu,$(2) $(if $(filter cuda,$(variant)),$(2:=_cut)))
row_parts     := $(call parts_of,staggered,double single half true_residual double_sources single_sources single_fewer_reals half_sources) \
                   $(if $(filter cuda,$(variant)),,$(call parts_of,staggered,lanes)) \
                   $(call parts_of,laplace,double single half) $(call parts_of,wilson,double single half)
lib_sources   := $(filter-out %_rows.cu,$(lib_sources)) $(row_parts)

# nvcc takes more than a second to read the headers of a file, so it compiles these files of a folder as one, which
# includes them (FOLDER/together.cu in objects.mk). Their kernels have the same machine code together as alone. All other
# files are large, or their machine code would change: if every call of a function in a file passes the same constant, the
# compiler makes the function for this constant (place() of portable.h, for fields of matrices or of momenta).
of_folder     = $(patsubst %,gpu_kernels/$(1)/%.cu,$(2))
small_files  := $(if $(filter cuda,$(variant)), \
                   $(call of_folder,algebra,block_solutions block_steps convert convert_sources deflate few_against_half lock_step momentum_sums \
                     random_vector scaled_difference shifts weighted_sum) \
                   $(call of_folder,gauge/flow,ape_smear flow_observables gauge_fix hyp_smear) \
                   $(call of_folder,gauge/forces,gauge_action heat_bath long_links_adjoint loop_traces plaquette reunitarize unitarize_adjoint) \
                   $(call of_folder,gauge/links,long_links unitarize) $(call of_folder,halo,halo_start margin peer_memory) \
                   $(call of_folder,machine/backend,checksum device) $(call of_folder,measure,neighbours slice_sums thin_sources))
together     := $(addsuffix together.cu,$(sort $(dir $(small_files))))

lib_objects   := $(call objects,$(together) $(filter-out $(small_files),$(lib_sources)))
quda_objects  := $(call objects,$(quda_sources))
# Code that checks arguments and calls kernels.
calling       := $(call objects,$(filter-out milc_glue/host/%,$(filter milc_glue/%,$(lib_sources) $(quda_sources))))
$(calling): private last_flags := $(light)
libraries     := $(O)/libmilcgpu.a $(O)/libmilcgpu.so $(O)/libquda.so $(O)/built
# The parts of the library that libquda.so itself contains. None of them has a state.
quda_parts    := $(call objects,gpu_kernels/machine/content_hash.cpp gpu_kernels/machine/comm/exchange.cpp gpu_kernels/machine/comm/ranks.cpp gpu_kernels/measure/spin_taste.cpp \
                   milc_glue/host/host_fields.cpp milc_glue/api/lent_messages.cpp)

$(O)/libmilcgpu.a: $(lib_objects)
	@echo '  AR    $@'; rm -f $@
	$(Q)$(AR) rcs $@ $^

# Programs ask for this name at run time.
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
$(O)/built: $(O)/flags milc_glue/libraries.mk
	@mkdir -p $(@D)/include; ln -sfn $(CURDIR)/milc_glue/api $(@D)/include/milcgpu
	@printf '%s\n' "milcgpu_variant='$(variant)'" "milcgpu_arch='$(strip $(arch_list))'" "milcgpu_private_libs='$(strip $(private_libs) $(if $(filter 4,$(gcc_is)),-lomp,-lgomp) -lstdc++ -lm)'" >$@

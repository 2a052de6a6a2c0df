# From a source to its object, and the progress of the build. Included after the lists of all folders.

# Rewritten only if the flags differ from those of the last build, or the files that are compiled together; every object
# depends on it. The flags are compared here and not in a recipe that always runs, after which make -n would announce
# every object.
print_flags  := printf '%s\n' '$(cxx)' '$(compile_cu)' $(small_files)
flags_differ := $(shell $(print_flags) | cmp -s - $(O)/flags || echo differ)
$(O)/flags: $(if $(flags_differ),FORCE)
	@mkdir -p $(@D); : >$(O)/compiled; $(print_flags) >$@

# The headers of the standard library that most sources include, precompiled for each of two levels of optimization:
# reading them takes as long as compiling a typical file. For the parts of bench they include bench.h. nvcc does not use
# them, nor does ccache, which by default does not cache files with precompiled headers.
# $(call precompiled,FOLDER,FLAGS,OBJECTS,HEADERS)
define precompiled
$(3): $(O)/obj/$(1)/standard.h.gch
$(3): private cxx += -include $(O)/obj/$(1)/standard.h
$(3): private compile_cu += -include $(O)/obj/$(1)/standard.h
$(O)/obj/$(1)/standard.h.gch: $(4) $(O)/flags
	@mkdir -p $$(@D); printf '#include <%s>\n' algorithm array cmath cstring functional map memory mutex string utility vector $(4) >$$(@:.gch=)
	$$(Q)$$(cxx) $(2) -MMD -MP -MT $$@ -MF $$(@:.h.gch=.d) -c -x c++-header $$(@:.gch=) -o $$@
-include $(O)/obj/$(1)/standard.d
endef
ifeq ($(findstring ccache,$(CXX)),)
by_cxx := $(if $(filter cuda,$(variant)),$(call objects,%.cpp),%)
$(eval $(call precompiled,gpu_kernels,,$(filter $(by_cxx),$(filter-out $(calling),$(lib_objects))) $(filter-out $(light_helpers) $(O)/obj/examples/lib/arguments.cpp.o,$(aside_objects))))
$(eval $(call precompiled,milc_glue,$(light),$(calling) $(filter-out $(bench_objects),$(light_objects))))
$(eval $(call precompiled,examples,$(light),$(filter-out $(with_kernels),$(bench_objects)),examples/bench/bench.h))
endif

# Progress of the build. Files that are recompiled after a change are printed without numbers.
goals      := $(or $(MAKECMDGOALS),all)
testing_bench    := $(if $(filter check,$(goals)),$(call tests_of,sweep))
testing_programs := $(if $(filter check,$(goals)),$(filter $(programs),$(test_programs)))
to_compile := $(lib_objects) $(if $(filter all lib check,$(goals)),$(quda_objects)) $(if $(filter-out lib,$(goals)),$(aside_objects)) \
                $(if $(filter all bench,$(goals))$(testing_bench),$(bench_objects)) $(if $(filter check,$(goals)),$(first) $(test_objects) $(fault_objects)) \
                $(if $(filter all,$(goals))$(testing_programs),$(main_objects),$(foreach program,$(if $(filter demo,$(goals)),$(demo_programs)) $(filter bench $(programs),$(goals)),$(call object_of_program,$(program))))
$(if $(flags_differ)$(dry_run),,$(shell { ls $(to_compile) >$(O)/compiled; } 2>/dev/null))
say_compiling = echo '$@' >>$(O)/compiled; n=$$(wc -l <$(O)/compiled); [ $$n -le $(words $(to_compile)) ] && \
                  printf '[%3d/%d] $(1) $(@:$(O)/obj/%.o=%)\n' $$n $(words $(to_compile)) || echo '          $(1) $(@:$(O)/obj/%.o=%)'
define compile_kernels
@mkdir -p $(@D); $(call say_compiling,$(if $(filter cuda,$(variant)),NVCC,CXX ))
$(Q)$(compile_cu) $(last_flags) -MMD -MP -MT $@ -MF $(@:.o=.d) -c $(or $(1),$<) -o $@
endef

$(O)/obj/%.cpp.o: %.cpp $(O)/flags
	@mkdir -p $(@D); $(call say_compiling,CXX )
	$(Q)$(cxx) $(last_flags) -MMD -MP -MT $@ -MF $(@:.o=.d) -c $< -o $@

$(O)/obj/%.cu.o: %.cu $(O)/flags
	$(compile_kernels)

# FOLDER/together.cu includes the small files of the folder (libraries.mk).
$(call objects,$(together)): $(O)/flags
	@mkdir -p $(@D); printf '#include "%s"\n' $(filter $(@:$(O)/obj/%together.cu.o=%)%,$(small_files)) >$(@:.o=)
	$(call compile_kernels,$(@:.o=))

# SOURCE.PART.cu is a part of SOURCE.cu (libraries.mk).
source_of = $(firstword $(subst ., ,$(1)))$(suffix $(1))
part_of   = $(if $(word 3,$(subst ., ,$(1))),$(word 2,$(subst ., ,$(1))))
row_flags = $(if $(1),-DMILCGPU_ROWS=$(1:_cut=)_rows -DMILCGPU_WHERE=$(if $(filter %_cut,$(1)),CutLattice,OnThisBackend))
$(foreach part,$(row_parts),$(eval $(call objects,$(part)): $(call source_of,$(part)) $(O)/flags; $$(compile_kernels)))
$(call objects,$(row_parts)): private last_flags = $(call row_flags,$(call part_of,$(patsubst $(O)/obj/%.o,%,$@)))

# An entry for each source or part of a source, without the flags of single files.
to_list := $(lib_sources) $(quda_sources) $(ref_sources) $(help_sources) $(main_sources) $(test_sources)
in_json  = "$(subst ",\",$(1))"
command  = {"directory": "$(CURDIR)", "file": "$(source_of)", "command": $(call in_json,$(if $(filter %.cu,$(1)),$(compile_cu),$(cxx)) $(call row_flags,$(part_of)) -c $(source_of))}
compile_commands:
	@$(shell mkdir -p build)$(file >build/compile_commands.json,[$(call command,$(firstword $(to_list))))
	@$(foreach source,$(wordlist 2,$(words $(to_list)),$(to_list)),$(file >>build/compile_commands.json,$(comma)$(call command,$(source))))
	@$(file >>build/compile_commands.json,])echo build/compile_commands.json

-include $(patsubst %.o,%.d,$(lib_objects) $(quda_objects) $(call objects,$(help_sources) $(ref_sources)) $(test_objects) $(main_objects) $(fault_objects)) $(first:.h.gch=.d)

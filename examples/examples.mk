# The example programs: their sources, their MPI, and the targets that run them.

# An example with a main is a program. The other sources are helpers in an archive, from which programs and tests link
# what they need. ranks.cpp, with MPI, and the objects of tests/reference are only in the programs. The cookbook is built
# with an installed library.
ref_sources   := $(wildcard tests/reference/*.cpp)
all_examples  := $(filter-out examples/cookbook/%,$(wildcard examples/*/*.cpp))
main_sources  := $(sort $(shell grep -lE '^ *int +main\>' /dev/null $(all_examples)))
help_sources  := $(filter-out $(main_sources),$(all_examples))
bench_sources := $(filter examples/bench/%.cpp,$(help_sources))

aside         := $(O)/obj/aside.a
bench_objects := $(call objects,$(bench_sources))
aside_objects := $(filter-out $(bench_objects),$(call objects,$(help_sources) $(ref_sources)))
main_objects  := $(call objects,$(main_sources))
programs      := $(patsubst %.cpp,$(O)/%,$(notdir $(main_sources)))
object_of_program = $(filter %/$(notdir $(1)).cpp.o,$(main_objects))
demo_programs := $(addprefix $(O)/,make_lattice solve rhmc spectrum)

# The flags that mpicc -show adds to a compiler's line; Open MPI, MPICH and related MPIs have -show. nvcc has another
# name for -Wl. A variable MPI of the environment is ignored, because it may mean anything.
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

# Rewritten only if MPI's flags differ from the last build. The library contains no MPI.
$(O)/mpi_flags: FORCE
	@mkdir -p $(@D); echo '$(mpi_compile) $(mpi_link)' | cmp -s - $@ || echo '$(mpi_compile) $(mpi_link)' >$@
$(O)/obj/examples/lib/ranks.cpp.o: $(O)/mpi_flags

# The programs call the library, which computes, so they need little optimization. Two have their own kernels.
with_kernels  := $(call objects,examples/gemm/gemm_ladder.cpp examples/bench/bench_stream.cpp)
light_helpers := $(call objects,$(patsubst %,examples/lib/%.cpp,csv effective_mass eigenvectors memory output_file ranks))
light_objects := $(filter-out $(with_kernels),$(bench_objects) $(main_objects)) $(light_helpers)
$(light_objects): private last_flags := $(light)
$(O)/obj/examples/lib/ranks.cpp.o: private last_flags := $(light) $(mpi_compile)
# Only CLI11, which takes twice as long to compile at -O3.
$(O)/obj/examples/lib/arguments.cpp.o: private last_flags := -O0

# Programs with their own kernels. The ladder's products of four warps need machine code for sm_90a, which every GPU of
# sm_90 runs.
ifeq ($(variant),cuda)
$(O)/obj/examples/bench/bench_stream.cpp.o: private cxx := $(compile_cu) -x cu
$(O)/obj/examples/gemm/gemm_ladder.cpp.o: private cxx := $(subst compute_90$(comma)code=sm_90,compute_90a$(comma)code=sm_90a,$(compile_cu)) -x cu
endif

$(aside): $(aside_objects)
$(O)/obj/bench.a: $(bench_objects)
$(aside) $(O)/obj/bench.a:
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(O)/bench: $(O)/obj/bench.a
$(foreach program,$(programs),$(eval $(program): $(call object_of_program,$(program))))
$(programs): $(aside) $(O)/libmilcgpu.a
	@echo '  LINK  $@'
	$(Q)$(link) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %bench.a,$^) $(aside) $(O)/libmilcgpu.a $(LDLIBS) $(mpi_link) -ldl

demo: $(demo_programs)
	$(O)/make_lattice --size 8 8 8 16 --beta 6.0 --out build/demo.lat
	@status=0; $(O)/solve --lattice build/demo.lat --csv build/demo.csv --history build/demo_history.csv || status=$$?; \
	$(draw) build/demo_history.csv || status=$$?; \
	$(O)/rhmc --trajectories 3 --warm 2 --csv build/demo_rhmc.csv --history build/demo_energy.csv || status=$$?; \
	$(draw) build/demo_energy.csv || status=$$?; \
	$(O)/spectrum --beta 5.7 --sweeps 24 --configurations 4 --between 8 --tolerance 1e-6 --csv build/demo_spectrum.csv || status=$$?; \
	$(draw) build/demo_spectrum.csv || status=$$?; \
	exit $$status

bench: $(O)/bench
ifneq ($(filter --sweep,$(BENCH)),) # --sweep writes no table
	@$(O)/bench $(BENCH)
else
	@status=0; $(O)/bench --csv build/bench.csv $(BENCH) || status=$$?; \
	$(draw) build/bench.csv || status=$$?; \
	exit $$status
endif

dense: $(O)/gemm_ladder
	@status=0; $(O)/gemm_ladder --csv build/gemm_ladder.csv || status=$$?; \
	$(draw) build/gemm_ladder.csv || status=$$?; \
	exit $$status

pictures:
	@$(draw) $(filter-out docs/milc-checked.csv,$(wildcard docs/*.csv build/*.csv))

layers:
	@sh docs/layers.sh

measures:
	@sh docs/measures.sh

# The test compares the page, and leaves the right one if they differ. Make compiles the file of this test alone, and
# prints its output only if it fails for another reason.
reference:
	@rm -f build/headers.md; mkdir -p build; $(MAKE) --no-print-directory check >build/reference.log 2>&1 \
	  TESTS='"calls over ranks: an argument or member that differs on one of them is refused on all by its name"'; status=$$?; \
	if [ -f build/headers.md ]; then mv build/headers.md docs/headers.md && echo 'docs/headers.md: written'; \
	elif [ $$status = 0 ]; then echo 'docs/headers.md: nothing to change'; else cat build/reference.log; exit 1; fi

list-kernels: $(O)/list_kernels
	@$(O)/list_kernels

# Does not fail if gnuplot is missing.
draw := sh examples/draw.sh

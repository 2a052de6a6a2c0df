# The tests: their sources, the programs that they start, and make check.

# LONG=1: every case of every sweep, and tests that short runs leave out. The programs read it (tests/catch.h).
LONG ?= $(if $(gpus),1)
export LONG

# in_quotes: one word for the shell. for_catch: TESTS with a backslash before each comma in a name, as Catch needs it.
in_quotes = '$(subst ','\'',$(1))'
for_catch  = $(if $(findstring ",$(TESTS)),$(call in_quotes,$(subst "\$(comma)","$(comma)",$(subst $(comma),\$(comma),$(TESTS)))),$(TESTS))
# If TESTS is one tag, like [smoke], or the name of one test in quotation marks, make compiles only the files with it.
test_files    := $(wildcard tests/*/test_*.cpp)
tag           := $(shell echo $(call in_quotes,$(TESTS)) | grep -x '\[[a-z_]*\]')
tagged        := $(if $(tag),$(shell grep -lF '$(tag)' $(test_files)),$(if $(findstring ",$(TESTS)),$(shell grep -lF $(call in_quotes,$(TESTS)) $(test_files))))
main_of_tests := tests/main.cpp tests/failing_new.cpp tests/source_text.cpp tests/reference_page.cpp tests/environment.cpp tests/support.cpp $(wildcard tests/*_support.cpp)
test_sources  := $(main_of_tests) $(or $(tagged),$(test_files))
tests_of       = $(filter $(foreach name,$(1),%/test_$(name).cpp),$(test_sources))
# Three programs: tests that start programs, tests that start programs in MILC's shape, and tests of the library.
host_tests     := $(call tests_of,certificate milc_host milc_host_md milc_twin)
starting_tests := $(call tests_of,docs install milc_build milc_programs mpi_ranks programs quda_calls spectrum)
library_tests  := $(filter-out $(host_tests) $(starting_tests) $(main_of_tests),$(test_sources))
# The tests of each file run in their own process, by a target check-NAME, as many at once as make has jobs; the tests
# that TESTS names run in one process of each program. The slowest files start first.
long_first     := programs milc_host milc_programs flips_calls cut_calls faults planted_edits install md eigen eigen_calls cut_md
names_of        = $(patsubst test_%,%,$(basename $(notdir $(1))))
names           = $(filter $(long_first),$(call names_of,$(1))) $(filter-out $(long_first),$(call names_of,$(1)))
runs_of         = $(if $(TESTS),$(if $(2),$(1)),$(call names,$(2)))
program_runs   := $(call runs_of,program_tests,$(starting_tests))
host_runs      := $(call runs_of,milc_host_tests,$(host_tests))
library_runs   := $(call runs_of,milcgpu_tests,$(library_tests))
test_runs      := $(program_runs) $(host_runs) $(library_runs)

test_objects  := $(call objects,$(test_sources))
test_main     := $(call objects,$(main_of_tests))
# A precompiled header of what nearly all tests include; not with ccache, which by default cannot cache its users.
first         := $(if $(findstring ccache,$(CXX)),,$(O)/obj/tests/first.h.gch)

# Catch2 version 3 is a library, version 2 a header. Looked up at link time, because make check may install it before.
catch_libs = $(shell $(cxx) -E -include catch2/catch_all.hpp -x c++ /dev/null >/dev/null 2>&1 && echo -lCatch2)

# Programs in MILC's shape with the glue; test_milc_host.cpp, test_milc_host_md.cpp and test_milc_twin.cpp run them.
# Under the sanitizers the tests tagged [sanitize] run three of them; two are for long runs.
host_programs := $(patsubst %,$(O)/milc_host/%/program,asqtad-P1 hisq-P2 hisq-newer-P2 \
                   $(if $(and $(sanitizers),$(filter [sanitize],$(tag))),,asqtad-P2 asqtad-master-P1 $(if $(filter 1,$(LONG)),hisq-P1 hisq-master-P2)))

# A program for each MPI that is found; test_mpi_ranks.cpp runs it on ranks.
mpi_list := $(O)/mpi_ranks/list

# The example programs with MPI; test_programs.cpp runs them. Under the sanitizers they would take minutes to build.
mpi_programs := $(if $(and $(mpi_words),$(filter cuda host,$(variant))),$(programs))
mpirun       := $(if $(mpi_programs),$(wildcard $(dir $(shell command -v $(if $(filter command%,$(origin MPI)),$(MPI),mpicc)))mpirun))

# Makes every call of the CUDA runtime fail in turn; test_faults.cpp runs it. The linker wraps every function of the
# runtime that the library calls.
fault_program := $(if $(filter cuda,$(variant)),$(O)/cuda_faults)
fault_objects := $(call objects,$(wildcard tests/cuda_faults/*.cpp) tests/calls_support.cpp)

# clang's libFuzzer on the readers of files, in long runs and if it is installed; test_fuzz.cpp runs it. The readers are
# compiled with libFuzzer's flags and linked before the library.
fuzz_cxx     := $(if $(filter host,$(variant)),$(if $(filter 1,$(LONG)),$(shell echo 'extern "C" int LLVMFuzzerTestOneInput(void *, long) { return 0; }' | \
                  clang++ -x c++ -fsanitize=fuzzer,address,undefined - -o /dev/null 2>/dev/null && echo clang++)))
fuzz_program := $(if $(fuzz_cxx),$(O)/fuzz)
fuzz_sources := tests/fuzz/fuzz.cpp tests/fuzz_support.cpp examples/lib/csv.cpp $(addprefix milc_glue/,$(patsubst %,host/%.cpp,gauge_file nersc_file lime site_records file_sums whole_file) \
                  solve/eigen_file.cpp solve/eigen_read_write.cpp links/gauge_files.cpp)

# Programs that the tests of program_tests start.
test_programs := $(if $(call tests_of,mpi_ranks),$(mpi_list)) \
                   $(if $(call tests_of,programs spectrum),$(mpi_programs))

# Compiled with the folder of MPI's programs.
program_tests := $(call objects,tests/programs/test_programs.cpp tests/programs/test_spectrum.cpp)
$(program_tests): $(O)/mpi_flags

# Catch2 takes long to compile at -O3, and more so under the sanitizers (three times as long at -O1 as at -O0). The tests
# themselves need no speed: -Og compiles in three quarters of the time of -O1. main.cpp, which is Catch2 alone, needs no
# sanitizer.
# seldom: each garbage collection of the compiler walks the whole precompiled header. Only gcc has these options.
seldom     := $(if $(filter -Werror,$(host_flags)),--param=ggc-min-heapsize=1000000 --param=ggc-min-expand=200)
test_flags := $(if $(sanitizers),-O0,-Og) -DCATCH_CONFIG_FAST_COMPILE $(seldom)
$(test_objects): private last_flags := $(test_flags)
$(call objects,$(host_tests)): private last_flags := $(test_flags) -DMILC_HOST_PROGRAMS='"$(abspath $(O))/milc_host/"'
$(call objects,$(call tests_of,mpi_ranks)): private last_flags := $(test_flags) -DMPI_RANKS_LIST='"$(abspath $(mpi_list))"'
$(program_tests): private last_flags := $(test_flags) -DMILCGPU_PROGRAMS='"$(abspath $(O))/"' -DMILCGPU_MPIRUN='"$(mpirun)"'
$(call objects,$(call tests_of,faults)): private last_flags := $(test_flags) $(if $(fault_program),-DMILCGPU_CUDA_FAULTS='"$(abspath $(fault_program))"')
$(call objects,$(call tests_of,fuzz)): private last_flags := $(test_flags) -DMILCGPU_FUZZ='"$(abspath $(O))/fuzz"'
$(O)/obj/tests/main.cpp.o: private last_flags := -O0 -fno-sanitize=all $(seldom)
ifneq ($(first),)
with_first := $(filter-out $(call objects,tests/main.cpp tests/failing_new.cpp),$(test_objects))
$(with_first): $(first)
$(with_first): private cxx += -include $(first:.gch=)
$(first): tests/support.h $(O)/flags
	@mkdir -p $(@D); printf '#include <%s>\n' $< atomic complex filesystem fstream map set sstream thread >$(@:.gch=); $(call say_compiling,CXX )
	$(Q)$(cxx) $(test_flags) -MMD -MP -MT $@ -MF $(@:.h.gch=.d) -c -x c++-header $(@:.gch=) -o $@
endif

# The library's objects come first, so that inline functions which tests have, too, are the library's.
$(O)/milcgpu_tests: $(lib_objects) $(test_main) $(call objects,$(library_tests)) $(if $(call tests_of,sweep),$(O)/obj/bench.a) $(aside) $(quda_objects)
$(O)/milc_host_tests: $(test_main) $(call objects,$(host_tests)) $(aside) $(O)/libmilcgpu.a
$(O)/program_tests: $(test_main) $(call objects,$(starting_tests)) $(aside) $(O)/libmilcgpu.a
$(O)/milc_host_tests $(O)/milcgpu_tests $(O)/program_tests: $(O)/test_list
	@echo '  LINK  $@'
	$(Q)$(link) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(catch_libs) $(LDLIBS)

# The list of tests in the programs, which are linked again if the list changes.
$(O)/test_list: FORCE
	@mkdir -p $(@D); echo '$(test_sources)' | cmp -s - $@ || echo '$(test_sources)' >$@

$(O)/fuzz: $(fuzz_sources) tests/fuzz_support.h $(O)/libmilcgpu.a $(aside)
	@echo '  FUZZ  $@'
	$(Q)$(fuzz_cxx) -std=c++17 -O1 -g1 $(if $(HOST_ARCH),-march=$(HOST_ARCH)) $(cpp_flags) -w -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	  $(fuzz_sources) $(filter %.a %.o,$^) $(LDFLAGS) -fno-openmp -lgomp $(private_libs) $(LDLIBS) -o $@

$(O)/cuda_faults: $(fault_objects) $(aside) $(O)/libmilcgpu.a
	@echo '  LINK  $@'
	$(Q)$(link) $(LDFLAGS) -o $@ $^ $(LDLIBS) $$(nm -u $(O)/libmilcgpu.a | sort -u | \
	  sed -n '/cudaGetError/d; s/^ *U \(cuda[A-Z].*\)/-Xlinker --wrap=\1/p')

# FORCE: an MPI may have been installed since the last `make check`.
$(mpi_list): $(quda_objects) $(O)/libmilcgpu.a FORCE
	@sh tests/mpi_ranks/build.sh $(abspath $(@D)) '$(lastword $(CXX))' -std=c++17 -O0 -Wall -Wextra $(if $(sanitizers),-g1 $(sanitizers),-Werror) \
	  $(cpp_flags) $(wildcard tests/mpi_ranks/*.cpp) tests/failing_new.cpp $(LDFLAGS) $(quda_objects) $(O)/libmilcgpu.a -fopenmp $(private_libs) $(LDLIBS)

# A precompiled header of tests/reference for the originals of all programs.
originals      := $(if $(sanitizers),-O0 -g1 $(sanitizers),-O0 -O1)
first_of_hosts := $(O)/milc_host/first.h
$(first_of_hosts).gch: $(wildcard tests/reference/*.h) $(O)/flags
	@mkdir -p $(@D); printf '#include <%s>\n' algorithm cmath cstdlib cstring vector $(filter %.h,$^) >$(@:.gch=)
	$(Q)$(lastword $(CXX)) $(originals) -std=c++17 -I. -c -x c++-header $(@:.gch=) -o $@

# An original is compiled once for all programs that share its variant. The words of a program's name that change each
# file:
words_of_originals        := P1 P2 newer
words_of_originals_md     := P1 P2 newer asqtad hisq
words_of_originals_mesons := P1 P2 master
words_of_originals_gauge  := P1 P2
words_of_originals_clover := P1 P2
words_of_originals_baryons := P1 P2 newer master
original_files := $(patsubst tests/milc_host/%.cpp,%,$(wildcard tests/milc_host/originals*.cpp))
words_of        = $(subst -, ,$(1))
originals_of    = $(foreach file,$(original_files),$(O)/milc_host/$(subst $(space),-,$(strip $(file) $(filter $(words_of_$(file)),$(call words_of,$(1))))).o)
all_originals  := $(sort $(foreach program,$(host_programs:$(O)/milc_host/%/program=%),$(call originals_of,$(program))))
$(all_originals): $(O)/milc_host/%.o: $(first_of_hosts).gch $(wildcard tests/milc_host/*.cpp tests/milc_host/*.h tests/milc_host/*/*.h milc_glue/api/*.h)
	$(Q)$(lastword $(CXX)) -c $(originals) -include $(first_of_hosts) -std=c++17 -Wall -Werror -I. -Imilc_glue/api -Itests/milc_host/app \
	  $(patsubst P%,-DMILC_PRECISION=%,$(filter P%,$(call words_of,$*))) $(patsubst %,-DMILC_HOST_%,$(filter asqtad hisq,$(call words_of,$*))) \
	  $(if $(findstring -master,$*),-DMILC_HOST_MASTER)$(if $(findstring -newer,$*),-DMILC_HOST_NEWER) tests/milc_host/$(firstword $(call words_of,$*)).cpp -o $@

# Built through the make fragment, as by MILC's own make.
$(host_programs): $(O)/milc_host/%/program: $(O)/libmilcgpu.so $(all_originals) $(call objects,$(ref_sources)) \
    $(wildcard tests/milc_host/* tests/milc_host/*/*.h milc_glue/api/*.h milc_glue/use_gpu/*)
	@mkdir -p $(@D); echo '  GLUE  $@'
	$(Q)cd $(@D) && rm -f *.o localmake && $(foreach object,$(call originals_of,$*),ln -s ../$(notdir $(object)) $(firstword $(call words_of,$(notdir $(basename $(object))))).o &&) $(MAKE) --no-print-directory $(if $(V),,-s) -f $(CURDIR)/tests/milc_host/Makefile \
	  CC='$(CC)' CXX='$(lastword $(CXX))' ACTION=$(firstword $(subst -, ,$*)) PRECISION=$(lastword $(subst -P, ,$*)) MASTER=$(if $(findstring -master,$*),-DMILC_HOST_MASTER)$(if $(findstring -newer,$*),-DMILC_HOST_NEWER) FAST=$(if $(filter asqtad-P2,$*),-ffast-math) \
	  OPT='-O0$(if $(sanitizers), -g1 $(sanitizers))' LDFLAGS='$(sanitizers) -fopenmp' REFERENCE='$(abspath $(call objects,$(ref_sources)))' \
	  MILCGPU_LIB=$(abspath $(O)) MAKEFILES=$(CURDIR)/milc_glue/use_gpu/milc_gpu.mk

.PHONY: $(test_runs:%=check-%)

check: $(test_runs:%=check-%)
	@cat $(test_runs:%=$(O)/tests/%.counts) | awk '$(add_counts)'

# Programs that are slow to build come first, so that their tests do not run alone at the end.
$(test_runs:%=check-%): | $(if $(starting_tests),$(O)/program_tests $(libraries) $(test_programs)) $(if $(host_tests),$(host_programs))
$(program_runs:%=check-%): check-%: $(O)/program_tests
	@$(call run_tests,$<,$*)
$(host_runs:%=check-%): check-%: $(O)/milc_host_tests $(host_programs)
	@$(call run_tests,$<,$*)
$(library_runs:%=check-%): check-%: $(O)/milcgpu_tests $(if $(call tests_of,faults),$(fault_program)) $(if $(call tests_of,fuzz),$(fuzz_program))
	@$(call run_tests,$<,$*)

# Threads of each test process: processes that run at once share the processors.
threads_each := $(if $(filter 1,$(LONG)),2,1)

# Prints the output of a test program if a test failed. The exit status is checked, too: a run that crashed before it
# counted, or failed afterwards (a leak found at exit), is at least one failure. If no test passed or was skipped in all
# runs, that is a failure.
run_tests = mkdir -p $(O)/tests; \
  OMP_NUM_THREADS=$${OMP_NUM_THREADS:-$(threads_each)} $(1) $(or $(for_catch),-# '[\#test_$(2)]~[.]') >$(O)/tests/$(2).log 2>&1; \
  awk -v status=$$? -v counts=$(O)/tests/$(2).counts '$(take_counts)' $(O)/tests/$(2).log
take_counts = /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$$/ { passed = $$1; failed = $$3; skipped = $$5; next } \
  /^skipped [0-9]+: / { why = why $$0 "\n"; next } { said = said $$0 "\n" } \
  END { if (status != 0 && failed + 0 == 0) failed = 1; if (failed > 0) printf "%s", said; printf "%d %d %d\n%s", passed, failed, skipped, why >counts; \
        printf "  TEST  $(2): %d passed, %d failed, %d skipped\n", passed, failed, skipped }
add_counts = /^skipped / { n = $$2 + 0; sub(/^[^:]*: /, ""); lack[$$0] += n; next } { passed += $$1; failed += $$2; skipped += $$3 } \
  END { if (passed + failed + skipped == 0) failed = 1; for (what in lack) why = why (why != "" ? "; " : ": ") lack[what] " " what; \
        printf "%d passed, %d failed%s\n", passed, failed, (skipped > 0 ? ", " skipped " skipped" why : ""); exit failed > 0 }

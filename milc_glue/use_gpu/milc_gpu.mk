# MILC's own make reads this if its command line has MAKEFILES=<this file>, which milcgpu-config --milc prints. It
# compiles the glue beside MILC's objects, and puts it and the library on MILC's link line. It changes no file of MILC's.
#
#   make su3_rhmc_hisq PRECISION=2 $(milcgpu-config --milc)
#
# MILC's makefiles name the objects of the site layout in LAYOUT and the libraries of the machine in LMPI; this file adds
# to both. Every make compiles the glue, so the program is linked again if milcgpu or the target has changed.
#
# Some programs have no staggered solver with fat and long links, no gradient flow and no HYP smearing (serves.h), and
# their OBJECTS have no gauge fixing and no molecular dynamics of pure_gauge (select.sh). They are built as without this
# file: the objects of the glue are empty, and so is milcgpu_link, which has the words for the link line.
milcgpu_here := $(dir $(abspath $(lastword $(filter %milc_gpu.mk,$(MAKEFILE_LIST)))))
# Installed: PREFIX/share/milcgpu/milc_gpu.mk; in the source tree: milc_glue/use_gpu/milc_gpu.mk.
milcgpu_tree := $(abspath $(milcgpu_here)../..)
# The library: MILCGPU_LIB if it is set, else the library that this file was installed with, else the newest.
milcgpu_libdir := $(shell sed -n 's/^libdir=//p' $(milcgpu_here)facts 2>/dev/null)
milcgpu_lib  := $(or $(abspath $(MILCGPU_LIB)),$(if $(milcgpu_libdir),$(milcgpu_tree)/$(milcgpu_libdir)),$(patsubst %/,%,$(dir $(firstword \
  $(shell ls -t $(milcgpu_tree)/build/cuda/libmilcgpu.so $(milcgpu_tree)/build/host/libmilcgpu.so 2>/dev/null)))))
milcgpu_inc  := $(firstword $(wildcard $(milcgpu_tree)/include/milcgpu/milcgpu.h $(milcgpu_tree)/milc_glue/api/milcgpu.h))

# If the library is missing, MILC must not be built for the CPU without a message.
ifeq ($(and $(milcgpu_inc),$(wildcard $(milcgpu_lib)/libmilcgpu.so)),)
$(error milcgpu: libmilcgpu.so or milcgpu.h is missing in $(or $(MILCGPU_LIB),$(milcgpu_tree)): install milcgpu again \
  (in its source tree: make lib), or leave its word out of this line)
endif

milcgpu_objects := $(patsubst $(milcgpu_here)%.c,milcgpu_%.o,$(filter-out %/check.c %/probe.c,$(wildcard $(milcgpu_here)*.c)))
milcgpu_flags    = $(CFLAGS) -DUSE_GPU -I$(milcgpu_here) -I$(dir $(milcgpu_inc))

override LAYOUT := $(or $(LAYOUT),layout_hyper_prime.o) $(milcgpu_objects)
# Tools that are linked without LAYOUT, or whose objects are not prerequisites, have no glue.
milcgpu_asked   := $(LMPI)
override LMPI    = $(milcgpu_asked) $(if $(filter milcgpu_start.o,$^),$(milcgpu_link_words))

# For CMake (milcgpu.cmake, cmake_link.sh): prints where the library is; writes the glue's objects and the words of the
# link line into one file, for a program with the objects milcgpu_linked.
.PHONY: milcgpu_library
milcgpu_library:
	@echo $(milcgpu_lib)
milcgpu_words: $(milcgpu_linked) $(milcgpu_objects)
	@echo '$(addprefix $(CURDIR)/,$(milcgpu_objects)) $(milcgpu_link_words)' >$@

# The words of milcgpu_link. A routine that MILC calls but none of its objects defines keeps its name, so the linker
# reports it as undefined, as without milcgpu. With the glue's name, the program would link, and end when it calls MILC's
# own routine (milcgpu_original in glue.h). This happens if nm cannot read the objects.
milcgpu_nm := nm
milcgpu_libc := $(shell awk -F ', *' '/^MILCGPU_OF_LIBC/ { print $$2 }' $(firstword $(wildcard $(milcgpu_here)routines.def $(milcgpu_here)../api/routines.def)))
milcgpu_link_words = $(shell $(milcgpu_nm) -P $(filter-out milcgpu_%,$(filter %.o %.a,$^)) 2>/dev/null | \
  awk -v libc=' $(milcgpu_libc) ' '$(milcgpu_keep_undefined)' objects=1 - objects=0 milcgpu_link)
milcgpu_keep_undefined = objects { if ($$2 == "U") called[$$1]; else if ($$2 ~ /[A-Z]/) had[$$1]; next } \
  { for (k = 1; k <= NF; k++) { \
      f = $$k; \
      if (sub(/.*--wrap=/, "", f) && f in called && !(f in had) && index(libc, " " f " ") == 0) \
        print "milcgpu: $(or $(strip $(MYTARGET)),this program) calls " f ", which none of its objects has: as without milcgpu, the linker decides" > "/dev/stderr"; \
      else \
        print $$k } }

# select.sh finds the files of the glue for this program, and the routines that they wrap (routines.def), as soon as the
# target's quark_action.h exists. The objects of the other files are empty.
.PHONY: milcgpu-always
milcgpu_start.o: $(milcgpu_here)start.c milcgpu-always
	@MILCGPU_OBJECTS='$(OBJECTS)' sh $(milcgpu_here)select.sh '$(or $(strip $(MYTARGET)),this program)' '$(milcgpu_lib)' '$(CC)' $(milcgpu_flags)
	@$(milcgpu_compile)
$(filter-out milcgpu_start.o,$(milcgpu_objects)): milcgpu_%.o: $(milcgpu_here)%.c milcgpu_start.o
	@$(milcgpu_compile)

milcgpu_compile = more=$$(sed -n 's/^$(@:milcgpu_%.o=%) //p' milcgpu_glue); \
  if [ -n "$$more" ]; then $(CC) -c $(milcgpu_flags) $$more $< -o $@; else $(CC) -c -x c /dev/null -o $@; fi

# Read by MILC's own make when the command line says MAKEFILES=<this file> (milcgpu-config --milc prints that): compiles
# the glue beside MILC's objects and puts it and the library on MILC's link line. No file of MILC's is changed.
#
#   make su3_rhmc_hisq PRECISION=2 $(milcgpu-config --milc)
#
# MILC's makefiles name the objects of the site layout in LAYOUT and libraries of the machine in LMPI; both are
# lengthened here. The glue is compiled at every make, so that the program is linked again whenever milcgpu, or the
# target, is another one.
#
# A program that has no staggered solver with fat and long links, no gradient flow and no HYP smearing (serves.h), and
# whose OBJECTS have no gauge fixing and no molecular dynamics of pure_gauge (select.sh), is built as if this file were not
# there: the objects of the glue are then empty, and so is the file milcgpu_link, which holds what
# goes on the link line (select.sh).
milcgpu_here := $(dir $(abspath $(lastword $(filter %milc_gpu.mk,$(MAKEFILE_LIST)))))
# Installed: PREFIX/share/milcgpu/milc_gpu.mk; in the source tree: milc_glue/use_gpu/milc_gpu.mk.
milcgpu_tree := $(abspath $(milcgpu_here)../..)
# The library: MILCGPU_LIB where that is given, else the one beside which this file was installed, else the newest.
milcgpu_libdir := $(shell sed -n 's/^libdir=//p' $(milcgpu_here)facts 2>/dev/null)
milcgpu_lib  := $(or $(abspath $(MILCGPU_LIB)),$(if $(milcgpu_libdir),$(milcgpu_tree)/$(milcgpu_libdir)),$(patsubst %/,%,$(dir $(firstword \
  $(shell ls -t $(milcgpu_tree)/build/cuda/libmilcgpu.so $(milcgpu_tree)/build/host/libmilcgpu.so 2>/dev/null)))))
milcgpu_inc  := $(firstword $(wildcard $(milcgpu_tree)/include/milcgpu/milcgpu.h $(milcgpu_tree)/milc_glue/api/milcgpu.h))

# Without a library MILC must not be built for the CPU in silence.
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

# For CMake (milcgpu.cmake, cmake_link.sh): where the library is; the glue of a program that has the objects
# milcgpu_linked, and the words of its link line, in one file.
.PHONY: milcgpu_library
milcgpu_library:
	@echo $(milcgpu_lib)
milcgpu_words: $(milcgpu_linked) $(milcgpu_objects)
	@echo '$(addprefix $(CURDIR)/,$(milcgpu_objects)) $(milcgpu_link_words)' >$@

# The words of milcgpu_link. A routine that MILC calls, and that none of its objects has, keeps its name: the linker then
# says that it is undefined, as without milcgpu. By the glue's name the program would be linked, and end when MILC's own is
# to be called (milcgpu_original in glue.h): so it is where nm cannot read the objects.
milcgpu_nm := nm
milcgpu_libc := $(shell awk -F ', *' '/^MILCGPU_OF_LIBC/ { print $$2 }' $(milcgpu_here)routines.def)
milcgpu_link_words = $(shell $(milcgpu_nm) -P $(filter-out milcgpu_%,$(filter %.o %.a,$^)) 2>/dev/null | \
  awk -v libc=' $(milcgpu_libc) ' '$(milcgpu_keep_undefined)' objects=1 - objects=0 milcgpu_link)
milcgpu_keep_undefined = objects { if ($$2 == "U") called[$$1]; else if ($$2 ~ /[A-Z]/) had[$$1]; next } \
  { for (k = 1; k <= NF; k++) { \
      f = $$k; \
      if (sub(/.*--wrap=/, "", f) && f in called && !(f in had) && index(libc, " " f " ") == 0) \
        print "milcgpu: $(or $(strip $(MYTARGET)),this program) calls " f ", which none of its objects has: as without milcgpu, the linker decides" > "/dev/stderr"; \
      else \
        print $$k } }

# Which files of the glue this program gets, and which routines they take over (routines.def), is found once the
# target's quark_action.h is there. The objects of the other files are empty.
.PHONY: milcgpu-always
milcgpu_start.o: $(milcgpu_here)start.c milcgpu-always
	@MILCGPU_OBJECTS='$(OBJECTS)' sh $(milcgpu_here)select.sh '$(or $(strip $(MYTARGET)),this program)' '$(milcgpu_lib)' '$(CC)' $(milcgpu_flags)
	@$(milcgpu_compile)
$(filter-out milcgpu_start.o,$(milcgpu_objects)): milcgpu_%.o: $(milcgpu_here)%.c milcgpu_start.o
	@$(milcgpu_compile)

milcgpu_compile = more=$$(sed -n 's/^$(@:milcgpu_%.o=%) //p' milcgpu_glue); \
  if [ -n "$$more" ]; then $(CC) -c $(milcgpu_flags) $$more $< -o $@; else $(CC) -c -x c /dev/null -o $@; fi

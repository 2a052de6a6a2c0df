# Read by MILC's own make when the command line says MAKEFILES=<this file> (milcgpu-config --milc prints that): compiles
# the glue beside MILC's objects and puts it and the library on MILC's link line. No file of MILC's is changed.
#
#   make su3_rhmc_hisq PRECISION=2 $(milcgpu-config --milc)
#
# MILC's makefiles name the objects of the site layout in LAYOUT and libraries of the machine in LMPI; both are
# lengthened here. The glue is compiled at every make, so that the program is linked again whenever milcgpu, or the
# target, is another one.
milcgpu_here := $(dir $(abspath $(lastword $(filter %milc_gpu.mk,$(MAKEFILE_LIST)))))
# Installed: PREFIX/share/milcgpu/milc_gpu.mk; in the source tree: milc_glue/use_gpu/milc_gpu.mk.
milcgpu_tree := $(abspath $(milcgpu_here)../..)
# The library: MILCGPU_LIB where that is given, else the newest.
milcgpu_lib  := $(or $(MILCGPU_LIB),$(patsubst %/,%,$(dir $(firstword $(shell ls -t $(milcgpu_tree)/lib/libmilcgpu.so \
  $(milcgpu_tree)/build/cuda/libmilcgpu.so $(milcgpu_tree)/build/host/libmilcgpu.so 2>/dev/null)))))
milcgpu_inc  := $(firstword $(wildcard $(milcgpu_tree)/include/milcgpu.h $(milcgpu_tree)/milc_glue/milcgpu.h))

milcgpu_wrapped := ks_congrad_parity_cpu ks_congrad_block_parity_cpu ks_congrad_site ks_congrad ks_multicg_offset_field_cpu \
  dslash_fn_field load_fn_links_cpu load_fatlinks_cpu load_lnglinks create_hisq_links_milc create_G_from_site
milcgpu_objects := milcgpu_start.o milcgpu_solve.o milcgpu_links.o

milcgpu_comma   := ,

override LAYOUT := $(or $(LAYOUT),layout_hyper_prime.o) $(milcgpu_objects)
override LMPI := $(LMPI) $(addprefix -Wl$(milcgpu_comma)--wrap=,$(milcgpu_wrapped)) \
  -L$(milcgpu_lib) -Wl,-rpath,$(milcgpu_lib) -lmilcgpu

.PHONY: milcgpu-always
$(milcgpu_objects): milcgpu_%.o: $(milcgpu_here)%.c milcgpu-always
	$(CC) -c $(CFLAGS) -DUSE_GPU -I$(milcgpu_here) -I$(dir $(milcgpu_inc)) $< -o $@

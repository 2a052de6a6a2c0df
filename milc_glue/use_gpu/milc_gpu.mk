# Read by MILC's own make when the command line says MAKEFILES=<this file> (milcgpu-config --milc prints that): compiles
# the glue beside MILC's objects and puts it and the library on MILC's link line. No file of MILC's is changed.
#
#   make su3_rhmc_hisq PRECISION=2 $(milcgpu-config --milc)
#
# MILC's makefiles name the objects of the site layout in LAYOUT and libraries of the machine in LMPI; both are
# lengthened here. The glue is compiled at every make, so that the program is linked again whenever milcgpu, or the
# target, is another one.
#
# A program that has no staggered solver with fat and long links, no gradient flow and no HYP smearing (serves.h) is built as if
# this file were not there: the objects of the glue are then empty, and so is the file milcgpu_link, which holds what goes
# on the link line.
milcgpu_here := $(dir $(abspath $(lastword $(filter %milc_gpu.mk,$(MAKEFILE_LIST)))))
# Installed: PREFIX/share/milcgpu/milc_gpu.mk; in the source tree: milc_glue/use_gpu/milc_gpu.mk.
milcgpu_tree := $(abspath $(milcgpu_here)../..)
# The library: MILCGPU_LIB where that is given, else the one beside which this file was installed, else the newest.
milcgpu_libdir := $(shell sed -n 's/^libdir=//p' $(milcgpu_here)facts 2>/dev/null)
milcgpu_lib  := $(or $(MILCGPU_LIB),$(if $(milcgpu_libdir),$(milcgpu_tree)/$(milcgpu_libdir)),$(patsubst %/,%,$(dir $(firstword \
  $(shell ls -t $(milcgpu_tree)/build/cuda/libmilcgpu.so $(milcgpu_tree)/build/host/libmilcgpu.so 2>/dev/null)))))
milcgpu_inc  := $(firstword $(wildcard $(milcgpu_tree)/include/milcgpu/milcgpu.h $(milcgpu_tree)/milc_glue/milcgpu.h))

# Without a library MILC must not be built for the CPU in silence.
ifeq ($(and $(milcgpu_inc),$(wildcard $(milcgpu_lib)/libmilcgpu.so)),)
$(error milcgpu: libmilcgpu.so or milcgpu.h is missing in $(or $(MILCGPU_LIB),$(milcgpu_tree)): install milcgpu again \
  (in its source tree: make lib), or leave its word out of this line)
endif

milcgpu_wrapped_c := malloc calloc realloc free memset memcpy
milcgpu_wrapped_always := initialize_machine normal_exit check_unitarity reunitarize_cpu nersc_cksum \
  $(milcgpu_wrapped_c) make_nn_gathers make_gather initialize_site_prn_from_seed restore_serial
milcgpu_wrapped := ks_congrad_parity_cpu ks_congrad_block_parity_cpu ks_congrad_site ks_congrad ks_multicg_offset_field_cpu \
  dslash_fn_field load_fn_links_cpu load_fatlinks_cpu load_lnglinks create_hisq_links_milc create_G_from_site \
  fermion_links_want_aux get_hisq_auxiliary destroy_hisq_auxiliary_t \
  get_fatlinks get_lnglinks get_fatbacklinks get_lngbacklinks destroy_fn_links boundary_twist_fn \
  $(milcgpu_wrapped_always) gaugefix ape_smear_4D bicgilu_cl_field_cpu bicgilu_w_field dslash_w_field \
  meson_cont_mom meson_open_mom
# Of wilson_flow.
milcgpu_wrapped_flow := run_gradient_flow $(milcgpu_wrapped_always)
# Of hvy_qpot with HYP smearing.
milcgpu_wrapped_hyp := load_hyp_links $(milcgpu_wrapped_always)
# Of programs with momenta in their sites (md_probe.c compiles).
milcgpu_wrapped_md := update_u imp_gauge_force_ks imp_gauge_force eo_fermion_force_multi eo_fermion_force_oneterm_site \
  eo_fermion_force_twoterms_site eo_fermion_force_twoterms_site_cpu reunitarize_ks imp_gauge_action d_plaquette rephase \
  gauge_field_copy ranmom reload_lattice d_action_rhmc d_action update update_h ks_rateval \
  restore_fermion_links_from_site
# Of programs with sets of propagators (propagators.c compiles).
milcgpu_wrapped_sets := solve_ksprop
# Of programs that measure with smeared links (mesons_probe.c compiles).
milcgpu_wrapped_mesons := ks_meson_cont_mom spin_taste_op gauss_smear_v_field laplacian_v_field
milcgpu_wrapped_mesons_develop := spin_taste_op_ape_fn shift_field
milcgpu_wrapped_mesons_master := spin_taste_op_fn
# Of programs that invert M for whole fields (invert.c compiles).
milcgpu_wrapped_inverts := mat_invert_uml_field ks_dirac_adj_op_inplace mat_invert_multi
milcgpu_wrapped_inverts_develop := mat_invert_field mat_invert_block
milcgpu_wrapped_inverts_master := mat_invert_cg_field mat_invert_block_uml
milcgpu_objects := $(addprefix milcgpu_,start.o ranks.o unitarity.o memory.o setup.o lattice_file.o solve.o invert.o links.o hisq_links.o gauge_fix.o clover.o dirac_mesons.o propagators.o md.o updates.o \
  fermion_force.o mesons.o gradient_flow.o hyp.o)
milcgpu_flags    = $(CFLAGS) -DUSE_GPU -I$(milcgpu_here) -I$(dir $(milcgpu_inc))

milcgpu_comma   := ,
milcgpu_wraps = $(addprefix -Wl$(milcgpu_comma)--wrap=,$(1))
milcgpu_library := -L$(milcgpu_lib) -Wl,-rpath,$(milcgpu_lib) -lmilcgpu

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
milcgpu_link_words = $(shell $(milcgpu_nm) -P $(filter-out milcgpu_%,$(filter %.o %.a,$^)) 2>/dev/null | \
  awk -v libc=' $(milcgpu_wrapped_c) ' '$(milcgpu_keep_undefined)' objects=1 - objects=0 milcgpu_link)
milcgpu_keep_undefined = objects { if ($$2 == "U") called[$$1]; else if ($$2 ~ /[A-Z]/) had[$$1]; next } \
  { for (k = 1; k <= NF; k++) { \
      f = $$k; \
      if (sub(/.*--wrap=/, "", f) && f in called && !(f in had) && index(libc, " " f " ") == 0) \
        print "milcgpu: $(milcgpu_program) calls " f ", which none of its objects has: as without milcgpu, the linker decides" > "/dev/stderr"; \
      else \
        print $$k } }

.PHONY: milcgpu-always
# The preprocessor decides; its messages go to nobody, because a header that is missing is an answer, too. In the recipe
# of an object, because only then is quark_action.h the target's.
milcgpu_start.o: $(milcgpu_here)start.c milcgpu-always
	@case "$$($(CC) $(milcgpu_flags) -E $(milcgpu_here)serves.h 2>/dev/null)" in \
	*milcgpu_serves_flow*) \
	  echo 'milcgpu: the gradient flow of $(milcgpu_program) goes to $(milcgpu_lib)/libmilcgpu.so'; \
	  echo '$(call milcgpu_wraps,$(milcgpu_wrapped_flow)) $(milcgpu_library)' >milcgpu_link;; \
	*milcgpu_serves_hyp*) \
	  echo 'milcgpu: HYP smearing of $(milcgpu_program) goes to $(milcgpu_lib)/libmilcgpu.so'; \
	  echo '$(call milcgpu_wraps,$(milcgpu_wrapped_hyp)) $(milcgpu_library)' >milcgpu_link;; \
	*milcgpu_serves*) \
	  echo 'milcgpu: solves and links of $(milcgpu_program) go to $(milcgpu_lib)/libmilcgpu.so'; \
	  echo '$(call milcgpu_wraps,$(milcgpu_wrapped)) $(milcgpu_library)' >milcgpu_link;; \
	*) \
	  if ! $(CC) $(milcgpu_flags) -E -x c /dev/null >/dev/null; then \
	    echo 'milcgpu: the compiler of this make cannot be run: $(CC) (MY_CC=... names another, for example MY_CC=gcc)' >&2; \
	    exit 1; \
	  fi; \
	  echo 'milcgpu: $(milcgpu_program) has no asqtad or HISQ solver to take over: it is built as without milcgpu'; \
	  : >milcgpu_link;; \
	esac
	$(milcgpu_compile)
milcgpu_ranks.o milcgpu_unitarity.o milcgpu_memory.o milcgpu_setup.o milcgpu_lattice_file.o: milcgpu_%.o: $(milcgpu_here)%.c milcgpu_start.o
	$(milcgpu_compile)
milcgpu_solve.o milcgpu_links.o milcgpu_hisq_links.o milcgpu_gauge_fix.o milcgpu_clover.o milcgpu_dirac_mesons.o: milcgpu_%.o: $(milcgpu_here)%.c milcgpu_start.o
	@$(milcgpu_compile_staggered)
milcgpu_gradient_flow.o: $(milcgpu_here)gradient_flow.c milcgpu_start.o
	@if grep -q wrap=run_gradient_flow milcgpu_link; then $(CC) -c $(milcgpu_flags) $< -o $@; else $(milcgpu_empty); fi
milcgpu_hyp.o: $(milcgpu_here)hyp.c milcgpu_start.o
	@if grep -q wrap=load_hyp_links milcgpu_link; then $(CC) -c $(milcgpu_flags) $< -o $@; else $(milcgpu_empty); fi
milcgpu_propagators.o: $(milcgpu_here)propagators.c milcgpu_start.o
	@if $(milcgpu_is_staggered) && $(CC) -c $(milcgpu_flags) $< -o $@ >/dev/null 2>&1; then \
	  echo '$(call milcgpu_wraps,$(milcgpu_wrapped_sets))' >>milcgpu_link; \
	else $(milcgpu_empty); fi
milcgpu_invert.o: $(milcgpu_here)invert.c milcgpu_start.o
	@$(call milcgpu_by_version,invert.c,inverts,-DMILCGPU_SERVES_INVERTS)
milcgpu_md.o: $(milcgpu_here)md.c milcgpu_start.o
	@if $(milcgpu_is_staggered) && $(CC) -c $(milcgpu_flags) $(milcgpu_here)md_probe.c -o milcgpu_md.o >/dev/null 2>&1; then \
	  echo '$(call milcgpu_wraps,$(milcgpu_wrapped_md))' >>milcgpu_link; \
	  $(CC) -c $(milcgpu_flags) -DMILCGPU_SERVES_MD $< -o $@; \
	else $(milcgpu_compile_staggered); fi
milcgpu_mesons.o: $(milcgpu_here)mesons.c milcgpu_start.o
	@$(call milcgpu_by_version,mesons_probe.c,mesons,-DMILCGPU_SERVES_MESONS)
milcgpu_updates.o milcgpu_fermion_force.o: milcgpu_%.o: $(milcgpu_here)%.c milcgpu_md.o
	@if grep -q wrap=update_u milcgpu_link; then $(CC) -c $(milcgpu_flags) $< -o $@; else $(milcgpu_empty); fi

milcgpu_empty   = $(CC) -c -x c /dev/null -o $@
milcgpu_program = $(or $(strip $(MYTARGET)),this program)
milcgpu_compile = if [ -s milcgpu_link ]; then $(CC) -c $(milcgpu_flags) $< -o $@; else $(milcgpu_empty); fi
milcgpu_is_staggered = grep -q wrap=ks_congrad_parity_cpu milcgpu_link
milcgpu_compile_staggered = if $(milcgpu_is_staggered); then $(CC) -c $(milcgpu_flags) $< -o $@; else $(milcgpu_empty); fi
# (file that compiles where this is served, its lists of routines, flag): as develop has them, else as master has them.
milcgpu_by_version = \
  if $(milcgpu_is_staggered) && $(CC) -c $(milcgpu_flags) $(3) $(milcgpu_here)$(1) -o $@ >/dev/null 2>&1; then \
    echo '$(call milcgpu_wraps,$(milcgpu_wrapped_$(2)) $(milcgpu_wrapped_$(2)_develop))' >>milcgpu_link; \
    $(CC) -c $(milcgpu_flags) $(3) $< -o $@; \
  elif $(milcgpu_is_staggered) && $(CC) -c $(milcgpu_flags) $(3) -DMILCGPU_MASTER $(milcgpu_here)$(1) -o $@ >/dev/null 2>&1; then \
    echo '$(call milcgpu_wraps,$(milcgpu_wrapped_$(2)) $(milcgpu_wrapped_$(2)_master))' >>milcgpu_link; \
    $(CC) -c $(milcgpu_flags) $(3) -DMILCGPU_MASTER $< -o $@; \
  else $(milcgpu_compile_staggered); fi

# For MILC's CMake with WANTQUDA=ON: find_package(QUDA) finds milcgpu by QUDA_ROOT=PREFIX/quda-compat.
get_filename_component(milcgpu_quda ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
add_library(QUDA::quda SHARED IMPORTED)
set_target_properties(QUDA::quda PROPERTIES IMPORTED_LOCATION ${milcgpu_quda}/lib/libquda.so
    INTERFACE_INCLUDE_DIRECTORIES ${milcgpu_quda}/include)

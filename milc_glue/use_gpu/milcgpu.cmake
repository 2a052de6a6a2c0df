# MILC's CMake reads this after its project(), if its command line has -DCMAKE_PROJECT_INCLUDE=<this file>, which
# milcgpu-config --cmake prints. It changes no file of MILC's.
#
#   cmake .. -DSUBDIR=ks_imp_rhmc $(milcgpu-config --cmake)
#
# cmake_link.sh then links each program. milc_gpu.mk decides everything: which programs are served, which files of the
# glue they get, and the words of their link lines. A program is linked again if a file of the glue or the library has
# changed.
include_guard(GLOBAL) # packages inside MILC may have a project() of their own
if(CMAKE_VERSION VERSION_LESS 3.21)
    message(FATAL_ERROR "milcgpu: CMake ${CMAKE_VERSION} is too old, 3.21 is needed. MILC's Makefiles take milcgpu "
        "without CMake: by the word that milcgpu-config --milc prints")
endif()
if(NOT CMAKE_GENERATOR MATCHES "^(Unix Makefiles|Ninja)$")
    message(FATAL_ERROR "milcgpu: the generator ${CMAKE_GENERATOR} cannot be used: say -G 'Unix Makefiles' or -G Ninja")
endif()

set(milcgpu_here ${CMAKE_CURRENT_LIST_DIR})
execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=MAKEFLAGS --unset=MAKEFILES
        make -s -f ${milcgpu_here}/milc_gpu.mk milcgpu_library
    OUTPUT_VARIABLE milcgpu_lib OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_VARIABLE milcgpu_said RESULT_VARIABLE milcgpu_status)
if(NOT milcgpu_status EQUAL 0)
    message(FATAL_ERROR "milcgpu: make cannot read ${milcgpu_here}/milc_gpu.mk (${milcgpu_status}): ${milcgpu_said}")
endif()
if("${milcgpu_here}${milcgpu_lib}${CMAKE_BINARY_DIR}" MATCHES " ")
    message(FATAL_ERROR "milcgpu: make cannot have a space in the name of a folder: "
        "${CMAKE_BINARY_DIR}, ${milcgpu_here}, ${milcgpu_lib}")
endif()
file(GLOB milcgpu_files LIST_DIRECTORIES false CONFIGURE_DEPENDS ${milcgpu_here}/*)

function(milcgpu_take folder)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
        get_property(type TARGET ${target} PROPERTY TYPE)
        if(type STREQUAL EXECUTABLE)
            set_property(TARGET ${target} PROPERTY EXPORT_COMPILE_COMMANDS ON)
            set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${milcgpu_files} ${milcgpu_lib}/libmilcgpu.so)
            foreach(launcher C_LINKER_LAUNCHER CXX_LINKER_LAUNCHER)
                get_property(asked TARGET ${target} PROPERTY ${launcher})
                set_property(TARGET ${target} PROPERTY ${launcher}
                    sh ${milcgpu_here}/cmake_link.sh ${CMAKE_BINARY_DIR} ${milcgpu_lib} ${target} ${asked})
            endforeach()
        endif()
    endforeach()
    get_property(inner DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    foreach(each IN LISTS inner)
        milcgpu_take(${each})
    endforeach()
endfunction()
cmake_language(DEFER CALL milcgpu_take ${CMAKE_CURRENT_SOURCE_DIR}) # after all programs are known
message(STATUS "milcgpu: staggered programs are linked with ${milcgpu_lib}/libmilcgpu.so")

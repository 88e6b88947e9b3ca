# SPDX-License-Identifier: Apache-2.0
#
# boardsmith's part of a firmware that CMake builds: its server, the runtime and the model, as the OBJECT library
# boardsmith, and the project's libraries, which are linked with it. Include this file behind project(), with the flags for the processor in CMAKE_C_FLAGS; then
# target_link_libraries(firmware.elf PRIVATE boardsmith m). Your main calls boardsmith_main(), which returns when the host
# closes the link.

set(boardsmith_root "${CMAKE_CURRENT_SOURCE_DIR}")
# The image does not depend on the folder. Names of sources are joined to the compiler's folder, and the last option
# applies.
add_compile_options("-ffile-prefix-map=${boardsmith_root}=." "-ffile-prefix-map=${CMAKE_BINARY_DIR}=.")

# Nor on the day: with the user's SOURCE_DATE_EPOCH, the compiler has that time. Of your sources, it warns.
set(boardsmith_no_date -Wno-builtin-macro-redefined)
set(macros __TIMESTAMP__)
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  list(APPEND macros __DATE__ __TIME__)
  add_compile_options(-Wdate-time)
endif()
foreach(macro IN LISTS macros)
  list(APPEND boardsmith_no_date "-D${macro}=_Pragma(\"GCC error \\\"${macro} differs in each build\\\"\")")
endforeach()

# Sets a variable of CMake for each line NAME := WORDS of a file for make, which boardsmith generates.
function(boardsmith_read file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(STRINGS "${file}" lines REGEX "^[A-Z_a-z0-9.-]+ :=")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([^ ]+) :=(.*)$" ignored "${line}")
    set(name "${CMAKE_MATCH_1}")
    string(REPLACE "$$" "$" words "${CMAKE_MATCH_2}")
    string(REPLACE "\\#" "#" words "${words}")
    separate_arguments(words UNIX_COMMAND "${words}")
    set(${name} "${words}" PARENT_SCOPE)
  endforeach()
endfunction()
boardsmith_read("${boardsmith_root}/crt_config/operators.mk")
set(LIBRARIES)
if(EXISTS "${boardsmith_root}/crt_config/libraries.mk")
  boardsmith_read("${boardsmith_root}/crt_config/libraries.mk")
endif()

file(GLOB boardsmith_server CONFIGURE_DEPENDS "${boardsmith_root}/boardsmith/*.c" "${boardsmith_root}/crt/src/*/*.c")
file(GLOB boardsmith_model CONFIGURE_DEPENDS "${boardsmith_root}/model/codegen/host/src/*.c")
file(GLOB boardsmith_objects CONFIGURE_DEPENDS "${boardsmith_root}/model/codegen/host/lib/*.o")
add_library(boardsmith OBJECT ${boardsmith_server} ${boardsmith_model} ${boardsmith_objects})
target_include_directories(boardsmith PUBLIC "${boardsmith_root}" crt_config crt/include boardsmith PRIVATE crt/src
  model/codegen/host/include)
target_link_options(boardsmith INTERFACE -Wl,--build-id=md5 -Wl,-Map=firmware.map)
set_source_files_properties(${boardsmith_server} PROPERTIES COMPILE_OPTIONS "-std=c11;-Os")
set_source_files_properties("${boardsmith_root}/boardsmith/main.c" PROPERTIES COMPILE_DEFINITIONS main=boardsmith_main)
foreach(source IN LISTS boardsmith_model)  # generated code: newer compilers must accept it too
  get_filename_component(name "${source}" NAME_WE)
  set(flags ${OPERATOR_FLAGS})
  if(DEFINED OPERATOR_FLAGS_${name})
    set(flags ${OPERATOR_FLAGS_${name}})
  endif()
  set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS
    "-std=gnu11;-${OPERATOR_OPT};${flags};-w;-Wno-error=incompatible-pointer-types;-Wno-error=int-conversion;${boardsmith_no_date}")
endforeach()

list(TRANSFORM LIBRARY_INCLUDES REPLACE "^-I" "${boardsmith_root}/")
target_include_directories(boardsmith PUBLIC ${LIBRARY_INCLUDES})
foreach(name IN LISTS LIBRARIES)
  set(sources ${LIBRARY_SOURCES_${name}})
  if("${sources}" MATCHES "\\.cpp(;|$)" AND NOT CMAKE_CXX_COMPILER_LOADED)
    set(CMAKE_CXX_COMPILER "${CXX}")
    enable_language(CXX)
  endif()
  if("${sources}" MATCHES "\\.S(;|$)")
    enable_language(ASM)
  endif()
  if(NOT sources)  # headers only: an empty archive
    set(sources "${CMAKE_BINARY_DIR}/libraries/empty.c")
    file(CONFIGURE OUTPUT "${sources}" CONTENT "")
  endif()
  add_library(boardsmith_library_${name} STATIC ${sources})
  target_include_directories(boardsmith_library_${name} PRIVATE crt_config crt/include ${LIBRARY_INCLUDES})
  target_compile_options(boardsmith_library_${name} PRIVATE -O2 -w ${boardsmith_no_date} $<$<COMPILE_LANGUAGE:C>:-std=gnu11>
    "$<$<COMPILE_LANGUAGE:CXX>:-std=gnu++17;-fno-exceptions;-fno-rtti;-fno-threadsafe-statics;-fno-use-cxa-atexit>"
    ${LIBRARY_FLAGS_${name}})
  set_target_properties(boardsmith_library_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/libraries")
  # By its path: a target with C++ in it would make the C++ compiler link, with its own library.
  add_dependencies(boardsmith boardsmith_library_${name})
  target_link_libraries(boardsmith PUBLIC "${CMAKE_BINARY_DIR}/libraries/${name}.a")
endforeach()

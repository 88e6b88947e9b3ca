# SPDX-License-Identifier: Apache-2.0
#
# Compiles Zephyr's own files together, several as one source: to start a compiler and to read Zephyr's headers takes
# longer than to compile most of these files. The linker leaves out the functions that an image does not need, as it
# does without this.

# Sets VARIABLE to the names that no file beside the source PATH may have, and VARIABLE_macros to its macros. VARIABLE
# is alone if no file may stand beside it: it has an initialisation, whose turn would be another, a macro that a header
# may read, a pragma, or a name that is not in the line that begins with static or typedef.
function(boardsmith_names_of path variable)
  file(STRINGS "${path}" lines
    REGEX "^(static|struct|union|enum|typedef)[ \t]|^[ \t]*#[ \t]*(define|undef|include|pragma)|^[A-Z][A-Z0-9_]+\\(")
  set(names)
  set(macros)
  foreach(line IN LISTS lines)
    string(REPLACE "\t" " " line "${line}")
    if(line MATCHES "^ *# *include" AND (NOT macros OR line MATCHES "[<\"]syscalls/"))  # those are of user mode
      continue()
    elseif(line MATCHES "^ *# *define +([A-Za-z0-9_]+)")
      list(APPEND macros ${CMAKE_MATCH_1})
    elseif(line MATCHES "^ *# *undef +([A-Za-z0-9_]+)" AND CMAKE_MATCH_1 IN_LIST macros)
      continue()
    elseif(line MATCHES "^static [^(=;]*[ *]([A-Za-z0-9_]+)(\\[[^]]*\\])* *[(=;]")
      list(APPEND names ${CMAKE_MATCH_1})
    elseif(line MATCHES "^(struct|union|enum) +([A-Za-z0-9_]*) *{")
      list(APPEND names ${CMAKE_MATCH_2})
    elseif(line MATCHES "^typedef [A-Za-z0-9_ *]*[ *]([A-Za-z0-9_]+);")
      list(APPEND names ${CMAKE_MATCH_1})
    elseif(line MATCHES "^LOG_MODULE_(REGISTER|DECLARE)\\(")
      list(APPEND names LOG_MODULE)
    elseif(line MATCHES "^static [^(=;]*$"
        OR NOT line MATCHES "^(static|struct|union|enum|BUILD_ASSERT|K_[A-Z_]*DEFINE)")
      set(names alone)
      break()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  list(REMOVE_DUPLICATES macros)
  set(${variable} "${names}" PARENT_SCOPE)
  set(${variable}_macros "${macros}" PARENT_SCOPE)
endfunction()

# Compiles those of the target's files whose paths match the pattern together, at most eight as one source. What the
# linker takes as a whole must be needed as a whole: its needs take other files in, which may have initialisations.
function(boardsmith_together target name pattern)
  if(NOT TARGET ${target})
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")  # compiled before
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(units 0)
  foreach(source IN LISTS sources)
    get_filename_component(path "${source}" ABSOLUTE BASE_DIR "${folder}")
    file(RELATIVE_PATH relative "${ZEPHYR_BASE}" "${path}")
    if(NOT relative MATCHES "^${pattern}\\.c$" OR NOT EXISTS "${path}")
      continue()
    endif()
    boardsmith_names_of("${path}" names)
    foreach(property COMPILE_OPTIONS COMPILE_FLAGS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES GENERATED HEADER_FILE_ONLY)
      get_source_file_property(value "${path}" TARGET_DIRECTORY ${target} ${property})
      if(value)
        set(names alone)
      endif()
    endforeach()
    if(names STREQUAL "alone")
      continue()
    endif()
    # Without logs, all files of a log's module declare the same constant. The first of them does.
    set(logs OFF)
    if(LOG_MODULE IN_LIST names AND NOT CONFIG_LOG)
      set(logs ON)
      list(REMOVE_ITEM names LOG_MODULE)
    endif()
    # The first unit that has room for the file and none of its names.
    set(unit 0)
    while(unit LESS units)
      set(all ${names_${unit}} ${names})
      list(LENGTH all count)
      list(REMOVE_DUPLICATES all)
      list(LENGTH all different)
      list(LENGTH files_${unit} files)
      if(count EQUAL different AND files LESS 8)
        break()
      endif()
      math(EXPR unit "${unit} + 1")
    endwhile()
    if(unit EQUAL units)
      math(EXPR units "${units} + 1")
    endif()
    list(APPEND names_${unit} ${names})
    list(APPEND files_${unit} "${path}")
    set(before "")
    set(after "")
    foreach(macro IN LISTS names_macros)
      string(APPEND before "#pragma push_macro(\"${macro}\")\n")
      string(APPEND after "#pragma pop_macro(\"${macro}\")\n")
    endforeach()
    if(logs)
      foreach(macro LOG_MODULE_REGISTER LOG_MODULE_DECLARE)
        string(APPEND after "#undef ${macro}\n#define ${macro}(...)\n")
      endforeach()
    endif()
    string(APPEND text_${unit} "${before}#include \"${path}\"\n${after}")
  endforeach()
  foreach(unit RANGE ${units})
    list(LENGTH files_${unit} files)
    if(files GREATER 1)
      set(source "${CMAKE_BINARY_DIR}/together/${name}_${unit}.c")
      set(text "${text_${unit}}")
      file(CONFIGURE OUTPUT "${source}" CONTENT "@text@" @ONLY)  # keeps a file that does not change
      set_source_files_properties(${files_${unit}} TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
      list(PREPEND sources "${source}")  # what takes long begins first
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
endfunction()

boardsmith_together(zephyr os "lib/os/[a-z0-9_-]+")  # the linker takes all of them
# The linker takes of these what an image needs: the first in all images, the others in few.
boardsmith_together(kernel kernel
  "kernel/(banner|device|errno|fatal|idle|init|mutex|sched|sem|thread|timeout|timer|version|xip)")
boardsmith_together(kernel kernel_rare "kernel/(condvar|mailbox|mempool|msg_q|queue|stack)")
boardsmith_together(lib__libc__minimal libc_rare "lib/libc/minimal/source/(stdlib/(abort|exit)|stdout/[a-z_]+)")
boardsmith_together(lib__libc__minimal libc
  "lib/libc/minimal/source/(string/[a-z]+|stdlib/(atoi|strto[a-z]+|bsearch|qsort)|math/[a-z]+)")

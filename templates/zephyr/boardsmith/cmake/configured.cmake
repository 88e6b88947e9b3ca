# SPDX-License-Identifier: Apache-2.0
#
# Reads numbers from a project's crt_config.h.

# Sets var to the number that the file's macro stands for, 0 if it has none. The number may be an expression: CMake
# computes those of C's operators that a size needs.
function(boardsmith_configured var file name)
  set(value 0)
  if(EXISTS "${file}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(STRINGS "${file}" lines REGEX "^[ \t]*#[ \t]*define[ \t]+${name}([^A-Za-z0-9_]|$)")
    if(lines)
      string(REGEX REPLACE "^[ \t]*#[ \t]*define[ \t]+${name}|//.*$|/[*].*$" "" number "${lines}")
      string(REGEX REPLACE "([0-9A-Fa-f])[uUlL]+" "\\1" number "${number}")
      if(NOT number MATCHES "^[ \t(]*(0|[1-9]|0[xX])[0-9A-FXa-fx+*<> \t()-]*$" OR number MATCHES "[^0-9A-FXa-fx]0[0-9]")
        message(FATAL_ERROR "boardsmith: ${file} has \"${lines}\": ${name} must be one number, also as 32 * 1024, "
          "0x8000 or 32768U")
      endif()
      math(EXPR value "${number}")
    endif()
  endif()
  set(${var} ${value} PARENT_SCOPE)
endfunction()

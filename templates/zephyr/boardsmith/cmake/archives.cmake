# SPDX-License-Identifier: Apache-2.0
#
# Included behind project() of Zephyr, before its libraries. An archive of GNU's ar has its table of symbols without
# ranlib. The compiler's own ar loads one plugin, and not all that other compilers have installed, which takes longer
# than to write the archive.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_C_ARCHIVE_CREATE "<CMAKE_AR> qcs <TARGET> <LINK_FLAGS> <OBJECTS>")
  if(CMAKE_C_COMPILER_AR)
    string(REPLACE "<CMAKE_AR>" "\"${CMAKE_C_COMPILER_AR}\"" CMAKE_C_ARCHIVE_CREATE "${CMAKE_C_ARCHIVE_CREATE}")
  endif()
  set(CMAKE_C_ARCHIVE_FINISH "")
endif()

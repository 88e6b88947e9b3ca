# SPDX-License-Identifier: Apache-2.0
#
# Included behind project() of Zephyr, before its libraries. An archive of GNU's ar has its table of symbols without
# ranlib. The compiler's own ar loads one plugin. The other one loads those of all installed compilers, which takes
# longer than to write the archive.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(boardsmith_ar "<CMAKE_AR>")
  if(CMAKE_C_COMPILER_AR)
    set(boardsmith_ar "\"${CMAKE_C_COMPILER_AR}\"")
  endif()
  set(CMAKE_C_ARCHIVE_CREATE "${boardsmith_ar} qcs <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_C_ARCHIVE_FINISH "")
endif()

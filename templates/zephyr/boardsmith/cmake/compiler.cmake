# SPDX-License-Identifier: Apache-2.0
#
# Included behind project() of Zephyr, which has found the compiler, before its options and libraries.

# An archive of GNU's ar has its table of symbols without ranlib. The compiler's own ar loads one plugin. The other one
# loads those of all installed compilers, which takes longer than to write the archive.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(boardsmith_ar "<CMAKE_AR>")
  if(CMAKE_C_COMPILER_AR)
    set(boardsmith_ar "\"${CMAKE_C_COMPILER_AR}\"")
  endif()
  set(CMAKE_C_ARCHIVE_CREATE "${boardsmith_ar} qcs <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_C_ARCHIVE_FINISH "")
endif()

# Zephyr before 3.4 tests whether the compiler can leave this folder's name out of __FILE__, in each new folder again.
# Our own prefix map leaves it out. From 3.4 on, Kconfig has the result. A function of Zephyr, called before each test,
# has the results of some; it sets variables with these names.
if(CONFIG_BOARDSMITH_PREFIX_MAP AND DEFINED zephyr AND zephyr VERSION_LESS 3.4
    AND COMMAND zephyr_check_compiler_flag_hardcoded)
  function(zephyr_check_compiler_flag_hardcoded lang option check exists)
    _zephyr_check_compiler_flag_hardcoded(${lang} "${option}" check exists)
    string(FIND "${option}" "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}=" at)
    if(at EQUAL 0)
      set(check 0)
      set(exists 1)
    endif()
    set(exists ${exists} PARENT_SCOPE)
    if(exists)
      set(check ${check} PARENT_SCOPE)
    endif()
  endfunction()
endif()

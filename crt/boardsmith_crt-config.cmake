# SPDX-License-Identifier: Apache-2.0
#
# The target boardsmith_crt: CMakeLists.txt describes it.
if(TARGET boardsmith_crt)
  return()
endif()
if(NOT EXISTS "${BOARDSMITH_CRT_CONFIG}/crt_config.h")
  message(FATAL_ERROR "BOARDSMITH_CRT_CONFIG=${BOARDSMITH_CRT_CONFIG} is not the folder with your crt_config.h")
endif()
file(GLOB BOARDSMITH_CRT_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/src/*/*.c")
add_library(boardsmith_crt INTERFACE)
target_sources(boardsmith_crt INTERFACE ${BOARDSMITH_CRT_SOURCES})
target_include_directories(boardsmith_crt INTERFACE
  "${BOARDSMITH_CRT_CONFIG}" "${CMAKE_CURRENT_LIST_DIR}/include" "${CMAKE_CURRENT_LIST_DIR}/src")

# SPDX-License-Identifier: Apache-2.0
#
# Writes build/board.json: what only Zephyr's configuration shows of the board, in the format of boardsmith's board
# files (docs/PORTING.md). boardsmith reads it after the build. It is only written if it differs.

function(boardsmith_words var)  # a JSON list of the words
  set(list "")
  foreach(word IN LISTS ARGN)
    string(REPLACE "\\" "\\\\" word "${word}")
    string(REPLACE "\"" "\\\"" word "${word}")
    string(APPEND list ", \"${word}\"")
  endforeach()
  string(REGEX REPLACE "^, " "" list "${list}")
  set(${var} "[${list}]" PARENT_SCOPE)
endfunction()

# ---- ELF and compiler ------------------------------------------------------------------------------------------------

if(CONFIG_ARCH_POSIX)
  set(elf "\"machine\": \"native\"")
elseif(CONFIG_ARM)
  if(CONFIG_ARMV8_1_M_MAINLINE)
    set(arch v8.1-m)
  elseif(CONFIG_ARMV8_M_MAINLINE)
    set(arch v8-m.main)
  elseif(CONFIG_ARMV8_M_BASELINE)
    set(arch v8-m.base)
  elseif(CONFIG_CPU_CORTEX_M4 OR CONFIG_CPU_CORTEX_M7)
    set(arch v7e-m)
  elseif(CONFIG_ARMV7_M_ARMV8_M_MAINLINE)
    set(arch v7-m)
  else()
    set(arch v6-m)
  endif()
  set(float_abi soft)
  if(CONFIG_FPU AND CONFIG_FP_HARDABI)
    set(float_abi hard)
  endif()
  set(elf "\"machine\": \"arm\", \"arch\": \"${arch}\", \"class\": 32, ")
  string(APPEND elf "\"endian\": \"little\", \"float_abi\": \"${float_abi}\"")
elseif(CONFIG_RISCV)
  set(class 32)
  if(CONFIG_64BIT)
    set(class 64)
  endif()
  string(REGEX MATCH "-march=(rv[0-9a-z]+)" ignored "${TOOLCHAIN_C_FLAGS}")
  set(arch "${CMAKE_MATCH_1}")
  set(float_abi soft)
  if(TOOLCHAIN_C_FLAGS MATCHES "-mabi=i?lp[0-9]+d")
    set(float_abi double)
  elseif(TOOLCHAIN_C_FLAGS MATCHES "-mabi=i?lp[0-9]+f")
    set(float_abi single)
  endif()
  set(elf "\"machine\": \"riscv\", \"arch\": \"${arch}\", \"class\": ${class}, ")
  string(APPEND elf "\"endian\": \"little\", \"float_abi\": \"${float_abi}\"")
elseif(CONFIG_X86)
  set(elf "\"machine\": \"i386\", \"class\": 32, \"endian\": \"little\"")
else()
  set(elf "")
endif()
set(cflags ${TOOLCHAIN_C_FLAGS})
list(FILTER cflags INCLUDE REGEX "^-m")
# The C library for operators in RAM, where the compiler has one.
set(ldflags "")
if(NOT CONFIG_ARCH_POSIX)
  foreach(specs nano.specs picolibc.specs)
    execute_process(COMMAND ${CMAKE_C_COMPILER} ${TOOLCHAIN_C_FLAGS} -print-file-name=${specs}
      OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(IS_ABSOLUTE "${file}" AND NOT ldflags)
      set(ldflags --specs=${specs})
      if(specs STREQUAL "picolibc.specs")
        list(PREPEND cflags --specs=${specs})
      endif()
    endif()
  endforeach()
  list(APPEND ldflags -nostartfiles)
  if(CONFIG_RISCV)
    string(REGEX MATCH "-march=rv[0-9a-z]+" march "${TOOLCHAIN_C_FLAGS}")  # as the list of libraries has it
    list(PREPEND ldflags ${march})
  endif()
endif()
boardsmith_words(ldflags ${ldflags})
boardsmith_words(cflags ${cflags})
get_filename_component(cc "${CMAKE_C_COMPILER}" NAME)
get_filename_component(ar "${CMAKE_AR}" NAME)

# ---- Link ------------------------------------------------------------------------------------------------------------

set(programmer west)
set(host_clock "")
if(CONFIG_ARCH_POSIX)
  set(link "\"kind\": \"process\"")
  set(programmer none)
elseif(CONFIG_QEMU_TARGET AND DEFINED QEMU_FLAGS_${ARCH})
  if(NOT DEFINED QEMU_binary_suffix)
    set(QEMU_binary_suffix ${ARCH})
  endif()
  # boardsmith adds its own options for the display, the link and the clock.
  string(REPLACE ";" " " words "${QEMU_FLAGS_${ARCH}}")
  string(REGEX REPLACE "-nographic|-vga +none" "" words "${words}")
  separate_arguments(words UNIX_COMMAND "${words}")
  boardsmith_words(words ${words})
  set(link "\"kind\": \"qemu\", \"program\": \"qemu-system-${QEMU_binary_suffix}\", \"args\": ${words}")
  set(programmer none)
  set(host_clock "\"host_clock\": false,\n  ")
else()
  set(speed 115200)
  dt_chosen(uart PROPERTY "boardsmith,uart")
  if(NOT DEFINED uart)
    dt_chosen(uart PROPERTY "zephyr,console")
  endif()
  if(DEFINED uart)
    dt_prop(speed PATH "${uart}" PROPERTY "current-speed")
  endif()
  if(NOT speed)
    set(speed 115200)
  endif()
  set(link "\"kind\": \"serial\", \"baud\": ${speed}")
endif()

# ---- Memory ----------------------------------------------------------------------------------------------------------

set(memory "")
if(NOT CONFIG_ARCH_POSIX)
  math(EXPR ram_bytes "${CONFIG_SRAM_SIZE} * 1024" OUTPUT_FORMAT HEXADECIMAL)
  set(regions "")
  set(code ram)
  if(CONFIG_XIP)
    set(code flash)
    math(EXPR flash_bytes "${CONFIG_FLASH_SIZE} * 1024" OUTPUT_FORMAT HEXADECIMAL)
    set(wear "")
    dt_chosen(flash PROPERTY "zephyr,flash")
    if(DEFINED flash AND NOT CONFIG_QEMU_TARGET)
      string(APPEND wear ", \"nonvolatile\": true")
      dt_prop(sector PATH "${flash}" PROPERTY "erase-block-size")
      if(sector)
        math(EXPR sectors "${CONFIG_FLASH_SIZE} * 1024 / ${sector}")
        string(APPEND wear ", \"sectors\": [{\"count\": ${sectors}, \"size\": ${sector}}]")
      endif()
    endif()
    set(regions "{\"name\": \"flash\", \"origin\": \"${CONFIG_FLASH_BASE_ADDRESS}\", ")
    string(APPEND regions "\"size\": \"${flash_bytes}\", \"exec\": true${wear}},\n    ")
  endif()
  string(APPEND regions "{\"name\": \"ram\", \"origin\": \"${CONFIG_SRAM_BASE_ADDRESS}\", ")
  string(APPEND regions "\"size\": \"${ram_bytes}\", \"exec\": true}")
  set(memory "\"memory\": [\n    ${regions}\n  ],\n  \"place\": {\"code\": \"${code}\", \"data\": \"ram\"},\n  ")
endif()
math(EXPR arena_kib "${boardsmith_arena_bytes} / 1024")

set(core "")
if(CONFIG_CORTEX_M_SYSTICK)
  set(hz ${CONFIG_SYS_CLOCK_HW_CYCLES_PER_SEC})
  set(core "\"core_hz\": ${hz},\n  \"timer\": {\"kind\": \"systick\", \"hz\": ${hz}},\n  ")
endif()

file(CONFIGURE OUTPUT "${APPLICATION_SOURCE_DIR}/build/board.json" @ONLY CONTENT [[{
  "doc": "Zephyr's board @BOARD@, as this build has configured it",
  "arena_kib": @arena_kib@,
  "stack_bytes": @CONFIG_BOARDSMITH_STACK_BYTES@,
  @memory@@core@@host_clock@"cflags": @cflags@,
  "ldflags": @ldflags@,
  "toolchain": {"cc": "@cc@", "ar": "@ar@"},
  "elf": {@elf@},
  "link": {@link@},
  "flash": {"programmer": "@programmer@"}
}
]])

# The linked image has one name on all boards: native_sim links a program from zephyr.elf.
set(image zephyr.elf)
if(CONFIG_ARCH_POSIX)
  set(image zephyr.exe)
endif()
file(CREATE_LINK "${image}" "${PROJECT_BINARY_DIR}/firmware.elf" SYMBOLIC)

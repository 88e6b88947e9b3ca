/* SPDX-License-Identifier: Apache-2.0
 *
 * The one linker script of all bare-metal boards. The preprocessor puts the board's memory map into it
 * (crt_config/memory.h): nothing here knows a chip. Not for a process, which the system's own script links.
 *
 * From the start of the region `code`: a boot header where the chip wants one, the vectors, code, constants, the image
 * of .data. From the start of `stack`: the guard, the thread stack growing down to it, so that an overflow runs into the
 * guard and, below it, out of the region. Then, each in its region, the handlers' stack, .data, .bss, what is kept
 * over a reset, the arena.
 *
 * Only what has contents is in a segment. A loader that clears the rest of a segment (QEMU does, at every reset)
 * would else clear what a reset has to keep.
 */
#include "memory.h"
#include "crt_config.h"

#ifndef BARE_GUARD_BYTES
#define BARE_GUARD_BYTES 0
#endif
#ifndef BARE_HANDLER_STACK_BYTES
#define BARE_HANDLER_STACK_BYTES 768
#endif

ENTRY(bare_entry)

MEMORY { BOARDSMITH_MEMORY }

PHDRS {
  code PT_LOAD FLAGS(5);
  data PT_LOAD FLAGS(6);
  tls PT_TLS FLAGS(4);
}

SECTIONS {
  .boot : {
    bare_image_start = .;
    KEEP(*(.boardsmith.boot))
  } >BOARDSMITH_IN_CODE :code

  .text : {
    KEEP(*(.boardsmith.vectors))
    *(.text .text.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :code

  .rodata : {
    *(.rodata .rodata.*)
    *(.srodata .srodata.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :code

  .ARM.exidx : {
    *(.ARM.exidx .ARM.exidx.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :code

  .stack (NOLOAD) : {
    bare_guard_start = .;
    . += BARE_GUARD_BYTES;
    bare_stack_start = .;
    . += BOARDSMITH_STACK_BYTES;
    . = ALIGN(16);
    bare_stack_end = .;
  } >BOARDSMITH_IN_STACK :NONE

  .handler_stack (NOLOAD) : {
    . = ALIGN(16);
    bare_handler_stack_start = .;
    . += BARE_HANDLER_STACK_BYTES;
    . = ALIGN(16);
    bare_handler_stack_end = .;
  } >BOARDSMITH_IN_STACK :NONE

  .noinit (NOLOAD) : {
    . = ALIGN(16);
    KEEP(*(.boardsmith.noinit))
  } >BOARDSMITH_IN_NOINIT :NONE

  .arena (NOLOAD) : {
    *(.bss.boardsmith_arena)
  } >BOARDSMITH_IN_ARENA :NONE

  /* Aligned as a whole, so that its image in flash begins where it does, whatever lies before it in RAM. */
  .data : ALIGN(16) {
    bare_data_start = .;
    *(.ramfunc .ramfunc.*)
    *(.data .data.*)
    . = ALIGN(8);
    PROVIDE(__global_pointer$ = . + 0x800);
    *(.sdata .sdata.*)
    . = ALIGN(16);
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data

  /* The one thread's variables, as some C libraries' errno is: tp points at bare_tls_start. */
  .tdata : {
    bare_tls_start = .;
    *(.tdata .tdata.*)
    . = ALIGN(16);
    bare_data_end = .;
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data :tls

  .tbss (NOLOAD) : {
    *(.tbss .tbss.*)
  } >BOARDSMITH_IN_DATA :tls

  .bss (NOLOAD) : {
    . = ALIGN(16);
    bare_bss_start = .;
    . += SIZEOF(.tbss); /* which lies here without taking room by itself */
    *(.sbss .sbss.*)
    *(.bss .bss.* COMMON)
    . = ALIGN(16);
    bare_bss_end = .;
  } >BOARDSMITH_IN_DATA :NONE

  bare_data_load = LOADADDR(.data);
  bare_image_end = bare_data_load + (bare_data_end - bare_data_start);
}

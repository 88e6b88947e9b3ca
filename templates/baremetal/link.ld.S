/* SPDX-License-Identifier: Apache-2.0
 *
 * The one linker script of all bare-metal boards. The preprocessor puts the board's memory map into it
 * (crt_config/memory.h): nothing here knows a chip. Not for a process, which the system's own script links.
 *
 * The region `code` holds two parts. The resident one is the same for every model: a boot header where the chip wants
 * one, the vectors, code and constants of the runtime and the port (RESIDENT is the object that has all of them, with
 * the C library's functions that they need). The model part is all else: the table by which the resident part finds it
 * (bare_model.h), operators, their constants and functions of the C library, the images of all variables. It starts at
 * a sector boundary that does not depend on it, so that another model, or a changed operator, leaves every sector
 * before it as it is. What is between the two parts is no part of the image.
 *
 * From the start of `stack`: the guard, the thread stack growing down to it, so that an overflow runs into the
 * guard and, below it, out of the region. Then, each in its region, the handlers' stack, what is kept over a reset, the
 * arena, variables: the resident part's first, whose addresses it has in its code.
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
  model PT_LOAD FLAGS(5);
  data PT_LOAD FLAGS(6);
  tls PT_TLS FLAGS(4);
}

SECTIONS {
  .boot : {
    bare_image_start = .;
    KEEP(RESIDENT(.boardsmith.boot))
  } >BOARDSMITH_IN_CODE :code

  .text : {
    KEEP(RESIDENT(.boardsmith.vectors))
    KEEP(RESIDENT(.text .text.*))
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :code

  .rodata : {
    KEEP(RESIDENT(.rodata .rodata.* .srodata .srodata.*))
    . = ALIGN(8);
    bare_resident_end = .;
  } >BOARDSMITH_IN_CODE :code

  /* What changes with any change first, then what moves least: parameters are as large as they were. */
  .model BOARDSMITH_MODEL_AT(ADDR(.rodata) + SIZEOF(.rodata)) : ALIGN(BOARDSMITH_MODEL_ALIGN) {
    KEEP(*(.boardsmith.model))
    KEEP(*(.rodata.boardsmith_build_id))
    *(.rodata.tvm .rodata.tvm.*)
    *(.rodata .rodata.* .srodata .srodata.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  .model_text : {
    *(.text .text.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  .ARM.exidx : {
    *(.ARM.exidx .ARM.exidx.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

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
    KEEP(RESIDENT(.boardsmith.noinit))
  } >BOARDSMITH_IN_NOINIT :NONE

  .arena (NOLOAD) : {
    KEEP(RESIDENT(.bss.boardsmith_arena))
  } >BOARDSMITH_IN_ARENA :NONE

  .bss (NOLOAD) : {
    . = ALIGN(16);
    bare_bss_start = .;
    KEEP(RESIDENT(.bss .bss.* COMMON))
    KEEP(RESIDENT(.sbss .sbss.*))
    . = ALIGN(16);
    bare_bss_end = .;
  } >BOARDSMITH_IN_DATA :NONE

  /* Aligned as a whole, so that its image in flash begins where it does, whatever lies before it in RAM. */
  .data : ALIGN(16) {
    bare_data_start = .;
    KEEP(RESIDENT(.sdata .sdata.*))
    PROVIDE(__global_pointer$ = bare_data_start + 0x400);
    KEEP(RESIDENT(.ramfunc .ramfunc.*))
    KEEP(RESIDENT(.data .data.*))
    . = ALIGN(16);
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data

  /* The one thread's variables, as some C libraries' errno is: tp points at bare_tls_start. Those that begin as zero
     are written out here, for else they would lie behind what the model part has of the others. */
  .tdata : {
    bare_tls_start = .;
    KEEP(RESIDENT(.tdata .tdata.* .tbss .tbss.*))
    *(.tdata .tdata.* .tbss .tbss.*)
    . = ALIGN(16);
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data :tls

  .model_data : {
    *(.ramfunc .ramfunc.*)
    *(.data .data.* .sdata .sdata.*)
    . = ALIGN(16);
    bare_data_end = .;
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data

  .model_bss (NOLOAD) : {
    . = ALIGN(16);
    bare_model_bss_start = .;
    *(.sbss .sbss.*)
    *(.bss .bss.* COMMON)
    . = ALIGN(16);
    bare_model_bss_end = .;
  } >BOARDSMITH_IN_DATA :NONE

  bare_data_load = LOADADDR(.data);
  bare_image_end = bare_data_load + (bare_data_end - bare_data_start);
}

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
 * guard and, below it, out of the region. Then the handlers' stack, with a guard of its own and a mark above that, which
 * is looked at where nothing else finds an overflow. Then, each in its region, what is kept over a reset, the arena,
 * variables: the resident part's first, whose addresses it has in its code.
 *
 * All variables with a value lie in RAM as they lie in the image, so that one copy makes them, however one is aligned.
 * Every section is named here: the Makefile makes an error of any other. What is not placed by this script would be in
 * no part, and neither copied at the start nor in the checksum that the firmware computes.
 *
 * Only what has contents is in a segment. A loader that clears the rest of a segment (QEMU does, at every reset)
 * would else clear what a reset has to keep.
 */
#include "memory.h"
#include "crt_config.h"

#ifndef BARE_GUARD_BYTES
#define BARE_GUARD_BYTES 0
#endif
/* A memory protection unit's region begins at a multiple of its size. */
#define BARE_GUARD_ALIGN MAX(BARE_GUARD_BYTES, 16)
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
    boardsmith_build_id = .;
    INCLUDE BUILD_ID
    boardsmith_build_id_end = .;
    *(.rodata.tvm .rodata.tvm.*)
    *(.rodata .rodata.* .srodata .srodata.*)
    *(.got .got.plt .igot.plt)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  .model_text : {
    *(.text .text.*)
    *(.glue_7 .glue_7t .vfp11_veneer .v4_bx .iplt .plt .plt.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  /* What runs before main, of both parts, in the order of its priorities. */
  .init_array : {
    bare_init_start = .;
    KEEP(*(SORT_BY_INIT_PRIORITY(.init_array.*)))
    KEEP(*(.init_array))
    bare_init_end = .;
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  .ARM.exidx : {
    *(.ARM.extab .ARM.extab.* .ARM.exidx .ARM.exidx.*)
    *(.eh_frame .eh_frame.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  .stack (NOLOAD) : {
    . = ALIGN(BARE_GUARD_ALIGN);
    bare_guard_start = .;
    . += BARE_GUARD_BYTES;
    bare_stack_start = .;
    . += BOARDSMITH_STACK_BYTES;
    . = ALIGN(16);
    bare_stack_end = .;
  } >BOARDSMITH_IN_STACK :NONE

  .handler_stack (NOLOAD) : {
    . = ALIGN(BARE_GUARD_ALIGN);
    bare_handler_guard_start = .;
    . += BARE_GUARD_BYTES;
    bare_handler_mark = .;
    . += 16;
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
  .data : ALIGN_WITH_INPUT {
    . = ALIGN(16);
    bare_data_start = .;
    KEEP(RESIDENT(.sdata .sdata.*))
    PROVIDE(__global_pointer$ = bare_data_start + 0x400);
    KEEP(RESIDENT(.ramfunc .ramfunc.*))
    KEEP(RESIDENT(.data .data.*))
    . = ALIGN(16);
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data

  /* The one thread's variables, as some C libraries' errno is: tp points at bare_tls_start. Those that begin as zero
     are written out here, for else they would lie behind what the model part has of the others. */
  .tdata : ALIGN_WITH_INPUT {
    bare_tls_start = .;
    KEEP(RESIDENT(.tdata .tdata.* .tbss .tbss.*))
    *(.tdata .tdata.* .tbss .tbss.*)
    . = ALIGN(16);
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data :tls

  .model_data : ALIGN_WITH_INPUT {
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

  bare_data_load = LOADADDR(.data) + (bare_data_start - ADDR(.data));
  bare_image_end = bare_data_load + (bare_data_end - bare_data_start);
  bare_code_limit = ORIGIN(BOARDSMITH_IN_CODE) + LENGTH(BOARDSMITH_IN_CODE);

  ASSERT((BARE_GUARD_BYTES & (BARE_GUARD_BYTES - 1)) == 0, "BARE_GUARD_BYTES is no power of two")

  /* One copy from bare_data_load on makes all variables. */
  ASSERT(LOADADDR(.tdata) - ADDR(.tdata) == LOADADDR(.data) - ADDR(.data), "variables are not loaded in one piece")
  ASSERT(LOADADDR(.model_data) - ADDR(.model_data) == LOADADDR(.data) - ADDR(.data), "variables are not loaded in one piece")

  /* Nothing here is position independent. */
  .relocations : { *(.rel.* .rela.*) }
  ASSERT(SIZEOF(.relocations) == 0, "code wants relocations at run time")

  /* For people and debuggers. */
  .comment 0 : { *(.comment) }
  .ARM.attributes 0 : { *(.ARM.attributes) }
  .riscv.attributes 0 : { *(.riscv.attributes) }
  .debug_abbrev 0 : { *(.debug_abbrev) }
  .debug_addr 0 : { *(.debug_addr) }
  .debug_aranges 0 : { *(.debug_aranges) }
  .debug_frame 0 : { *(.debug_frame) }
  .debug_info 0 : { *(.debug_info .gnu.linkonce.wi.*) }
  .debug_line 0 : { *(.debug_line .debug_line.*) }
  .debug_line_str 0 : { *(.debug_line_str) }
  .debug_loc 0 : { *(.debug_loc) }
  .debug_loclists 0 : { *(.debug_loclists) }
  .debug_macinfo 0 : { *(.debug_macinfo) }
  .debug_macro 0 : { *(.debug_macro) }
  .debug_names 0 : { *(.debug_names) }
  .debug_pubnames 0 : { *(.debug_pubnames .debug_gnu_pubnames) }
  .debug_pubtypes 0 : { *(.debug_pubtypes .debug_gnu_pubtypes) }
  .debug_ranges 0 : { *(.debug_ranges) }
  .debug_rnglists 0 : { *(.debug_rnglists) }
  .debug_str 0 : { *(.debug_str) }
  .debug_str_offsets 0 : { *(.debug_str_offsets) }
  .debug_types 0 : { *(.debug_types) }

  /* Notes to the linker; and what runs after main, which does not return. */
  /DISCARD/ : {
    *(.note .note.* .group .llvm_addrsig .llvm.call-graph-profile .gnu.warning.*)
    *(.fini_array .fini_array.*)
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The linker script of all bare-metal boards. The preprocessor inserts the board's memory map (crt_config/memory.h), so
 * the script is independent of the chip. A process is linked with the system's script.
 *
 * The region `code` holds two parts. The resident part is the same for every model: an optional boot header, the
 * vectors, code and constants of the runtime and the port (RESIDENT is the object that contains them, with the C
 * library's functions that they need). The model part holds the rest: the table through which the resident part reaches
 * it (bare_model.h), operators, their constants and functions of the C library, the initial values of all variables. It
 * starts at a sector boundary that does not depend on the model, so that another model or a changed operator leaves
 * every sector before it unchanged. The space between the two parts does not belong to the image.
 *
 * The region `stack` begins with the guard; the thread's stack grows down to it, so that an overflow hits the guard and
 * then leaves the region. The handlers' stack follows, with its own guard and a mark above that guard, which is checked
 * if nothing else detects an overflow. The data kept over a reset, the arena and the variables each have their region.
 * The resident part's variables come first, because its code contains their addresses.
 *
 * If the board or the project places parts of the model in other memories (BOARDSMITH_…, crt_config/memory.h), these
 * follow the variables: parts that the start-up code copies to RAM lie behind the initial values of variables in the
 * image; one other memory may hold its parts itself. Pools of the model have no contents.
 *
 * All initialised variables have the same layout in RAM and in the image, so that one copy initialises them at any
 * alignment. Every valid section is named here, and the Makefile makes any other an error: it would belong to no part,
 * and would be neither copied at the start nor covered by the firmware's checksum.
 *
 * Segments only contain sections with contents. A loader that clears the rest of a segment (as QEMU does at every
 * reset) would otherwise clear data that a reset must keep.
 */
#include "memory.h"
#include "crt_config.h"

#ifndef BARE_GUARD_BYTES
#define BARE_GUARD_BYTES 0
#endif
/* A region of the memory protection unit is aligned to its size. */
#define BARE_GUARD_ALIGN MAX(BARE_GUARD_BYTES, 16)
#ifndef BARE_HANDLER_STACK_BYTES
#define BARE_HANDLER_STACK_BYTES 768
#endif
/* Zeros before the vectors, and room behind the image, for a header and a signature that a command adds after the link
   (post_link of the board file). */
#ifndef BARE_HEADER_BYTES
#define BARE_HEADER_BYTES 0
#endif
#ifndef BARE_TRAILER_BYTES
#define BARE_TRAILER_BYTES 0
#endif

/* Standalone firmware is not flashed with other models: what nothing refers to is left out of the resident part, and
   the model part follows it without a gap. */
#ifdef BOARDSMITH_STANDALONE
#define KEPT(sections) sections
#else
#define KEPT(sections) KEEP(sections)
#endif

#ifndef BOARDSMITH_COPIED_SECTIONS
#define BOARDSMITH_COPIED_SECTIONS(X)
#endif
#ifndef BOARDSMITH_POOLS
#define BOARDSMITH_POOLS(X)
#endif
/* No part begins at a null pointer: this is the first statement of what may be the first section of its region. */
#define NULL_BYTES 256
#define NOT_AT_NULL . += (ABSOLUTE(.) == 0) ? NULL_BYTES : 0;
#define SEGMENT(region, sections) copied_##region PT_LOAD FLAGS(5);
#define COPIED(region, sections) \
  .copied_##region : ALIGN_WITH_INPUT { \
    . = ALIGN(16); \
    NOT_AT_NULL \
    bare_##region##_start = .; \
    sections \
    . = ALIGN(8); \
    bare_##region##_end = .; \
  } >region AT>BOARDSMITH_IN_CODE :copied_##region \
  bare_##region##_load = LOADADDR(.copied_##region) + (bare_##region##_start - ADDR(.copied_##region)); \
  bare_loaded_end = LOADADDR(.copied_##region) + SIZEOF(.copied_##region);
#define POOL(name, region) .pool_##name (NOLOAD) : { NOT_AT_NULL *(.bss.boardsmith_pool.name) } >region :NONE

ENTRY(bare_entry)

MEMORY { BOARDSMITH_MEMORY }

PHDRS {
  code PT_LOAD FLAGS(5);
  model PT_LOAD FLAGS(5);
  data PT_LOAD FLAGS(6);
  tls PT_TLS FLAGS(4);
  BOARDSMITH_COPIED_SECTIONS(SEGMENT)
#ifdef BOARDSMITH_IN_APART
  apart PT_LOAD FLAGS(5);
#endif
}

SECTIONS {
  .boot : {
    bare_image_start = .;
#if BARE_HEADER_BYTES > 0
    BYTE(0)
    . = BARE_HEADER_BYTES;
#endif
    KEEP(RESIDENT(.boardsmith.boot))
  } >BOARDSMITH_IN_CODE :code

  .text : {
    KEEP(RESIDENT(.boardsmith.vectors))
    KEPT(RESIDENT(.text .text.*))
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :code

  .rodata : {
    KEPT(RESIDENT(.rodata .rodata.* .srodata .srodata.*))
    . = ALIGN(8);
    bare_resident_end = .;
  } >BOARDSMITH_IN_CODE :code

  /* First what changes with any change, then what moves least: the size of parameters is stable. */
  .model BOARDSMITH_MODEL_AT(ADDR(.rodata) + SIZEOF(.rodata)) : ALIGN(BOARDSMITH_MODEL_ALIGN) {
    KEEP(*(.boardsmith.model))
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  /* The linker's build id. Only in an output section of its own it is a note that readelf and gdb find. 16 bytes of the
     note's header and name precede it. */
  .note.gnu.build-id : {
    boardsmith_build_id = . + 16;
    KEEP(*(.note.gnu.build-id))
  } >BOARDSMITH_IN_CODE :model

  .model_rodata : {
#ifndef BOARDSMITH_PARAMETERS_MOVED
    *(.rodata.tvm .rodata.tvm.*)
    *(.rodata .rodata.* .srodata .srodata.*)
#endif
    *(.got .got.plt .igot.plt)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  .model_text : {
#ifndef BOARDSMITH_OPERATORS_MOVED
    *(.text .text.*)
#endif
    *(.glue_7 .glue_7t .vfp11_veneer .v4_bx .iplt .plt .plt.*)
    . = ALIGN(8);
  } >BOARDSMITH_IN_CODE :model

  /* Constructors of both parts, by priority. */
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
    NOT_AT_NULL
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
    NOT_AT_NULL
    . = ALIGN(16);
    KEPT(RESIDENT(.boardsmith.noinit))
  } >BOARDSMITH_IN_NOINIT :NONE

#if BOARDSMITH_UPLOAD_BYTES > 0
  /* Code that the host uploads. The window is a region of the memory protection unit, so its size is its alignment. */
  .upload (NOLOAD) : ALIGN(BOARDSMITH_UPLOAD_ALIGN) {
    . += (ABSOLUTE(.) == 0) ? BOARDSMITH_UPLOAD_ALIGN : 0; /* a null pointer is no window */
    bare_upload_start = .;
    . += BOARDSMITH_UPLOAD_BYTES;
  } >BOARDSMITH_IN_UPLOAD :NONE
#endif

  .arena (NOLOAD) : {
#ifndef BOARDSMITH_STANDALONE /* an assignment keeps a section that is empty */
    NOT_AT_NULL
#endif
    KEEP(RESIDENT(.bss.boardsmith_arena))
  } >BOARDSMITH_IN_ARENA :NONE

#ifdef BOARDSMITH_IN_PACKET
  .packet (NOLOAD) : {
    NOT_AT_NULL
    KEEP(RESIDENT(.bss.boardsmith_packet))
  } >BOARDSMITH_IN_PACKET :NONE
#endif

  .bss (NOLOAD) : {
    NOT_AT_NULL
    . = ALIGN(16);
    bare_bss_start = .;
    KEPT(RESIDENT(.bss .bss.* COMMON))
    KEPT(RESIDENT(.sbss .sbss.*))
    . = ALIGN(16);
    bare_bss_end = .;
  } >BOARDSMITH_IN_DATA :NONE

  /* Aligned as a whole, so that it and its image in flash start with the same alignment. */
  .data : ALIGN_WITH_INPUT {
    . = ALIGN(16);
    bare_data_start = .;
    KEPT(RESIDENT(.sdata .sdata.*))
    PROVIDE(__global_pointer$ = bare_data_start + 0x400);
    KEPT(RESIDENT(.ramfunc .ramfunc.*))
    KEPT(RESIDENT(.data .data.*))
    . = ALIGN(16);
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data

  /* Variables of the only thread, such as errno of some C libraries: tp points to bare_tls_start. Zero-initialised ones
     are stored explicitly, because they would otherwise follow the model part's initialised ones. */
  .tdata : ALIGN_WITH_INPUT {
    bare_tls_start = .;
    KEEP(*(.tdata.boardsmith_uploaded)) /* at the thread pointer: RISC-V's port has it */
    KEPT(RESIDENT(.tdata .tdata.* .tbss .tbss.*))
    *(.tdata .tdata.* .tbss .tbss.*)
    . = ALIGN(16);
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data :tls

  .model_data : ALIGN_WITH_INPUT {
    *(.data .data.* .sdata .sdata.*)
    . = ALIGN(16);
    bare_data_end = .;
  } >BOARDSMITH_IN_DATA AT>BOARDSMITH_IN_CODE :data

  BOARDSMITH_POOLS(POOL)

  .model_bss (NOLOAD) : {
    . = ALIGN(16);
    bare_model_bss_start = .;
    *(.sbss .sbss.*)
    *(.bss .bss.* COMMON)
    . = ALIGN(16);
    bare_model_bss_end = .;
  } >BOARDSMITH_IN_DATA :NONE

  bare_data_load = LOADADDR(.data) + (bare_data_start - ADDR(.data));
  bare_loaded_end = bare_data_load + (bare_data_end - bare_data_start);
  BOARDSMITH_COPIED_SECTIONS(COPIED)
#ifdef BOARDSMITH_IN_APART
  .apart : {
    bare_apart_start = .;
    BOARDSMITH_APART_SECTIONS
    . = ALIGN(8);
    QUAD(0)
    bare_apart_end = .;
  } >BOARDSMITH_IN_APART :apart
#endif

  bare_image_end = bare_loaded_end + BARE_TRAILER_BYTES;
  bare_code_limit = ORIGIN(BOARDSMITH_IN_CODE) + LENGTH(BOARDSMITH_IN_CODE);

  ASSERT((BARE_GUARD_BYTES & (BARE_GUARD_BYTES - 1)) == 0, "error: BARE_GUARD_BYTES: not a power of two")

  /* One copy from bare_data_load initialises all variables. */
  ASSERT(LOADADDR(.tdata) - ADDR(.tdata) == LOADADDR(.data) - ADDR(.data),
         "error: variables are not loaded in one piece")
  ASSERT(LOADADDR(.model_data) - ADDR(.model_data) == LOADADDR(.data) - ADDR(.data),
         "error: variables are not loaded in one piece")

  /* Position-independent code is not supported. */
  .relocations : { *(.rel.* .rela.*) }
  ASSERT(SIZEOF(.relocations) == 0, "error: code needs relocations at run time, which the firmware cannot apply")

  /* For debuggers and tools. */
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

  /* Notes to the linker; destructors, because main does not return. */
  /DISCARD/ : {
    *(.note .note.* .group .llvm_addrsig .llvm.call-graph-profile .gnu.warning.*)
    *(.fini_array .fini_array.*)
  }
}

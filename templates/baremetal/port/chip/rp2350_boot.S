// SPDX-License-Identifier: Apache-2.0
//
// The RP2350's image definition, which the boot ROM searches in the first 4 KiB of the flash (RP2350 datasheet §5.1,
// §5.9): a loop of one block. It starts the secure Arm image whose vectors are at bare_vectors. The boot ROM has
// configured the flash for reads in place by then: four bits at a time, at a third of clk_sys (§5.2).
#include "crt_config.h"

#define START 0xFFFFDED3        // §5.9.1: the marks around a block
#define END 0xAB123579
#define IMAGE_TYPE 0x42         // §5.9.3: items: type, words, value
#define EXECUTABLE (1 | (2 << 4) | (0 << 8) | (1 << 12))  // EXE, secure, Arm, RP2350
#define VECTOR_TABLE 0x03
#define LAST 0xFF               // with the words of all items before it

  .section .boardsmith.boot, "a", %progbits
  .p2align 2
image_definition:
  .word START
items:
  .byte IMAGE_TYPE, 1
  .hword EXECUTABLE
  .byte VECTOR_TABLE, 2
  .hword 0
  .word bare_vectors
last:
  .byte LAST
  .hword (last - items) / 4
  .byte 0
  .word 0                       // to the next block: this one
  .word END

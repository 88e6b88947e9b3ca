// SPDX-License-Identifier: Apache-2.0
//
// Data for the boot ROM of the i.MX RT1060 at the start of a serial NOR flash: the flash's parameters, and the address
// of the firmware's vectors (IMXRT1060RM, chapter "System Boot"). For the IS25WP064A of the MIMXRT1060-EVK, or another
// flash with read command EBh, six dummy clocks and the quad enable bit set; nothing is written to the flash. Defines:
// IMXRT_FLASH_BYTES.
#include <stddef.h>
#include <stdint.h>

#include "crt_config.h"

#define FLASH_BASE 0x60000000U

// IMXRT1060RM "System Boot", FlexSPI Configuration Block: the first 448 bytes are common to all memories.
typedef struct flash_config {
  uint32_t tag;
  uint32_t version;
  uint32_t reserved_08;
  uint8_t read_sample_clock;  // 1: looped back from the DQS pad
  uint8_t cs_hold_time;
  uint8_t cs_setup_time;
  uint8_t column_address_width;
  uint8_t device_commands[0x34];  // 0x10: none
  uint8_t device_type;            // 0x44; 1: serial NOR
  uint8_t pads;
  uint8_t serial_clock;  // 6: 100 MHz
  uint8_t custom_sequences;
  uint32_t reserved_48[2];
  uint32_t a1_bytes;  // 0x50
  uint32_t other_bytes[3];
  uint32_t pad_settings[4];  // 0x60: the ROM's
  uint32_t timing[4];        // 0x70: the ROM's
  uint32_t lookup[64];       // 0x80: 16 sequences of eight instructions
  uint32_t custom[12];       // 0x180
  uint32_t reserved_1b0[4];
  uint32_t page_bytes;  // 0x1C0: serial NOR
  uint32_t sector_bytes;
  uint8_t command_clock;
  uint8_t uniform_blocks;
  uint8_t reserved_1ca[6];
  uint32_t block_bytes;  // 0x1D0
  uint32_t reserved_1d4[11];
} flash_config_t;

// IMXRT1060RM "System Boot", Image Vector Table.
typedef struct vector_table {
  uint32_t header;
  const void* entry;
  uint32_t reserved_08;
  uint32_t dcd;  // device configuration data: none
  const void* boot_data;
  const void* self;
  uint32_t csf;  // signature: none
  uint32_t reserved_1c;
} image_vector_table_t;

typedef struct boot_data {
  uint32_t start;
  uint32_t bytes;
  uint32_t plugin;
} boot_data_t;

typedef struct boot {
  flash_config_t flash;
  uint8_t gap[0xE00];
  image_vector_table_t ivt;  // 0x1000
  boot_data_t data;          // 0x1020
  uint8_t rest[0xFD4];
} boot_t;

_Static_assert(offsetof(flash_config_t, device_type) == 0x44, "flash configuration block");
_Static_assert(offsetof(flash_config_t, lookup) == 0x80, "flash configuration block");
_Static_assert(offsetof(flash_config_t, block_bytes) == 0x1D0, "flash configuration block");
_Static_assert(sizeof(flash_config_t) == 0x200, "flash configuration block");
_Static_assert(offsetof(boot_t, ivt) == 0x1000, "image vector table");
_Static_assert(offsetof(boot_t, data) == 0x1020, "boot data");
_Static_assert(sizeof(boot_t) == 0x2000, "the vectors follow, with the alignment for VTOR");

#define BLOCK_BYTES 65536U

// The flash of the memory map.
#define FLASH_END(origin, bytes, kind)                                    \
  &&(((origin) < FLASH_BASE) || (((origin)-FLASH_BASE) >= 0x10000000U) || \
     ((((origin)-FLASH_BASE) + (bytes)) <= (IMXRT_FLASH_BYTES)))
_Static_assert(((IMXRT_FLASH_BYTES) > 0) && (((IMXRT_FLASH_BYTES) % BLOCK_BYTES) == 0),
               "IMXRT_FLASH_BYTES: not a multiple of the flash's blocks of 64 KiB");
_Static_assert(1 BOARDSMITH_REGIONS(FLASH_END), "memory: the flash is larger than IMXRT_FLASH_BYTES");

// FlexSPI lookup table (IMXRT1060RM "FlexSPI", Look Up Table): two instructions of opcode, pads and operand in a word.
#define STEP(opcode, pads_log2, operand) (((opcode) << 10) | ((pads_log2) << 8) | (operand))
#define STEPS(first, second) ((uint32_t)(first) | ((uint32_t)(second) << 16))
#define STOP 0x00
#define CMD_SDR 0x01
#define RADDR_SDR 0x02
#define MODE8_SDR 0x07
#define READ_SDR 0x09
#define DUMMY_SDR 0x0C
#define SINGLE 0
#define QUAD 2

extern const uint32_t bare_vectors[];
extern  // clang-format off
const boot_t imxrt_boot;
const boot_t imxrt_boot __attribute__((section(".boardsmith.boot"), used, aligned(4096))) = {
    .flash =
        {
            .tag = 0x42464346U,      // "FCFB"
            .version = 0x56010400U,  // V1.4.0
            .read_sample_clock = 1,
            .cs_hold_time = 3,
            .cs_setup_time = 3,
            .device_type = 1,
            .pads = 4,
            .serial_clock = 6,
            .a1_bytes = IMXRT_FLASH_BYTES,
            .lookup =
                {
                    // Sequence 0, read: fast read quad I/O, 24 address bits, mode bits 00h (no continuous read), the
                    // other four of the six dummy clocks, then data until the buffer is full.
                    STEPS(STEP(CMD_SDR, SINGLE, 0xEB), STEP(RADDR_SDR, QUAD, 24)),
                    STEPS(STEP(MODE8_SDR, QUAD, 0x00), STEP(DUMMY_SDR, QUAD, 4)),
                    STEPS(STEP(READ_SDR, QUAD, 4), STEP(STOP, SINGLE, 0)),
                },
            .page_bytes = 256,
            .sector_bytes = 4096,
            .block_bytes = BLOCK_BYTES,
        },
    .ivt =
        {
            .header = 0x412000D1U,  // tag D1h, length 32 (big-endian), version 41h
            .entry = bare_vectors,
            .boot_data = &imxrt_boot.data,
            .self = &imxrt_boot.ivt,
        },
    .data = {.start = FLASH_BASE, .bytes = IMXRT_FLASH_BYTES},
};
// clang-format on

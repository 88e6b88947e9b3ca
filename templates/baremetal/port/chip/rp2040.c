// SPDX-License-Identifier: Apache-2.0
//
// Raspberry Pi's RP2040: 125 MHz from the 12 MHz crystal, UART0 on GPIO 0 and 1, watchdog, random bits, the flash's id
// as the chip's id. One core is used; the other waits in the boot ROM.
//
// Sources: RP2040 datasheet (build 2023-03-02; DS below), W25Q16JV datasheet. Defines: PL011_BASE, UART_IRQ.
#include <stddef.h>
#include <stdint.h>

#include "bare.h"

#define XOSC_HZ 12000000U
#define ROSC_HZ 6500000U  // DS §2.17: 1.8 to 12 MHz, 6 to 6.5 as shipped; only until the crystal runs
#define PLL_FBDIV 125U    // DS §2.18.2: 12 MHz * 125 = 1500 MHz, / 6 / 2 = 125 MHz
#define PLL_POSTDIV1 6U
#define PLL_POSTDIV2 2U

#define SET 0x2000U  // DS §2.1.2: aliases of each peripheral register, where ones set and clear bits
#define CLEAR 0x3000U

#define RESETS_RESET 0x4000C000U  // DS §2.14.3
#define RESETS_DONE 0x4000C008U
#define PSM_FRCE_OFF 0x40010004U  // DS §2.13.5
#define PSM_WDSEL 0x40010008U
#define CLK_REF_CTRL 0x40008030U  // DS §2.15.7
#define CLK_REF_DIV REG32(0x40008034U)
#define CLK_REF_SELECTED 0x40008038U
#define CLK_SYS_CTRL 0x4000803CU
#define CLK_SYS_DIV REG32(0x40008040U)
#define CLK_SYS_SELECTED 0x40008044U
#define CLK_PERI_CTRL REG32(0x40008048U)
#define GPIO0_CTRL REG32(0x40014004U)  // DS §2.19.6.1
#define GPIO1_CTRL REG32(0x4001400CU)
#define MEASURE_CTRL REG32(0x40014004U + (8U * (BOARDSMITH_MEASURE_PIN)))
#define SIO_OUT_SET REG32(0xD0000014U)  // DS §2.3.1.7
#define SIO_OUT_CLR REG32(0xD0000018U)
#define SIO_OE_SET REG32(0xD0000024U)
#define FUNCTION_SIO 5U                // DS §2.19.2
#define PADS_GPIO1 REG32(0x4001C008U)  // DS §2.19.6.3
#define SS_CTRL REG32(0x4001800CU)     // DS §2.19.6.2: GPIO_QSPI_SS_CTRL
#define XOSC_CTRL REG32(0x40024000U)   // DS §2.16.7
#define XOSC_STATUS 0x40024004U
#define XOSC_STARTUP REG32(0x4002400CU)
#define PLL_SYS_CS 0x40028000U  // DS §2.18.4
#define PLL_SYS_PWR 0x40028004U
#define PLL_SYS_FBDIV_INT REG32(0x40028008U)
#define PLL_SYS_PRIM REG32(0x4002800CU)
#define WATCHDOG_CTRL 0x40058000U  // DS §4.7.6
#define WATCHDOG_LOAD REG32(0x40058004U)
#define WATCHDOG_REASON REG32(0x40058008U)
#define WATCHDOG_SCRATCH0 REG32(0x4005800CU)
#define WATCHDOG_TICK REG32(0x4005802CU)
#define ROSC_STATUS REG32(0x40060018U)  // DS §2.17.8
#define ROSC_RANDOMBIT REG32(0x4006001CU)
#define CHIP_RESET REG32(0x40064008U)  // DS §2.12.8
#define XIP_CTRL REG32(0x14000000U)    // DS §2.6.3.6
#define SSI_SR REG32(0x18000028U)      // DS §4.10.13
#define SSI_DR0 REG32(0x18000060U)

#define BLOCK_IO_BANK0 (1U << 5)
#define BLOCK_IO_QSPI (1U << 6)
#define BLOCK_PADS_BANK0 (1U << 8)
#define BLOCK_PADS_QSPI (1U << 9)
#define BLOCK_PLL_SYS (1U << 12)
#define BLOCK_PLL_USB (1U << 13)
#define BLOCK_UART0 (1U << 22)
#define BLOCKS_ALL 0x01FFFFFFU
#define BLOCKS_KEPT (BLOCK_IO_QSPI | BLOCK_PADS_QSPI | BLOCK_PLL_SYS | BLOCK_PLL_USB | BLOCK_UART0)

#define PSM_PROC1 (1U << 16)
#define PSM_ALL_BUT_OSCILLATORS 0x1FFFCU
#define CLK_REF_SRC 3U
#define CLK_REF_ROSC 0U
#define CLK_REF_XOSC 2U
#define CLK_REF_DIV_INT (3U << 8)  // 0: 4
#define CLK_REF_DIV_Pos 8U
#define CLK_DIV_1 0x100U  // CLK_SYS_DIV has 8 bits of fraction
#define CLK_SYS_SRC 1U
#define CLK_SYS_REF 0U
#define CLK_SYS_AUX 1U
#define CLK_PERI_ENABLE (1U << 11)  // AUXSRC 0: clk_sys
#define XOSC_ON 0x00FABAA0U         // ENABLE, 1 to 15 MHz
#define XOSC_STABLE (1U << 31)
#define XOSC_DELAY 47U  // DS §2.16.3: 1 ms of 12 MHz in units of 256
#define PLL_LOCK (1U << 31)
#define PLL_PWR_PD (1U << 0)
#define PLL_PWR_POSTDIVPD (1U << 3)
#define PLL_PWR_VCOPD (1U << 5)
#define PAD_UART_RX 0x4AU  // input on, pulled up, Schmitt trigger: no breaks while it is not driven
#define FUNCTION_UART 2U

#define WATCHDOG_ENABLE (1U << 30)
#define WATCHDOG_TICK_1_US 0x20CU  // enabled, 12 cycles of clk_ref
#define WATCHDOG_HZ 2000000U       // a tick is a microsecond and counts twice (erratum RP2040-E1)
#define WATCHDOG_LOAD_MAX 0x00FFFFFFU
#define REASON_TIMER (1U << 0)
#define HAD_POR (1U << 8)
#define HAD_RUN (1U << 16)
#define STARTED 0x626F6172U  // in a scratch register that only power-on and the RUN pin clear

// Each read takes at least four cycles of a clock of at most 12 MHz while clocks start: 10 ms and more.
#define CLOCK_READS 30000U
#define XIP_CACHE_EN 1U
#define ROSC_STABLE (1U << 31)

#include "chip/rp2.h"

_Static_assert(((XOSC_HZ * PLL_FBDIV) / (PLL_POSTDIV1 * PLL_POSTDIV2)) == (BOARDSMITH_CORE_HZ),
               "core_hz: not what this port sets, 125 MHz");

// ---- The flash's id ----------------------------------------------------------------------------------------------

// During the query the flash cannot be read in place: this part runs from RAM and calls only the boot ROM and a copy of
// the second stage (rp2040_boot.S). Interrupts are masked.
#if defined(__arm__)
#define RAM_CODE __attribute__((section(".ramfunc.rp2040"), noinline, long_call))
#else
#define RAM_CODE
#endif

enum { ID_BYTES = 8, ID_COMMAND_BYTES = 13, BOOT_WORDS = 64, SSI_FIFO_WORDS = 16 };
_Static_assert(ID_COMMAND_BYTES <= SSI_FIFO_WORDS, "the receiver's FIFO must hold the whole command");
#define READ_ID 0x4BU      // W25Q16JV datasheet §8.2.31: followed by four dummy bytes and the id
#define SSI_READS 100000U  // much more than for 13 bytes at the boot ROM's rate
#define SR_TFNF (1U << 1)
#define SR_RFNE (1U << 3)
#define SS_OUT (3U << 8)  // OUTOVER
#define SS_LOW (2U << 8)

typedef void (*rom_function_t)(void);

typedef struct flash_access {
  rom_function_t connect;  // DS §2.8.3.1.3: IF, EX, FC
  rom_function_t exit_xip;
  rom_function_t flush_cache;
  volatile uint32_t boot[BOOT_WORDS];        // the second stage
  volatile uint8_t bytes[ID_COMMAND_BYTES];  // sent, then overwritten by received bytes
} flash_access_t;

static flash_access_t flash;
static uint8_t flash_id[ID_BYTES];
static uint32_t flash_id_bytes;

RAM_CODE static uint32_t exchange(void) {
  uint32_t sent = 0;
  uint32_t got = 0;
  for (uint32_t i = 0; (i < SSI_READS) && (got < (uint32_t)ID_COMMAND_BYTES); i++) {
    const uint32_t status = SSI_SR;
    if ((sent < (uint32_t)ID_COMMAND_BYTES) && ((status & SR_TFNF) != 0U)) {
      SSI_DR0 = flash.bytes[sent];
      sent++;
    }
    if ((got < sent) && ((status & SR_RFNE) != 0U)) {
      flash.bytes[got] = (uint8_t)SSI_DR0;
      got++;
    }
  }
  return got;
}

RAM_CODE static uint32_t query_flash(void) {
  flash.connect();
  flash.exit_xip();
  SS_CTRL = (SS_CTRL & ~SS_OUT) | SS_LOW;
  const uint32_t got = exchange();
  SS_CTRL |= SS_OUT;    // high
  flash.flush_cache();  // also releases the pin
  ((rom_function_t)((uintptr_t)flash.boot + 1U))();
  return got;
}

#if defined(__arm__)
static uint32_t rom_half(uintptr_t address) {
  __asm("" : "+r"(address));  // hides the constant: compilers warn of addresses near 0
  return *(const volatile uint16_t*)address;
}

typedef rom_function_t (*rom_lookup_t)(const uint16_t* table, uint32_t code);

// DS §2.8.3: the table and its lookup function are at fixed addresses.
static rom_function_t rom_function(char first, char second) {
  const uint16_t* const table = (const uint16_t*)(uintptr_t)rom_half(0x14U);
  const uintptr_t look_up = rom_half(0x18U);
  return ((rom_lookup_t)look_up)(table, ((uint32_t)second << 8) | (uint32_t)first);
}

static int32_t prepare(void) {
  flash.connect = rom_function('I', 'F');
  flash.exit_xip = rom_function('E', 'X');
  flash.flush_cache = rom_function('F', 'C');
  if ((flash.connect == NULL) || (flash.exit_xip == NULL) || (flash.flush_cache == NULL)) {
    return -1;
  }
  for (uint32_t i = 0; i < (uint32_t)BOOT_WORDS; i++) {
    flash.boot[i] = REG32(0x10000000U + (4U * i));
  }
  return 0;
}
#else
static int32_t prepare(void) { return -1; }
#endif

static void read_flash_id(void) {
  flash_id_bytes = 0;
  if (prepare() != 0) {
    return;
  }
  flash.bytes[0] = READ_ID;
  if (query_flash() != (uint32_t)ID_COMMAND_BYTES) {
    return;
  }
  uint32_t ones = 0;
  uint32_t zeros = 0;
  for (uint32_t i = 0; i < (uint32_t)ID_BYTES; i++) {
    flash_id[i] = flash.bytes[((uint32_t)ID_COMMAND_BYTES - (uint32_t)ID_BYTES) + i];
    ones += (flash_id[i] == 0xFFU) ? 1U : 0U;
    zeros += (flash_id[i] == 0U) ? 1U : 0U;
  }
  if ((ones < (uint32_t)ID_BYTES) && (zeros < (uint32_t)ID_BYTES)) {
    flash_id_bytes = ID_BYTES;  // otherwise there was no answer
  }
}

uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  uint32_t n = 0;
  for (; (n < flash_id_bytes) && (n < max_bytes); n++) {
    id[n] = flash_id[n];
  }
  return n;
}

// ---- Start -------------------------------------------------------------------------------------------------------

// The chip records the cause of the last reset of the whole chip (CHIP_RESET) and the last action of the watchdog
// (REASON). Later resets clear neither. SYSRESETREQ resets only the processors and leaves the UART unchanged; the
// watchdog as started here resets all blocks.
static void read_reset_cause(void) {
  const uint32_t in_reset = REG32(RESETS_RESET) & BLOCK_UART0;
  if (WATCHDOG_SCRATCH0 != STARTED) {
    const uint32_t flags = CHIP_RESET;
    reset_cause = ((flags & HAD_POR) != 0U) ? (uint32_t)BARE_RESET_POWER : 0U;
    reset_cause |= ((flags & HAD_RUN) != 0U) ? (uint32_t)BARE_RESET_PIN : 0U;
    reset_cause |= (reset_cause == 0U) ? (uint32_t)BARE_RESET_OTHER : 0U;  // a rescue by a debugger
  } else if ((in_reset != 0U) && ((WATCHDOG_REASON & REASON_TIMER) != 0U)) {
    reset_cause = BARE_RESET_WATCHDOG;
  } else {
    reset_cause = BARE_RESET_SOFTWARE;
  }
  WATCHDOG_SCRATCH0 = STARTED;
}

void chip_init(void) {
  REG32(WATCHDOG_CTRL + CLEAR) = WATCHDOG_ENABLE;  // may be on after a reset of only the processors
  read_reset_cause();
  clocks_on();
  CLK_PERI_CTRL = CLK_PERI_ENABLE;
  REG32(RESETS_RESET + SET) = BLOCK_UART0;
  (void)out_of_reset(BLOCK_IO_BANK0 | BLOCK_PADS_BANK0 | BLOCK_UART0);
  PADS_GPIO1 = PAD_UART_RX;
  GPIO0_CTRL = FUNCTION_UART;
  GPIO1_CTRL = FUNCTION_UART;
  measure_init();
  WATCHDOG_TICK = WATCHDOG_TICK_1_US;
  read_flash_id();
}

// ---- Random bits -------------------------------------------------------------------------------------------------

// DS §2.17.5: the level of the ring oscillator, which drifts against the crystal. Each bit combines many samples.
int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  if ((ROSC_STATUS & ROSC_STABLE) == 0U) {
    return -1;
  }
  for (uint32_t i = 0; i < size_bytes; i++) {
    uint32_t byte = 0;
    for (uint32_t sample = 0; sample < 256U; sample++) {
      byte = ((byte << 1) | ((byte >> 7) & 1U)) ^ (ROSC_RANDOMBIT & 1U);
    }
    data[i] = (uint8_t)byte;
  }
  return 0;
}

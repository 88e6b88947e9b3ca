// SPDX-License-Identifier: Apache-2.0
//
// Raspberry Pi's RP2350 with its Cortex-M33 cores, secure: 150 MHz from the 12 MHz crystal, UART0 on GPIO 0 and 1,
// watchdog, random bits, the chip's id from its OTP. One core is used; the other waits in the boot ROM.
//
// Source: RP2350 datasheet (build 2025-07-29; DS below). Defines: PL011_BASE, UART_IRQ.
#include <stdint.h>

#include "bare.h"

#define XOSC_HZ 12000000U
#define ROSC_HZ 11000000U  // DS §8.3: nominal, as shipped 4.6 to 19.6 MHz; only until the crystal runs
#define PLL_FBDIV 125U     // DS §8.6: 12 MHz * 125 = 1500 MHz, / 5 / 2 = 150 MHz
#define PLL_POSTDIV1 5U
#define PLL_POSTDIV2 2U

#define SET 0x2000U  // DS §2.1.3: aliases of each peripheral register, where ones set and clear bits
#define CLEAR 0x3000U

#define CLK_REF_CTRL 0x40010030U  // DS §8.1
#define CLK_REF_DIV REG32(0x40010034U)
#define CLK_REF_SELECTED 0x40010038U
#define CLK_SYS_CTRL 0x4001003CU
#define CLK_SYS_DIV REG32(0x40010040U)
#define CLK_SYS_SELECTED 0x40010044U
#define CLK_PERI_CTRL REG32(0x40010048U)
#define CLK_PERI_DIV REG32(0x4001004CU)
#define PSM_FRCE_OFF 0x40018004U  // DS §7.4
#define PSM_WDSEL 0x40018008U
#define RESETS_RESET 0x40020000U  // DS §7.5
#define RESETS_DONE 0x40020008U
#define GPIO0_CTRL REG32(0x40028004U)  // DS §9.11
#define GPIO1_CTRL REG32(0x4002800CU)
#define MEASURE_CTRL REG32(0x40028004U + (8U * (BOARDSMITH_MEASURE_PIN)))
#define MEASURE_PAD REG32(0x40038004U + (4U * (BOARDSMITH_MEASURE_PIN)))
#define SIO_OUT_SET REG32(0xD0000018U)  // DS §3.1.11
#define SIO_OUT_CLR REG32(0xD0000020U)
#define SIO_OE_SET REG32(0xD0000038U)
#define FUNCTION_SIO 5U                // DS §9.4
#define PADS_GPIO0 REG32(0x40038004U)  // DS §9.11
#define PADS_GPIO1 REG32(0x40038008U)
#define XOSC_CTRL REG32(0x40048000U)  // DS §8.2
#define XOSC_STATUS 0x40048004U
#define XOSC_STARTUP REG32(0x4004800CU)
#define PLL_SYS_CS 0x40050000U  // DS §8.6
#define PLL_SYS_PWR 0x40050004U
#define PLL_SYS_FBDIV_INT REG32(0x40050008U)
#define PLL_SYS_PRIM REG32(0x4005000CU)
#define XIP_CTRL REG32(0x400C8000U)  // DS §4.4
#define WATCHDOG_CTRL 0x400D8000U    // DS §12.9
#define WATCHDOG_LOAD REG32(0x400D8004U)
#define WATCHDOG_REASON REG32(0x400D8008U)
#define WATCHDOG_SCRATCH0 REG32(0x400D800CU)
#define TRNG_ICR REG32(0x400F0108U)  // DS §12.12
#define TRNG_EHR_DATA0 0x400F0114U
#define TRNG_SOURCE_ENABLE REG32(0x400F012CU)
#define TRNG_SAMPLE_CNT1 REG32(0x400F0130U)
#define TRNG_DEBUG_CONTROL REG32(0x400F0138U)
#define TRNG_BUSY 0x400F01B8U
#define CHIP_RESET REG32(0x4010002CU)           // DS §6.4: in POWMAN
#define TICKS_WATCHDOG_CTRL REG32(0x40108030U)  // DS §8.5
#define TICKS_WATCHDOG_CYCLES REG32(0x40108034U)
#define OTP_CHIPID 0x40130000U  // DS §13: rows 0 to 3, two of them in a word, with their errors corrected

#define BLOCK_BUSCTRL (1U << 1)
#define BLOCK_IO_BANK0 (1U << 6)
#define BLOCK_IO_QSPI (1U << 7)
#define BLOCK_JTAG (1U << 8)
#define BLOCK_PADS_BANK0 (1U << 9)
#define BLOCK_PADS_QSPI (1U << 10)
#define BLOCK_PLL_SYS (1U << 14)
#define BLOCK_PLL_USB (1U << 15)
#define BLOCK_SYSCFG (1U << 20)
#define BLOCK_SYSINFO (1U << 21)  // a debug probe reads the chip's identification there
#define BLOCK_TBMAN (1U << 22)
#define BLOCK_TRNG (1U << 25)
#define BLOCK_UART0 (1U << 26)
#define BLOCKS_ALL 0x1FFFFFFFU
#define BLOCKS_CLOCKS (BLOCK_PLL_SYS | BLOCK_PLL_USB)
#define BLOCKS_OF_FLASH (BLOCK_IO_QSPI | BLOCK_PADS_QSPI)
#define BLOCKS_OF_SYSTEM (BLOCK_BUSCTRL | BLOCK_JTAG | BLOCK_SYSCFG | BLOCK_SYSINFO | BLOCK_TBMAN)
#define BLOCKS_KEPT (BLOCKS_CLOCKS | BLOCKS_OF_FLASH | BLOCKS_OF_SYSTEM | BLOCK_UART0)

#define PSM_PROC1 (1U << 24)
#define PSM_ALL_BUT_OSCILLATORS 0x01FFFFF3U
#define CLK_REF_SRC 3U
#define CLK_REF_ROSC 0U
#define CLK_REF_XOSC 2U
#define CLK_REF_DIV_INT (0xFFU << 16)  // 0: 256
#define CLK_REF_DIV_Pos 16U
#define CLK_SYS_SRC 1U
#define CLK_SYS_REF 0U
#define CLK_SYS_AUX 1U
#define CLK_DIV_1 0x10000U          // 16 bits of fraction; CLK_REF and CLK_PERI have none
#define CLK_PERI_ENABLE (1U << 11)  // AUXSRC 0: clk_sys
#define XOSC_ON 0x00FABAA0U         // ENABLE, 1 to 15 MHz
#define XOSC_STABLE (1U << 31)
#define XOSC_DELAY 47U  // DS §8.2: 1 ms of 12 MHz in units of 256
#define PLL_LOCK (1U << 31)
#define PLL_PWR_PD (1U << 0)
#define PLL_PWR_POSTDIVPD (1U << 3)
#define PLL_PWR_VCOPD (1U << 5)
#define PAD_UART_TX 0x12U  // connected: ISO is off (DS §9.7); 4 mA, Schmitt trigger
#define PAD_UART_RX 0x4AU  // likewise; input on, pulled up: no breaks while it is not driven
#define FUNCTION_UART 2U

#define WATCHDOG_ENABLE (1U << 30)
#define WATCHDOG_HZ 1000000U
#define WATCHDOG_LOAD_MAX 0x00FFFFFFU
#define TICKS_ENABLE (1U << 0)
#define TICKS_1_US 12U  // cycles of clk_ref
#define REASON_TIMER (1U << 0)
#define REASON_FORCE (1U << 1)
#define HAD_POR (1U << 16)
#define HAD_BOR (1U << 17)
#define HAD_RUN_LOW (1U << 18)
#define TRNG_ICR_ALL 0xFU
#define TRNG_BUSY_BIT 1U
#define TRNG_BYPASS_CHECKS 0xEU
#define TRNG_SOURCE_ON 1U
#define STARTED 0x626F6172U  // in a scratch register that only power-on and the RUN pin clear

// Each read takes at least four cycles of a clock of at most 48 MHz while clocks start: 10 ms and more.
#define CLOCK_READS 120000U
#define XIP_CACHE_EN 1U  // EN_SECURE

#include "chip/rp2.h"

_Static_assert(((XOSC_HZ * PLL_FBDIV) / (PLL_POSTDIV1 * PLL_POSTDIV2)) == (BOARDSMITH_CORE_HZ),
               "core_hz: not what this port sets, 150 MHz");

// ---- Start -------------------------------------------------------------------------------------------------------

// The chip records the cause of the last reset of the whole chip (CHIP_RESET). REASON is the watchdog's last action;
// SYSRESETREQ, which resets only the processors, clears it (DS §12.9).
static void read_reset_cause(void) {
  if (WATCHDOG_SCRATCH0 != STARTED) {
    const uint32_t flags = CHIP_RESET;
    reset_cause = ((flags & (HAD_POR | HAD_BOR)) != 0U) ? (uint32_t)BARE_RESET_POWER : 0U;
    reset_cause |= ((flags & HAD_RUN_LOW) != 0U) ? (uint32_t)BARE_RESET_PIN : 0U;
    reset_cause |= (reset_cause == 0U) ? (uint32_t)BARE_RESET_OTHER : 0U;  // a rescue by a debugger, a glitch
  } else if ((WATCHDOG_REASON & (REASON_TIMER | REASON_FORCE)) != 0U) {
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
  CLK_PERI_DIV = CLK_DIV_1;
  CLK_PERI_CTRL = CLK_PERI_ENABLE;
  REG32(RESETS_RESET + SET) = BLOCK_UART0;
  (void)out_of_reset(BLOCK_IO_BANK0 | BLOCK_PADS_BANK0 | BLOCK_TRNG | BLOCK_UART0);
  GPIO0_CTRL = FUNCTION_UART;
  GPIO1_CTRL = FUNCTION_UART;
  PADS_GPIO0 = PAD_UART_TX;  // last, so that the pin changes from one level to the other at most once
  PADS_GPIO1 = PAD_UART_RX;
  measure_init();
#ifdef BOARDSMITH_MEASURE_PIN
  MEASURE_PAD = PAD_UART_TX;  // an output, not isolated
#endif
  TICKS_WATCHDOG_CYCLES = TICKS_1_US;
  TICKS_WATCHDOG_CTRL = TICKS_ENABLE;
}

// ---- Id, random bits ---------------------------------------------------------------------------------------------

enum { ID_BYTES = 8 };

// The first row is the least significant part of the number that picotool shows.
uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  uint32_t n = 0;
  for (; (n < (uint32_t)ID_BYTES) && (n < max_bytes); n++) {
    const uint32_t at = (uint32_t)ID_BYTES - 1U - n;
    id[n] = (uint8_t)(REG32(OTP_CHIPID + (at & 4U)) >> (8U * (at & 3U)));
  }
  return n;
}

enum { TRNG_WORDS = 6 };

// 192 samples of a ring oscillator (DS §12.12), without the checks, which need much more time: each byte of the seed
// comes from many samples.
static int32_t add_samples(uint32_t* mixed) {
  uint32_t any = 0;
  TRNG_ICR = TRNG_ICR_ALL;
  if (await_bits(TRNG_BUSY, TRNG_BUSY_BIT, 0U, CLOCK_READS) != 0) {
    return -1;
  }
  for (uint32_t i = 0; i < (uint32_t)TRNG_WORDS; i++) {  // reading the last word starts the next samples
    const uint32_t word = REG32(TRNG_EHR_DATA0 + (4U * i));
    any |= word;
    *mixed = (*mixed ^ word) * 0x9E3779B1U;
    *mixed ^= *mixed >> 15;
  }
  return (any == 0U) ? -1 : 0;
}

int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  uint32_t mixed = 0;
  TRNG_SAMPLE_CNT1 = 0U;  // a sample in each cycle
  TRNG_DEBUG_CONTROL = TRNG_BYPASS_CHECKS;
  TRNG_SOURCE_ENABLE = TRNG_SOURCE_ON;
  for (uint32_t i = 0; i < size_bytes; i++) {
    if (add_samples(&mixed) != 0) {
      return -1;
    }
    data[i] = (uint8_t)(mixed >> 24);
  }
  TRNG_SOURCE_ENABLE = 0U;
  return 0;
}

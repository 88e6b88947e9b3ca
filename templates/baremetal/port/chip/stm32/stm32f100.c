// SPDX-License-Identifier: Apache-2.0
//
// chip_* of the STM32F100, the value line (RM0041): 24 MHz from a crystal of 8 MHz, without wait states, and the pins
// of the F1, which differ from the other families'. Without HSE the core stays on HSI at 8 MHz, and chip_core_hz
// returns that.
//
// QEMU's STM32F100 has no RCC and no GPIO (stm32_has_clocks).
//
// A board's `defines`: STM32_UART 1, 2 or 3, at its default pins (A9 and A10, A2 and A3, B10 and B11); STM32_HSE_HZ
// 8000000; STM32_HSE_BYPASS.
#include <stdint.h>

#include "chip/stm32/stm32.h"

#define RCC_CR 0x40021000U  // RM0041 §6.3
#define RCC_CFGR 0x40021004U
#define RCC_APB2ENR 0x40021018U
#define RCC_APB1ENR 0x4002101CU
#define RCC_CSR 0x40021024U
#define RCC_CR_HSION (1U << 0)
#define RCC_CR_HSIRDY (1U << 1)
#define RCC_CR_PLLON (1U << 24)
#define RCC_CR_PLLRDY (1U << 25)
#define RCC_CFGR_SW 3U  // HSI, HSE, PLL
#define RCC_CFGR_SW_PLL 2U
#define RCC_CFGR_SWS_Pos 2U
#define RCC_CFGR_SWS (3U << RCC_CFGR_SWS_Pos)
#define RCC_CFGR_PLLSRC (1U << 16)  // 1: HSE
#define RCC_CFGR_PLLMUL_Pos 18U
#define RCC_CFGR_PLLMUL (0xFU << RCC_CFGR_PLLMUL_Pos)
#define RCC_CSR_RMVF (1U << 24)
#define RCC_CSR_PINRSTF (1U << 26)
#define RCC_CSR_PORRSTF (1U << 27)
#define RCC_CSR_SFTRSTF (1U << 28)
#define RCC_CSR_WATCHDOGS (3U << 29)
#define RCC_CSR_LPWRRSTF (1U << 31)

#define GPIOA_BASE 0x40010800U  // §7.2
#define GPIO_PORT_BYTES 0x400U
#define GPIO_CRL 0x00U  // four bits a pin, in two registers
#define GPIO_BSRR 0x10U
#define PIN_OUTPUT 0x9U   // alternate function, push-pull, 10 MHz
#define PIN_MEASURE 0x1U  // push-pull, 10 MHz
#define PIN_INPUT 0x8U    // pulled up, by the output bit

#define UID_BASE 0x1FFFF7E8U  // §25.2
#define IWDG_BASE 0x40003000U
#define LSI_MAX_HZ 60000U  // data sheet

#define HSI_HZ 8000000U
#if (STM32_HSE_HZ) == 0
#error "STM32_HSE_HZ: 0, but the clock of this chip comes from a crystal"
#endif
#define PLL_FACTOR ((uint32_t)(BOARDSMITH_CORE_HZ) / (uint32_t)(STM32_HSE_HZ))
#define WAIT_MS 100U

_Static_assert((PLL_FACTOR * (STM32_HSE_HZ)) == (BOARDSMITH_CORE_HZ), "core_hz: not a multiple of STM32_HSE_HZ");
_Static_assert((PLL_FACTOR >= 2U) && (PLL_FACTOR <= 16U) && ((BOARDSMITH_CORE_HZ) <= 24000000),
               "core_hz: not 2 to 16 times STM32_HSE_HZ, or more than 24 MHz");

// Base, interrupt, RCC register and bit of its enable, bus; there is no clock selector.
// clang-format off
#define USART_1 {0x40013800U, 37U, RCC_APB2ENR, 14U, 2U, 0U, 0U}
#define USART_2 {0x40004400U, 38U, RCC_APB1ENR, 17U, 1U, 0U, 0U}
#define USART_3 {0x40004800U, 39U, RCC_APB1ENR, 18U, 1U, 0U, 0U}
// clang-format on
#define STM32_UARTS 0xEU
#if (((STM32_UARTS) >> (STM32_UART)) & 1) == 0
#error "STM32_UART: this chip, or its port, has no USART of this number"
#endif
#define STM32_OSC_IN STM32_PIN('D', 0)
#define TX_PIN_1 STM32_PIN('A', 9)
#define RX_PIN_1 STM32_PIN('A', 10)
#define TX_PIN_2 STM32_PIN('A', 2)
#define RX_PIN_2 STM32_PIN('A', 3)
#define TX_PIN_3 STM32_PIN('B', 10)
#define RX_PIN_3 STM32_PIN('B', 11)

STM32_CHECK_HSE(4000000, 24000000, 1000000, 24000000);  // data sheet: HSE characteristics
STM32_CHECK_UART((uint32_t)(BOARDSMITH_CORE_HZ));

const stm32_uart_t stm32_uart = STM32_OF_UART(USART_);

static void to_hsi(void) {
  stm32_modify(RCC_CR, RCC_CR_HSION, RCC_CR_HSION);
  (void)stm32_wait(RCC_CR, RCC_CR_HSIRDY, RCC_CR_HSIRDY, WAIT_MS);  // cannot fail on a working chip
  REG32(RCC_CFGR) = 0U;
  (void)stm32_wait(RCC_CFGR, RCC_CFGR_SWS, 0U, WAIT_MS);
  stm32_modify(RCC_CR, RCC_CR_PLLON | RCC_CR_HSEON, 0U);
}

static int32_t to_pll(void) {
  if (stm32_hse_on() != 0) {
    return -1;
  }
  stm32_modify(RCC_CFGR, RCC_CFGR_PLLSRC | RCC_CFGR_PLLMUL,
               RCC_CFGR_PLLSRC | ((PLL_FACTOR - 2U) << RCC_CFGR_PLLMUL_Pos));
  stm32_modify(RCC_CR, RCC_CR_PLLON, RCC_CR_PLLON);
  if (stm32_wait(RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY, WAIT_MS) != 0) {
    return -1;
  }
  stm32_modify(RCC_CFGR, RCC_CFGR_SW, RCC_CFGR_SW_PLL);
  return stm32_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SW_PLL << RCC_CFGR_SWS_Pos, WAIT_MS);
}

static int32_t set_flash(void) { return 0; }  // RM0041 §3.3.3: no wait states

static void pin(uint32_t pin_number, uint32_t mode) {
  const uint32_t port = GPIOA_BASE + (STM32_PIN_PORT(pin_number) * GPIO_PORT_BYTES);
  const uint32_t number = STM32_PIN_NUMBER(pin_number);
  const uint32_t four = 4U * (number % 8U);
  stm32_enable(RCC_APB2ENR, 4U << STM32_PIN_PORT(pin_number));
  REG32(port + GPIO_BSRR) = 1U << number;
  stm32_modify(port + GPIO_CRL + (4U * (number / 8U)), 0xFU << four, mode << four);
}

static void connect_pins(void) {
  pin(STM32_OF_UART(TX_PIN_), PIN_OUTPUT);
  pin(STM32_OF_UART(RX_PIN_), PIN_INPUT);
#ifdef BOARDSMITH_MEASURE_PIN
  STM32_MEASURE_PIN_IS_FREE(STM32_OF_UART(TX_PIN_), STM32_OF_UART(RX_PIN_));
  stm32_measure_bsrr = GPIOA_BASE + (STM32_PIN_PORT(BOARDSMITH_MEASURE_PIN) * GPIO_PORT_BYTES) + GPIO_BSRR;
  pin(BOARDSMITH_MEASURE_PIN, PIN_MEASURE);
  chip_measure(0);
#endif
}

uint32_t stm32_core_hz(void) {
  const uint32_t cfgr = REG32(RCC_CFGR);
  if (((cfgr & RCC_CFGR_SWS) >> RCC_CFGR_SWS_Pos) != RCC_CFGR_SW_PLL) {
    return HSI_HZ;
  }
  return (uint32_t)(STM32_HSE_HZ) * (((cfgr & RCC_CFGR_PLLMUL) >> RCC_CFGR_PLLMUL_Pos) + 2U);
}

uint32_t stm32_bus_hz(uint32_t bus) {
  (void)bus;  // no bus is divided
  return stm32_core_hz();
}

static const stm32_resets_t resets = {
    .address = RCC_CSR,
    .clear = RCC_CSR_RMVF,
    .power = RCC_CSR_PORRSTF,
    .pin = RCC_CSR_PINRSTF,
    .software = RCC_CSR_SFTRSTF,
    .watchdog = RCC_CSR_WATCHDOGS,
    .other = RCC_CSR_LPWRRSTF,
};

const stm32_chip_t stm32_chip = {
    .rcc_cr = RCC_CR,
    .uid = UID_BASE,
    .iwdg = IWDG_BASE,
    .lsi_max_hz = LSI_MAX_HZ,
    .resets = &resets,
    .to_reset_clock = to_hsi,
    .to_pll = to_pll,
    .set_flash = set_flash,
    .connect_pins = connect_pins,
};

void chip_early(void) {}

int32_t stm32_rng_on(void) { return -1; }  // no generator

// SPDX-License-Identifier: Apache-2.0
//
// Firmware for QEMU's mps2-an385 that prints, as "name ticks", the time of CALLS calls of a model: directly and through
// tvm_micro_runtime.h. With -icount shift=6 an instruction takes 64 ns, and SysTick counts every 40 ns.
#include <stdint.h>

#define CALLS 64U

extern uint32_t data_image[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];
void board_reset(void);
static void halt(void) {
  register uint32_t operation __asm__("r0") = 0x18;  // semihosting: SYS_EXIT, because the application ended
  register uint32_t reason __asm__("r1") = 0x20026;
  for (;;) {
    __asm__ volatile("bkpt 0xab" : : "r"(operation), "r"(reason) : "memory");
  }
}

static void put(const char* text) {
  register uint32_t operation __asm__("r0") = 0x04;  // semihosting: SYS_WRITE0
  register const char* at __asm__("r1") = text;
  __asm__ volatile("bkpt 0xab" : "+r"(operation) : "r"(at) : "memory");
}

static void print(const char* name, uint32_t number) {
  char digits[12];
  uint32_t n = sizeof digits - 1U;
  digits[n] = '\0';
  n--;
  digits[n] = '\n';
  do {
    n--;
    digits[n] = (char)('0' + (number % 10U));
    number /= 10U;
  } while (number != 0U);
  put(name);
  put(" ");
  put(&digits[n]);
}

#define SYSTICK ((volatile uint32_t*)0xE000E010U)

// Runs the expression CALLS times and prints the ticks.
#define TIME(name, expression)                               \
  do {                                                       \
    int32_t failed = 0;                                      \
    const uint32_t start = SYSTICK[2];                       \
    for (uint32_t i = 0; i < CALLS; i++) {                   \
      failed |= (int32_t)(expression);                       \
    }                                                        \
    const uint32_t ticks = (start - SYSTICK[2]) & 0xFFFFFFU; \
    print(name, (failed != 0) ? 0U : ticks);                 \
  } while (0)

int main(void);

__attribute__((section(".vectors"), used)) static void* const vectors[16] = {
    stack_top, (void*)board_reset, (void*)halt, (void*)halt, (void*)halt, (void*)halt, (void*)halt};

void board_reset(void) {
  const uint32_t* from = data_image;
  for (uint32_t* to = data_begin; to != data_end; to++) {
    *to = *from;
    from++;
  }
  for (uint32_t* to = bss_begin; to != bss_end; to++) {
    *to = 0;
  }
  SYSTICK[1] = 0xFFFFFFU;
  SYSTICK[2] = 0;
  SYSTICK[0] = 5;  // on, at the core's clock
  (void)main();
  halt();
}

#include COST_CASE

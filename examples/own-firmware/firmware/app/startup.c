// SPDX-License-Identifier: 0BSD
//
// The vector table, and what runs before main.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "app.h"
#include "board.h"

extern uint8_t data_start[], data_end[], bss_start[], bss_end[], stack_end[];
extern const uint8_t data_load[];
extern void (*const init_start[])(void);
extern void (*const init_end[])(void);

int main(void);

_Noreturn void reset_handler(void);
_Noreturn void reset_handler(void) {
  REG(0xE000ED88U) |= 0xFU << 20;  // CPACR: the FPU is on
  __asm volatile("dsb\nisb" ::: "memory");
  (void)memcpy(data_start, data_load, (size_t)(data_end - data_start));
  (void)memset(bss_start, 0, (size_t)(bss_end - bss_start));
  for (void (*const* constructor)(void) = init_start; constructor < init_end; constructor++) {
    (*constructor)();
  }
  (void)main();
  board_reset();
}

// The core has saved its registers on the main stack, the only one.
#define WITH_FRAME(name, function)                                                               \
  __attribute__((naked)) static void name(void) {                                                \
    __asm volatile("mov r0, sp\n push {r4, lr}\n bl " #function "\n pop {r4, pc}" ::: "memory"); \
  }
WITH_FRAME(tick_handler, clock_tick)
WITH_FRAME(fault_handler, server_fault)

typedef void (*vector_t)(void);

__attribute__((section(".vectors"), used)) static const vector_t vectors[] = {
    [0] = (vector_t)(uintptr_t)stack_end,
    [1] = reset_handler,
    [2] = fault_handler,  // NMI
    [3] = fault_handler,  // HardFault: also the faults that are not enabled
    [15] = tick_handler,
    [16] = uart_handler,
};

// SPDX-License-Identifier: Apache-2.0
//
// A board as a user would write it: startup, polled UART, timer, the runtime's platform functions, and an operator.
// Registers: Arm, "Cortex-M System Design Kit Technical Reference Manual" (DDI 0479), APB UART and APB timer.
// Addresses: Application Note AN385.
#include "board.h"

#include <boardsmith/boardsmith.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>

#define UART ((volatile uint32_t*)0x40004000U)
enum { UART_DATA = 0, UART_STATE = 1, UART_CTRL = 2, UART_BAUDDIV = 4 };
enum { UART_FULL = 1, UART_READY = 2, UART_ON = 3 };
#define TIMER ((volatile uint32_t*)0x40000000U)
enum { TIMER_CTRL = 0, TIMER_VALUE = 1, TIMER_RELOAD = 2 };

extern uint32_t data_image[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];
void board_reset(void);
void board_stop(void);

__attribute__((section(".vectors"), used)) static void* const vectors[16] = {
    stack_top,         (void*)board_reset, (void*)board_stop, (void*)board_stop,
    (void*)board_stop, (void*)board_stop,  (void*)board_stop};

void board_reset(void) {
  const uint32_t* from = data_image;
  for (uint32_t* to = data_begin; to != data_end; to++) {
    *to = *from;
    from++;
  }
  for (uint32_t* to = bss_begin; to != bss_end; to++) {
    *to = 0;
  }
  UART[UART_BAUDDIV] = 16;
  UART[UART_CTRL] = UART_ON;
  TIMER[TIMER_RELOAD] = UINT32_MAX;
  TIMER[TIMER_VALUE] = UINT32_MAX;
  TIMER[TIMER_CTRL] = 1;
  (void)TVMPlatformInitialize();
  (void)main();
  board_stop();
}

void board_stop(void) {
  for (;;) {
  }
}

uint8_t board_receive(void) {
  while ((UART[UART_STATE] & UART_READY) == 0U) {
  }
  return (uint8_t)UART[UART_DATA];
}

void board_send(uint8_t byte) {
  while ((UART[UART_STATE] & UART_FULL) != 0U) {
  }
  UART[UART_DATA] = byte;
}

uint32_t board_ticks(void) { return ~TIMER[TIMER_VALUE]; }

uint32_t board_instructions(uint32_t ticks) { return ((ticks * 40U) + 32U) / 64U; }

void board_exit(void) {
  register uint32_t operation __asm__("r0") = 0x18;  // semihosting: SYS_EXIT, because the application ended
  register uint32_t reason __asm__("r1") = 0x20026;
  __asm__ volatile("bkpt 0xab" : : "r"(operation), "r"(reason) : "memory");
}

void board_print(const char* name, uint32_t number) {
  char digits[10];
  size_t n = 0;
  for (; *name != '\0'; name++) {
    board_send((uint8_t)*name);
  }
  board_send(' ');
  do {
    digits[n] = (char)('0' + (number % 10U));
    n++;
    number /= 10U;
  } while (number != 0U);
  while (n != 0U) {
    n--;
    board_send((uint8_t)digits[n]);
  }
  board_send('\n');
}

// ---- Platform -------------------------------------------------------------------------------------------------------

static uint8_t arena[65536] __attribute__((aligned(16)));
static MemoryManagerInterface* manager;
static uint32_t started;
static uint32_t random_state = 88172645U;

void TVMPlatformAbort(tvm_crt_error_t error) {
  (void)error;
  for (;;) {
  }
}

tvm_crt_error_t TVMPlatformInitialize(void) { return PageMemoryManagerCreate(&manager, arena, sizeof arena, 8); }

#ifdef MEASURE  // serve.c's firmware does not count
uint32_t board_taken;
#define COUNT(bytes) board_taken += (uint32_t)(bytes)
#else
#define COUNT(bytes) (void)0
#endif

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  COUNT(num_bytes);
  return manager->Allocate(manager, num_bytes, dev, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) { return manager->Free(manager, ptr, dev); }

tvm_crt_error_t TVMPlatformTimerStart(void) {
  started = board_ticks();
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_seconds) {
  *elapsed_seconds = (board_ticks() - started) / 25e6;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* buffer, size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; i++) {
    random_state = (random_state * 1664525U) + 1013904223U;
    buffer[i] = (uint8_t)(random_state >> 24);
  }
  return kTvmErrorNoError;
}

// ---- The operator ---------------------------------------------------------------------------------------------------

static int add(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
               void* resource_handle) {
  (void)type_codes;
  (void)num_args;
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  const int32_t* a = ((const DLTensor*)args[0].v_handle)->data;
  const int32_t* b = ((const DLTensor*)args[1].v_handle)->data;
  int32_t* c = ((const DLTensor*)args[2].v_handle)->data;
  for (int i = 0; i < 16; i++) {
    c[i] = a[i] + b[i];
  }
  return 0;
}

static const TVMBackendPackedCFunc functions[] = {add};
static const TVMFuncRegistry registry = {"\001\000add\000", functions};
static const TVMModule library = {&registry};

const TVMModule* TVMSystemLibEntryPoint(void);
const TVMModule* TVMSystemLibEntryPoint(void) { return &library; }

#ifdef BOARDSMITH_SIGNATURES
const boardsmith_signature_t boardsmith_signatures[] = {{add, 3, 3, 3}, {NULL, 0, 0, 0}};
const boardsmith_signature_t* boardsmith_library_signatures(void) { return boardsmith_signatures; }
#endif

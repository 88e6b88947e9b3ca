// SPDX-License-Identifier: Apache-2.0
//
// Declarations of Zephyr's API, as far as the template zephyr uses it, so that a compiler checks its C without a Zephyr
// tree. Every stub of a header of Zephyr's includes this file.
#ifndef ZEPHYR_STUBS_H_
#define ZEPHYR_STUBS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifndef KERNEL_VERSION_NUMBER
#define KERNEL_VERSION_NUMBER 0x30200
#endif

struct device {
  const char* name;
};
bool device_is_ready(const struct device* dev);

extern const struct device stub_device;
#define DT_CHOSEN(name) name
#define DT_ALIAS(name) name
#define DT_HAS_CHOSEN(name) STUB_HAS(name)
#define DT_NODE_HAS_STATUS(node, status) STUB_HAS(node)
#define STUB_HAS(name) STUB_HAS_##name
#define DEVICE_DT_GET(node) (&stub_device)
#define STUB_HAS_boardsmith_uart 0
#define STUB_HAS_zephyr_console 1
#define STUB_HAS_zephyr_shell_uart 0
#define STUB_HAS_zephyr_entropy 1
#define STUB_HAS_watchdog0 1

#define MAX(a, b) (((a) > (b)) ? (a) : (b))
#define LOG2CEIL(x) (32 - __builtin_clz((unsigned)(x)-1U))

typedef struct {
  int64_t ticks;
} k_timeout_t;
#define K_FOREVER ((k_timeout_t){-1})
#define K_MSEC(ms) ((k_timeout_t){(ms)})
#define K_TICKS(n) ((k_timeout_t){(n)})

struct k_sem {
  unsigned count;
};
#define K_SEM_DEFINE(name, initial, limit) struct k_sem name = {initial}
int k_sem_take(struct k_sem* sem, k_timeout_t timeout);
void k_sem_give(struct k_sem* sem);

struct k_timer {
  void (*expiry)(struct k_timer* timer);
};
#define K_TIMER_DEFINE(name, on_expiry, on_stop) struct k_timer name = {on_expiry}
void k_timer_start(struct k_timer* timer, k_timeout_t duration, k_timeout_t period);

struct k_thread {
  struct {
    uintptr_t start;
    size_t size;
  } stack_info;
};
struct k_thread* k_current_get(void);
#define K_THREAD_DEFINE(name, stack_bytes, entry, a, b, c, priority, options, delay) \
  extern void (*const name)(void*, void*, void*);                                    \
  void (*const name)(void*, void*, void*) = entry

uint32_t k_cycle_get_32(void);
uint64_t k_cycle_get_64(void);
uint32_t k_uptime_get_32(void);
int64_t k_uptime_ticks(void);
uint32_t k_ms_to_ticks_ceil32(uint32_t ms);
int sys_clock_hw_cycles_per_sec(void);
int32_t k_sleep(k_timeout_t timeout);
void k_yield(void);
void k_cpu_atomic_idle(unsigned int key);
unsigned int irq_lock(void);
void irq_unlock(unsigned int key);

#define SYS_REBOOT_COLD 1
_Noreturn void sys_reboot(int type);

enum { K_ERR_CPU_EXCEPTION, K_ERR_SPURIOUS_IRQ, K_ERR_STACK_CHK_FAIL, K_ERR_KERNEL_OOPS, K_ERR_KERNEL_PANIC };

struct arch_esf {
  struct {
    uint32_t words[8];
  } basic;
  unsigned long ra, t0, t1, t2, t3, t4, t5, t6, a0, a1, a2, a3, a4, a5, a6, a7, mepc, mstatus;
};
#if KERNEL_VERSION_NUMBER < 0x30700
typedef struct arch_esf z_arch_esf_t;
#endif
void k_sys_fatal_error_handler(unsigned int reason, const struct arch_esf* esf);

typedef void (*uart_irq_callback_user_data_t)(const struct device* dev, void* user_data);
#define UART_ERROR_OVERRUN 1
int uart_err_check(const struct device* dev);
int uart_fifo_read(const struct device* dev, uint8_t* data, const int size);
void uart_irq_rx_enable(const struct device* dev);
void uart_irq_rx_disable(const struct device* dev);
void uart_irq_tx_enable(const struct device* dev);
void uart_irq_tx_disable(const struct device* dev);
int uart_irq_tx_ready(const struct device* dev);
int uart_fifo_fill(const struct device* dev, const uint8_t* data, int size);
int uart_irq_update(const struct device* dev);
int uart_irq_rx_ready(const struct device* dev);
void uart_irq_callback_set(const struct device* dev, uart_irq_callback_user_data_t callback);
int uart_poll_in(const struct device* dev, unsigned char* c);
void uart_poll_out(const struct device* dev, unsigned char c);

int usb_enable(void (*status)(int code, const uint8_t* param));

#define SEGGER_RTT_MODE_NO_BLOCK_TRIM 1
int SEGGER_RTT_SetFlagsUpBuffer(unsigned channel, unsigned flags);
unsigned SEGGER_RTT_Read(unsigned channel, void* data, unsigned size);
unsigned SEGGER_RTT_Write(unsigned channel, const void* data, unsigned size);

int entropy_get_entropy(const struct device* dev, uint8_t* buffer, uint16_t length);

#define RESET_PIN (1U << 0)
#define RESET_SOFTWARE (1U << 1)
#define RESET_BROWNOUT (1U << 2)
#define RESET_POR (1U << 3)
#define RESET_WATCHDOG (1U << 4)
#define RESET_CPU_LOCKUP (1U << 8)
int hwinfo_get_reset_cause(uint32_t* cause);
int hwinfo_clear_reset_cause(void);
ssize_t hwinfo_get_device_id(uint8_t* buffer, size_t length);

#define WDT_FLAG_RESET_SOC 4
#define WDT_OPT_PAUSE_HALTED_BY_DBG 2
struct wdt_timeout_cfg {
  struct {
    uint32_t min;
    uint32_t max;
  } window;
  void (*callback)(const struct device* dev, int channel_id);
  uint8_t flags;
};
int wdt_install_timeout(const struct device* dev, const struct wdt_timeout_cfg* cfg);
int wdt_setup(const struct device* dev, uint8_t options);
int wdt_feed(const struct device* dev, int channel_id);

#endif  // ZEPHYR_STUBS_H_

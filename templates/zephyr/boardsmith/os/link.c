// SPDX-License-Identifier: Apache-2.0
//
// The link on Zephyr: a UART, or RTT through the debug probe. The UART is the device tree's chosen boardsmith,uart,
// else zephyr,console; it may be a port on USB.
#include "link.h"

#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port.h"
#include "zephyr_api.h"

#ifdef CONFIG_BOARDSMITH_RTT
// no UART
#elif DT_HAS_CHOSEN(boardsmith_uart)
#define UART_NODE DT_CHOSEN(boardsmith_uart)
#elif DT_HAS_CHOSEN(zephyr_console)
#define UART_NODE DT_CHOSEN(zephyr_console)
#else
#error "no UART for the link: choose one in an overlay: / { chosen { boardsmith,uart = &uart0; }; };"
#endif

#if defined(CONFIG_UART_INTERRUPT_DRIVEN) && !defined(CONFIG_BOARDSMITH_RTT)
#define RECEIVES_BY_INTERRUPT
#endif

// The receive buffer is a power of two that holds a packet.
#define LEAST_RING_BYTES MAX(TVM_CRT_MAX_PACKET_SIZE_BYTES, CONFIG_BOARDSMITH_RING_BYTES)
#define RING_BYTES (1U << LOG2CEIL(LEAST_RING_BYTES))

enum { SEND_MS = 1000 };  // a host that takes no byte for so long is gone

typedef struct buffer {
  volatile uint32_t head;  // bytes received
  volatile uint32_t tail;  // bytes that receive's caller has finished with
  uint32_t in_use;         // bytes that the caller uses
  volatile bool held;      // the receive interrupt is disabled until there is space
#ifdef CONFIG_BOARDSMITH_SEND_BY_INTERRUPT
  const uint8_t* volatile sending;  // the next byte of os_send
  volatile uint32_t unsent;
#endif
  uint8_t ring[RING_BYTES];  // the last member, so that code reaches the others with short offsets
} buffer_t;

static buffer_t buffer;

os_link_t os_link;

// ---- The device of the link --------------------------------------------------------------------------------------

#ifdef CONFIG_BOARDSMITH_RTT
enum { CHANNEL = 0 };

// OpenOCD drops what the buffer has no space for. A packet with each byte escaped is the longest that a host sends.
_Static_assert(CONFIG_SEGGER_RTT_BUFFER_SIZE_DOWN > ((2 * TVM_CRT_MAX_PACKET_SIZE_BYTES) + 32),
               "CONFIG_SEGGER_RTT_BUFFER_SIZE_DOWN is too small for a packet in which each byte is escaped");

static int32_t find_device(void) {
  // A write takes what the buffer has space for, whatever mode the configuration has chosen.
  return (int32_t)SEGGER_RTT_SetFlagsUpBuffer(CHANNEL, SEGGER_RTT_MODE_NO_BLOCK_TRIM);
}

static int poll_in(uint8_t* byte) { return (SEGGER_RTT_Read(CHANNEL, byte, 1) == 1U) ? 0 : -1; }
#else
_Static_assert(DT_NODE_HAS_STATUS(UART_NODE, okay),
               "the UART of the link is disabled: set its status to okay in an overlay");
static const struct device* const uart = DEVICE_DT_GET(UART_NODE);

static int32_t find_device(void) {
#if defined(CONFIG_USB_DEVICE_STACK) && !defined(CONFIG_USB_DEVICE_INITIALIZE_AT_BOOT)
  (void)usb_enable(NULL);  // an application may have done it
#endif
  return device_is_ready(uart) ? 0 : -1;
}
#ifndef RECEIVES_BY_INTERRUPT
static int poll_in(uint8_t* byte) { return uart_poll_in(uart, byte); }
#endif
#endif

// ---- Received bytes ----------------------------------------------------------------------------------------------

#ifdef RECEIVES_BY_INTERRUPT

static K_SEM_DEFINE(arrived, 0, 1);

// Waits for an interrupt that brings bytes, at most timeout_ms.
static void wait_for_bytes(uint32_t timeout_ms) {
  const k_timeout_t timeout = (timeout_ms == PORT_FOREVER) ? K_FOREVER : K_MSEC(timeout_ms);
  os_link.waiting = true;
  while ((buffer.head == buffer.tail) && (k_sem_take(&arrived, timeout) == 0)) {
    // Taken for bytes that were read before: wait again.
  }
  os_link.waiting = false;
  os_link.alive = true;
}

static void count_lost(void) {
  const int errors = uart_err_check(uart);
  if (errors < 0) {
    os_link.lost = -1;
  } else if ((errors & UART_ERROR_OVERRUN) != 0) {
    os_link.lost++;
  }
}

// Moves bytes from the UART to the ring. Disables the interrupt if the ring is nearly full, so that the UART keeps
// further bytes: an emulated one stops its sender.
static void take_bytes(void) {
  uint8_t byte;
  while ((RING_BYTES - (buffer.head - buffer.tail)) > 0U) {
    if (uart_fifo_read(uart, &byte, 1) != 1) {
      return;
    }
    buffer.ring[buffer.head % RING_BYTES] = byte;
    buffer.head++;
  }
  uart_irq_rx_disable(uart);
  buffer.held = true;
}

#ifdef CONFIG_BOARDSMITH_SEND_BY_INTERRUPT
// Moves bytes of os_send to the UART, and disables the interrupt after the last one.
static void give_bytes(void) {
  if (buffer.unsent > 0U) {
    const int taken = uart_fifo_fill(uart, buffer.sending, (int)buffer.unsent);
    if (taken > 0) {
      buffer.sending = &buffer.sending[taken];
      buffer.unsent -= (uint32_t)taken;
    }
  }
  if (buffer.unsent == 0U) {
    uart_irq_tx_disable(uart);
  }
}
#endif

static void on_uart(const struct device* device, void* unused) {
  (void)unused;
#if (BOARDSMITH_UPLOAD_BYTES) > 0
  os_link.interrupts++;
#endif
  if (uart_irq_update(device) == 0) {
    return;
  }
  if (uart_irq_rx_ready(device) != 0) {
    take_bytes();
    count_lost();
    k_sem_give(&arrived);
  }
#ifdef CONFIG_BOARDSMITH_SEND_BY_INTERRUPT
  if (uart_irq_tx_ready(device) != 0) {
    give_bytes();
  }
#endif
}

// Enables a disabled interrupt. Bytes that arrived before may cause none: they are read here.
static void resume_receive(void) {
  const unsigned int state = irq_lock();
  if (buffer.held) {
    buffer.held = false;
    uart_irq_rx_enable(uart);
    take_bytes();
  }
  irq_unlock(state);
}

static int32_t start_device(void) {
  uart_irq_rx_disable(uart);
  uart_irq_tx_disable(uart);
  uart_irq_callback_set(uart, on_uart);
  buffer.held = true;  // until the first receive
  return 0;
}

static void await_bytes(uint32_t timeout_ms) { wait_for_bytes(timeout_ms); }

#else  // the driver has no interrupts

static void resume_receive(void) {}

static int32_t start_device(void) {
  os_link.lost = -1;
  return 0;
}

// What a driver does not store is lost while other threads run. The probe waits for space in RTT's buffer.
static void let_others_run(void) {
#ifdef CONFIG_BOARDSMITH_RTT
  (void)k_sleep(K_TICKS(1));
#else
  k_yield();
#endif
}

static void await_bytes(uint32_t timeout_ms) {
  const uint32_t since = k_uptime_get_32();
  uint8_t byte;
  for (;;) {
    while (((RING_BYTES - (buffer.head - buffer.tail)) > 0U) && (poll_in(&byte) == 0)) {
      buffer.ring[buffer.head % RING_BYTES] = byte;
      buffer.head++;
    }
    os_link.alive = true;
    if ((buffer.head != buffer.tail) || ((k_uptime_get_32() - since) >= timeout_ms)) {
      return;
    }
    let_others_run();
  }
}

#endif

int32_t os_receive(void* ctx, uint8_t** data, uint32_t timeout_ms) {
  (void)ctx;
  buffer.tail += buffer.in_use;
  buffer.in_use = 0;
  resume_receive();
  await_bytes(timeout_ms);
  const uint32_t waiting = buffer.head - buffer.tail;
  const uint32_t at = buffer.tail % RING_BYTES;
  const uint32_t to_end = RING_BYTES - at;
  buffer.in_use = (waiting < to_end) ? waiting : to_end;
  if (buffer.in_use != 0U) {
    os_link.entropy += k_cycle_get_32();
  }
  *data = &buffer.ring[at];
  return (int32_t)buffer.in_use;
}

// ---- Sent bytes --------------------------------------------------------------------------------------------------

#ifdef CONFIG_BOARDSMITH_RTT

int32_t os_send(void* ctx, const uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  uint32_t since = k_uptime_get_32();
  uint32_t sent = 0;
  while (sent < size_bytes) {
    const uint32_t taken = (uint32_t)SEGGER_RTT_Write(CHANNEL, &data[sent], size_bytes - sent);
    const uint32_t now = k_uptime_get_32();
    if (taken > 0U) {
      since = now;
    } else if ((now - since) > (uint32_t)SEND_MS) {
      return -1;
    } else {
      k_yield();
    }
    sent += taken;
    os_link.alive = true;
  }
  return 0;
}

#elif defined(CONFIG_BOARDSMITH_SEND_BY_INTERRUPT)

// The interrupt sends the bytes. data is the caller's: nothing of it is unsent at the return.
int32_t os_send(void* ctx, const uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  uint32_t since = k_uptime_get_32();
  uint32_t before = size_bytes;
  buffer.sending = data;
  buffer.unsent = size_bytes;
  uart_irq_tx_enable(uart);
  while (buffer.unsent > 0U) {
    const uint32_t now = k_uptime_get_32();
    if (buffer.unsent != before) {
      before = buffer.unsent;
      since = now;
    } else if ((now - since) > (uint32_t)SEND_MS) {
      uart_irq_tx_disable(uart);
      buffer.unsent = 0;
      return -1;
    } else {
      k_yield();  // USB's own work runs in a thread
    }
    os_link.alive = true;
  }
  return 0;
}

#else

int32_t os_send(void* ctx, const uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  for (uint32_t i = 0; i < size_bytes; i++) {
    uart_poll_out(uart, data[i]);
    os_link.alive = true;
  }
  return 0;
}

#endif

int32_t os_link_start(void) { return (find_device() < 0) ? -1 : start_device(); }

// SPDX-License-Identifier: Apache-2.0
//
// The UART part of a port (bare.h) for a 16550: National Semiconductor's PC16550D (data sheet of June 1995, §8) and
// compatible blocks. Receives by interrupt; uses the FIFO in both directions.
//
// A board file's `defines`: UART_BASE, UART_IRQ, NS16550_SHIFT (registers are 1 << shift bytes apart, default 0; 2 for
// word registers, which are accessed as words).
#include <stdint.h>

#include "bare.h"

#ifndef NS16550_SHIFT
#define NS16550_SHIFT 0
#endif
#if NS16550_SHIFT == 2
#define REG(n) (*(volatile uint32_t*)(uintptr_t)((UART_BASE) + ((n) << 2)))
#else
#define REG(n) (*(volatile uint8_t*)(uintptr_t)((UART_BASE) + ((n) << (NS16550_SHIFT))))
#endif

enum {
  RBR = 0,  // received byte, when read
  THR = 0,  // byte to send, when written
  DLL = 0,  // divisor, while LCR_DLAB is set
  DLM = 1,
  IER = 1,
  FCR = 2,
  LCR = 3,
  MCR = 4,
  LSR = 5,
};
#define IER_RECEIVE 0x05U  // a received byte; a line error, which includes an overrun
#define FCR_START 0x07U    // FIFOs on and empty, interrupt at the first byte
#define LCR_DLAB 0x80U
#define LCR_8N1 0x03U
#define MCR_OUT2 0x0bU  // DTR, RTS, and the output that gates the interrupt in some blocks
#define LSR_READY 0x01U
#define LSR_OVERRUN 0x02U
#define LSR_EMPTY 0x20U  // the transmit FIFO

#define FIFO_BYTES 16U

#define DIVISOR(hz) (((hz) + (8U * (BOARDSMITH_BAUD))) / (16U * (BOARDSMITH_BAUD)))
#define BARE_BASE UART_BASE
#if NS16550_SHIFT == 2
BARE_CHECK_BASE(UART_BASE);
#else
BARE_CHECK_OUTSIDE(UART_BASE, "UART_BASE");
#endif
BARE_CHECK_RATE(UART_HZ, 16U * DIVISOR(UART_HZ), 16U, 16U * 0xFFFFU);

static uint32_t room;  // bytes that the transmit FIFO can hold

void uart_init(void) {
  const uint32_t divisor = DIVISOR(chip_uart_hz());
  REG(IER) = 0U;
  REG(LCR) = LCR_DLAB | LCR_8N1;
  REG(DLL) = (uint8_t)divisor;
  REG(DLM) = (uint8_t)(divisor >> 8);
  REG(LCR) = LCR_8N1;
  REG(FCR) = FCR_START;
  REG(MCR) = MCR_OUT2;
  REG(IER) = IER_RECEIVE;
  cpu_irq_enable(UART_IRQ);
}

void uart_irq(void) {
  for (uint32_t i = 0; i < (2U * FIFO_BYTES); i++) {
    const uint32_t status = REG(LSR);  // reading it clears an error
    if ((status & LSR_OVERRUN) != 0U) {
      bare_lost(1);
    }
    if ((status & LSR_READY) == 0U) {
      return;
    }
    bare_received((uint8_t)REG(RBR));
  }
}

int32_t uart_put(uint8_t byte) {
  if (room == 0U) {
    if ((REG(LSR) & LSR_EMPTY) == 0U) {
      return -1;
    }
    room = FIFO_BYTES;
  }
  room--;
  REG(THR) = byte;
  return 0;
}

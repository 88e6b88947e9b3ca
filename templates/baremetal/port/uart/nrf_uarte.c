// SPDX-License-Identifier: Apache-2.0
//
// The UARTE of Nordic's nRF52 and nRF53, which only works with EasyDMA (chapter "UARTE" of the nRF52840
// Product Specification v1.8 and of the nRF5340's v1.3). Pins are set up by the chip's file. Defines: UARTE_BASE,
// UART_IRQ, NRF_UART_TX_PIN, NRF_UART_RX_PIN; UARTE_ANOMALY_44 if the chip has that erratum.
//
// Bytes are received one by one: the DMA's buffer holds one byte, and reading it starts the next transfer. Bytes in
// between wait in the receiver's FIFO of at least four bytes, 40 us at 1 Mbaud. A larger buffer would need a count of
// its bytes, and a shortcut from its end to its start would overwrite bytes if the interrupt is late. Bytes to send are
// collected in one buffer while the other is sent.
#include <stddef.h>
#include <stdint.h>

#include "chip/await.h"
#include "bare.h"

#define TASKS_STARTRX REG32((UARTE_BASE) + 0x000U)
#define TASKS_STOPRX REG32((UARTE_BASE) + 0x004U)
#define TASKS_STARTTX REG32((UARTE_BASE) + 0x008U)
#define TASKS_STOPTX REG32((UARTE_BASE) + 0x00CU)
#define EVENTS_ENDRX REG32((UARTE_BASE) + 0x110U)
#define EVENTS_ENDTX REG32((UARTE_BASE) + 0x120U)
#define EVENTS_ERROR REG32((UARTE_BASE) + 0x124U)
#define SHORTS REG32((UARTE_BASE) + 0x200U)
#define INTEN REG32((UARTE_BASE) + 0x300U)
#define ERRORSRC REG32((UARTE_BASE) + 0x480U)
#define ENABLE REG32((UARTE_BASE) + 0x500U)
#define PSEL_RTS REG32((UARTE_BASE) + 0x508U)
#define PSEL_TXD REG32((UARTE_BASE) + 0x50CU)
#define PSEL_CTS REG32((UARTE_BASE) + 0x510U)
#define PSEL_RXD REG32((UARTE_BASE) + 0x514U)
#define BAUDRATE REG32((UARTE_BASE) + 0x524U)
#define RXD_PTR REG32((UARTE_BASE) + 0x534U)
#define RXD_MAXCNT REG32((UARTE_BASE) + 0x538U)
#define TXD_PTR REG32((UARTE_BASE) + 0x544U)
#define TXD_MAXCNT REG32((UARTE_BASE) + 0x548U)
#define CONFIG REG32((UARTE_BASE) + 0x56CU)

#define INT_ENDRX (1U << 4)
#define INT_ENDTX (1U << 8)
#define INT_ERROR (1U << 9)
#define ERRORSRC_OVERRUN (1U << 0)
#define ENABLED 8U
#define DISCONNECTED UINT32_MAX
#define RX_AT_ONCE 8U  // more than the FIFO holds; limits the time in the interrupt

// BAUDRATE only accepts the table's values (BAUDRATE register), which are not proportional to the rate.
#if (BOARDSMITH_BAUD) == 9600
#define BAUDRATE_VALUE 0x00275000U
#elif (BOARDSMITH_BAUD) == 19200
#define BAUDRATE_VALUE 0x004EA000U
#elif (BOARDSMITH_BAUD) == 38400
#define BAUDRATE_VALUE 0x009D0000U
#elif (BOARDSMITH_BAUD) == 57600
#define BAUDRATE_VALUE 0x00EB0000U
#elif (BOARDSMITH_BAUD) == 115200
#define BAUDRATE_VALUE 0x01D60000U
#elif (BOARDSMITH_BAUD) == 230400
#define BAUDRATE_VALUE 0x03B00000U
#elif (BOARDSMITH_BAUD) == 250000
#define BAUDRATE_VALUE 0x04000000U
#elif (BOARDSMITH_BAUD) == 460800
#define BAUDRATE_VALUE 0x07400000U
#elif (BOARDSMITH_BAUD) == 921600
#define BAUDRATE_VALUE 0x0F000000U
#elif (BOARDSMITH_BAUD) == 1000000
#define BAUDRATE_VALUE 0x10000000U
#else
#error "link.baud: the UARTE has no setting for this rate: 9600 to 921600 or 1000000"
#endif

#define BARE_BASE UARTE_BASE
BARE_CHECK_BASE(UARTE_BASE);

enum { TX_BYTES = 16 };  // the least that keeps the line busy, because a reset waits for it

typedef struct uarte {
  volatile uint8_t rx;  // written by the DMA
  volatile uint8_t tx[2][TX_BYTES];
  uint32_t filling;  // which of the two
  uint32_t count;    // bytes in it
  uint32_t sending;  // 1: the other is being sent
} uarte_t;

static uarte_t uarte;

// Erratum 44 of the nRF5340: a receiver that ran before a software reset still runs, and must be stopped in order.
static void quiesce(void) {
#ifdef UARTE_ANOMALY_44
  if (REG32((UARTE_BASE) + 0x568U) == 1U) {  // enable of the transmitter, not in the specification
    TASKS_STOPTX = 1;
  }
  if (REG32((UARTE_BASE) + 0x564U) == 1U) {
    ENABLE = ENABLED;
    TASKS_STOPRX = 1;
    (void)await_bits((UARTE_BASE) + 0x564U, 1U, 0U, 1000000U);  // at least 31 ms: four bytes at 1200 baud
    ERRORSRC = ERRORSRC;
  }
#endif
  ENABLE = 0;
}

void uart_init(void) {
  INTEN = 0;
  quiesce();
  PSEL_TXD = NRF_UART_TX_PIN;
  PSEL_RXD = NRF_UART_RX_PIN;
  PSEL_RTS = DISCONNECTED;
  PSEL_CTS = DISCONNECTED;
  CONFIG = 0;  // no parity, one stop bit, no flow control
  BAUDRATE = BAUDRATE_VALUE;
  SHORTS = 0;
  EVENTS_ENDRX = 0;
  EVENTS_ENDTX = 0;
  EVENTS_ERROR = 0;
  ENABLE = ENABLED;
  RXD_PTR = (uint32_t)(uintptr_t)&uarte.rx;
  RXD_MAXCNT = 1;
  INTEN = INT_ENDRX | INT_ENDTX | INT_ERROR;
  TASKS_STARTRX = 1;
  cpu_irq_enable(UART_IRQ);
}

// Sends the collected bytes if the transmitter is free. Called with interrupts masked, or by the interrupt.
static void transmit(void) {
  if ((uarte.sending != 0U) && (EVENTS_ENDTX != 0U)) {
    EVENTS_ENDTX = 0;
    uarte.sending = 0;
  }
  if ((uarte.sending != 0U) || (uarte.count == 0U)) {
    return;
  }
  TXD_PTR = (uint32_t)(uintptr_t)uarte.tx[uarte.filling];
  TXD_MAXCNT = uarte.count;
  uarte.sending = 1;
  uarte.filling ^= 1U;
  uarte.count = 0;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);  // the bytes are in memory before the DMA reads them
  TASKS_STARTTX = 1;
}

static void receive(void) {
  for (uint32_t i = 0; (i < RX_AT_ONCE) && (EVENTS_ENDRX != 0U); i++) {
    EVENTS_ENDRX = 0;
    const uint8_t byte = uarte.rx;
    TASKS_STARTRX = 1;
    bare_received(byte);
  }
}

void uart_irq(void) {
  if (EVENTS_ERROR != 0U) {
    EVENTS_ERROR = 0;
    const uint32_t errors = ERRORSRC;
    ERRORSRC = errors;  // writing 1 clears
    if ((errors & ERRORSRC_OVERRUN) != 0U) {
      bare_lost(1);
    }
  }
  receive();
  transmit();
  (void)
      EVENTS_ERROR;  // makes the cleared events effective before the interrupt returns (chapter "Peripheral interface")
}

int32_t uart_put(uint8_t byte) {
  int32_t error = -1;
  const uint32_t state = cpu_lock();
  transmit();
  if (uarte.count < (uint32_t)TX_BYTES) {
    uarte.tx[uarte.filling][uarte.count] = byte;
    uarte.count++;
    error = 0;
    transmit();
  }
  cpu_unlock(state);
  return error;
}

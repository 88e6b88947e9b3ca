#include <stdint.h>

typedef enum {
  NonMaskableInt_IRQn = -14,
  UART0_IRQn = 5,
  UART1_IRQn = 9,
  DMA_IRQn = 12,
} IRQn_Type;

typedef struct {
  volatile uint32_t DATA;
  volatile uint32_t STATUS;
} UART_TypeDef;

#define UART0_BASE_ADDRESS 0x40001000UL
#define UART0 ((UART_TypeDef*)UART0_BASE_ADDRESS)
#define UART1 ((UART_TypeDef*)0x40001300UL)
#define UART2 ((UART_TypeDef*)0x40008000UL)  // not used

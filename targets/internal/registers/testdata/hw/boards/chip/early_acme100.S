#define WATCHDOG 0x40000008 // don't feed it
  .syntax unified
  .text
  .global acme_early
acme_early:
  ldr r0, =WATCHDOG
  bx lr

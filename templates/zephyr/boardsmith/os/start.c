// SPDX-License-Identifier: Apache-2.0
//
// Starts the server: in Zephyr's main thread, or in a thread of its own beside the application's main.
#include <crt_config.h>

#include "zephyr_api.h"

int boardsmith_main(void);

#ifdef CONFIG_BOARDSMITH_MAIN
#if KERNEL_VERSION_NUMBER >= 0x30400
int main(void) { return boardsmith_main(); }
#else
void main(void) { (void)boardsmith_main(); }
#endif
#else
static void server_thread(void* a, void* b, void* c) {
  (void)a;  // it takes none
  (void)b;
  (void)c;
  (void)boardsmith_main();
}

K_THREAD_DEFINE(boardsmith, BOARDSMITH_STACK_BYTES, server_thread, NULL, NULL, NULL, CONFIG_BOARDSMITH_THREAD_PRIORITY,
                0, 0);
#endif

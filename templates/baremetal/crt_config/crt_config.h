// SPDX-License-Identifier: 0BSD
// Board host, for the runtime and the firmware.
#ifndef CRT_CONFIG_H_
#define CRT_CONFIG_H_

#define BOARDSMITH_ARENA_BYTES 16777216
#define TVM_CRT_MAX_PACKET_SIZE_BYTES 2048
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512
#define TVM_CRT_LOG_LEVEL TVM_CRT_LOG_LEVEL_INFO
#define BOARDSMITH_STACK_BYTES 0
#define BOARDSMITH_CORE_HZ 0
#define BOARDSMITH_TIMER_HZ 0
#define BOARDSMITH_WATCHDOG_MS 0
#define BOARDSMITH_BUDGET_MS 600000
#define BOARDSMITH_BAUD 115200
#define BOARDSMITH_EMULATED 0
#define BOARDSMITH_UPLOAD_BYTES 0
#define BOARDSMITH_SIGNATURES
#define BOARDSMITH_AOT_EXECUTOR  // also without a model's metadata: another model must not change the runtime

// Functions besides the firmware's: the name for the host, and the C function.
#define BOARDSMITH_BOARD_FUNCTIONS(X) \
  X("tvm.testing.reset_server", process_reset_packed) \
  X("tvm.graph_executor.create", TVMGraphExecutorModule_Create)

#endif  // CRT_CONFIG_H_

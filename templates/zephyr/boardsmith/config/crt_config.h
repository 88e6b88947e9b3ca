// SPDX-License-Identifier: Apache-2.0
//
// The project's crt_config.h, and defaults from Kconfig and the device tree for what it leaves out or sets to 0. The
// CMake file computes BOARDSMITH_DEFAULT_ARENA_BYTES.
#ifndef BOARDSMITH_ZEPHYR_CRT_CONFIG_H_
#define BOARDSMITH_ZEPHYR_CRT_CONFIG_H_

#if __has_include_next("crt_config.h")
#include_next "crt_config.h"
#endif

#if !defined(BOARDSMITH_ARENA_BYTES) || (BOARDSMITH_ARENA_BYTES == 0)
#undef BOARDSMITH_ARENA_BYTES
#define BOARDSMITH_ARENA_BYTES BOARDSMITH_DEFAULT_ARENA_BYTES
#endif
#if !defined(TVM_CRT_MAX_PACKET_SIZE_BYTES) || (TVM_CRT_MAX_PACKET_SIZE_BYTES == 0)
#undef TVM_CRT_MAX_PACKET_SIZE_BYTES
#define TVM_CRT_MAX_PACKET_SIZE_BYTES CONFIG_BOARDSMITH_PACKET_BYTES
#endif
#if !defined(TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES) || (TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES == 0)
#undef TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 256
#endif
#if !defined(BOARDSMITH_WATCHDOG_MS) || (BOARDSMITH_WATCHDOG_MS == 0)
#undef BOARDSMITH_WATCHDOG_MS
#define BOARDSMITH_WATCHDOG_MS CONFIG_BOARDSMITH_WATCHDOG_MS
#endif
#ifndef BOARDSMITH_BUDGET_MS
#define BOARDSMITH_BUDGET_MS 600000
#endif
#ifndef BOARDSMITH_UPLOAD_BYTES
#define BOARDSMITH_UPLOAD_BYTES 0
#endif
#ifndef TVM_CRT_LOG_LEVEL
#define TVM_CRT_LOG_LEVEL TVM_CRT_LOG_LEVEL_INFO
#endif

// The project's header is the same for all boards of Zephyr: only this build shows that it is for an emulator.
#ifdef CONFIG_QEMU_TARGET
#undef BOARDSMITH_EMULATED
#define BOARDSMITH_EMULATED 1
#endif

#endif  // BOARDSMITH_ZEPHYR_CRT_CONFIG_H_

// SPDX-License-Identifier: Apache-2.0
//
// Assertions of what functions of the runtime rely on among themselves: lengths that a caller has checked, states,
// alignments, lists in order. They are no checks of input, which can break none of them. Only a build with
// BOARDSMITH_ASSERT has them; other builds do not evaluate the condition.
#ifndef BOARDSMITH_RUNTIME_CONTRACTS_H_
#define BOARDSMITH_RUNTIME_CONTRACTS_H_

#ifdef BOARDSMITH_ASSERT
#include <tvm/runtime/crt/platform.h>
#define CRT_ASSERT(condition)                          \
  do {                                                 \
    if (!(condition)) {                                \
      TVMPlatformAbort(kTvmErrorPlatformCheckFailure); \
    }                                                  \
  } while (0)
#else
#define CRT_ASSERT(condition) ((void)0)
#endif

#endif  // BOARDSMITH_RUNTIME_CONTRACTS_H_

// SPDX-License-Identifier: Apache-2.0
//
// Encoding of tables of named functions.
#include <string.h>

#include "functions.h"
#include "text.h"

enum { NAMES_AT = 2 };  // offset of the names, after the count

const char* boardsmith_text_after(const char* text, const char* start) {
  for (; *start != '\0'; start++) {
    if (*text != *start) {
      return NULL;
    }
    text++;
  }
  return text;
}

// 84 bytes less than newlib's strlen on a Cortex-M3.
size_t boardsmith_text_length(const char* text) { return (size_t)(boardsmith_text_after(text, text) - text); }

int boardsmith_text_matches(const char* text, const char* pattern, const char* name) {
  for (; *pattern != '\0'; pattern++) {
    if (*pattern == '%') {
      text = boardsmith_text_after(text, name);
      if (text == NULL) {
        return 0;
      }
    } else if (*text != *pattern) {
      return 0;
    } else {
      text++;
    }
  }
  return *text == '\0';
}

int boardsmith_registry_find(const TVMFuncRegistry* reg, const char* pattern, const char* name) {
  const char* p = &reg->names[NAMES_AT];
  for (int index = 0; *p != '\0'; index++) {
    if (boardsmith_text_matches(p, pattern, name) != 0) {
      return index;
    }
    while (*p != '\0') {
      p++;
    }
    p++;
  }
  return -1;
}

const char* TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry* reg) { return &reg->names[NAMES_AT]; }

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry* reg) { return (uint16_t)registry_count(reg); }

int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry* reg, const uint16_t num_funcs) {
  // Only a registry in RAM can change.
  (void)memcpy((char*)(uintptr_t)reg->names, &num_funcs, sizeof num_funcs);
  return 0;
}

tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry* reg, const char* name,
                                       tvm_function_index_t* function_index) {
  const int index = boardsmith_registry_find(reg, "%", name);
  if (index < 0) {
    return kTvmErrorFunctionNameNotFound;
  }
  *function_index = (tvm_function_index_t)index;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry* reg, tvm_function_index_t index,
                                           TVMBackendPackedCFunc* out_func) {
  if (index >= TVMFuncRegistry_GetNumFuncs(reg)) {
    return kTvmErrorFunctionIndexInvalid;
  }
  *out_func = reg->funcs[index];
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry* reg, uint8_t* buffer, size_t buffer_size_bytes) {
  if (buffer_size_bytes < TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES) {
    return kTvmErrorBufferTooSmall;
  }
  reg->max_functions = buffer_size_bytes / TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES;
  const size_t end = buffer_size_bytes & ~(sizeof(void*) - 1U);
  const size_t funcs_at = end - (reg->max_functions * sizeof(void*));
  reg->registry.names = (const char*)buffer;
  reg->registry.funcs = (const TVMBackendPackedCFunc*)(void*)&buffer[funcs_at];
  (void)memset(buffer, 0, (size_t)NAMES_AT + 1U);
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry* reg, const char* name, TVMBackendPackedCFunc func,
                                           int override) {
  char* const names = (char*)(uintptr_t)reg->registry.names;
  TVMBackendPackedCFunc* const funcs = (TVMBackendPackedCFunc*)(uintptr_t)reg->registry.funcs;
  const int index = boardsmith_registry_find(&reg->registry, "%", name);
  if (index >= 0) {
    if (override == 0) {
      return kTvmErrorFunctionAlreadyDefined;
    }
    funcs[index] = func;
    return kTvmErrorNoError;
  }
  const size_t length = strlen(name);
  if (length == 0U) {
    return kTvmErrorFunctionCallInvalidArg;  // the empty name ends the names
  }
  const uint16_t count = TVMFuncRegistry_GetNumFuncs(&reg->registry);
  size_t end = NAMES_AT;
  while (names[end] != '\0') {
    end += strlen(&names[end]) + 1U;
  }
  const size_t room = (size_t)((const char*)(const void*)funcs - names) - end;
  if ((count >= reg->max_functions) || (room < 2U) || (length > (room - 2U))) {
    return kTvmErrorFunctionRegistryFull;
  }
  (void)memcpy(&names[end], name, length + 1U);
  names[end + length + 1U] = '\0';
  funcs[count] = func;
  (void)TVMFuncRegistry_SetNumFuncs(&reg->registry, (uint16_t)(count + 1U));
  return kTvmErrorNoError;
}

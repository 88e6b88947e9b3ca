// SPDX-License-Identifier: Apache-2.0
//
// Modules in RAM (boardsmith/upload.h): one window, the modules in it, and the free parts between them, which are the
// windows that the host may write to.
//
// When the host frees a module, or its session ends, only the slot changes: it no longer points to the module. That is
// how its end is detected.
#include <boardsmith/boardsmith.h>
#include <boardsmith/upload.h>
#include <stdbool.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/platform.h>

#include "functions.h"
#include "memory.h"
#include "state.h"

enum {
  UPLOADS = MODULE_GLOBAL,  // at once
  FREE_PARTS = UPLOADS + 1,
  PART_BYTES = 24,  // of the answer of boardsmith.memory
  VERSION = 1,
  EXECUTABLE = 1,  // a flag there
  SOILED_BLOCKS = 7,
  SOILED_LARGEST_BYTES = 4096  // each other block has half of the previous size
};

typedef struct upload {
  TVMModule module;  // the slot points to it
  uintptr_t base;
  size_t size_bytes;  // with what was cleared; 0: there is no module
  size_t code_bytes;  // without
  TVMModuleHandle handle;
} upload_t;

typedef struct uploads {
  uintptr_t base;
  size_t size_bytes;
  size_t alignment;
  boardsmith_executable_t executable;
  bool is_executable;
  upload_t all[UPLOADS];
  boardsmith_window_t parts[FREE_PARTS];
  TVMByteArray answer;
  uint8_t answer_bytes[2 + (FREE_PARTS * PART_BYTES)];
} uploads_t;

static uploads_t uploads;

// ---- The free parts ------------------------------------------------------------------------------------------------

// The module with the lowest address that is at least from; NULL if there is none.
static const upload_t* next_upload(uintptr_t from) {
  const upload_t* next = NULL;
  for (unsigned i = 0; i < (unsigned)UPLOADS; i++) {
    const upload_t* const u = &uploads.all[i];
    if ((u->size_bytes != 0U) && (u->base >= from) && ((next == NULL) || (u->base < next->base))) {
      next = u;
    }
  }
  return next;
}

// Registers the free parts as windows, each from the first aligned address.
static void free_parts(void) {
  uintptr_t at = uploads.base;
  const uintptr_t end = uploads.base + uploads.size_bytes;
  for (unsigned i = 0; i < (unsigned)FREE_PARTS; i++) {
    const upload_t* const u = next_upload(at);
    const uintptr_t part_end = (u != NULL) ? u->base : end;
    boardsmith_window_remove(&uploads.parts[i]);
    uploads.parts[i].size_bytes = 0;
    if (at < part_end) {
      boardsmith_window_add(&uploads.parts[i], (void*)at, part_end - at, 1);
    }
    if (u != NULL) {
      at = ((u->base + u->size_bytes) + (uploads.alignment - 1U)) & ~(uintptr_t)(uploads.alignment - 1U);
    } else {
      at = end;
    }
  }
}

// Removes freed modules; without modules the window is no longer executable.
static void remove_freed(void) {
  bool any = false;
  for (unsigned i = 0; i < (unsigned)UPLOADS; i++) {
    upload_t* const u = &uploads.all[i];
    const unsigned slot = (unsigned)(uintptr_t)u->handle ^ HANDLE_VALID;
    if ((u->size_bytes != 0U) && (boardsmith_runtime.modules[slot].module != &u->module)) {
      u->size_bytes = 0;
    }
    any = any || (u->size_bytes != 0U);
  }
  if (uploads.is_executable && !any) {
    (void)uploads.executable((void*)uploads.base, uploads.size_bytes, 0);
    uploads.is_executable = false;
  }
  free_parts();
}

void boardsmith_upload_open(void* base, size_t size_bytes, size_t alignment, boardsmith_executable_t executable) {
  uploads.base = (uintptr_t)base;
  uploads.size_bytes = size_bytes;
  uploads.alignment = alignment;
  uploads.executable = executable;
  remove_freed();
}

void boardsmith_upload_session_begins(void) { remove_freed(); }

// ---- boardsmith.memory ---------------------------------------------------------------------------------------------

static uint8_t* put_le(uint8_t* at, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) {
    at[i] = (uint8_t)(value & 0xFFU);
    value >>= 8;
  }
  return &at[bytes];
}

int boardsmith_memory_packed(PACKED_PARAMETERS) {
  (void)args;  // it takes none
  (void)type_codes;
  (void)resource_handle;
  if (num_args != 0) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  remove_freed();
  uint8_t* at = &uploads.answer_bytes[2];
  unsigned count = 0;
  for (unsigned i = 0; i < (unsigned)FREE_PARTS; i++) {
    const boardsmith_window_t* const part = &uploads.parts[i];
    if (part->size_bytes != 0U) {
      at = put_le(at, part->base, 8);
      at = put_le(at, part->size_bytes, 8);
      at = put_le(at, EXECUTABLE, 4);
      at = put_le(at, uploads.alignment, 4);
      count++;
    }
  }
  uploads.answer_bytes[0] = VERSION;
  uploads.answer_bytes[1] = (uint8_t)count;
  uploads.answer.data = (const char*)uploads.answer_bytes;
  uploads.answer.size = 2U + (count * (size_t)PART_BYTES);
  out_value->v_handle = &uploads.answer;
  *out_type = (int)kTVMBytes;
  return 0;
}

// ---- boardsmith.upload_and_link ------------------------------------------------------------------------------------

TVM_WEAK void* boardsmith_upload_symbol(const char* name) {
  (void)name;
  return NULL;
}

// The code may be unlinked at any time: what it takes is the session's.
static tvm_crt_error_t allocate(size_t num_bytes, DLDevice dev, void** out) {
  (void)dev;
  return (tvm_crt_error_t)boardsmith_data_allocate(num_bytes, 16, out);
}

// The text of a failed check is kept for the record of the abort that follows; other texts are ignored.
static void set_last_error(const char* message) {
  TVMAPISetLastError(message);
  const char* const text = TVMGetLastError();
  boardsmith_logged(text, strlen(text));
}

// Fills memory with numbers that differ from call to call.
static void soil_words(void* memory, size_t size_bytes) {
  static uint32_t number = 1;
  uint32_t* const words = memory;
  for (size_t i = 0; i < (size_bytes / sizeof(uint32_t)); i++) {
    number = (number * 1664525U) + 1013904223U;
    words[i] = number;
  }
}

static void soil(void* memory, size_t size_bytes) {
  void* blocks[SOILED_BLOCKS];
  // Large blocks and then small ones, so that also gaps between live allocations are filled.
  size_t block_bytes = (size_t)SOILED_LARGEST_BYTES;
  for (unsigned i = 0; i < (unsigned)SOILED_BLOCKS; i++) {
    blocks[i] = TVMBackendAllocWorkspace((int)kDLCPU, 0, block_bytes, (int)kDLUInt, 8);
    if (blocks[i] != NULL) {
      soil_words(blocks[i], block_bytes);
    }
    block_bytes /= 2U;
  }
  for (unsigned i = 0; i < (unsigned)SOILED_BLOCKS; i++) {
    if (blocks[i] != NULL) {
      (void)TVMBackendFreeWorkspace((int)kDLCPU, 0, blocks[i]);
    }
  }
  TVMAPISetLastError("");  // a block that there was no memory for is no error
  soil_words(memory, size_bytes);
}

static const TVMBackendLinkTable link_table = {
    .size_bytes = sizeof(TVMBackendLinkTable),
    .alloc_workspace = TVMBackendAllocWorkspace,
    .free_workspace = TVMBackendFreeWorkspace,
    .parallel_launch = TVMBackendParallelLaunch,
    .set_last_error = set_last_error,
    .get_last_error = TVMGetLastError,
    .func_get_global = TVMFuncGetGlobal,
    .func_call = TVMFuncCall,
    .set_return = TVMCFuncSetReturn,
    .abort = TVMPlatformAbort,
    .symbol = boardsmith_upload_symbol,
    .memory_allocate = allocate,
    .tensor_bytes = boardsmith_tensor_bytes,
    .soil = soil,
};

static int refuse(const char* text) {
  TVMAPISetLastError(text);
  return (int)kTvmErrorFunctionCallInvalidArg;
}

// Returns 1 if size_bytes at address lie among the first limit bytes of the upload.
static bool inside(const upload_t* u, size_t limit, uintptr_t address, size_t size_bytes) {
  const uintptr_t offset = address - u->base;  // large if it lies before base
  return (size_bytes <= limit) && (offset <= (limit - size_bytes));
}

// Returns 1 if the number of names is the registry's count, and an empty name inside the upload ends them.
static bool names_end(const upload_t* u, const TVMFuncRegistry* registry) {
  const char* at = &registry->names[sizeof(uint16_t)];
  const char* const end = (const char*)(u->base + u->code_bytes);
  unsigned names = 0;
  while ((at < end) && (*at != '\0')) {
    while ((at < end) && (*at != '\0')) {
      at++;
    }
    at++;
    names++;
  }
  return (at < end) && (names == registry_count(registry));
}

// Returns 1 if the registry, its names and its functions lie in the upload's code, for any contents.
static bool is_registry_valid(const upload_t* u, uintptr_t address) {
  if (((address % _Alignof(TVMFuncRegistry)) != 0U) || !inside(u, u->code_bytes, address, sizeof(TVMFuncRegistry))) {
    return false;
  }
  const TVMFuncRegistry* const registry = (const TVMFuncRegistry*)address;
  if (!inside(u, u->code_bytes, (uintptr_t)registry->names, sizeof(uint16_t)) || !names_end(u, registry)) {
    return false;
  }
  const uintptr_t funcs = (uintptr_t)registry->funcs;
  const unsigned count = registry_count(registry);
  if (((funcs % _Alignof(TVMBackendPackedCFunc)) != 0U) ||
      !inside(u, u->code_bytes, funcs, count * sizeof(TVMBackendPackedCFunc))) {
    return false;
  }
  for (unsigned i = 0; i < count; i++) {
    if (!inside(u, u->code_bytes, (uintptr_t)registry->funcs[i], 1)) {
      return false;
    }
  }
  return true;
}

// Returns 1 if the list of signatures ends among the upload's code, or if there is none.
static bool are_signatures_valid(const upload_t* u, uintptr_t address) {
  if ((address % _Alignof(boardsmith_signature_t)) != 0U) {
    return false;
  }
  bool ends = address == 0U;
  while (!ends && inside(u, u->code_bytes, address, sizeof(boardsmith_signature_t))) {
    ends = ((const boardsmith_signature_t*)address)->least == 0U;
    address += sizeof(boardsmith_signature_t);
  }
  return ends;
}

// Returns 1 if the upload lies in one free part, with the alignment in the answer of boardsmith.memory.
static bool is_free(const upload_t* u) {
  bool free_part = false;
  for (unsigned i = 0; i < (unsigned)FREE_PARTS; i++) {
    const boardsmith_window_t* const part = &uploads.parts[i];
    const uintptr_t offset = u->base - part->base;
    free_part = free_part || ((u->size_bytes <= part->size_bytes) && (offset <= (part->size_bytes - u->size_bytes)));
  }
  return free_part && (u->size_bytes != 0U) && ((u->base % uploads.alignment) == 0U);
}

// Clears the bytes after the code and stores the table's pointer. Afterwards the upload's bytes are final.
static void complete(const upload_t* u, uintptr_t backend) {
  (void)memset((void*)(u->base + u->code_bytes), 0, u->size_bytes - u->code_bytes);
  if (backend != 0U) {
    *(const TVMBackendLinkTable**)backend = &link_table;
  }
}

// Makes the upload executable, and a module.
static int link(upload_t* u, uintptr_t registry, uintptr_t signatures, TVMModuleHandle* out) {
  if (uploads.executable((void*)uploads.base, uploads.size_bytes, 1) != 0) {
    TVMAPISetLastError("upload: this memory cannot be made executable");
    return (int)kTvmErrorPlatformCheckFailure;
  }
  uploads.is_executable = true;
  u->module.registry = (const TVMFuncRegistry*)registry;
  const int error = boardsmith_module_add(&u->module, NULL, out);
  if (error == 0) {
    boardsmith_signatures_set(*out, (const boardsmith_signature_t*)signatures);
  }
  return error;
}

static upload_t* unused(void) {
  for (unsigned i = 0; i < (unsigned)UPLOADS; i++) {
    if (uploads.all[i].size_bytes == 0U) {
      return &uploads.all[i];
    }
  }
  return NULL;
}

int boardsmith_upload_and_link_packed(PACKED_PARAMETERS) {
  (void)resource_handle;
  enum { BASE, SIZE, ZERO, CRC, BACKEND, REGISTRY, SIGNATURES };
  const bool is_signed = num_args > (int)SIGNATURES;
  int error = boardsmith_arguments(type_codes, num_args, is_signed ? "AAAAAAA" : "AAAAAA");
  if (error != 0) {
    return error;
  }
  remove_freed();
  upload_t* const u = unused();
  if (u == NULL) {
    return refuse("upload: too many modules");
  }
  for (int i = 0; i < (int)SIGNATURES + (is_signed ? 1 : 0); i++) {
    if ((uint64_t)args[i].v_int64 > UINTPTR_MAX) {
      return refuse("upload: no such address");
    }
  }
  upload_t upload = {.base = (uintptr_t)args[BASE].v_int64, .code_bytes = (size_t)args[SIZE].v_int64};
  upload.size_bytes = upload.code_bytes + (size_t)args[ZERO].v_int64;
  const uintptr_t backend = (uintptr_t)args[BACKEND].v_int64;
  if ((upload.size_bytes < upload.code_bytes) || !is_free(&upload)) {
    return refuse("upload: not in a free part of the window");
  }
  if ((backend != 0U) &&
      (((backend % _Alignof(void*)) != 0U) || !inside(&upload, upload.size_bytes, backend, sizeof(void*)))) {
    return refuse("upload: the table's pointer lies outside");
  }
  if (boardsmith_crc32((const void*)upload.base, upload.code_bytes) != (uint32_t)args[CRC].v_int64) {
    return refuse("upload: damaged: the CRC differs");
  }
  complete(&upload, backend);  // before the registry is checked, because the pointer may lie in it
  if (!is_registry_valid(&upload, (uintptr_t)args[REGISTRY].v_int64)) {
    return refuse("upload: bad registry");
  }
  const uintptr_t signatures = is_signed ? (uintptr_t)args[SIGNATURES].v_int64 : 0U;
  if (!are_signatures_valid(&upload, signatures)) {
    return refuse("upload: bad signatures");
  }
  *u = upload;
  error = link(u, (uintptr_t)args[REGISTRY].v_int64, signatures, &u->handle);
  if (error != 0) {
    u->size_bytes = 0;
  } else {
    out_value->v_handle = u->handle;
    *out_type = (int)kTVMModuleHandle;
  }
  remove_freed();
  return error;
}

int boardsmith_unlink_packed(PACKED_PARAMETERS) {
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  const int error = boardsmith_arguments(type_codes, num_args, "J");
  if (error != 0) {
    return error;
  }
  remove_freed();
  for (unsigned i = 0; i < (unsigned)UPLOADS; i++) {
    upload_t* const u = &uploads.all[i];
    if ((u->size_bytes != 0U) && (u->handle == args[0].v_handle)) {
      (void)TVMModFree(u->handle);
      remove_freed();
      return 0;
    }
  }
  return refuse("unlink: no module of upload_and_link");
}

// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the runtime share and no user sees: its one state, blocks of memory
// that it keeps track of, and look-ups.
#ifndef BOARDSMITH_RUNTIME_RUNTIME_H_
#define BOARDSMITH_RUNTIME_RUNTIME_H_

#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/metadata_types.h>

#include "crt_config.h"

#ifndef TVM_CRT_MAX_REGISTERED_MODULES
#define TVM_CRT_MAX_REGISTERED_MODULES 2
#endif
#ifndef BOARDSMITH_LAST_ERROR_BYTES
#define BOARDSMITH_LAST_ERROR_BYTES 128
#endif

_Static_assert((TVM_CRT_MAX_REGISTERED_MODULES > 0) && (TVM_CRT_MAX_REGISTERED_MODULES < 0x7ffc),
               "module indices have 15 bits, and the last ones are not for modules");
_Static_assert(BOARDSMITH_LAST_ERROR_BYTES > 0, "the last error needs room for its end");
_Static_assert(sizeof(TVMValue) == 8U, "a value is 8 bytes wide on the wire and for operators");

// A function that is not to be copied into its callers, where GCC thinks, wrongly, that this makes them smaller.
#if defined(__GNUC__)
#define ONCE __attribute__((noinline))
#else
#define ONCE
#endif

// The body of a function of the API that also stands where the runtime itself wants it: the function is linked only if a
// firmware calls it.
#if defined(__GNUC__)
#define BODY __attribute__((always_inline)) static inline
#else
#define BODY static inline
#endif

// Keeps a compiler from making a call of memcpy, memset or strlen of the loop that this stands in.
#if defined(__GNUC__)
#define KEEP_LOOP() __asm__ volatile("")
#else
#define KEEP_LOOP() (void)0
#endif

// Both halves of a function handle, and a module handle, carry this bit.
#define HANDLE_VALID 0x8000U
// Module indices behind those of modules: built-in functions, the firmware's, those registered at run time; time evaluators,
// which have another one in their handles.
#define MODULE_GLOBAL ((unsigned)(TVM_CRT_MAX_REGISTERED_MODULES))
#define MODULE_FIRMWARE (MODULE_GLOBAL + 1U)
#define MODULE_REGISTERED (MODULE_GLOBAL + 2U)
#define MODULE_EVALUATOR (MODULE_GLOBAL + 3U)
#define HANDLE_EVALUATOR 0x7fffU

static inline TVMFunctionHandle function_handle(unsigned module_index, unsigned index) {
  const uintptr_t upper = module_index | HANDLE_VALID;
  return (TVMFunctionHandle)((upper << 16) | index | HANDLE_VALID);
}

// Returns the number of functions; the names may lie at any address.
static inline unsigned registry_count(const TVMFuncRegistry* reg) {
  uint16_t count;
  (void)memcpy(&count, reg->names, sizeof count);
  return count;
}

// A packed function's parameters, all of them named, for functions that use some.
#define PACKED_PARAMETERS                                                        \
  TVMValue *args, int *type_codes, int num_args, TVMValue *out_value, int *out_type, \
      void *resource_handle

// Memory that the runtime took from the platform. The block stands behind the memory
// that it describes, so that the memory itself keeps the platform's alignment. size_bytes is what
// the taker may use freely; there may be more between it and the block.
typedef boardsmith_window_t block_t;

// A bit of block_t.writable, for blocks and tables of arrays of the runtime's own: the host of this session owns it,
// since it was taken for one of its requests. All else is the firmware's.
#define OF_SESSION 2

// Who asks for something to be freed, or rather whose it must be. The firmware's own code may free what is anyone's.
enum { OF_FIRMWARE = 0, OF_HOST = OF_SESSION, OF_ANYONE = 1 };

// A module's slot. Of a module with a dispatch function that one is called for all of its functions, with the function's
// index as the resource handle, and once more, with MODULE_RELEASED, when the slot is freed.
typedef struct module_slot {
  const TVMModule* module;         // NULL: free
  TVMBackendPackedCFunc dispatch;  // may be NULL
} module_slot_t;
#define MODULE_RELEASED 0x8000U

// TVMInitializeRuntime clears all of it but the windows: their owners registered them.
typedef struct runtime {
  module_slot_t modules[MODULE_EVALUATOR + 1U];
  TVMModuleHandle system_library;   // NULL until someone asks for it
  size_t calls;                     // under way, one inside the other
  uint8_t session;                  // OF_SESSION while a request of the host is in work, else 0
  uint8_t of_session[MODULE_GLOBAL];  // the same for modules, when they were added
  TVMMutableFuncRegistry registry;  // its module is NULL until the first registration
  char last_error[(BOARDSMITH_LAST_ERROR_BYTES + 3U) & ~3U];
  struct TVMAotExecutor* executor;  // of the AOT executor's module; NULL: there is none
  block_t* memory[4];               // by kind
} runtime_t;

// Kinds of memory: tables of TVMNDArray that handles may point into; arrays' data and shapes, which are freed with an
// array or an executor and in no other way; device memory, which is freed as it was allocated; what users registered.
// The host may touch all but the first.
enum { MEMORY_TABLES, MEMORY_ARRAYS, MEMORY_DATA, MEMORY_WINDOWS, MEMORY_KINDS };

extern runtime_t boardsmith_runtime;

// The functions that every runtime has (builtins.c).
extern const TVMFuncRegistry boardsmith_builtins;

// Returns the position of the name that pattern becomes when its '%' is replaced by name, or -1.
int boardsmith_registry_find(const TVMFuncRegistry* reg, const char* pattern, const char* name);

// Returns what follows start in text, or NULL if text begins otherwise.
const char* boardsmith_after(const char* text, const char* start);

// Tells whether text is the pattern with name in the place of its '%'.
int boardsmith_matches(const char* text, const char* pattern, const char* name);

// Puts module into a free slot. dispatch may be NULL: see module_slot_t.
int boardsmith_module_add(const TVMModule* module, TVMBackendPackedCFunc dispatch,
                          TVMModuleHandle* out);

// Finds a module's function by a pattern (see boardsmith_registry_find).
int boardsmith_module_find(TVMModuleHandle module, const char* pattern, const char* name,
                           TVMFunctionHandle* out);

// Tells whether a call has at least the arguments that types names, one letter each: 'A' + type code (A int, G device,
// H tensor, J module, L str). Returns 0, kTvmErrorFunctionCallNumArguments or kTvmErrorFunctionCallWrongArgType.
int boardsmith_arguments(const int* type_codes, int num_args, const char* types);

// strlen, smaller than a libc's.
size_t boardsmith_length(const char* text);

// The platform's memory, for the one device there is.
int boardsmith_take(size_t size_bytes, void** out);
int boardsmith_give(void* memory);

// Takes size_bytes, and extra_bytes behind them, and puts the block into list. The
// contents are zero. kTvmErrorPlatformNoMemory leaves *out.
int boardsmith_block_take(block_t** list, size_t size_bytes, size_t extra_bytes, void** out);

// Returns the link to the block whose memory holds address (the extra bytes too); what it
// points to is NULL if there is none.
block_t** boardsmith_block_at(block_t** list, const void* address);

// TVMDeviceAllocDataSpace.
BODY int allocate_body(size_t nbytes, size_t alignment, void** out_data) {
  const size_t mask = alignment - (size_t)(alignment != 0U);
  const size_t size_bytes = (nbytes + mask) & ~mask;  // the padding may be used, too
  if (((alignment & mask) != 0U) || (size_bytes < nbytes)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  return boardsmith_block_take(&boardsmith_runtime.memory[MEMORY_DATA], size_bytes, 0, out_data);
}

// Takes the block out of its list and gives its memory back to the platform; an error if
// link points to NULL.
int boardsmith_block_free(block_t** link);

// TVMDeviceFreeDataSpace, for what is the host's or anyone's.
BODY int free_data_body(const void* ptr, unsigned owner) {
  block_t** link = &boardsmith_runtime.memory[MEMORY_DATA];
  while ((*link != NULL) && ((*link)->base != (uintptr_t)ptr)) {
    link = &(*link)->next;
  }
  if ((owner == (unsigned)OF_HOST) && (*link != NULL) && (((*link)->writable & OF_SESSION) == 0)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  return boardsmith_block_free(link);
}

// TVMByteArrayFree.
BODY int free_bytes_body(TVMByteArray* arr) {
  int error = 0;
  if (arr->data != (const char*)&arr[1]) {  // the time evaluator takes both at once
    error = boardsmith_give((void*)(uintptr_t)arr->data);
  }
  return error | boardsmith_give(arr);
}

// TVMFuncGetGlobal.
BODY int get_global_body(const char* name, TVMFunctionHandle* out) {
  *out = NULL;
  for (unsigned i = MODULE_GLOBAL; i < MODULE_EVALUATOR; i++) {
    const TVMModule* const module = boardsmith_runtime.modules[i].module;
    const int index = (module != NULL) ? boardsmith_registry_find(module->registry, "%", name) : -1;
    if (index >= 0) {  // go on: a later registry hides an earlier one
      *out = function_handle(i, (unsigned)index);
    }
  }
  return 0;
}

// Keeps only these bits of all reference counts of a table, frees the arrays that no one refers to, then the
// table if all are free. An error if table points to NULL.
int boardsmith_arrays_settle(block_t** table, uint32_t keep);

// Makes *array, which is all zero, from its description; its data are zero, too.
int boardsmith_array_make(const struct TVMTensorInfo* info, TVMNDArray* array);

// Set in the reference count of an array that an executor uses: TVMArrayFree never takes it away.
#define ARRAY_IN_USE 0x80000000U

// TVMNDArray_Release: its shape lies in its block whatever data points to, a view's to another array's, and a user may have
// put a buffer of their own there.
BODY int release_body(const TVMNDArray* arr) {
  return boardsmith_block_free(boardsmith_block_at(&boardsmith_runtime.memory[MEMORY_ARRAYS], arr->dl_tensor.shape));
}

// Gives one reference to an array back, and frees the array with the last one. An error if there is no such array, or
// no reference; an array that is not the owner's stays as it is.
int boardsmith_array_free(const DLTensor* handle, unsigned owner);

// Frees what a call returned and its caller has used: bytes, or a reference to an array, if it is the owner's.
void boardsmith_result_free(const TVMValue* value, int type, unsigned owner);

// TVMModFree for the host: a module that is not its own stays as it is.
int boardsmith_module_give(TVMModuleHandle mod);

// Tells whether [data, data + byte_offset + size_bytes) of a tensor that the host describes lies in one live allocation
// or one window, a writable one if writable is not 0.
int boardsmith_tensor_holds(const DLTensor* t, size_t size_bytes, int writable);

// The same for all of the tensor's elements.
int boardsmith_tensor_known(const DLTensor* t, int writable);

// Returns where the elements begin of a tensor that is known.
static inline uint8_t* tensor_data(const DLTensor* t) { return &((uint8_t*)t->data)[t->byte_offset]; }

// `runtime.RPCTimeEvaluator`, and what it returns; the second gets the evaluator's number as its resource handle
// (time_evaluator.c).
int boardsmith_time_evaluator_create(PACKED_PARAMETERS);
int boardsmith_time_evaluator_call(PACKED_PARAMETERS);

// A number as a double's bits, and the quotient of two doubles' bits (double.c).
uint64_t boardsmith_double_of(uint64_t number);
uint64_t boardsmith_double_quotient(uint64_t dividend, uint64_t divisor);

// dividend / divisor.
double boardsmith_quotient(double dividend, double divisor);

// `tvm.contrib.random.random_fill` (random.c).
int boardsmith_random_fill(PACKED_PARAMETERS);

// `tvm.aot_executor.create` (aot_executor.c); only there if something refers to that file.
TVM_WEAK int boardsmith_aot_create(PACKED_PARAMETERS);

#endif  // BOARDSMITH_RUNTIME_RUNTIME_H_

// SPDX-License-Identifier: Apache-2.0
//
// Modules in RAM: linking, calls, refused requests, and which memory can be written to.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include <boardsmith/upload.h>
#include <sys/mman.h>

#include "platform.h"
#include "timer.h"

static const TVMBackendPackedCFunc upload_funcs[] = {boardsmith_memory_packed, boardsmith_upload_and_link_packed,
                                                     boardsmith_unlink_packed};
const TVMFuncRegistry boardsmith_functions = {
    "\003\000boardsmith.memory\000boardsmith.upload_and_link\000boardsmith.unlink\000", upload_funcs};

enum { WINDOW_BYTES = 4096, ALIGN = 16, ZERO_BYTES = 32 };

static uint8_t* window;
static int executable_error;
static int executable_now;

static int make_executable(void* base, size_t size_bytes, int on) {
  assert_ptr_equal(base, window);
  assert_int_equal(size_bytes, WINDOW_BYTES);
  if (executable_error != 0) {
    return executable_error;
  }
  assert_true((on != 0) || (executable_now != 0));  // not again for each session
  executable_now = on;
  return mprotect(base, size_bytes, PROT_READ | PROT_WRITE | ((on != 0) ? PROT_EXEC : 0));
}

// What a linker makes of a candidate with one function, which returns 42 where this is an x86-64.
typedef struct candidate {
  uint8_t code[32];
  const TVMBackendLinkTable* backend;
  TVMFuncRegistry registry;
  TVMBackendPackedCFunc funcs[1];
  char names[16];
  uint8_t zero[ZERO_BYTES];  // not uploaded
} candidate_t;
enum { CANDIDATE_BYTES = offsetof(candidate_t, zero) };

static void call(const char* name, const int64_t* values, int count, int code, TVMValue* r, int* error) {
  TVMValue args[8];
  int codes[8];
  int type = 0;
  for (int i = 0; i < count; i++) {
    args[i].v_int64 = values[i];
    codes[i] = code;
  }
  *error = call_global(name, args, codes, count, r, &type);
}

typedef struct part {
  uint64_t base;
  uint64_t bytes;
} part_t;

// Requests the list of free parts.
static unsigned free_parts(part_t* parts) {
  TVMValue r;
  int error = 0;
  call("boardsmith.memory", NULL, 0, 0, &r, &error);
  assert_int_equal(error, 0);
  const TVMByteArray* bytes = r.v_handle;
  assert_int_equal(bytes->data[0], 1);
  const unsigned count = (uint8_t)bytes->data[1];
  assert_int_equal(bytes->size, 2U + (count * 24U));
  for (unsigned i = 0; i < count; i++) {
    const char* at = &bytes->data[2U + (i * 24U)];
    uint32_t flags;
    uint32_t alignment;
    (void)memcpy(&parts[i].base, at, 8);
    (void)memcpy(&parts[i].bytes, &at[8], 8);
    (void)memcpy(&flags, &at[16], 4);
    (void)memcpy(&alignment, &at[20], 4);
    assert_int_equal(flags, 1);
    assert_int_equal(alignment, ALIGN);
  }
  return count;
}

static void start(void) {
  platform_reset();
  if (window == NULL) {
    window = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(window, MAP_FAILED);
  }
  executable_error = 0;
  boardsmith_upload_open(window, WINDOW_BYTES, ALIGN, make_executable);
  boardsmith_upload_session_begins();
  assert_int_equal(executable_now, 0);
}

// Writes a candidate as the host does, and returns the arguments of upload_and_link for it.
static candidate_t* upload(size_t offset, int64_t* args) {
  static const uint8_t answer_42[] = {0x48, 0xC7, 0x01, 0x2A, 0, 0, 0, 0x41, 0xC7, 0, 0, 0, 0, 0, 0x31, 0xC0, 0xC3};
  candidate_t* const c = (candidate_t*)(void*)&window[offset];
  assert_true(boardsmith_memory_known(c, sizeof *c, 1));
  (void)memset(c, 0xEE, sizeof *c);
  (void)memcpy(c->code, answer_42, sizeof answer_42);
  (void)memcpy(c->names, "\001\000answer\000", 10);
  c->funcs[0] = (TVMBackendPackedCFunc)(uintptr_t)c->code;
  c->registry.names = c->names;
  c->registry.funcs = c->funcs;
  c->backend = NULL;
  const int64_t all[6] = {(int64_t)(uintptr_t)c,
                          CANDIDATE_BYTES,
                          ZERO_BYTES,
                          boardsmith_crc32(c, CANDIDATE_BYTES),
                          (int64_t)(uintptr_t)&c->backend,
                          (int64_t)(uintptr_t)&c->registry};
  (void)memcpy(args, all, sizeof all);
  return c;
}

static TVMModuleHandle link(const int64_t* args, const char* refused) {
  TVMValue r;
  int error = 0;
  call("boardsmith.upload_and_link", args, 6, kTVMArgInt, &r, &error);
  if (refused != NULL) {
    assert_int_not_equal(error, 0);
    assert_string_equal(TVMGetLastError(), refused);
    return NULL;
  }
  assert_int_equal(error, 0);
  return r.v_handle;
}

static void unlink_it(TVMModuleHandle module, int want) {
  TVMValue r;
  int error = 0;
  const int64_t handle = (int64_t)(uintptr_t)module;
  call("boardsmith.unlink", &handle, 1, kTVMModuleHandle, &r, &error);
  assert_int_equal(error != 0, want != 0);
}

static void test_link_and_call(void** state) {
  (void)state;
  int64_t args[6];
  part_t parts[4];
  start();
  assert_int_equal(free_parts(parts), 1);
  assert_true((parts[0].base == (uintptr_t)window) && (parts[0].bytes == WINDOW_BYTES));
  candidate_t* const c = upload(64, args);
  const TVMModuleHandle module = link(args, NULL);
  assert_int_equal(executable_now, 1);
  for (int i = 0; i < ZERO_BYTES; i++) {
    assert_int_equal(c->zero[i], 0);
  }
  assert_non_null(c->backend);
  assert_int_equal(c->backend->size_bytes, sizeof(TVMBackendLinkTable));
  assert_ptr_equal(c->backend->alloc_workspace, TVMBackendAllocWorkspace);
  assert_ptr_equal(c->backend->func_call, TVMFuncCall);
  // The host can no longer write there, but before and behind.
  assert_false(boardsmith_memory_known(c, 1, 0));
  assert_false(boardsmith_memory_known(&c->zero[ZERO_BYTES - 1], 1, 1));
  assert_int_equal(free_parts(parts), 2);
  assert_true((parts[1].base == (uintptr_t)window) || (parts[0].base == (uintptr_t)window));
  TVMFunctionHandle f = NULL;
  assert_int_equal(TVMModGetFunction(module, "answer", 0, &f), 0);
#if defined(__x86_64__)
  TVMValue r;
  int type = 0;
  assert_int_equal(TVMFuncCall(f, NULL, NULL, 0, &r, &type), 0);
  assert_int_equal(r.v_int64, 42);
  assert_int_equal(type, kTVMArgInt);
#else
  (void)printf("the uploaded code was not called: it is for x86-64\n");
#endif
  unlink_it(module, 0);
  assert_int_equal(executable_now, 0);
  assert_true(boardsmith_memory_known(window, WINDOW_BYTES, 1));
  unlink_it(module, 1);
  TVMValue none;
  int none_type = 0;
  assert_int_not_equal(TVMFuncCall(f, NULL, NULL, 0, &none, &none_type), 0);
}

static void test_two_and_sessions(void** state) {
  (void)state;
  int64_t first[6];
  int64_t second[6];
  part_t parts[4];
  start();
  (void)upload(0, first);
  (void)upload(2048, second);
  const TVMModuleHandle one = link(first, NULL);
  const TVMModuleHandle two = link(second, NULL);
  assert_int_equal(free_parts(parts), 2);
  link(first, "upload: too many modules");
  unlink_it(one, 0);
  assert_int_equal(executable_now, 1);  // the other one is there
  link(second, "upload: not in a free part of the window");
  // A host that frees the module in the other way, or goes away.
  assert_int_equal(TVMModFree(two), 0);
  boardsmith_upload_session_begins();
  assert_int_equal(executable_now, 0);
  assert_true(boardsmith_memory_known(window, WINDOW_BYTES, 1));
}

static void test_refused(void** state) {
  (void)state;
  enum { BASE, SIZE, ZERO, CRC, BACKEND, REGISTRY };
  static const char outside[] = "upload: not in a free part of the window";
  static const char pointer[] = "upload: the table's pointer lies outside";
  static const struct {
    int arg;
    int64_t change;
    const char* why;
  } cases[] = {
      {BASE, -4096, outside},
      {BASE, 8, outside},
      {BASE, 4096, outside},
      {SIZE, 4096, outside},
      {SIZE, -(int64_t)CANDIDATE_BYTES - ZERO_BYTES, outside},
      {ZERO, 4096, outside},
      {ZERO, INT64_MAX - ZERO_BYTES, outside},
      {CRC, 1, "upload: damaged: the CRC differs"},
      {BACKEND, 1, pointer},
      {BACKEND, 4096, pointer},
      {BACKEND, -64, pointer},
      {REGISTRY, 1, "upload: bad registry"},
      {REGISTRY, 4096, "upload: bad registry"},
      {REGISTRY, -4096, "upload: bad registry"},
  };
  for (size_t i = 0; i < (sizeof cases / sizeof cases[0]); i++) {
    int64_t args[6];
    start();
    (void)upload(64, args);
    args[cases[i].arg] += cases[i].change;
    link(args, cases[i].why);
    assert_int_equal(executable_now, 0);
  }
}

// Registries that lie, with a CRC that holds.
static void test_registries(void** state) {
  (void)state;
  for (int i = 0; i < 7; i++) {
    int64_t args[6];
    start();
    candidate_t* const c = upload(64, args);
    switch (i) {
      case 0:
        c->registry.names = "\001\000elsewhere\000";
        break;
      case 1:
        c->names[0] = 2;  // more than there are
        break;
      case 2:
        (void)memset(c->names, 'x', sizeof c->names);  // no end
        break;
      case 3:
        c->registry.funcs = upload_funcs;
        break;
      case 4:
        c->funcs[0] = boardsmith_memory_packed;
        break;
      case 5:
        c->funcs[0] = (TVMBackendPackedCFunc)(uintptr_t)c->zero;  // not uploaded
        break;
      default:
        c->registry.names = (const char*)&c->zero[-1];  // its count would lie half outside
        break;
    }
    args[3] = boardsmith_crc32(c, CANDIDATE_BYTES);
    link(args, "upload: bad registry");
  }
  // Registries that the table's pointer overwrites.
  for (int i = 0; i < 3; i++) {
    int64_t args[6];
    start();
    const candidate_t* const c = upload(64, args);
    const void* const words[] = {&c->registry.names, &c->registry.funcs, &c->funcs[0]};
    args[4] = (int64_t)(uintptr_t)words[i];
    link(args, "upload: bad registry");
    assert_int_equal(executable_now, 0);
    assert_true(boardsmith_memory_known(window, WINDOW_BYTES, 1));
  }
  int64_t args[6];
  start();
  (void)upload(64, args);
  executable_error = -1;
  link(args, "upload: this memory cannot be made executable");
  assert_true(boardsmith_memory_known(window, WINDOW_BYTES, 1));
}

// A candidate with the signature of its function: at least one tensor.
static void test_signatures(void** state) {
  (void)state;
  enum { CRC = 3, SIGNATURES = 6, LIST_AT = 1024 };
  const boardsmith_signature_t list[2] = {{NULL, 1, 1, 1}, {NULL, 0, 0, 0}};
  for (int i = 0; i < 7; i++) {
    int64_t args[7];
    TVMValue r;
    int type = 0;
    int error = 0;
    start();
    candidate_t* const c = upload(64, args);
    boardsmith_signature_t* const at = (boardsmith_signature_t*)(void*)&window[LIST_AT];
    (void)memset(c->zero, 0, ZERO_BYTES);
    (void)memcpy(at, list, sizeof list);
    at->function = c->funcs[0];
    args[1] = LIST_AT + (int64_t)sizeof list - 64;  // behind the candidate
    args[SIGNATURES] = (int64_t)(uintptr_t)at;
    switch (i) {
      case 1:
        args[SIGNATURES] = 0;
        break;
      case 2:
        args[SIGNATURES]++;  // unaligned
        break;
      case 3:
        at[1].least = 1;  // no end
        break;
      case 4:
        args[SIGNATURES] = (int64_t)(uintptr_t)list;  // elsewhere
        break;
      case 5:
        args[1] -= (int64_t)sizeof list[0];  // its end was not uploaded
        break;
      default:
        break;
    }
    args[CRC] = boardsmith_crc32(c, (size_t)args[1]);
    if ((i > 1) && (i < 6)) {
      call("boardsmith.upload_and_link", args, 7, kTVMArgInt, &r, &error);
      assert_int_equal(error, kTvmErrorFunctionCallInvalidArg);
      assert_string_equal(TVMGetLastError(), "upload: bad signatures");
      assert_int_equal(executable_now, 0);
      continue;
    }
    call("boardsmith.upload_and_link", args, (i == 6) ? 6 : 7, kTVMArgInt, &r, &error);
    assert_int_equal(error, 0);
    TVMFunctionHandle f = NULL;
    assert_int_equal(TVMModGetFunction(r.v_handle, "answer", 0, &f), 0);
    error = kTvmErrorFunctionCallNumArguments;
#if !defined(__x86_64__)
    if (i != 0) {
      continue;
    }
#endif
    assert_int_equal(TVMFuncCall(f, NULL, NULL, 0, &r, &type), (i == 0) ? error : 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_link_and_call), cmocka_unit_test(test_two_and_sessions), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_registries),    cmocka_unit_test(test_signatures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

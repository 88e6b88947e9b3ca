// SPDX-License-Identifier: Apache-2.0
//
// Broken contracts of the runtime end the program (runtime/contracts.h): one part's state is damaged as no input can,
// and the next call that relies on it aborts.
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/stack_allocator.h>

#include "client.h"
#include "rpc/server.h"
#include "runtime/arrays.h"
#include "runtime/state.h"

// Checks that a function aborts.
static void expect_abort(void (*function)(void)) {
  static jmp_buf aborted;
  device_abort_to = &aborted;
  const int code = setjmp(aborted);
  if (code == 0) {
    function();
  }
  device_abort_to = NULL;
  assert_int_equal(code, kTvmErrorPlatformCheckFailure);
}

static void receive_byte(void) {
  uint8_t byte = 1;
  uint8_t* data = &byte;
  size_t size_bytes = 1;
  (void)MicroTVMRpcServerLoop(device, &data, &size_bytes);
}

static void execute(void) { request_execute(device); }

static void send_log(void) { transmit_message(device, HEADER(SESSION_LOG), "a", 1); }

static void test_receiver(void** state) {
  (void)state;
  boot();
  rpc_server_t* const s = device;
  s->rx.to = &s->end[1];  // after the end
  s->slow = 1;
  expect_abort(receive_byte);
  boot();
  ((rpc_server_t*)device)->escaped = 0x7F;  // neither of its values
  ((rpc_server_t*)device)->slow = 1;
  expect_abort(receive_byte);
  boot();
  expect_alive();
}

static void test_requests(void** state) {
  (void)state;
  boot();
  boardsmith_runtime.session = OWNER_SESSION;  // inside a request
  expect_abort(execute);
  boot();
  ((rpc_server_t*)device)->transmitter = TRANSMIT_SENDING;  // inside a frame
  expect_abort(send_log);
}

static void finish_unknown(void) { request_finish(device, (result_t)(FAILED + 1)); }

static void test_results(void** state) {
  (void)state;
  boot();
  expect_abort(finish_unknown);
}

static void make_array_twice(void) {
  static const int64_t shape[1] = {3};
  static const struct TVMTensorInfo info = {"a", shape, 1, {kDLInt, 8, 1}};
  TVMNDArray array = {.reference_count = 1};
  (void)boardsmith_array_make(&info, &array);
}

static void free_window(void) {
  static boardsmith_window_t window;
  boardsmith_window_add(&window, device_out, sizeof device_out, 1);
  (void)boardsmith_block_free(&boardsmith_runtime.memory[MEMORY_WINDOWS]);
}

static void test_memory(void** state) {
  (void)state;
  boot();
  expect_abort(make_array_twice);
  expect_abort(free_window);
}

static uint64_t pool[128];
static MemoryManagerInterface* pages;

static void take_page(void) {
  const DLDevice cpu = {kDLCPU, 0};
  void* memory;
  (void)pages->Allocate(pages, 1, cpu, &memory);
}

static void test_page_allocator(void** state) {
  (void)state;
  assert_int_equal(PageMemoryManagerCreate(&pages, (uint8_t*)pool, sizeof pool, 4), 0);
  take_page();
  (void)memset(&pages[1], 0, (size_t)((uint8_t*)&pool[128] - (uint8_t*)&pages[1]));  // no pool, no runs
  ((size_t*)(void*)&pages[1])[1] = 1;                                                // pages, of no run
  expect_abort(take_page);
}

static tvm_workspace_t workspace;

static void take_workspace(void) {
  void* memory;
  (void)StackMemoryManager_Allocate(&workspace, 1, &memory);
}

static void free_workspace(void) { (void)StackMemoryManager_Free(&workspace, workspace.workspace); }

static void test_stack_allocator(void** state) {
  (void)state;
  assert_int_equal(StackMemoryManager_Init(&workspace, (uint8_t*)pool, sizeof pool), 0);
  take_workspace();
  workspace.next_alloc = &workspace.workspace[workspace.workspace_size + 1U];
  expect_abort(take_workspace);
  expect_abort(free_workspace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_receiver), cmocka_unit_test(test_requests),       cmocka_unit_test(test_results),
      cmocka_unit_test(test_memory),   cmocka_unit_test(test_page_allocator), cmocka_unit_test(test_stack_allocator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// Ownership by a session and by the firmware, and who may free what.
#include "client.h"

// Creates an executor of the idle model; returns its module, 0 when refused.
static uint64_t create_executor(void) {
  const uint64_t create = host_global("tvm.aot_executor.create");
  uint64_t module = 0;
  message_t* m = msg_request(3);
  msg_u64(m, create);
  msg_u32(m, 3);
  msg_u32(m, 9);
  msg_u32(m, 6);
  msg_u32(m, 11);
  msg_u64(m, 0x8000);
  msg_u64(m, 1);
  msg_u64(m, 4);
  msg_raw(m, "idle", 4);
  msg_request_send(m);
  if (host_answer() == 4) {
    (void)memcpy(&module, &host_reply[35], 8);
  }
  return module;
}

// Memory left by a host that disconnected is freed with the next session; memory that the firmware allocated stays.
static void test_former_session(void** state) {
  (void)state;
  const DLDevice cpu = {kDLCPU, 0};
  const DLDataType int8 = {kDLInt, 8, 1};
  const int64_t shape[1] = {5};
  void* own = NULL;
  TVMArrayHandle array = NULL;
  TVMModuleHandle module = NULL;
  boot();
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 64, 1, int8, &own), 0);
  assert_int_equal(TVMArrayAlloc(shape, 1, kDLInt, 8, 1, kDLCPU, 0, &array), 0);
  open_library();
  const size_t live = device_allocations;
  for (int round = 0; round < 3; round++) {
    const uint64_t a = host_allocate(1000);
    assert_int_not_equal(a, 0);
    assert_int_not_equal(host_allocate(1), 0);
    const uint64_t executor = create_executor();
    assert_int_equal(executor, 0x8001);  // both slots are taken
    assert_int_equal(create_executor(), 0);
    message_t* m = msg_request(3);  // get_input(0): an array of which the host holds a reference
    msg_u64(m, 0x80018004U);
    msg_u32(m, 1);
    msg_u32(m, 0);
    msg_u64(m, 0);
    msg_request_send(m);
    assert_int_equal(host_answer(), 4);
    if (round == 1) {  // the module alone was freed
      m = msg_request(10);
      msg_u32(m, 2);
      msg_u32(m, 3);
      msg_u32(m, 0);
      msg_u64(m, executor);
      msg_u64(m, 9);
      msg_request_send(m);
      assert_int_equal(host_answer(), 4);
    }
    assert_true(device_allocations > live);
    assert_true(host_start((uint8_t)(0x21 + round)));
    assert_int_equal(device_allocations, live);
    assert_int_equal(host_copy_from(a, 1000, 0, 1000), 5);
    assert_int_equal(host_copy_from((uint64_t)(uintptr_t)own, 64, 0, 64), 8);
    assert_int_equal(host_copy_from((uint64_t)(uintptr_t)array->data, 5, 0, 5), 8);
    expect_alive();
  }
  // A module of the firmware's own stays, too.
  assert_int_equal(TVMModCreateFromCModule(&lib_module, &module), 0);
  assert_true(host_start(0x31));
  assert_int_equal(create_executor(), 0);
  assert_int_equal(TVMModFree(module), 0);
  assert_int_equal(create_executor(), 0x8001);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, own), 0);
  assert_int_equal(TVMArrayFree(array), 0);
}

static int32_t free_handle(uint64_t handle, uint64_t type) {
  message_t* m = msg_request(10);
  msg_u32(m, 2);
  msg_u32(m, 3);
  msg_u32(m, 0);
  msg_u64(m, handle);
  msg_u64(m, type);
  msg_request_send(m);
  return host_answer();
}

static int32_t free_data(uint64_t data) {
  message_t* m = msg_request(14);
  msg_u32(m, 2);
  msg_u32(m, 6);
  msg_u32(m, 3);
  msg_u64(m, 1);
  msg_u64(m, data);
  msg_request_send(m);
  return host_answer();
}

// Calls a function that returns an array; the array's data and handle go to out.
static void call_for_array(uint64_t function, uint64_t* data, uint64_t* handle) {
  message_t* m = msg_request(3);
  msg_u64(m, function);
  msg_u32(m, 1);
  msg_u32(m, 0);
  msg_u64(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  assert_int_equal(host_reply[31], 13);
  (void)memcpy(data, &host_reply[39], 8);
  (void)memcpy(handle, &host_reply[79], 8);
}

// The host frees what it allocated and what was returned to it; everything else has another owner.
static void test_owners(void** state) {
  (void)state;
  const DLDevice cpu = {kDLCPU, 0};
  const DLDataType int8 = {kDLInt, 8, 1};
  const int64_t shape[1] = {5};
  const uint64_t get_input = 0x80018004U;
  void* own = NULL;
  uint64_t data;
  uint64_t handle;
  uint64_t again;
  boot();
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 64, 1, int8, &own), 0);
  assert_int_equal(TVMArrayAlloc(shape, 1, kDLInt, 8, 1, kDLCPU, 0, &lib_own), 0);
  open_library();
  const size_t live = device_allocations;
  // An executor's storage exists as long as the executor.
  const uint64_t executor = create_executor();
  assert_int_equal(executor, 0x8001);
  call_for_array(get_input, &data, &handle);
  assert_int_equal(free_data(data), 5);
  assert_int_equal(free_handle(handle, 13), 4);
  assert_int_equal(free_handle(handle, 13), 5);  // once too often
  assert_int_equal(free_data(data), 5);
  call_for_array(get_input, &again, &handle);
  assert_int_equal(again, data);
  msg_send(msg_copy_to(data, 16, 0, "0123456789abcdef", 16));
  assert_int_equal(host_answer(), 4);
  assert_int_equal(free_handle(executor, 9), 4);
  assert_int_equal(host_copy_from(data, 16, 0, 16), 8);  // the host still has a reference to it
  assert_int_equal(free_data(data), 5);
  assert_int_equal(free_handle(handle, 13), 4);
  assert_int_equal(host_copy_from(data, 16, 0, 16), 5);
  assert_int_equal(device_allocations, live);
  // So does an array's, with the array.
  call_for_array(0x80008005U, &data, &handle);
  assert_int_equal(free_data(data), 5);
  assert_int_equal(free_data(handle), 5);
  assert_int_equal(host_copy_from(data, 5, 0, 5), 8);
  assert_int_equal(free_handle(handle, 13), 4);
  assert_int_equal(free_handle(handle, 13), 5);
  assert_int_equal(device_allocations, live);
  // The host may use what the firmware allocated, but not free it.
  assert_int_equal(free_data((uint64_t)(uintptr_t)own), 5);
  assert_int_equal(free_data((uint64_t)(uintptr_t)lib_own->data), 5);
  for (int i = 0; i < 3; i++) {  // a reference more, for the host, is no reference less for the firmware
    call_for_array(0x80008006U, &data, &handle);
    assert_int_equal(((TVMNDArray*)lib_own)->reference_count, 1);
    assert_int_equal(free_handle(handle, 13), 4);
    assert_int_equal(free_handle(handle, 13), 4);
    assert_int_equal(((TVMNDArray*)lib_own)->reference_count, 1);
  }
  assert_int_equal(host_copy_from(data, 5, 0, 5), 8);
  TVMModuleHandle module = NULL;
  assert_int_equal(TVMModCreateFromCModule(&lib_module, &module), 0);
  assert_int_equal(free_handle((uint64_t)(uintptr_t)module, 9), 4);  // like the system library it stays
  assert_int_equal(create_executor(), 0);
  // An address inside a block is not the block's.
  const uint64_t a = host_allocate(64);
  assert_int_equal(free_data(a + 8U), 5);
  assert_int_equal(free_data(a - 8U), 5);
  assert_int_equal(free_data(a), 4);
  assert_int_equal(free_data(a), 5);
  // The firmware may free all that is its own, and what a request of the host's has taken.
  const uint64_t b = host_allocate(64);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, (void*)(uintptr_t)b), 0);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, lib_own->data), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMModFree(module), 0);
  assert_int_equal(TVMArrayFree(lib_own), 0);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, own), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_owners),
      cmocka_unit_test(test_former_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// Devices of Zephyr as device contexts of a model's operators.
#ifndef TVM_ZEPHYR_H_
#define TVM_ZEPHYR_H_

#include <tvm_micro_runtime.h>

#if __has_include(<zephyr/device.h>)  // since Zephyr 3.1
#include <zephyr/device.h>
#else
#include <device.h>
#endif

// The device of a devicetree node, as an element of a list of devices, which may be const:
//   static void* const devices[] = {TVM_ZEPHYR_DEVICE(DT_NODELABEL(npu))};
//   static const TVMContext context = TVM_CONTEXT_INIT(NULL, devices);
// An operator gets it as its device context: const struct device* npu = (const struct device*)context;
#define TVM_ZEPHYR_DEVICE(node) ((void*)(DEVICE_DT_GET(node)))

// Returns 0 if all of the context's devices are ready, else kTvmErrorExecutorModuleBadContext.
static inline int32_t TVMZephyrDevicesReady(const TVMModel* model, const TVMContext* context) {
  for (size_t i = 0; i < model->num_devices; i++) {
    if ((context->devices == NULL) || !device_is_ready((const struct device*)context->devices[i])) {
      return (int32_t)kTvmErrorExecutorModuleBadContext;
    }
  }
  return 0;
}

#endif  // TVM_ZEPHYR_H_

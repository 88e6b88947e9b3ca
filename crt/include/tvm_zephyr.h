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

// Returns 0 if the model has no devices or all of the context's are ready, else kTvmErrorExecutorModuleBadContext.
// context may be NULL, for none.
static inline int32_t TVMZephyrDevicesReady(const TVMModel* model, const TVMContext* context) {
  void* const* const devices = (context != NULL) ? context->devices : NULL;
  for (size_t i = 0; i < model->num_devices; i++) {
    if ((devices == NULL) || !device_is_ready((const struct device*)devices[i])) {
      return (int32_t)kTvmErrorExecutorModuleBadContext;
    }
  }
  return 0;
}

#endif  // TVM_ZEPHYR_H_

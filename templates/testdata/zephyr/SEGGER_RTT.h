// SPDX-License-Identifier: Apache-2.0
//
// A stub: the header of the module segger, which is in no folder of Zephyr.
#include <stubs.h>

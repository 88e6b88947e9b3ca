// SPDX-License-Identifier: Apache-2.0
//
// A memory protection unit in software. A port's file is compiled for this computer with this header in front; nothing
// in it is changed.
#ifndef MPU_H_
#define MPU_H_

#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"

#undef REG32
#define REG32(address) (*mpu_register((uint32_t)(address)))
#define barrier() (void)0

volatile uint32_t* mpu_register(uint32_t address);

#endif  // MPU_H_

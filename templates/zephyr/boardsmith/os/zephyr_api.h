// SPDX-License-Identifier: Apache-2.0
//
// Zephyr's headers, whose folder has had the name zephyr/ since version 3.1.
#ifndef BOARDSMITH_ZEPHYR_API_H_
#define BOARDSMITH_ZEPHYR_API_H_

#if __has_include(<zephyr/version.h>)
#include <zephyr/version.h>
#else
#include <version.h>
#endif

#if __has_include(<zephyr/kernel.h>)
#include <zephyr/device.h>
#include <zephyr/devicetree.h>
#include <zephyr/fatal.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/reboot.h>
#ifdef CONFIG_ENTROPY_GENERATOR
#include <zephyr/drivers/entropy.h>
#endif
#ifdef CONFIG_HWINFO
#include <zephyr/drivers/hwinfo.h>
#endif
#ifdef CONFIG_SERIAL
#include <zephyr/drivers/uart.h>
#endif
#ifdef CONFIG_USB_DEVICE_STACK
#include <zephyr/usb/usb_device.h>
#endif
#ifdef CONFIG_WATCHDOG
#include <zephyr/drivers/watchdog.h>
#endif
#else
#include <device.h>
#include <devicetree.h>
#include <fatal.h>
#include <kernel.h>
#include <sys/reboot.h>
#include <zephyr.h>
#ifdef CONFIG_ENTROPY_GENERATOR
#include <drivers/entropy.h>
#endif
#ifdef CONFIG_HWINFO
#include <drivers/hwinfo.h>
#endif
#ifdef CONFIG_SERIAL
#include <drivers/uart.h>
#endif
#ifdef CONFIG_USB_DEVICE_STACK
#include <usb/usb_device.h>
#endif
#ifdef CONFIG_WATCHDOG
#include <drivers/watchdog.h>
#endif
#endif

#ifdef CONFIG_BOARDSMITH_RTT
#include <SEGGER_RTT.h>
#endif

#endif  // BOARDSMITH_ZEPHYR_API_H_

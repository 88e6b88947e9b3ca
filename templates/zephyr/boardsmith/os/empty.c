// SPDX-License-Identifier: Apache-2.0
//
// Zephyr requires a source of the application; all code is in the module.

# SPDX-License-Identifier: Apache-2.0
# Your CMake settings, before Zephyr is found: set(SHIELD …), list(APPEND ZEPHYR_EXTRA_MODULES …).

# SPDX-License-Identifier: 0BSD
# Board host, for the Makefile.
CC := cc
AR := ar
BOARD_CFLAGS :=
BOARD_LDFLAGS :=
RUNTIME_OPT := Og
# The linker script; empty where the system's own is meant. With one, a .bin and a .hex can be made beside the .elf.
BOARD_LDSCRIPT :=
OBJCOPY := objcopy
# Files of the runtime that this firmware has no use for.
CRT_LEFT_OUT := runtime/upload.c runtime/fill.c

# SPDX-License-Identifier: 0BSD
# Board host, for the Makefile.
CC := cc
AR := ar
BOARD_CFLAGS :=
BOARD_LDFLAGS :=
RUNTIME_OPT := Os
OPERATOR_OPT := O2

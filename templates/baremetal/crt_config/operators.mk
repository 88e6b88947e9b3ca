# SPDX-License-Identifier: 0BSD
# The compiler's flags for the model's operators, for the Makefile.
OPERATOR_OPT := O2
OPERATOR_FLAGS :=

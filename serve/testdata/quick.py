# Runs a script of MetaSchedule in less time: TVM parses the tensor intrinsics of all its targets in each process, for a
# quarter of a minute, and no microcontroller has any. Arguments: SCRIPT ARGUMENT...
import functools
import runpy
import sys
import types

from tvm.s_tir import meta_schedule as ms


def skip():
    sys.modules["tvm.s_tir.tensor_intrin"] = types.ModuleType("tvm.s_tir.tensor_intrin")


if __name__ == "__main__":
    skip()
    ms.builder.LocalBuilder = functools.partial(ms.builder.LocalBuilder, initializer=skip)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")

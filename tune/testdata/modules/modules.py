"""Compiles the modules of modules.tar.gz with TVM 0.27.0.post1 (apache-tvm-ffi 0.1.14.post1), as its LocalBuilder does.

    python modules.py        writes modules.tar.gz: OPERATOR_TARGET.tar for each operator and target
"""

import os
import tarfile
import tempfile

import tvm
from tvm import te, tirx
from tvm.support import tar

CORES = {"num-cores": 4}  # more than one: LLVM emits calls of TVMBackendParallelLaunch
TARGETS = {
    "c": {"kind": "c"},
    "host": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", **CORES},
    "soft": {"kind": "llvm", "mtriple": "thumbv7em-none-eabi", "mcpu": "cortex-m4", **CORES},
    "mps2_an386": {
        "kind": "llvm", "mtriple": "thumbv7em-none-eabihf", "mcpu": "cortex-m4", "mfloat-abi": "hard", **CORES,
    },
    "qemu_riscv32": {
        "kind": "llvm", "mtriple": "riscv32-unknown-elf", "mattr": ["+m", "+a", "+c"], "mabi": "ilp32", **CORES,
    },
}  # fmt: skip


def matmul():
    """c[i, j] = sum of a[i, k] * b[k, j]"""
    a = te.placeholder((12, 12), "float32", name="a")
    b = te.placeholder((12, 12), "float32", name="b")
    k = te.reduce_axis((0, 12), name="k")
    c = te.compute((12, 12), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return te.create_prim_func([a, b, c])


def conv2d():
    """3 x 3, padding 1; the padded input lies in workspace memory"""
    x = te.placeholder((1, 4, 8, 8), "float32", name="x")
    w = te.placeholder((6, 4, 3, 3), "float32", name="w")
    zero = tirx.const(0, "float32")
    inside = lambda i: tirx.all(i >= 1, i < 9)  # noqa: E731
    padded = te.compute(
        (1, 4, 10, 10),
        lambda n, c, i, j: tirx.if_then_else(tirx.all(inside(i), inside(j)), x[n, c, i - 1, j - 1], zero),
        name="padded",
    )
    c, i, j = (te.reduce_axis((0, n), name=name) for n, name in ((4, "rc"), (3, "ri"), (3, "rj")))
    y = te.compute(
        (1, 6, 8, 8),
        lambda n, f, row, column: te.sum(padded[n, c, row + i, column + j] * w[f, c, i, j], axis=[c, i, j]),
        name="y",
    )
    return te.create_prim_func([x, w, y])


def exp():
    """y[i] = exp(x[i]), in parallel"""
    x = te.placeholder((8,), "float32", name="x")
    y = te.compute((8,), lambda i: te.exp(x[i]), name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
    schedule.parallel(schedule.get_loops(schedule.get_sblock("y"))[0])
    return schedule.mod["main"]


def main():
    with tempfile.TemporaryDirectory() as folder, tarfile.open("modules.tar.gz", "w:gz") as all_modules:
        for operator in matmul, conv2d, exp:
            for name, spec in TARGETS.items():
                target = tvm.target.Target(spec, host=spec)
                function = operator().with_attr("global_symbol", "main")
                module = tvm.build(tvm.IRModule({"main": function}), target=target)
                path = os.path.join(folder, f"{operator.__name__}_{name}.tar")
                module.export_library(path, fcompile=tar.tar)
                all_modules.add(path, os.path.basename(path))


if __name__ == "__main__":
    main()

"""Compiles a small network with TVM, runs it on a device and times it: run.py TEMPLATE [BOARD].

TEMPLATE is a folder that `mage template:export` has written, or one of TVM's own: nothing below depends on whose it is.
"""

import pathlib
import sys
import tempfile

import numpy as np
import tvm
import tvm.micro
from tvm import relay
from tvm.relay.backend import Executor, Runtime


def network(rng):
    """A convolution with bias and ReLU, and its weights."""
    data = relay.var("data", shape=(1, 3, 8, 8), dtype="float32")
    weight = relay.var("weight", shape=(4, 3, 3, 3), dtype="float32")
    bias = relay.var("bias", shape=(4,), dtype="float32")
    y = relay.nn.conv2d(data, weight, channels=4, kernel_size=(3, 3), padding=(1, 1))
    y = relay.nn.relu(relay.nn.bias_add(y, bias))
    params = {name: rng.standard_normal(shape, dtype="float32") for name, shape in
              (("weight", (4, 3, 3, 3)), ("bias", (4,)))}
    return tvm.IRModule.from_expr(relay.Function([data, weight, bias], y)), params


def on_device(template, options, module, params, data):
    """Returns the device's output and its seconds."""
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        lowered = relay.build(
            module,
            target=tvm.target.target.micro("host"),
            runtime=Runtime("crt", {"system-lib": True}),
            executor=Executor("aot"),
            params=params,
        )
    with tempfile.TemporaryDirectory() as folder:
        project = tvm.micro.generate_project(template, lowered, pathlib.Path(folder, "project"), options)
        project.build()
        project.flash()
        with tvm.micro.Session(project.transport()) as session:
            aot = tvm.micro.create_local_aot_executor(session)
            aot.get_input("data").copyfrom(data)
            aot.run()
            output = aot.get_output(0).numpy()
            timed = aot.module.time_evaluator("run", session.device, number=10, repeat=3)()
            return output, timed.mean


def expected(params, data):
    """The same on NumPy."""
    padded = np.pad(data[0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.maximum(
        np.einsum("ihwyx,oiyx->ohw", windows, params["weight"]) + params["bias"][:, None, None], 0
    )[None]


def main(template, board=None):
    rng = np.random.default_rng(1)
    module, params = network(rng)
    data = rng.standard_normal((1, 3, 8, 8), dtype="float32")
    output, seconds = on_device(template, {"board": board} if board else {}, module, params, data)
    np.testing.assert_allclose(output, expected(params, data), rtol=1e-4, atol=1e-4)
    print(f"{1e3 * seconds:.3f} ms, output as on NumPy")


if __name__ == "__main__":
    main(*sys.argv[1:])

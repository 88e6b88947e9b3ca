"""Six networks beside emx-onnx-cgen: writes NAME.tar of ours, and NAME.c and NAME.json of theirs.

usage: peers.py FOLDER [NAME...]
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import boardsmith.frontends
import numpy as np
import onnx
from networks import Network, Quantizer


def kws() -> onnx.ModelProto:
    """Keyword spotting: a convolution, four pairs of a depthwise and a pointwise one, a mean and a dense layer."""
    n = Network("kws", x=(1, 1, 49, 10))
    h = n.add("Conv", "x", n.weight(64, 1, 10, 4), n.weight(64), kernel_shape=[10, 4], strides=[2, 2],
              pads=[4, 1, 5, 1])  # fmt: skip
    h = n.add("Relu", h)
    for _ in range(4):
        h = n.add("Relu", n.conv(h, 64, 64, group=64))
        h = n.add("Relu", n.conv(h, 64, 64, kernel=1))
    h = n.add("Flatten", n.add("GlobalAveragePool", h))
    return n.model(n.add("Softmax", n.add("Gemm", h, n.weight(64, 12), n.weight(12)), axis=-1, to="y"))


def qdq() -> onnx.ModelProto:
    """The same in pairs of quantize and dequantize."""
    return Quantizer(kws()).run()


def mobilenet() -> onnx.ModelProto:
    """Inverted residual blocks on an image of 32 by 32."""
    n = Network("mobilenet", x=(1, 3, 32, 32))

    def limited(h: str) -> str:
        return n.add("Clip", h, n.constant(np.float32(0)), n.constant(np.float32(6)))

    h, channels = limited(n.conv("x", 3, 8, strides=[2, 2])), 8
    for filters, stride in ((8, 1), (16, 2), (16, 1), (24, 2), (24, 1)):
        side = limited(n.conv(h, channels, 4 * channels, kernel=1))
        side = limited(n.conv(side, 4 * channels, 4 * channels, group=4 * channels, strides=[stride, stride]))
        side = n.conv(side, 4 * channels, filters, kernel=1)
        h = n.add("Add", h, side) if stride == 1 and filters == channels else side
        channels = filters
    h = n.add("Flatten", n.add("GlobalAveragePool", h))
    return n.model(n.add("Gemm", h, n.weight(channels, 10), n.weight(10), to="y"))


def transformer() -> onnx.ModelProto:
    """A block of attention with four heads and a dense part, on 16 rows of 32."""
    n, rows, width, heads = Network("transformer", x=(16, 32)), 16, 32, 4

    def normal(h: str) -> str:
        return n.add("LayerNormalization", h, n.weight(width), n.weight(width), axis=-1)

    def split(h: str, order: list[int]) -> str:
        h = n.add("MatMul", h, n.weight(width, width, scale=0.2))
        h = n.add("Reshape", h, n.constant(np.array([rows, heads, width // heads], np.int64)))
        return n.add("Transpose", h, perm=order)

    h = normal("x")
    scores = n.add("MatMul", split(h, [1, 0, 2]), split(h, [1, 2, 0]))
    scores = n.add("Softmax", n.add("Mul", scores, n.constant(np.float32((width // heads) ** -0.5))), axis=-1)
    h = n.add("Transpose", n.add("MatMul", scores, split(h, [1, 0, 2])), perm=[1, 0, 2])
    h = n.add("Reshape", h, n.constant(np.array([rows, width], np.int64)))
    h = n.add("Add", "x", n.add("MatMul", h, n.weight(width, width, scale=0.2)))
    side = n.add("Relu", n.add("Add", n.add("MatMul", normal(h), n.weight(width, 64, scale=0.2)), n.weight(64)))
    return n.model(n.add("Add", h, n.add("MatMul", side, n.weight(64, width, scale=0.2)), to="y"))


def unet() -> onnx.ModelProto:
    """Two levels down and up on an image of 32 by 32."""
    n = Network("unet", x=(1, 1, 32, 32))
    first = n.add("Relu", n.conv("x", 1, 8))
    h = n.add("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2])
    second = n.add("Relu", n.conv(h, 8, 16))
    h = n.add("MaxPool", second, kernel_shape=[2, 2], strides=[2, 2])
    h = n.add("Relu", n.conv(h, 16, 32))
    for side, channels, filters in ((second, 32, 16), (first, 16, 8)):
        h = n.add("ConvTranspose", h, n.weight(channels, filters, 2, 2), n.weight(filters), kernel_shape=[2, 2],
                  strides=[2, 2])  # fmt: skip
        h = n.add("Relu", n.conv(n.add("Concat", side, h, axis=1), 2 * filters, filters))
    return n.model(n.add("Sigmoid", n.conv(h, 8, 1, kernel=1), to="y"))


def tcn() -> onnx.ModelProto:
    """Four dilated convolutions of a signal, padded by an operator of their own."""
    n = Network("tcn", x=(1, 8, 64))
    h, channels = "x", 8
    for dilation in (1, 2, 4, 8):
        h = n.add("Pad", h, n.constant(np.array([0, 0, 2 * dilation, 0, 0, 0], np.int64)))
        h = n.add("Conv", h, n.weight(16, channels, 3), n.weight(16), kernel_shape=[3], dilations=[dilation])
        h, channels = n.add("Relu", h), 16
    h = n.add("Flatten", n.add("GlobalAveragePool", h))
    return n.model(n.add("Gemm", h, n.weight(16, 4), n.weight(4), to="y"))


NETWORKS = {f.__name__: f for f in (kws, qdq, mobilenet, transformer, unet, tcn)}


def described(model: onnx.ModelProto, name: str) -> dict[str, object]:
    """Returns the description of emx-onnx-cgen's C (docs/c-models.md)."""
    arguments = []
    for kind, ends in (("input", model.graph.input), ("output", model.graph.output)):
        for value in ends:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            dtype = str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
            arguments.append({kind: value.name, "dtype": dtype, "shape": shape, "pass": "array"})
    return {"name": name, "headers": [f"{name}.c"], "include": [f"{name}.c"], "function": name, "arguments": arguments}


def main(folder: Path, *names: str) -> None:
    """Writes the networks of these names, all without."""
    for name in names or NETWORKS:
        model, path = NETWORKS[name](), folder / name
        onnx.save(model, path.with_suffix(".onnx"))
        report = boardsmith.frontends.from_onnx(path.with_suffix(".onnx"), path.with_suffix(".tar"))
        print(f"{name}: workspace {report.workspace}, peak {report.peak}, {report.verdict}")
        subprocess.run([Path(sys.executable).with_name("emx-onnx-cgen"), "compile", "--model-name", name,
                        "--large-temp-threshold", "0", "--large-weight-threshold", "0", path.with_suffix(".onnx"),
                        path.with_suffix(".c")], check=True, capture_output=True)  # fmt: skip
        path.with_suffix(".json").write_text(json.dumps(described(model, name), indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

"""MLPerf Tiny's network for keyword spotting, for a comparison with its archive of TVM 0.14.

Takes the trained weights and their scales from the archive with C interface, and writes kws_int8.onnx, with pairs of
quantize and dequantize, and kws_float.onnx, with the same weights as real numbers; NAME.tar of both; NAME.inputs.npz
and NAME.outputs.npz with drawn inputs and the outputs that ONNX's reference evaluator computes.

usage: kws.py ARCHIVE FOLDER
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import boardsmith.frontends
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


class Layer(NamedTuple):
    """A layer with weights (results, ...), as in ONNX. The bias is in units of both scales."""

    weights: np.ndarray
    scales: np.ndarray
    bias: np.ndarray
    result: tuple[float, int]  # scale and zero point


class Archive:
    """The constants in the archive's C, and the scales in its Relay text."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as tar:
            text = {
                Path(m.name).name: tar.extractfile(m).read().decode() for m in tar if m.name.endswith((".c", ".relay"))
            }
        self.constants = {
            name: np.array([int(x, 16) for x in re.findall(r"[-+]0x[0-9a-f]+", values)], np.int64)
            for name, values in re.findall(r"\.(\w+)_let = \{([^}]*)\}", text["kws_lib0.c"])
        }
        relay = re.sub(r"/\*.*?\*/", "", text["kws.relay"])
        pairs = {op: re.findall(rf"{op}\([^\n]*?{before}([\d.e-]+)f *, (-?\d+) *,", relay) for op, before in (
            (r"qnn\.requantize", ", 0 *, "), (r"qnn\.quantize", ""))}  # fmt: skip
        self.results, (self.output,) = ([(float(s), int(z)) for s, z in p] for p in pairs.values())
        zero, scale = re.search(r"qnn\.conv2d\(%input_1, [^,]*, (-?\d+) *, 0 *, ([\d.e-]+)f", relay).groups()
        self.input = float(scale), int(zero)
        self.dense = float(re.search(r"qnn\.dense\([^\n]*f *, ([\d.e-]+)f", relay)[1])

    def get(self, name: str, number: int = 0) -> np.ndarray:
        """Returns a constant of a kind."""
        return self.constants[f"{name}_{number}" if number else name]

    def layers(self) -> Iterator[Layer]:
        """Yields all layers with weights."""
        scale = self.input[0]
        for i, result in enumerate(self.results[:-1]):
            multiplier, left, right = (self.get("fused_nn_conv2d_add_constant", 3 * i + k) for k in range(3))
            scales = multiplier * 2.0 ** (left - right - 31) * result[0] / scale
            shape, axes = ((10, 4, 1, 64), (3, 2, 0, 1)) if i == 0 else ((1, 1, 64, 64), (3, 2, 0, 1))
            if i % 2 == 1:  # depthwise
                shape, axes = (3, 3, 64, 1), (2, 3, 0, 1)
            weights = self.get("fused_constant", i).reshape(shape).transpose(axes)
            yield Layer(weights, scales, self.get("fused_nn_conv2d_constant", i), result)
            scale = result[0]
        weights = self.get("fused_constant", 9).reshape(2, 64, 6).transpose(0, 2, 1).reshape(12, 64)
        bias = self.get("fused_nn_contrib_dense_pack_constant")
        yield Layer(weights, np.full(12, self.dense), bias, self.results[-1])


class Builder:
    """A graph with integers between its layers, or without."""

    def __init__(self, integers: bool) -> None:
        self.integers, self.nodes, self.constants = integers, [], []

    def constant(self, array: np.ndarray) -> str:
        """Adds a constant and returns its name."""
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def add(self, op: str, *inputs: str, to: str = "", **attributes: object) -> str:
        """Adds an operator and returns the name of its result."""
        to = to or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [to], **attributes))
        return to

    def scale(self, pair: tuple[float, int]) -> list[str]:
        """Adds a scale and its zero point."""
        return [self.constant(np.float32(pair[0])), self.constant(np.int8(pair[1]))]

    def rounded(self, x: str, pair: tuple[float, int]) -> str:
        """Adds a pair of quantize and dequantize."""
        if not self.integers:
            return x
        names = self.scale(pair)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *names), *names)

    def known(self, q: np.ndarray, scales: np.ndarray, kind: type) -> str:
        """Adds weights or a bias."""
        if not self.integers:
            return self.constant((q * scales.reshape(-1, *[1] * (q.ndim - 1))).astype(np.float32))
        names = [self.constant(a) for a in (q.astype(kind), scales.astype(np.float32), np.zeros(len(scales), kind))]
        return self.add("DequantizeLinear", *names, axis=0)

    def build(self, archive: Archive) -> onnx.ModelProto:
        """Returns the network."""
        kind, x = (TensorProto.INT8, "input") if self.integers else (TensorProto.FLOAT, "input")
        if self.integers:
            x = self.add("DequantizeLinear", x, *self.scale(archive.input))
        scale = archive.input[0]
        for i, layer in enumerate(archive.layers()):
            parameters = (self.known(layer.weights, layer.scales, np.int8),
                          self.known(layer.bias, layer.scales * scale, np.int32))  # fmt: skip
            if i == 9:
                x = self.add("AveragePool", x, kernel_shape=[25, 5], strides=[25, 5])
                x = self.add("Flatten", self.rounded(x, archive.results[-2]))
                x = self.add("Gemm", self.rounded(x, archive.results[-2]), *parameters, transB=1)
            else:
                pads = [4, 1, 5, 1] if i == 0 else [i % 2] * 4
                x = self.add("Conv", x, *parameters, group=64 if i % 2 else 1, strides=[1 + (i == 0)] * 2, pads=pads)
                x = self.add("Relu", x)
            x, scale = self.rounded(x, layer.result), layer.result[0]
        result = self.add("Softmax", x, axis=-1, to="" if self.integers else "output")
        if self.integers:
            self.add("QuantizeLinear", result, *self.scale(archive.output), to="output")
        graph = helper.make_graph(
            self.nodes, "kws", [helper.make_tensor_value_info("input", kind, [1, 1, 49, 10])],
            [helper.make_tensor_value_info("output", kind, [1, 12])], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def main(path: Path, folder: Path) -> None:
    """Writes both networks."""
    archive = Archive(path)
    drawn = np.random.default_rng(7).integers(60, 100, size=(1, 1, 49, 10)).astype(np.int8)
    real = ((drawn.astype(np.float64) - archive.input[1]) * archive.input[0]).astype(np.float32)
    for name, x in (("kws_int8", drawn), ("kws_float", real)):
        model = Builder(name == "kws_int8").build(archive)
        onnx.save(model, folder / f"{name}.onnx")
        boardsmith.frontends.from_onnx(folder / f"{name}.onnx", folder / f"{name}.tar")
        np.savez(folder / f"{name}.inputs.npz", input=x)
        np.savez(folder / f"{name}.outputs.npz", output=ReferenceEvaluator(model).run(None, {"input": x})[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

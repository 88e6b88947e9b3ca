"""Networks for tests: writes NAME.onnx, NAME.tar, NAME.inputs.npz and NAME.outputs.npz.

The expected outputs are those of ONNX's reference evaluator.

usage: networks.py FOLDER NAME...
"""

from __future__ import annotations

import sys
from pathlib import Path

import boardsmith.__main__
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


class Network:
    """An ONNX graph that is built node by node. Weights are drawn, and depend on the name only."""

    def __init__(self, name: str, **inputs: tuple[int, ...]) -> None:
        self.name, self.nodes, self.weights, self.count = name, [], [], 0
        self.random = np.random.default_rng(sum(name.encode()))
        self.inputs = inputs

    def weight(self, *shape: int, scale: float = 0.5) -> str:
        """Adds a weight and returns its name."""
        array = self.random.normal(size=shape, scale=scale).astype(np.float32)
        return self.constant(array)

    def constant(self, array: np.ndarray) -> str:
        """Adds a constant and returns its name."""
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{self.count}"))
        return f"w{self.count}"

    def add(self, op: str, *inputs: str, to: str | None = None, **attributes: object) -> str:
        """Adds an operator and returns the name of its result."""
        self.count += 1
        to = to or f"t{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [to], **attributes))
        return to

    def conv(self, x: str, channels: int, filters: int, kernel: int = 3, group: int = 1, **attributes: object) -> str:
        """Adds a convolution with padding that keeps the size, and a bias."""
        pad = kernel // 2
        w = self.weight(filters, channels // group, kernel, kernel)
        return self.add("Conv", x, w, self.weight(filters), kernel_shape=[kernel, kernel], group=group,
                        pads=[pad] * 4, **attributes)  # fmt: skip

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Returns the model."""
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in self.inputs.items()]
        results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, self.name, info, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model)
        return model


def dense() -> onnx.ModelProto:
    """Two dense layers."""
    n = Network("dense", x=(1, 12))
    h = n.add("Relu", n.add("Gemm", "x", n.weight(16, 12), n.weight(16), transB=1))
    return n.model(n.add("Gemm", h, n.weight(16, 4), n.weight(4), to="y"))


def conv() -> onnx.ModelProto:
    """Convolutions with padding and strides, with an output name that is no identifier."""
    n = Network("conv", **{"image-in": (1, 3, 9, 8)})
    h = n.add("Relu", n.conv("image-in", 3, 6, strides=[2, 1]))
    h = n.conv(h, 6, 5, kernel=5)
    return n.model(n.add("LeakyRelu", h, alpha=0.125, to="out:0"))


def two_inputs() -> onnx.ModelProto:
    """A sum of two branches of different inputs, the second of which broadcasts."""
    n = Network("two_inputs", b=(1, 6), a=(4, 6))
    h = n.add("Mul", n.add("Tanh", "b"), n.add("MatMul", "a", n.weight(6, 6)))
    return n.model(n.add("Add", h, "a", to="y"))


def two_outputs() -> onnx.ModelProto:
    """A tensor that is a result and goes on, a result that is a reshaped one, and one that is an input."""
    n = Network("two_outputs", x=(2, 8))
    h = n.add("Sigmoid", n.add("MatMul", "x", n.weight(8, 8)), to="z_hidden")
    n.add("MatMul", h, n.weight(8, 3), to="a_logits")
    n.add("Reshape", h, n.constant(np.array([4, 4], np.int64)), to="m_flat")
    return n.model("z_hidden", "a_logits", "m_flat")


def pooling() -> onnx.ModelProto:
    """Maximum and average pooling with padding, and softmax."""
    n = Network("pooling", x=(1, 4, 8, 8))
    h = n.add("MaxPool", n.conv("x", 4, 4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    h = n.add("AveragePool", h, kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1])
    h = n.add("Flatten", n.add("GlobalAveragePool", h))
    h = n.add("Gemm", h, n.weight(4, 5), n.weight(5))
    return n.model(n.add("Softmax", h, axis=-1, to="y"))


def depthwise() -> onnx.ModelProto:
    """A depthwise and a pointwise convolution, with batch normalization."""
    n = Network("depthwise", x=(1, 8, 7, 7))
    h = n.conv("x", 8, 8, group=8, strides=[2, 2])
    h = n.add("BatchNormalization", h, n.weight(8), n.weight(8), n.weight(8),
              n.constant(np.abs(n.random.normal(size=8)).astype(np.float32) + 0.5))  # fmt: skip
    h = n.add("Clip", h, n.constant(np.float32(0)), n.constant(np.float32(6)))
    return n.model(n.add("Relu", n.conv(h, 8, 12, kernel=1), to="y"))


def residual() -> onnx.ModelProto:
    """Two residual blocks, each of which keeps its input alive."""
    n = Network("residual", x=(1, 6, 8, 8))
    h = "x"
    for _ in range(2):
        side = n.conv(n.add("Relu", n.conv(h, 6, 6)), 6, 6)
        h = n.add("Relu", n.add("Add", h, side))
    return n.model(n.add("ReduceMean", h, axes=[2, 3], keepdims=0, to="y"))


def recurrent() -> onnx.ModelProto:
    """A gated cell, unrolled over three steps, with its state as input and output."""
    n = Network("recurrent", x=(3, 5), state=(1, 6))
    update, reset, candidate = (n.weight(11, 6) for _ in range(3))
    h, one = "state", n.constant(np.float32(1))
    for step in range(3):
        row = n.add("Gather", "x", n.constant(np.array([step], np.int64)), axis=0)
        both = n.add("Concat", row, h, axis=1)
        z = n.add("Sigmoid", n.add("MatMul", both, update))
        r = n.add("Sigmoid", n.add("MatMul", both, reset))
        new = n.add("Tanh", n.add("MatMul", n.add("Concat", row, n.add("Mul", r, h), axis=1), candidate))
        kept = n.add("Mul", n.add("Sub", one, z), h)
        h = n.add("Add", kept, n.add("Mul", z, new))
    return n.model(n.add("Identity", h, to="next_state"))


NETWORKS = {f.__name__: f for f in (dense, conv, two_inputs, two_outputs, pooling, depthwise, residual, recurrent)}


def inputs_of(model: onnx.ModelProto, seed: int = 7) -> dict[str, np.ndarray]:
    """Draws inputs."""
    random = np.random.default_rng(seed)
    return {
        i.name: random.normal(size=[d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in model.graph.input
    }


def main(folder: Path, names: list[str]) -> None:
    """Writes the networks of these names, all without."""
    for name in names or NETWORKS:
        model = NETWORKS[name]()
        inputs = inputs_of(model)
        results = ReferenceEvaluator(model).run(None, inputs)
        onnx.save(model, folder / f"{name}.onnx")
        boardsmith.__main__.from_onnx(folder / f"{name}.onnx", folder / f"{name}.tar")
        np.savez(folder / f"{name}.inputs.npz", **inputs)
        np.savez(folder / f"{name}.outputs.npz", **{o.name: r for o, r in zip(model.graph.output, results)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

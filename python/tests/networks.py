"""Networks for tests: writes NAME.onnx, NAME.tar, NAME.inputs.npz and NAME.outputs.npz.

The expected outputs are those of ONNX's reference evaluator.

usage: networks.py FOLDER NAME...
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import boardsmith.frontends
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


LIBRARIES = tempfile.TemporaryDirectory()  # one folder for all tests: the library is compiled once


def library(test):
    """Returns a folder with CMSIS-NN, and with the description of examples/cmsis-nn; without it, a test is skipped."""
    if not (sources := os.environ.get("BOARDSMITH_CMSIS_NN")):
        test.skipTest("BOARDSMITH_CMSIS_NN names no folder with Arm's CMSIS-NN")
    folder = Path(LIBRARIES.name)
    if not (folder / "library.json").exists():
        example = Path(__file__).parents[2] / "examples" / "cmsis-nn" / "nn" / "library.json"
        (folder / "library.json").write_bytes(example.read_bytes())
        (folder / "CMSIS-NN").symlink_to(Path(sources).resolve())
    return folder


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

    def cast(self, x: str, dtype: int) -> str:
        """Adds a conversion, whose attribute has the name of a parameter of add, and returns its result's."""
        self.count += 1
        self.nodes.append(helper.make_node("Cast", [x], [f"t{self.count}"], to=dtype))
        return f"t{self.count}"

    def conv(self, x: str, channels: int, filters: int, kernel: int = 3, group: int = 1, **attributes: object) -> str:
        """Adds a convolution with padding that keeps the size, and a bias."""
        pad = kernel // 2
        w = self.weight(filters, channels // group, kernel, kernel)
        return self.add("Conv", x, w, self.weight(filters), kernel_shape=[kernel, kernel], group=group,
                        pads=[pad] * 4, **attributes)  # fmt: skip

    def model(self, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        """Returns the model."""
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in self.inputs.items()]
        results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, self.name, info, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
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


def scatter() -> onnx.ModelProto:
    """Rows that are added to a tensor, some of them twice, elements that are written and read, and running sums."""
    n = Network("scatter", x=(4, 6))
    h = n.add("ScatterND", "x", n.constant(np.array([[2], [0], [-2]], np.int64)), n.weight(3, 6), reduction="add")
    places = n.constant(np.array([[0, -1, 2, 3, 0, 1]], np.int64))
    h = n.add("ScatterElements", h, places, n.add("Neg", n.weight(1, 6)), axis=0)
    columns = n.add("Sub", n.add("ArgMax", "x", axis=1), n.constant(np.array(6, np.int64)))
    h = n.add("Mul", h, n.add("GatherElements", h, columns, axis=1))
    rows = n.add("Sub", n.add("ArgMax", "x", axis=0), n.constant(np.array(4, np.int64)))
    rows = n.add("Transpose", rows)
    h = n.add("ScatterND", h, rows, n.add("GatherND", h, rows), reduction="add")
    h = n.add("Reshape", h, n.constant(np.array([2, 2, 6], np.int64)))
    h = n.add("ScatterElements", h, n.constant(np.array([[[1, -1, 0]]], np.int64)), n.weight(1, 1, 3), axis=0)
    h = n.add("Reshape", h, n.constant(np.array([4, 6], np.int64)))
    once = n.add("OneHot", n.add("Squeeze", columns), n.constant(np.array(6, np.int64)), n.constant(np.float32([0, 1])))
    h = n.add("Add", h, n.cast(once, TensorProto.FLOAT))
    return n.model(n.add("CumSum", h, n.constant(np.array(1, np.int64)), to="y"))


class Quantizer:
    """Inserts pairs of quantize and dequantize into a float network, for int8 with scales of drawn inputs' ranges."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model, self.nodes, self.weights = model, [], []
        self.floats = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
        every = onnx.ModelProto()
        every.CopyFrom(model)
        del every.graph.output[:]
        every.graph.output.extend(helper.make_empty_tensor_value_info(o) for n in model.graph.node for o in n.output)
        samples = [ReferenceEvaluator(every).run(None, inputs_of(model, seed)) for seed in range(4)]
        names = [o.name for o in every.graph.output]
        inputs = [inputs_of(model, seed) for seed in range(4)]
        self.values = {n: np.stack([s[i] for s in samples]) for i, n in enumerate(names)}
        self.values |= {n: np.stack([i[n] for i in inputs]) for n in inputs[0]}
        self.scales: dict[str, tuple[np.float32, np.int8]] = {}

    def run(self) -> onnx.ModelProto:
        """Returns the network; its result is int8."""
        graph = self.model.graph
        activations = {i.name: self.pair(i.name) for i in graph.input}
        fused = {n.input[0] for n in graph.node if n.op_type in ("Relu", "Clip")}
        for node in graph.node:
            new = onnx.NodeProto()
            new.CopyFrom(node)
            wide = node.op_type in ("Conv", "Gemm")
            new.input[:] = [activations[x] if x in activations else x if x not in self.floats or not wide
                            else self.weight(x, node, i) for i, x in enumerate(node.input)]
            self.nodes.append(new)
            for o in node.output:
                same = node.input[0] if node.op_type in ("MaxPool", "Flatten") else None
                activations[o] = o if o in fused else self.pair(o, same)
        for name in {x for n in self.nodes for x in n.input} & set(self.floats):
            self.weights.append(numpy_helper.from_array(self.floats[name], name))
        self.nodes.pop()  # the last dequantize
        last = self.nodes[-1].output[0]
        result = helper.make_tensor_value_info(last, TensorProto.INT8, None)
        new = helper.make_graph(self.nodes, graph.name, list(graph.input), [result], self.weights)
        model = helper.make_model(new, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)

    def constant(self, array: np.ndarray, name: str) -> str:
        """Adds a constant and returns its name."""
        if all(w.name != name for w in self.weights):
            self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def pair(self, name: str, same: str | None = None) -> str:
        """Adds a quantize and a dequantize, with the scale of another tensor or of this one's range."""
        if same is None:
            low, high = min(0, self.values[name].min()), max(0, self.values[name].max())
            scale = np.float32((high - low) / 255)
            self.scales[name] = scale, np.int8(np.rint(-128 - low / scale))
        else:
            self.scales[name] = self.scales[same]
        names = [self.constant(a, f"{name}_{i}") for i, a in enumerate(self.scales[name])]
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *names], [f"{name}_q"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *names], [f"{name}_d"]))
        return f"{name}_d"

    def weight(self, name: str, node: onnx.NodeProto, place: int) -> str:
        """Adds a dequantize of a weight, with a scale for each result, or of a bias."""
        array = self.floats[name].astype(np.float64)
        if place == 2:  # in units of its operand times its weight
            weights = np.abs(self.floats[node.input[1]]).reshape(array.size, -1).max(axis=1) / 127
            scale, kind = weights * float(self.scales[node.input[0]][0]), np.int32
        else:
            scale, kind = np.abs(array).reshape(array.shape[0], -1).max(axis=1) / 127, np.int8
        spread = scale.reshape(-1, *[1] * (array.ndim - 1))
        names = [self.constant(np.rint(array / spread).astype(kind), f"{name}_q"),
                 self.constant(scale.astype(np.float32), f"{name}_s"),
                 self.constant(np.zeros(scale.shape, kind), f"{name}_z")]  # fmt: skip
        self.nodes.append(helper.make_node("DequantizeLinear", names, [f"{name}_d"], axis=0))
        return f"{name}_d"


def int8_convolutional() -> onnx.ModelProto:
    """A padded, a depthwise and a pointwise convolution, pooling, a dense layer and softmax, as int8."""
    n = Network("int8_convolutional", x=(1, 2, 11, 9))
    h = n.add("Relu", n.conv("x", 2, 8, strides=[2, 1]))
    h = n.add("Relu", n.conv(h, 8, 8, group=8))
    h = n.add("Clip", n.conv(h, 8, 12, kernel=1), n.constant(np.float32(0)), n.constant(np.float32(6)))
    h = n.add("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
    h = n.add("Flatten", n.add("GlobalAveragePool", h))
    h = n.add("Gemm", h, n.weight(6, 12), n.weight(6), transB=1)
    return Quantizer(n.model(n.add("Softmax", h, axis=-1))).run()


def int8_residual() -> onnx.ModelProto:
    """A residual block, grouped convolutions and average pooling, as int8."""
    n = Network("int8_residual", x=(1, 6, 7, 7))
    side = n.conv(n.add("Relu", n.conv("x", 6, 6, group=2)), 6, 6)
    h = n.add("Relu", n.add("Add", side, "x"))
    h = n.add("AveragePool", n.conv(h, 6, 4, kernel=1), kernel_shape=[2, 2], strides=[1, 1])
    return Quantizer(n.model(n.add("LeakyRelu", h, alpha=0.25))).run()


def int8_pooling() -> onnx.ModelProto:
    """Average pooling with padding that is counted, that is not, and windows that end behind it, as int8."""
    n = Network("int8_pooling", x=(1, 3, 10, 9))
    h = n.add("AveragePool", "x", kernel_shape=[3, 2], strides=[1, 1], pads=[1, 0, 1, 1])
    h = n.add("AveragePool", h, kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1], count_include_pad=1)
    h = n.add("AveragePool", h, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    return Quantizer(n.model(n.add("LeakyRelu", h, alpha=0.25))).run()


def int8_bias() -> onnx.ModelProto:
    """Constants that are added to a convolution along its rows and its columns, as int8."""
    n = Network("int8_bias", x=(1, 3, 4, 4))
    h = n.add("Add", n.conv("x", 3, 4), n.weight(1, 1, 4, 1))
    h = n.add("Add", n.conv(h, 4, 4, kernel=1), n.weight(4))
    return Quantizer(n.model(n.add("LeakyRelu", h, alpha=0.25))).run()


def int8_scales() -> onnx.ModelProto:
    """Channels without influence, and ones whose scales lie far apart but that both matter, as int8."""
    n, h = Network("int8_scales", x=(1, 4, 5, 5)), "x"
    for factors in ((1, 1e-12, 1, 1), (1, 1e9, 1, 1e-9)):
        drawn = n.random.normal(size=(4, 4, 1, 1)) * np.reshape(factors, (4, 1, 1, 1))
        h = n.add("Conv", h, n.constant(drawn.astype(np.float32)))
    h = n.add("Clip", h, n.constant(np.float32(-2)), n.constant(np.float32(3)))
    return Quantizer(n.model(n.add("LeakyRelu", h, alpha=0.25))).run()


def narrow() -> onnx.ModelProto:
    """Arithmetic of integers of 8 and 16 bits, which wraps in each step."""
    n = Network("narrow", x=(1, 64))
    wide = n.cast(n.add("Mul", "x", n.constant(np.float32(100))), TensorProto.INT32)
    results = []
    for dtype in (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16):
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        a, b = n.cast(wide, dtype), n.constant(np.array(np.iinfo(kind).max - 1, kind))
        steps = [n.add("BitwiseNot", a), *(n.add(op, a, b) for op in ("Add", "Sub", "Mul"))]
        steps.append(n.add("Div", n.add("Add", a, a), n.constant(np.array(2, kind))))
        if np.iinfo(kind).min == 0:
            two = n.constant(np.array(2, kind))
            steps.append(n.add("BitShift", n.add("BitShift", a, two, direction="LEFT"), two, direction="RIGHT"))
        else:
            steps.append(n.add("Neg", a))
        results += [n.cast(s, TensorProto.FLOAT) for s in steps]
    return n.model(n.add("Concat", *results, axis=1), opset=18)


NETWORKS = {f.__name__: f for f in (dense, conv, two_inputs, two_outputs, pooling, depthwise, residual, recurrent,
                                    scatter, int8_convolutional, int8_residual, int8_pooling, int8_bias, int8_scales,
                                    narrow)}  # fmt: skip


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
        boardsmith.frontends.from_onnx(folder / f"{name}.onnx", folder / f"{name}.tar")
        np.savez(folder / f"{name}.inputs.npz", **inputs)
        np.savez(folder / f"{name}.outputs.npz", **{o.name: r for o, r in zip(model.graph.output, results)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""Networks of ONNX with pairs of quantize and dequantize, as layers of int8. Needs no TVM.

An operator whose operands are dequantized and whose result is quantized becomes a layer. A function of one quantized
tensor becomes a table of ONNX's own results. Images have their channels last. uint8 is int8 whose zero point is less by
128.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import numpy_helper

from . import archive, check
from .errors import Refusal
from .graph import Node, describe, evaluated
from .layers import Layer, Network, Tensor
from .rewrites import REWRITES
from .simplify import graph_of

# Functions of an element.
ELEMENTWISE = set("""Abs Add Ceil Clip Cos Div Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Max Min Mish
Mul Neg Pow PRelu Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Sub Tanh
ThresholdedRelu""".split())  # fmt: skip

# Operators whose layers limit their results.
LIMITED = {"Add", "Conv", "Gemm", "MatMul", "Mul", "Sub"}

LAST = (0, 2, 3, 1)
BYTES = np.arange(256, dtype="uint8").view("int8")  # in the order of tables


class Value(NamedTuple):
    """A tensor whose axis i is axis axes[i] of ONNX's."""

    tensor: Tensor
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in ONNX."""
        return tuple(self.tensor.shape[self.axes.index(i)] for i in range(len(self.axes)))


class Target(NamedTuple):
    """What a result is quantized to, and its limits."""

    scales: np.ndarray
    zero: int
    low: int = -128
    high: int = 127

    def quantized(self, real: Any) -> Any:
        """Returns real numbers as ONNX quantizes them."""
        return np.clip(np.rint(np.float32(real) / self.scales[0]) + self.zero, self.low, self.high)


class Reader:
    """Makes layers of a model's nodes."""

    def __init__(self, model: Any) -> None:
        own = {"Dropout", *MOVES, *RULES}
        rules = {op: rule for op, rule in REWRITES.items() if op in own or op.startswith("QLinear")}
        known = {"QuantizeLinear", "DequantizeLinear", *MOVES, *RULES, *ELEMENTWISE}
        self.graph = graph_of(model, rules, lambda node: node.op_type in known)
        self.model = self.graph.model
        self.nodes = {o: Node(self.model, n) for n in self.model.graph.node for o in n.output}
        self.values: dict[str, Value | None] = {}
        self.layers: list[Layer] = []

    def network(self, results: Sequence[str] = ()) -> Network:
        """Returns the network, or one with other results."""
        constants, inputs = self.graph.constants, []
        for name in (i.name for i in self.model.graph.input if i.name not in constants):
            inputs.append(Tensor(name, str(self.graph.dtype(name)), self.graph.shape(name)))
            self.values[name] = Value(inputs[-1], tuple(range(len(inputs[-1].shape))))
        for proto in self.model.graph.node:  # in order, so that no network is too deep
            if proto.op_type == "QuantizeLinear" and proto.input[0] not in constants:
                self.values[proto.output[0]] = self._quantized(Node(self.model, proto))
        results = results or [o.name for o in self.model.graph.output]
        return Network(self.layers, inputs, [self._result(name) for name in results])

    def _refuse(self, node: Node, reason: str) -> Refusal:
        return node.refuse(f"{reason} is not supported on CMSIS-NN: without --library, TVM computes the network")

    def _add(
        self, node: Node | None, operator: str, inputs: Sequence[Tensor | None], shape: Sequence[int],
        to: Target | Tensor, dtype: str = "int8", **options: Any,
    ) -> Tensor:  # fmt: skip
        """Adds a layer, and returns its result."""
        number, title = len(self.layers), describe(self.model, node.proto) if node else operator
        result = Tensor(f"{operator.lower()}_{number}", dtype, tuple(shape), to.scales, to.zero)
        self.layers.append(Layer(operator, number, title, inputs, [result], options.get))
        return result

    def _result(self, name: str) -> Tensor:
        """Returns a result of the network, in ONNX's order of axes and type."""
        node, value, dtype = self.nodes.get(name), self._operand(name), str(self.graph.dtype(name))
        if value is None:
            raise self._refuse(node, "a result that is not quantized")
        tensor = self._ordered(node, value, range(len(value.axes)))
        if tensor.dtype != dtype:
            to = Target(tensor.scales, tensor.zero + 128) if dtype == "uint8" else Target(np.zeros(0, "float32"), 0)
            operator = "QUANTIZE" if dtype == "uint8" else "DEQUANTIZE"
            tensor = self._add(node, operator, [tensor], tensor.shape, to, dtype)
        result = self._add(node, "RESHAPE", [tensor], tensor.shape, tensor, dtype)
        result.name = name
        return result

    # Operands.

    def _scale(self, node: Node, name: str) -> Target:
        """Returns the scale and the zero point of a quantize or dequantize of integers with a name."""
        scale, zero = (self.graph.constants.get(node.input(i)) for i in (1, 2))
        dtype = str(self.graph.dtype(name))
        if dtype not in ("int8", "uint8"):
            raise self._refuse(node, f"the type {dtype}")
        if scale is None or scale.size != 1 or node.input(2) and zero is None:
            raise self._refuse(node, "a tensor without one constant scale")
        shift = 128 if dtype == "uint8" else 0
        return Target(scale.astype("float32").reshape(1), (0 if zero is None else int(zero.ravel()[0])) - shift)

    def _operand(self, name: str) -> Value | None:
        """Returns the integers of a value that is quantized or dequantized, or an input. Others are None."""
        if name not in self.values:
            node = self.nodes.get(name)
            is_moved = node is not None and (node.op in MOVES or node.op == "DequantizeLinear")
            before = self._operand(node.input(0)) if is_moved else None
            if before is None:
                self.values[name] = None
            elif node.op == "DequantizeLinear":
                self.values[name] = self._scaled(node, before)
            else:
                self.values[name] = MOVES[node.op](self, node, before, name)
        return self.values[name]

    def _scaled(self, node: Node, x: Value) -> Value:
        """Returns integers with the scale of a dequantize."""
        tensor, to = x.tensor, self._scale(node, node.input(0))
        if tensor.dtype == "uint8":
            tensor.scales, tensor.zero = to.scales, to.zero + 128
            return Value(self._add(node, "QUANTIZE", [tensor], tensor.shape, to), x.axes)
        if not len(tensor.scales):
            tensor.scales, tensor.zero = to.scales, to.zero
        if (tensor.scale, tensor.zero) == (to.scales[0], to.zero):
            return x
        return Value(self._add(node, "RESHAPE", [tensor], tensor.shape, to), x.axes)

    def _read(self, node: Node, index: int = 0) -> Value:
        """Returns an operand that must be quantized."""
        if (value := self._operand(node.input(index))) is None or not len(value.tensor.scales):
            raise self._refuse(node, f"an input {index} that is not quantized")
        return value

    def _weights(self, name: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns quantized constants, whose zero point is 0, and the scale of each."""
        node = self.nodes.get(name)
        if node is not None and node.op in ("Reshape", "Transpose") and (parts := self._weights(node.input(0))):
            if node.op == "Reshape":
                return tuple(p.reshape(self.graph.shape(name)) for p in parts)
            return tuple(p.transpose(node.get("perm")) for p in parts)
        if node is None or node.op != "DequantizeLinear" or node.get("block_size"):
            return None

        constants, source = self.graph.constants, self.nodes.get(node.input(0))
        q, scale, zero = (constants.get(i) for i in (*node.inputs, "")[:3])
        if source is not None and source.op == "QuantizeLinear" and set(source.inputs) <= constants.keys():
            q, = evaluated(self.model, [source.proto], {i: constants[i] for i in source.inputs}, source.outputs)
        if q is None or scale is None:
            return None
        along = [1] * q.ndim
        if scale.size > 1:
            along[node.get("axis", 1)] = scale.size
        scale = np.broadcast_to(scale.astype("float64").reshape(along), q.shape)
        zero = np.int64(0) if zero is None else zero.astype("int64")
        return q.astype("int64") - zero.reshape(along if zero.size > 1 else [1] * q.ndim), scale

    def _real(self, name: str) -> np.ndarray | None:
        """Returns real constants."""
        parts = self._weights(name)
        return self.graph.constants.get(name) if parts is None else parts[0] * parts[1]

    def _constant(self, array: Any, dtype: str = "int32", scales: Any = ()) -> Tensor:
        array = np.ascontiguousarray(array, dtype)
        return Tensor("constant", dtype, array.shape, np.float32(scales), values=array)

    def _ordered(self, node: Node | None, x: Value, axes: Sequence[int]) -> Tensor:
        """Returns a tensor with its axes in an order."""
        tensor, shape = x.tensor, x.shape
        if x.axes == tuple(axes):
            return tensor
        order = [x.axes.index(a) for a in axes]
        if tensor.values is not None:
            return self._constant(tensor.values.transpose(order), tensor.dtype, tensor.scales)
        sizes = [shape[a] for a in axes]
        if [a for a in x.axes if shape[a] > 1] == [a for a in axes if shape[a] > 1]:
            return self._add(node, "RESHAPE", [tensor], sizes, tensor, tensor.dtype)
        return self._add(node, "TRANSPOSE", [tensor, self._constant(order)], sizes, tensor, tensor.dtype)

    def _reshaped(self, node: Node, x: Value, shape: Sequence[int]) -> Value:
        """Returns the same elements in another shape. An order of axes is kept where only axes of 1 come or go."""
        if x.shape == tuple(shape):
            return x
        before, after = ([i for i, n in enumerate(s) if n > 1] for s in (x.shape, shape))
        if [x.shape[i] for i in before] == [shape[i] for i in after]:
            kept = [after[before.index(a)] for a in x.axes if a in before]
            axes, tensor = (*(i for i, n in enumerate(shape) if n == 1), *kept), x.tensor
        else:
            axes, tensor = tuple(range(len(shape))), self._ordered(node, x, range(len(x.axes)))
        return Value(self._add(node, "RESHAPE", [tensor], [shape[a] for a in axes], tensor, tensor.dtype), axes)

    # Results.

    def _quantized(self, node: Node) -> Value:
        """Returns the integers of a quantize."""
        name, to = node.input(0), self._scale(node, node.output(0))
        if (x := self._operand(name)) is not None:
            if x.tensor.dtype == "float32":
                return Value(self._add(node, "QUANTIZE", [x.tensor], x.tensor.shape, to), x.axes)
            return self._rescaled(node, x, to)
        if (value := self._table(node, to)) is not None:
            return value

        while (limits := self._limits(name)) is not None:
            name, *bounds = limits
            low, high = (int(to.quantized(b)) for b in bounds)
            to = to._replace(low=low, high=high)
        core = self.nodes.get(name, node)
        if core.op not in RULES:
            raise self._refuse(core, "this operator")
        value = RULES[core.op](self, core, to)
        return self._rescaled(core, value, to, core.op in LIMITED)

    def _limits(self, name: str) -> tuple[str, float, float] | None:
        """Returns what an operator limits to constants, and these."""
        node = self.nodes.get(name)
        if node is None or node.op not in ("Relu", "Clip"):
            return None
        bounds = [0.0, math.inf]
        if node.op == "Clip":
            given = [self._real(i) for i in (*node.inputs, "", "")[1:3]]
            bounds = [d if g is None else float(g.ravel()[0]) for g, d in zip(given, (-math.inf, math.inf))]
            if any(node.input(i) and g is None for i, g in enumerate(given, 1)):
                return None
        return node.input(0), *bounds

    def _rescaled(self, node: Node, x: Value, to: Target, is_limited: bool = False) -> Value:
        """Returns integers with another scale, within limits."""
        tensor = x.tensor
        if (tensor.scale, tensor.zero) == (to.scales[0], to.zero) and (is_limited or to[2:] == (-128, 127)):
            return x
        table = to.quantized((BYTES - np.float32(tensor.zero)) * tensor.scale)
        return self._looked_up(node, x, to, table)

    def _looked_up(self, node: Node, x: Value, to: Target, table: np.ndarray) -> Value:
        inputs = [x.tensor, self._constant(table, "int8")]
        return Value(self._add(node, "TABLE", inputs, x.tensor.shape, to), x.axes)

    def _table(self, node: Node, to: Target) -> Value | None:
        """Returns a quantized function of one quantized tensor: a table of the results of ONNX's evaluator."""
        part, feeds, leaves = [], {i: self.graph.constants[i] for i in node.inputs[1:] if i}, {}

        def visit(name: str) -> bool:
            """Takes the nodes that compute a value. Reports whether they are functions of an element."""
            if name in feeds or name in leaves:
                return True
            if (value := self._operand(name)) is not None:
                leaves[name] = value
                return True
            if (real := self._real(name)) is not None:
                feeds[name] = real.astype("float32")
                return real.size == 1
            inner = self.nodes.get(name)
            if inner is None or inner.op not in ELEMENTWISE or not all(visit(i) for i in inner.inputs if i):
                return False
            if inner.proto not in part:
                part.append(inner.proto)
            return True

        if not visit(node.input(0)) or len({v.tensor for v in leaves.values()}) != 1:
            return None
        x = next(iter(leaves.values()))
        if x.tensor.dtype != "int8" or x.shape != self.graph.shape(node.output(0)):
            return None
        feeds |= dict.fromkeys(leaves, (BYTES - np.float32(x.tensor.zero)) * x.tensor.scale)
        table, = evaluated(self.model, [*part, node.proto], feeds, node.outputs)
        return self._looked_up(node, x, to, table.ravel().astype("int16") - (128 if table.dtype == "uint8" else 0))

    # Operators.

    def _window(self, node: Node, x: Value, kernel: Sequence[int]) -> tuple[Tensor, list[int], dict[str, Any]]:
        """Returns an image, the shape of the result without its channels, and the options of a layer with windows. A
        signal is an image of one row."""
        rank = len(kernel)
        shape, result = x.shape, self.graph.shape(node.output(0))
        if rank not in (1, 2) or node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            raise self._refuse(node, f"a window of {rank} dimensions with auto_pad {node.get('auto_pad')}")
        strides, dilations, pads = (list(node.get(name) or [default] * count) for name, default, count in (
            ("strides", 1, rank), ("dilations", 1, rank), ("pads", 0, 2 * rank)))  # fmt: skip
        row = [1] * (2 - rank)
        image = self._ordered(node, self._reshaped(node, x, [*shape[:2], *row, *shape[2:]]), LAST)
        height, width = [*row, *strides]
        options = {"StrideH": height, "StrideW": width, "DilationHFactor": [*row, *dilations][0],
                   "DilationWFactor": dilations[-1], "Pads": [0] * (2 - rank) + pads[:rank]}
        return image, [shape[0], *row, *result[2:]], options

    def _imaged(self, node: Node, tensor: Tensor) -> Value:
        """Returns an image as the result of a node, which may be a signal."""
        return self._reshaped(node, Value(tensor, LAST), self.graph.shape(node.output(0)))

    def _bias(self, node: Node, name: str, channels: int, axis: int) -> np.ndarray:
        """Returns the real bias of each channel, which are an axis from the end of a result."""
        real = self._real(name) if name else np.zeros(1)
        fits = real is not None and (real.size == 1 or real.ndim >= -axis and (
            real.size == real.shape[axis] == channels))  # fmt: skip
        if not fits:
            raise self._refuse(node, "a bias that is no constant of each channel")
        return np.broadcast_to(real.ravel(), channels).astype("float64")

    def _summed(
        self, node: Node, x: Value, parts: tuple[np.ndarray, np.ndarray], bias: np.ndarray, to: Target
    ) -> tuple[np.ndarray, np.ndarray, Tensor]:  # fmt: skip
        """Returns weights of int8 by results, their scales, and the bias in units of products.

        A channel whose bias is too large for its products has coarser weights: those of a channel without influence
        become 0.
        """
        q, scales = parts
        step = scales.reshape(len(q), -1)[:, 0]
        if q.min() < -128 or q.max() > 127 or (scales.reshape(len(q), -1) != step[:, None]).any():
            raise self._refuse(node, "weights with a zero point, or with several scales of a channel")
        unit = np.maximum(np.maximum(step, np.abs(bias) / 2**29 / float(x.tensor.scale)), 1e-30)
        q = np.rint(q * (step / unit).reshape(-1, *[1] * (q.ndim - 1))).astype("int8")
        sums = np.rint(bias / (np.float64(x.tensor.scale) * unit))
        most = 255 * np.abs(q.reshape(len(q), -1).astype("int64")).sum(axis=1) + np.abs(sums)
        if (most * unit * x.tensor.scale / to.scales[0]).max() >= 2**30:
            raise self._refuse(node, "a channel whose scale is so much larger than that of the result")
        return q, np.float32(unit[:1] if (unit == unit[0]).all() else unit), self._constant(sums)

    def _conv(self, node: Node, to: Target, extra: str = "") -> Value:
        """A convolution; extra is a bias that is added behind it."""
        x, parts = self._read(node), self._weights(node.input(1))
        if parts is None or parts[0].ndim != len(x.shape):
            raise self._refuse(node, "weights that are no quantized constants")
        rank, groups, channels = len(x.shape) - 2, node.get("group", 1), len(parts[0])
        bias = self._bias(node, node.input(2), channels, 0) + self._bias(node, extra, channels, -1 - rank)
        q, scales, sums = self._summed(node, x, parts, bias, to)
        image, shape, options = self._window(node, x, q.shape[2:])

        q = q.reshape(*q.shape[:2], *[1] * (2 - rank), *q.shape[2:]).transpose(LAST)
        operator = "CONV_2D"
        if groups == x.shape[1] > 1 and q.shape[3] == 1:
            operator, q = "DEPTHWISE_CONV_2D", q.transpose(3, 1, 2, 0)
        weights = self._constant(q, "int8", scales)
        return self._imaged(node, self._add(node, operator, [image, weights, sums], [*shape, channels], to,
                                            Limits=to[2:], **options))  # fmt: skip

    def _gemm(self, node: Node, to: Target, extra: str = "") -> Value:
        """A product of matrices, with a bias."""
        if node.get("transA") or any(node.get(name, 1.0) != 1 for name in ("alpha", "beta")):
            raise self._refuse(node, "another factor than 1, or transA,")
        return self._dense(node, to, node.get("transB", 0), node.input(2), extra)

    def _matmul(self, node: Node, to: Target, extra: str = "") -> Value:
        """A product with constants, or of two tensors."""
        if self._weights(node.input(1)) is not None:
            return self._dense(node, to, 0, "", extra)
        shape = self.graph.shape(node.output(0))
        inputs = [self._ordered(node, v, range(len(v.axes))) for v in (self._read(node, 0), self._read(node, 1))]
        if extra or len({len(shape), *(len(t.shape) for t in inputs)}) > 1:
            raise self._refuse(node, "a product of tensors of several ranks, or with a bias,")
        result = self._add(node, "BATCH_MATMUL", inputs, shape, to, Limits=to[2:])
        return Value(result, tuple(range(len(shape))))

    def _dense(self, node: Node, to: Target, is_transposed: int, bias: str, extra: str) -> Value:
        x, parts = self._read(node), self._weights(node.input(1))
        if parts is None or parts[0].ndim != 2:
            raise self._refuse(node, "weights that are no quantized matrix of constants")
        parts = parts if is_transposed else tuple(p.T for p in parts)
        sums = self._bias(node, bias, len(parts[0]), -1) + self._bias(node, extra, len(parts[0]), -1)
        q, scales, sums = self._summed(node, x, parts, sums, to)
        shape = self.graph.shape(node.output(0))
        inputs = [self._ordered(node, x, range(len(x.axes))), self._constant(q, "int8", scales), sums]
        return Value(self._add(node, "FULLY_CONNECTED", inputs, shape, to, Limits=to[2:]), tuple(range(len(shape))))

    def _pair(self, node: Node, to: Target) -> Value:
        """A sum, a difference or a product of two tensors, or a bias behind a convolution or product."""
        shape = self.graph.shape(node.output(0))
        for a, b in ((0, 1), (1, 0)) if node.op == "Add" else ():
            inner = self.nodes.get(node.input(a))
            is_bias = self._real(node.input(b)) is not None and self.graph.shape(node.input(a)) == shape
            if is_bias and inner is not None and inner.op in BIASED:
                return BIASED[inner.op](self, inner, to, node.input(b))

        values = []
        for i, name in enumerate(node.inputs):
            if (parts := self._weights(name)) is None:
                values.append(self._reshaped(node, self._read(node, i), self._ranked(self.graph.shape(name), shape)))
                continue
            if len(set(parts[1].ravel())) > 1 or parts[0].min() < -128 or parts[0].max() > 127:
                raise self._refuse(node, "a constant with several scales or a zero point")
            q = parts[0].reshape(self._ranked(parts[0].shape, shape))
            values.append(Value(self._constant(q, "int8", [parts[1].ravel()[0]]), tuple(range(len(shape)))))
        own = tuple(range(len(shape)))
        axes = next((v.axes for v in values if v.axes != own), own)
        inputs = [self._ordered(node, v, axes) for v in values]
        return Value(self._add(node, node.op.upper(), inputs, [shape[a] for a in axes], to, Limits=to[2:]), axes)

    @staticmethod
    def _ranked(shape: Sequence[int], result: Sequence[int]) -> list[int]:
        return [1] * (len(result) - len(shape)) + list(shape)

    def _average_pool(self, node: Node, to: Target) -> Value:
        """The means of windows, or of the whole image."""
        x, kernel, is_padded = self._read(node), node.get("kernel_shape"), any(node.get("pads") or ())
        is_whole = kernel is None or list(kernel) == list(x.shape[2:]) and not is_padded
        has_scale = (x.tensor.scale, x.tensor.zero) == (to.scales[0], to.zero)
        if is_whole and not (has_scale and len(x.shape) == 4):
            return self._means(node, x, range(2, len(x.shape)), True, to)

        # With another scale of the result, a mean is a convolution by ones, or is rounded twice.
        is_counted = is_padded and bool(node.get("count_include_pad"))
        if is_counted == is_padded and not node.get("ceil_mode") and (is_counted or not has_scale):
            image, shape, options = self._window(node, x, kernel)
            ones = np.ones((1, *[1] * (2 - len(kernel)), *kernel, x.shape[1]))
            inputs = [image, self._constant(ones, "int8", [1 / math.prod(kernel)]), None]
            shape = [*shape, x.shape[1]]
            return self._imaged(node, self._add(node, "DEPTHWISE_CONV_2D", inputs, shape, to, **options))
        if is_counted or x.tensor.scale >= 2 * to.scales[0]:
            raise self._refuse(node, "padding, or ceil_mode, where the result has another scale")
        return self._pool(node, x, "AVERAGE_POOL_2D", kernel or x.shape[2:])

    def _pool(self, node: Node, x: Value, operator: str, kernel: Sequence[int]) -> Value:
        image, shape, options = self._window(node, x, kernel)
        if max(options["DilationHFactor"], options["DilationWFactor"]) > 1:
            raise self._refuse(node, "pooling with dilations")
        options |= {"FilterHeight": ([1] * (2 - len(kernel)) + list(kernel))[0], "FilterWidth": kernel[-1]}
        return self._imaged(node, self._add(node, operator, [image], [*shape, x.shape[1]], image, **options))

    def _mean(self, node: Node, to: Target) -> Value:
        """Means along axes."""
        x, axes = self._read(node), node.get("axes")
        if axes is None and node.input(1):
            axes = self.graph.constants.get(node.input(1))
        if axes is None:
            raise self._refuse(node, "axes that are no constants")
        return self._means(node, x, [int(a) % len(x.shape) for a in axes], bool(node.get("keepdims", 1)), to)

    def _means(self, node: Node, x: Value, axes: Sequence[int], is_kept: bool, to: Target) -> Value:
        at = [x.axes.index(a) for a in axes]
        shape = [1 if a in axes else x.shape[a] for a in x.axes]
        result = Value(self._add(node, "MEAN", [x.tensor, self._constant(at)], shape, to), x.axes)
        return result if is_kept else self._reshaped(node, result, self.graph.shape(node.output(0)))

    def _softmax(self, node: Node, to: Target) -> Value:
        """Softmax: of 8 bits if the result has the scale of TensorFlow Lite, else first of 16 bits."""
        x, axis = self._read(node), node.get("axis", -1) % len(self.graph.shape(node.input(0)))
        axes = (*(a for a in x.axes if a != axis), axis)
        tensor = self._ordered(node, x, axes)
        if to.zero == -128 and abs(to.scales[0] * 256 - 1) <= 0.001:
            return Value(self._add(node, "SOFTMAX", [tensor], tensor.shape, to), axes)
        wide = self._add(node, "SOFTMAX", [tensor], tensor.shape, Target(np.float32([1 / 65536]), -32768), "int16")
        return Value(self._add(node, "QUANTIZE", [wide], tensor.shape, to), axes)

    def _concat(self, node: Node, to: Target) -> Value:
        """Several tensors, with the scale of the result."""
        values = [self._rescaled(node, self._read(node, i), to._replace(low=-128, high=127))
                  for i in range(len(node.inputs))]  # fmt: skip
        axes, shape = values[0].axes, self.graph.shape(node.output(0))
        axis = axes.index(node.get("axis") % len(shape))
        inputs = [self._ordered(node, v, axes) for v in values]
        return Value(self._add(node, "CONCATENATION", inputs, [shape[a] for a in axes], to, Axis=axis), axes)

    # Operators that move elements, whose integers keep their scale.

    def _transpose(self, node: Node, x: Value, name: str) -> Value:
        perm = node.get("perm") or list(range(len(x.axes)))[::-1]
        return Value(x.tensor, tuple(perm.index(a) for a in x.axes))

    def _reshape(self, node: Node, x: Value, name: str) -> Value:
        return self._reshaped(node, x, self.graph.shape(name))

    def _max_pool(self, node: Node, x: Value, name: str) -> Value:
        return self._pool(node, x, "MAX_POOL_2D", node.get("kernel_shape"))

    def _slice(self, node: Node, x: Value, name: str) -> Value:
        begins, ends, axes, steps = (self.graph.constants.get(i) for i in (*node.inputs, "", "")[1:5])
        if begins is None or ends is None or steps is not None and min(steps) < 1:
            raise self._refuse(node, "a part that is not constant, or backwards,")
        axes = range(len(begins)) if axes is None else axes
        steps = [1] * len(begins) if steps is None else steps
        return self._part(node, x, {int(a) % len(x.shape): slice(int(b), int(e), int(s))
                                    for a, b, e, s in zip(axes, begins, ends, steps)})  # fmt: skip

    def _split(self, node: Node, x: Value, name: str) -> Value:
        axis = node.get("axis", 0) % len(x.shape)
        begin = sum(self.graph.shape(o)[axis] for o in node.outputs[:node.outputs.index(name)])
        return self._part(node, x, {axis: slice(begin, begin + self.graph.shape(name)[axis])})

    def _part(self, node: Node, x: Value, parts: dict[int, slice]) -> Value:
        cuts = [parts.get(a, slice(None)).indices(x.shape[a]) for a in x.axes]
        shape = [len(range(*cut)) for cut in cuts]
        inputs = [x.tensor, *(self._constant(column) for column in zip(*cuts))]
        return Value(self._add(node, "STRIDED_SLICE", inputs, shape, x.tensor, x.tensor.dtype), x.axes)

    def _pad(self, node: Node, x: Value, name: str) -> Value:
        numbers, value, axes = (self.graph.constants.get(i) for i in (*node.inputs, "", "")[1:4])
        if numbers is None or numbers.min() < 0 or node.get("mode", "constant") != "constant" or not len(
                x.tensor.scales) or node.input(2) and (value is None or value.any() or value.dtype.kind != "f"):
            raise self._refuse(node, "padding with other numbers than real zeros")
        pads = np.zeros((len(x.shape), 2), "int32")
        pads[list(range(len(pads))) if axes is None else axes] = numbers.reshape(2, -1).T
        shape = self.graph.shape(name)
        inputs = [x.tensor, self._constant(pads[list(x.axes)])]
        return Value(self._add(node, "PAD", inputs, [shape[a] for a in x.axes], x.tensor), x.axes)


RULES: dict[str, Callable[..., Value]] = {
    "Add": Reader._pair, "AveragePool": Reader._average_pool, "Concat": Reader._concat, "Conv": Reader._conv,
    "Gemm": Reader._gemm, "GlobalAveragePool": Reader._average_pool, "MatMul": Reader._matmul, "Mul": Reader._pair,
    "ReduceMean": Reader._mean, "Softmax": Reader._softmax, "Sub": Reader._pair,
}  # fmt: skip
BIASED = {op: RULES[op] for op in ("Conv", "Gemm", "MatMul")}
MOVES: dict[str, Callable[..., Value]] = {
    "Flatten": Reader._reshape, "Identity": lambda reader, node, x, name: x, "MaxPool": Reader._max_pool,
    "Pad": Reader._pad, "Reshape": Reader._reshape, "Slice": Reader._slice, "Split": Reader._split,
    "Squeeze": Reader._reshape, "Transpose": Reader._transpose, "Unsqueeze": Reader._reshape,
}  # fmt: skip


def read(model: Any) -> Network:
    """Returns the layers of a model, or refuses it by the first node that no layer computes."""
    return Reader(model).network()


class Evaluator:
    """Computes a model layer by layer: each layer by ONNX's evaluator, from what the C has computed before it, since
    units by which layers may differ add up in a network. A layer that differs by more than one unit is refused."""

    def __init__(self, model: Any, library: Path) -> None:
        self.model, self.folder = model, tempfile.TemporaryDirectory(prefix="boardsmith-layers-")
        reader, nodes = Reader(model), {o: n for n in model.graph.node for o in n.output}
        quantized = [n.output[0] for n in reader.model.graph.node if n.op_type == "QuantizeLinear"
                     and n.input[0] not in reader.graph.constants]  # fmt: skip
        self.outputs = [o.name for o in model.graph.output]
        self.names = list(dict.fromkeys([*(q for q in quantized if q in nodes), *self.outputs]))
        network = reader.network(self.names)
        self.inputs = [t.name for t in network.inputs]
        for i, tensor in enumerate((*network.inputs, *network.outputs)):
            tensor.name = f"tensor{i}"
        plan, code = network.compile("layers")
        self.program = check.Program(Path(self.folder.name), "layers", archive.sources("layers", plan, code), plan,
                                     library)  # fmt: skip
        self.constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        self.nodes = nodes

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the results that ONNX computes in the last layers."""
        values = dict(zip(self.inputs, arrays)) | dict(zip(self.names, self.program.run([arrays])[0]))
        wanted = {}
        # ONNX's evaluator makes any integer of larger numbers.
        is_ordinary = all(np.abs(a.astype("float64")).max() < 2**20 for a in arrays)
        for name in self.names:
            wanted[name], = self._layer(name, values)
            off = np.abs(wanted[name].astype("float64") - values[name])
            if wanted[name].dtype.kind in "iu" and off.max() > 1 and is_ordinary:
                raise Refusal(f"{describe(self.model, self.nodes[name])}: its result differs from ONNX's by "
                              f"{int(off.max())} units: replace it, or pass --no-check if the difference is meant")
        return [wanted[name] for name in self.outputs]

    def _layer(self, result: str, values: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Returns a result of the nodes between values that are known and it."""
        known, needed, part = self.constants | values, {result}, []
        known.pop(result)
        for node in reversed(self.model.graph.node):
            if needed.intersection(node.output) - known.keys():
                part.insert(0, node)
                needed.update(i for i in node.input if i)
        return evaluated(self.model, part, {n: known[n] for n in needed & known.keys()}, [result])

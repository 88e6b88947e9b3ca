"""ONNX operators that TVM's frontend lacks, or reads wrongly, as operators that it reads: from nodes to nodes.

Each rewrite is a function of the graph that is being built and of a node; it adds nodes whose results have the names of
the node's. The definitions are those of ONNX's operators (onnx.ai/onnx/operators).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .kernels import ExportError


class Graph:
    """A graph that is being built: nodes, constants, and the shapes and types of values that are known."""

    def __init__(self, model: Any, constants: dict[str, np.ndarray]) -> None:
        import onnx

        self.constants, self.nodes, self.count = constants, [], 0
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
        self.kinds: dict[str, tuple[np.dtype, tuple[int, ...] | None]] = {}
        for value in [*model.graph.input, *model.graph.value_info, *model.graph.output]:
            kind = value.type.tensor_type
            if not kind.elem_type:
                continue
            fixed = kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)
            shape = tuple(d.dim_value for d in kind.shape.dim) if fixed else None
            self.kinds[value.name] = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type), shape

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns a value's shape, which must be fixed."""
        known = self.constants[name].shape if name in self.constants else self.kinds.get(name, (None, None))[1]
        if known is None:
            raise ExportError(f"{name}: its shape is not fixed")
        return known

    def dtype(self, name: str) -> np.dtype:
        """Returns a value's type."""
        return self.constants[name].dtype if name in self.constants else self.kinds[name][0]

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Adds a constant and returns its name."""
        self.count += 1
        name = f"boardsmith_constant_{self.count}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def add(self, op: str, *inputs: str, to: str | None = None, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node and returns the names of its results."""
        from onnx import helper

        self.count += 1
        names = [to or f"boardsmith_{op}_{self.count}"] if outputs == 1 else [
            f"boardsmith_{op}_{self.count}_{i}" for i in range(outputs)]  # fmt: skip
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def reshape(self, x: str, *shape: int, to: str | None = None) -> str:
        """Adds a reshape."""
        return self.add("Reshape", x, self.constant(shape), to=to)

    def split(self, x: str, parts: int, axis: int) -> list[str]:
        """Returns the names of equal parts of a value along an axis."""
        if parts == 1:
            return [x]
        return self.add("Split", x, outputs=parts, axis=axis, **({"num_outputs": parts} if self.opset >= 18 else {}))

    def cast(self, x: str, dtype: Any, to: str | None = None) -> str:
        """Adds a conversion."""
        from onnx import helper

        self.count += 1
        name = to or f"boardsmith_Cast_{self.count}"
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.nodes.append(helper.make_node("Cast", [x], [name], to=kind))
        return name


class Node:
    """A node's attributes and operands, with ONNX's defaults filled in by the caller."""

    def __init__(self, node: Any) -> None:
        from onnx import helper

        self.proto, self.op = node, node.op_type
        self.inputs, self.outputs = list(node.input), list(node.output)
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def get(self, name: str, default: Any = None) -> Any:
        """Returns an attribute; text as str."""
        value = self.attributes.get(name, default)
        if isinstance(value, bytes):
            return value.decode()
        return [v.decode() if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value

    def input(self, index: int) -> str:
        """Returns the name of an operand, "" for one that is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def output(self, index: int) -> str:
        """Returns the name of a result, "" for one that is left out."""
        return self.outputs[index] if index < len(self.outputs) else ""

    def refuse(self, reason: str) -> ExportError:
        """Returns the error that this form of the node is not supported."""
        return ExportError(f"{self.op} (node {self.proto.name or self.outputs[0]}): {reason}")


# Recurrent networks. The steps are equal kernels, called once for each step of time: only the calls take flash.

ACTIVATIONS: dict[str, Callable[..., str]] = {
    "sigmoid": lambda g, x, **_: g.add("Sigmoid", x),
    "tanh": lambda g, x, **_: g.add("Tanh", x),
    "relu": lambda g, x, **_: g.add("Relu", x),
    "softsign": lambda g, x, **_: g.add("Softsign", x),
    "softplus": lambda g, x, **_: g.add("Softplus", x),
    "leakyrelu": lambda g, x, alpha=0.01, **_: g.add("LeakyRelu", x, alpha=alpha),
    "thresholdedrelu": lambda g, x, alpha=1.0, **_: g.add("ThresholdedRelu", x, alpha=alpha),
    "elu": lambda g, x, alpha=1.0, **_: g.add("Elu", x, alpha=alpha),
    "hardsigmoid": lambda g, x, alpha=0.2, beta=0.5: g.add("HardSigmoid", x, alpha=alpha, beta=beta),
    "scaledtanh": lambda g, x, alpha=1.0, beta=1.0: g.add(
        "Mul", g.add("Tanh", g.add("Mul", x, g.constant(beta, "float32"))), g.constant(alpha, "float32")),
    "affine": lambda g, x, alpha=1.0, beta=0.0: g.add(
        "Add", g.add("Mul", x, g.constant(alpha, "float32")), g.constant(beta, "float32")),
}  # fmt: skip


class Recurrent:
    """One direction of an LSTM, a GRU or an RNN, as nodes for each step of time."""

    GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
    DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}

    def __init__(self, graph: Graph, node: Node, direction: int, directions: int) -> None:
        self.g, self.node = graph, node
        self.hidden = int(node.get("hidden_size") or graph.shape(node.input(2))[2])
        names = node.get("activations") or self.DEFAULTS[node.op] * directions
        alphas, betas = list(node.get("activation_alpha") or ()), list(node.get("activation_beta") or ())
        each = len(self.DEFAULTS[node.op])
        self.activations = [self._activation(name, alphas, betas) for name in names][direction * each :][:each]
        self.direction = direction

    def _activation(self, name: str, alphas: list[float], betas: list[float]) -> Callable[[str], str]:
        """Takes the parameters that this function has of the two lists, which are in the order of the functions."""
        function = ACTIVATIONS.get(name.lower())
        if function is None:
            raise self.node.refuse(f"activation {name} is not supported; {', '.join(ACTIVATIONS)} are")
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        parameters = {}
        if "alpha" in names and alphas:
            parameters["alpha"] = alphas.pop(0)
        if "beta" in names and betas:
            parameters["beta"] = betas.pop(0)
        return lambda x: function(self.g, x, **parameters)

    def _part(self, index: int, *shape: int) -> str:
        """Returns an operand's part for this direction, reshaped; "" if it is left out."""
        name = self.node.input(index)
        if not name:
            return ""
        if name in self.g.constants:
            return self.g.constant(self.g.constants[name][self.direction].reshape(shape), self.g.dtype(name))
        at = self.g.constant([self.direction])
        return self.g.reshape(self.g.add("Gather", name, at, axis=0), *shape)

    def _transposed(self, index: int, rows: int, columns: int) -> str:
        part = self._part(index, rows, columns)
        if part in self.g.constants:
            return self.g.constant(self.g.constants[part].T.copy(), self.g.dtype(part))
        return self.g.add("Transpose", part, perm=[1, 0])

    def _clipped(self, x: str) -> str:
        limit = self.node.get("clip")
        if limit is None:
            return x
        return self.g.add("Clip", x, self.g.constant(-limit, "float32"), self.g.constant(limit, "float32"))

    def run(self, steps: Sequence[str], batch: int, size: int) -> tuple[list[str], str, str]:
        """Returns the hidden state after each step, and the last hidden and cell state, for the inputs of each step."""
        g, n, gates = self.g, self.hidden, self.GATES[self.node.op]
        weights, recurrent = self._transposed(1, gates * n, size), self._transposed(2, gates * n, n)
        zero = g.constant(np.zeros((batch, n)), "float32")
        h = self._part(5, batch, n) or zero
        c = self._part(6, batch, n) or zero if self.node.op == "LSTM" else ""
        bias = self._part(3, 2, gates * n)
        own, other = g.split(bias, 2, 0) if bias else ("", "")
        peepholes = g.split(self._part(7, 3, n), 3, 0) if self.node.op == "LSTM" and self.node.input(7) else []

        states = []
        step = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.node.op]
        for x in steps:
            product = g.add("MatMul", x, weights)
            h, c = step(g.add("Add", product, own) if own else product, h, c, recurrent, other, peepholes)
            states.append(h)
        return states, h, c

    def _rnn(self, x: str, h: str, c: str, recurrent: str, bias: str, _: list[str]) -> tuple[str, str]:
        g = self.g
        total = g.add("Add", x, g.add("MatMul", h, recurrent))
        return self.activations[0](self._clipped(g.add("Add", total, bias) if bias else total)), c

    def _lstm(self, x: str, h: str, c: str, recurrent: str, bias: str, peepholes: list[str]) -> tuple[str, str]:
        g, (f, gf, hf) = self.g, self.activations
        total = g.add("Add", x, g.add("MatMul", h, recurrent))
        i, o, forget, new = g.split(g.add("Add", total, bias) if bias else total, 4, 1)
        if peepholes:
            i = g.add("Add", i, g.add("Mul", peepholes[0], c))
            forget = g.add("Add", forget, g.add("Mul", peepholes[2], c))
        i = f(self._clipped(i))
        if self.node.get("input_forget", 0):
            forget = g.add("Sub", g.constant(1, "float32"), i)
        else:
            forget = f(self._clipped(forget))
        c = g.add("Add", g.add("Mul", forget, c), g.add("Mul", i, gf(self._clipped(new))))
        if peepholes:
            o = g.add("Add", o, g.add("Mul", peepholes[1], c))
        return g.add("Mul", f(self._clipped(o)), hf(c)), c

    def _gru(self, x: str, h: str, c: str, recurrent: str, bias: str, _: list[str]) -> tuple[str, str]:
        g, (f, gf) = self.g, self.activations
        z, r, new = g.split(x, 3, 1)
        if self.node.get("linear_before_reset", 0):
            product = g.add("MatMul", h, recurrent)
            hz, hr, hn = g.split(g.add("Add", product, bias) if bias else product, 3, 1)
            z, r = (f(self._clipped(g.add("Add", a, b))) for a, b in ((z, hz), (r, hr)))
            new = g.add("Add", new, g.add("Mul", r, hn))
        else:
            rz, rr, rn = g.split(recurrent, 3, 1)
            bz, br, bn = g.split(bias, 3, 1) if bias else ("", "", "")
            z, r = (g.add("Add", a, g.add("MatMul", h, b)) for a, b in ((z, rz), (r, rr)))
            z, r = (f(self._clipped(g.add("Add", a, b) if b else a)) for a, b in ((z, bz), (r, br)))
            new = g.add("Add", new, g.add("MatMul", g.add("Mul", r, h), rn))
            new = g.add("Add", new, bn) if bn else new
        new = gf(self._clipped(new))
        kept = g.add("Sub", g.constant(1, "float32"), z)
        return g.add("Add", g.add("Mul", kept, new), g.add("Mul", z, h)), c


def recurrent(g: Graph, node: Node) -> None:
    """LSTM, GRU, RNN."""
    x, batch_first = node.input(0), node.get("layout", 0)
    shape = g.shape(x)
    steps, batch, size = (shape[1], shape[0], shape[2]) if batch_first else shape
    if (lengths := node.input(4)) and not (lengths in g.constants and (g.constants[lengths] == steps).all()):
        raise node.refuse("sequence_lens other than the length of the input are not supported: pad the sequences")
    if batch_first and (node.input(5) or node.input(6)):
        raise node.refuse("initial states with layout 1 are not supported: use layout 0")

    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    directions = directions[node.get("direction", "forward")]
    inputs = [g.reshape(part, batch, size) for part in g.split(x, steps, 1 if batch_first else 0)]
    hidden, last, cells = [], [], []
    for i, backwards in enumerate(directions):
        part = Recurrent(g, node, i, len(directions))
        states, h, c = part.run(inputs[::-1] if backwards else inputs, batch, size)
        hidden.append(states[::-1] if backwards else states)
        last.append(h)
        cells.append(c)

    n, count = part.hidden, len(directions)
    for name, values in ((node.output(1), last), (node.output(2), cells)):
        if name:
            shape = (batch, 1, n) if batch_first else (1, batch, n)
            g.add("Concat", *(g.reshape(v, *shape) for v in values), to=name, axis=1 if batch_first else 0)
    if node.output(0):
        every = [g.reshape(state, 1, 1, batch, n) for step in zip(*hidden) for state in step]
        y = g.reshape(g.add("Concat", *every, axis=0), steps, count, batch, n,
                      to=None if batch_first else node.output(0))  # fmt: skip
        if batch_first:
            g.add("Transpose", y, perm=[2, 0, 1, 3], to=node.output(0))


# Quantized operators become pairs of quantize and dequantize, which are computed with integers.


def _dequantized(g: Graph, x: str, scale: str, zero: str, axis: int | None = None) -> str:
    """Adds the conversion of integers to numbers, per channel of an axis if there are several scales."""
    per_channel = axis is not None and int(np.prod(g.shape(scale))) > 1
    attributes = {"axis": axis} if per_channel else {}
    if not per_channel and g.shape(scale):
        scale = g.reshape(scale)
        zero = g.reshape(zero) if zero else zero
    return g.add("DequantizeLinear", x, scale, *([zero] if zero else []), **attributes)


def qlinear_conv(g: Graph, node: Node) -> None:
    """QLinearConv."""
    x, xs, xz, w, ws, wz, ys, yz, bias = (node.input(i) for i in range(9))
    operands = [_dequantized(g, x, xs, xz), _dequantized(g, w, ws, wz, axis=0)]
    if bias:
        if not {xs, ws} <= g.constants.keys():
            raise node.refuse("scales that are no constants are not supported")
        scale = (g.constants[xs] * g.constants[ws]).astype("float32").reshape(-1)
        scale = scale if scale.size > 1 else scale.reshape(())
        zero = g.constant(np.zeros_like(scale), "int32")
        operands.append(_dequantized(g, bias, g.constant(scale, "float32"), zero, axis=0))
    g.add("QuantizeLinear", g.add("Conv", *operands, **node.attributes), ys, *([yz] if yz else []),
          to=node.output(0))  # fmt: skip


def qlinear_matmul(g: Graph, node: Node) -> None:
    """QLinearMatMul."""
    first, second = (_dequantized(g, *(node.input(i) for i in part)) for part in ((0, 1, 2), (3, 4, 5)))
    g.add("QuantizeLinear", g.add("MatMul", first, second), node.input(6), node.input(7), to=node.output(0))


def qlinear_binary(g: Graph, node: Node) -> None:
    """QLinearAdd and QLinearMul of ONNX Runtime (com.microsoft)."""
    first, second = (_dequantized(g, *(node.input(i) for i in part)) for part in ((0, 1, 2), (3, 4, 5)))
    zero = [node.input(7)] if node.input(7) else []
    g.add("QuantizeLinear", g.add(node.op.removeprefix("QLinear"), first, second), node.input(6), *zero,
          to=node.output(0))  # fmt: skip


def qlinear_unary(g: Graph, node: Node) -> None:
    """QLinearSigmoid, QLinearLeakyRelu and QLinearGlobalAveragePool of ONNX Runtime (com.microsoft)."""
    attributes = {k: v for k, v in node.attributes.items() if k != "channels_last"}
    if node.get("channels_last"):
        raise node.refuse("channels_last is not supported")
    zero = [node.input(4)] if node.input(4) else []
    value = g.add(node.op.removeprefix("QLinear"), _dequantized(g, *(node.input(i) for i in range(3))), **attributes)
    g.add("QuantizeLinear", value, node.input(3), *zero, to=node.output(0))


def conv_integer(g: Graph, node: Node) -> None:
    """ConvInteger."""
    operands = []
    for x, zero in ((node.input(0), node.input(2)), (node.input(1), node.input(3))):
        value = g.cast(x, "int32")
        if zero:
            rank = len(g.shape(x))
            zero = g.cast(zero, "int32")
            per_channel = x == node.input(1) and int(np.prod(g.shape(node.input(3)))) > 1
            value = g.add("Sub", value, g.reshape(zero, -1, *[1] * (rank - 1)) if per_channel else g.reshape(zero))
        operands.append(value)
    g.add("Conv", *operands, to=node.output(0), **node.attributes)


# Others.


def lp_normalization(g: Graph, node: Node) -> None:
    """LpNormalization: a vector of zeros stays one."""
    axes = g.constant([node.get("axis", -1)])
    op = {1: "ReduceL1", 2: "ReduceL2"}[node.get("p", 2)]
    if g.opset < 18:
        norm = g.add(op, node.input(0), axes=[node.get("axis", -1)], keepdims=1)
    else:
        norm = g.add(op, node.input(0), axes, keepdims=1)
    dtype = g.dtype(node.input(0))
    is_zero = g.add("Equal", norm, g.constant(0, dtype))
    g.add("Div", node.input(0), g.add("Where", is_zero, g.constant(1, dtype), norm), to=node.output(0))


def cum_prod(g: Graph, node: Node) -> None:
    """CumProd of an axis that is a constant."""
    x, axis = node.input(0), node.input(1)
    if axis not in g.constants:
        raise node.refuse("an axis that is no constant is not supported")
    at = int(g.constants[axis].reshape(())) % len(g.shape(x))
    parts = g.split(x, g.shape(x)[at], at)
    if node.get("reverse", 0):
        parts = parts[::-1]

    one = g.constant(np.ones([1 if i == at else n for i, n in enumerate(g.shape(x))]), g.dtype(x))
    results, product = [], one
    for part in parts:
        if node.get("exclusive", 0):
            results.append(product)
        product = part if product == one else g.add("Mul", product, part)
        if not node.get("exclusive", 0):
            results.append(product)
    g.add("Concat", *(results[::-1] if node.get("reverse", 0) else results), axis=at, to=node.output(0))


def reverse_sequence(g: Graph, node: Node) -> None:
    """ReverseSequence for lengths that are constants: each element is gathered."""
    x, lengths = node.input(0), node.input(1)
    if lengths not in g.constants:
        raise node.refuse("lengths that are no constants are not supported")
    batch_axis, time_axis = node.get("batch_axis", 1), node.get("time_axis", 0)
    shape = g.shape(x)
    index = np.arange(int(np.prod(shape))).reshape(shape)
    for i, length in enumerate(g.constants[lengths]):
        at: list[Any] = [slice(None)] * len(shape)
        at[batch_axis], at[time_axis] = i, slice(0, int(length))
        part = index[tuple(at)]
        axis = time_axis - (batch_axis < time_axis)
        index[tuple(at)] = np.flip(part, axis)
    g.add("Gather", g.reshape(x, -1), g.constant(index), axis=0, to=node.output(0))


def bit_shift(g: Graph, node: Node) -> None:
    """BitShift by at least the width of the type, which C leaves to the processor: zero, or the sign."""
    x, by = node.input(0), node.input(1)
    dtype = g.dtype(x)
    width = g.constant(dtype.itemsize * 8, dtype)
    is_in_range = g.add("Less", by, width)
    if dtype.kind == "i":
        is_in_range = g.add("And", is_in_range, g.add("GreaterOrEqual", by, g.constant(0, dtype)))
    usable = g.add("Where", is_in_range, by, g.constant(0, dtype))
    shifted = g.add("BitShift", x, usable, direction=node.get("direction"))
    beyond = g.constant(0, dtype)
    if dtype.kind == "i" and node.get("direction") == "RIGHT":
        beyond = g.add("Where", g.add("Less", x, beyond), g.constant(-1, dtype), beyond)
    g.add("Where", is_in_range, shifted, beyond, to=node.output(0))


def is_inf(g: Graph, node: Node) -> None:
    """IsInf of one sign."""
    x, zero = node.input(0), g.constant(0, g.dtype(node.input(0)))
    signs = [op for op, name in (("Greater", "detect_positive"), ("Less", "detect_negative")) if node.get(name, 1)]
    if len(signs) == 2:
        g.add("IsInf", x, to=node.output(0))
    elif signs:
        g.add("And", g.add("IsInf", x), g.add(signs[0], x, zero), to=node.output(0))
    else:
        g.add("And", g.add("IsInf", x), g.constant(False, bool), to=node.output(0))


def conv_transpose(g: Graph, node: Node) -> None:
    """ConvTranspose whose paddings follow from the shape of its output."""
    attributes = dict(node.attributes)
    wanted, auto = attributes.pop("output_shape", None), node.get("auto_pad", "NOTSET")
    shape, kernel = g.shape(node.input(0))[2:], node.get("kernel_shape") or g.shape(node.input(1))[2:]
    strides = node.get("strides") or [1] * len(shape)
    if wanted or auto.startswith("SAME"):
        attributes.pop("auto_pad", None)
        dilations = node.get("dilations") or [1] * len(shape)
        extra = list(node.get("output_padding") or [0] * len(shape))
        wanted = list(wanted or [n * s for n, s in zip(shape, strides)])[-len(shape) :]
        begins, ends = [], []
        for i, (n, k, s, d, out) in enumerate(zip(shape, kernel, strides, dilations, wanted)):
            total = s * (n - 1) + extra[i] + (k - 1) * d + 1 - out
            if total < 0:  # nothing is cut off: the output grows
                extra[i] -= total
                total = 0
            small, large = total // 2, total - total // 2
            begins.append(large if auto == "SAME_LOWER" else small)
            ends.append(small if auto == "SAME_LOWER" else large)
        attributes |= {"pads": begins + ends, "output_padding": extra}
    g.add("ConvTranspose", *node.inputs, to=node.output(0), **attributes)


def pool(g: Graph, node: Node) -> None:
    """Pooling and convolutions whose paddings are the same on both sides, or one more at the start."""
    attributes = dict(node.attributes)
    shape = g.shape(node.input(0))[2:]
    kernel = node.get("kernel_shape") or g.shape(node.input(1))[2:]
    strides = node.get("strides") or [1] * len(shape)
    dilations = node.get("dilations") or [1] * len(shape)
    if (auto := node.get("auto_pad", "NOTSET")).startswith("SAME"):
        del attributes["auto_pad"]
        begins, ends = [], []
        for n, k, s, d in zip(shape, kernel, strides, dilations):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            small, large = total // 2, total - total // 2
            begins.append(large if auto == "SAME_LOWER" else small)
            ends.append(small if auto == "SAME_LOWER" else large)
        attributes["pads"] = begins + ends
    if node.output(1):
        raise node.refuse("the indices of the largest elements are not supported")
    g.add(node.op, *node.inputs, to=node.output(0), **attributes)


def dropout(g: Graph, node: Node) -> None:
    """Dropout: the identity but in training, which draws numbers."""
    x, ratio, training = node.input(0), node.input(1), node.input(2)
    if training and not (training in g.constants and not g.constants[training].any()):
        if not (ratio in g.constants and not g.constants[ratio].any()):
            raise node.refuse("training draws numbers: no archive does; export the network for inference")
    g.add("Identity", x, to=node.output(0))
    if node.output(1):
        g.add("Identity", g.constant(np.ones(g.shape(x)), bool), to=node.output(1))


def batch_normalization(g: Graph, node: Node) -> None:
    """BatchNormalization; in training with the mean and variance of the batch."""
    if not node.get("training_mode", 0):
        g.add("BatchNormalization", *node.inputs, to=node.output(0), **node.attributes)
        return
    x, scale, bias, mean, variance = node.inputs
    shape = g.shape(x)
    axes = [i for i in range(len(shape)) if i != 1]

    def reduced(value: str) -> str:
        if g.opset < 18:
            return g.add("ReduceMean", value, axes=axes, keepdims=1)
        return g.add("ReduceMean", value, g.constant(axes), keepdims=1)

    def channels(value: str) -> str:
        return g.reshape(value, 1, -1, *[1] * (len(shape) - 2))

    own = reduced(x)
    centered = g.add("Sub", x, own)
    spread = reduced(g.add("Mul", centered, centered))
    deviation = g.add("Sqrt", g.add("Add", spread, g.constant(node.get("epsilon", 1e-5), g.dtype(x))))
    normal = g.add("Div", centered, deviation)
    g.add("Add", g.add("Mul", normal, channels(scale)), channels(bias), to=node.output(0))

    momentum = node.get("momentum", 0.9)
    for name, running, batch in ((node.output(1), mean, own), (node.output(2), variance, spread)):
        if name:
            kept = g.add("Mul", running, g.constant(momentum, g.dtype(running)))
            new = g.add("Mul", g.reshape(batch, -1), g.constant(1 - momentum, g.dtype(running)))
            g.add("Add", kept, new, to=name)


REWRITES: dict[str, Callable[[Graph, Node], None]] = {
    "AveragePool": pool, "BatchNormalization": batch_normalization, "BitShift": bit_shift, "Conv": pool,
    "ConvInteger": conv_integer, "ConvTranspose": conv_transpose, "CumProd": cum_prod, "Dropout": dropout,
    "GRU": recurrent, "IsInf": is_inf, "LSTM": recurrent, "LpNormalization": lp_normalization, "LpPool": pool,
    "MaxPool": pool, "QLinearAdd": qlinear_binary, "QLinearConv": qlinear_conv,
    "QLinearGlobalAveragePool": qlinear_unary, "QLinearLeakyRelu": qlinear_unary, "QLinearMatMul": qlinear_matmul,
    "QLinearMul": qlinear_binary, "QLinearSigmoid": qlinear_unary, "RNN": recurrent,
    "ReverseSequence": reverse_sequence,
}  # fmt: skip


def rewrite(model: Any, constants: dict[str, np.ndarray]) -> list[Any]:
    """Returns the nodes of a model's graph, and adds to its constants."""
    g = Graph(model, constants)
    for node in model.graph.node:
        if step := REWRITES.get(node.op_type):
            step(g, Node(node))
        else:
            g.nodes.append(node)
    return g.nodes

"""Integer arithmetic for networks with pairs of quantize and dequantize.

A result that is quantized, of an operator whose operands are dequantized, is computed from the integers: with int32
sums, and a fixed-point multiplication back to 8 bits. Images have their channels last between such operators, so that
sums run over adjacent elements. Any other operator, and one whose scales no factors fit, stays in float32, between
dequantize and quantize.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relax, te, tirx

from .kernels import LOAD, nodes
from .reader import constant_of, type_of

RANGES = {"int8": (-128, 127), "uint8": (0, 255)}

# The axes of weights by layout, for channels last: ONNX's and PyTorch's order of images and weights, or TensorFlow's.
ORDERS = {("NCHW", "OIHW"): (0, 2, 3, 1), ("NHWC", "HWIO"): (3, 0, 1, 2), ("NHWC", "HWOI"): (2, 0, 1, 3)}


class Scale(NamedTuple):
    """The meaning of a tensor of integers q: (q - zero) * scale."""

    scale: float
    zero: int


class Integers(NamedTuple):
    """A quantized tensor that has been emitted, with its channels last or in the network's own order."""

    value: Any
    last: bool


class Weights(NamedTuple):
    """Quantized constants, with scales of the same shape. Their zero points are 0."""

    q: np.ndarray
    scale: np.ndarray


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(int(x) for x in type_of(value).shape.values)


def _name(value: Any) -> str:
    return str(getattr(value.op, "name", "")) if isinstance(value, relax.Call) else ""


def _ints(values: Any) -> list[int]:
    return [int(x) for x in values]


class Rewriter:
    """Builds main anew, from its results back to its inputs."""

    def __init__(self, module: tvm.IRModule) -> None:
        self.module, self.main = module, module["main"]
        self.defined = {b.var: b.value for block in self.main.body.blocks for b in block.bindings}
        self.emitted: dict[Any, Any] = {p: p for p in self.main.params}
        self.integers: dict[Any, Integers | None] = {}
        others = {gv: f for gv, f in module.functions_items() if gv.name_hint != "main"}
        self.builder = relax.BlockBuilder(tvm.IRModule(others))

    def run(self) -> tvm.IRModule:
        """Returns the module with the new main."""
        with self.builder.function("main", list(self.main.params), attrs=dict(self.main.attrs or {})):
            with self.builder.dataflow():
                for var in self.defined:  # in order, so that no network is too deep
                    self._integers(var)
                result = self._plain(self.main.body.body)
                if not isinstance(result, relax.Tuple):
                    result = self.builder.emit_output(result)
                else:
                    result = relax.Tuple([self.builder.emit_output(x) for x in result.fields])
            self.builder.emit_func_output(result)
        return self.builder.finalize()

    def floats(self) -> tuple[str, ...]:
        """Returns the operators that read quantized tensors and were not replaced."""
        read = {v for v, value in self.defined.items() if _name(value) == "relax.dequantize" and not self._weights(v)}
        return tuple(
            f"{_name(value).removeprefix('relax.')} ({var.name})" for var, value in self.defined.items()
            if var in self.emitted and isinstance(value, relax.Call) and _name(value) != "relax.quantize"
            and any(v in read for v in nodes(value, relax.Var)))  # fmt: skip

    def _needed(self, root: Any) -> list[Any]:
        """Returns the variables that a value depends on other than through integers, and that are missing, in order."""
        needed = set(nodes(root, relax.Var))
        if needed <= self.emitted.keys():
            return []
        for var, value in reversed(self.defined.items()):
            if var in needed and var not in self.emitted and not self._integers(var):
                needed.update(nodes(value, relax.Var))
        return [var for var in self.defined if var in needed and var not in self.emitted]

    def _plain(self, root: Any) -> Any:
        """Returns what a value is in the new function, in the network's own order of axes."""
        for var in self._needed(root):  # in order, so that no network is too deep
            if integers := self._integers(var):
                self.emitted[var] = self._own(integers)
            else:
                self.emitted[var] = self.builder.emit(self._renamed(self.defined[var]))
        return self._renamed(root)

    def _renamed(self, value: Any) -> Any:
        """Returns a value of the old function with the new one's variables."""
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._renamed(x) for x in value.fields])
        if isinstance(value, relax.TupleGetItem):
            return self.builder.emit(relax.TupleGetItem(self._renamed(value.tuple_value), value.index))
        if isinstance(value, relax.Call):
            kinds = value.ty_args if hasattr(value, "ty_args") else value.sinfo_args
            return relax.Call(value.op, [self._renamed(a) for a in value.args], value.attrs, kinds)
        return self.emitted[value] if isinstance(value, relax.Var) else value

    def _integers(self, var: Any) -> Integers | None:
        """Returns the integers of a quantize in the new function, or None for another operator."""
        if var not in self.integers:
            call = self.defined.get(var)
            scale = self._scale(call) if _name(call) == "relax.quantize" else None
            known = scale is not None and str(type_of(var).dtype) in RANGES
            self.integers[var] = self._compute(call, scale, str(type_of(var).dtype)) if known else None
        return self.integers[var]

    def _scale(self, call: Any) -> Scale | None:
        """Returns the scale of a quantize or dequantize of a whole tensor."""
        scale, zero = constant_of(call.args[1]), constant_of(call.args[2])
        if scale is None or zero is None or scale.size != 1 or zero.size != 1 or not 0 < scale.ravel()[0] < math.inf:
            return None
        return Scale(float(scale.ravel()[0]), int(zero.ravel()[0]))

    def _operand(self, value: Any) -> tuple[Integers, Scale] | None:
        """Returns the integers under a dequantize of a tensor that is no constant."""
        call = self.defined.get(value)
        if _name(call) != "relax.dequantize" or not isinstance(call.args[0], relax.Var):
            return None
        if (scale := self._scale(call)) is None or str(type_of(call.args[0]).dtype) not in RANGES:
            return None
        integers = self._integers(call.args[0]) or Integers(self._plain(call.args[0]), False)
        return integers, scale

    def _own(self, integers: Integers) -> Any:
        """Returns a tensor in the network's own order of axes."""
        moved = relax.op.permute_dims(integers.value, [0, 3, 1, 2]) if integers.last else None
        return integers.value if moved is None else self.builder.emit(moved)

    def _last(self, integers: Integers) -> Any:
        """Returns an image with its channels last."""
        if integers.last:
            return integers.value
        n, c, h, w = _shape(integers.value)
        if c == 1:
            return self.builder.emit(relax.op.reshape(integers.value, (n, h, w, c)))
        return self.builder.emit(relax.op.permute_dims(integers.value, [0, 2, 3, 1]))

    def _weights(self, value: Any) -> Weights | None:
        """Returns constants under a dequantize and steps that move elements."""
        call = self.defined.get(value) if isinstance(value, relax.Var) else value
        if _name(call) == "relax.dequantize" and (q := self._constant(call.args[0])) is not None:
            scale, zero = constant_of(call.args[1]), constant_of(call.args[2])
            if scale is None or zero is None:
                return None
            along = [1] * q.ndim
            if max(scale.size, zero.size) > 1:
                along[int(call.attrs.axis)] = max(scale.size, zero.size)
            q = q.astype(np.int64) - zero.astype(np.int64).reshape(along if zero.size > 1 else [1] * q.ndim)
            scale = scale.astype(np.float64)
            return Weights(q, np.broadcast_to(scale.reshape(along if scale.size > 1 else [1] * q.ndim), q.shape))
        if _name(call) in ("relax.reshape", "relax.permute_dims"):
            if (inner := self._weights(call.args[0])) is None:
                return None
            if _name(call) == "relax.reshape":
                return Weights(inner.q.reshape(_shape(value)), inner.scale.reshape(_shape(value)))
            axes = None if call.attrs.axes is None else _ints(call.attrs.axes)
            return Weights(inner.q.transpose(axes), inner.scale.transpose(axes))
        return None

    def _constant(self, value: Any) -> np.ndarray | None:
        """Returns a constant, also a transposed one."""
        call = self.defined.get(value) if isinstance(value, relax.Var) else None
        if _name(call) == "relax.permute_dims" and (inner := constant_of(call.args[0])) is not None:
            return inner.transpose(_ints(call.attrs.axes))
        return constant_of(value)

    def _real(self, value: Any) -> np.ndarray | None:
        """Returns real constants: dequantized ones, and reshaped ones."""
        if (weights := self._weights(value)) is not None:
            return weights.q * weights.scale
        call = self.defined.get(value) if isinstance(value, relax.Var) else value
        if _name(call) == "relax.reshape" and (inner := constant_of(call.args[0])) is not None:
            return inner.reshape(_shape(value))
        return constant_of(value)

    def _limits(self, call: Any) -> tuple[Any, float, float] | None:
        """Returns what an operator limits to constants, and these."""
        name, args = _name(call), list(call.args) if isinstance(call, relax.Call) else []
        if name == "relax.call_tir" and (name := _extremum(self.module[args[0]])):  # ONNX's frontend computes Clip so
            args = list(args[1].fields)
        if name == "relax.nn.relu":
            limits = 0.0, math.inf
        elif name == "relax.clip":
            limits = _number(args[1]), _number(args[2])
        elif name in ("relax.maximum", "relax.minimum") and (bound := self._scalar(args[1])) is not None:
            limits = (bound, math.inf) if name == "relax.maximum" else (-math.inf, bound)
        else:
            return None
        return None if any(math.isnan(x) for x in limits) else (self.defined.get(args[0]), *limits)

    def _scalar(self, value: Any) -> float | None:
        """Returns a constant scalar, also one that is replaced if it is not a number."""
        call = self.defined.get(value) if isinstance(value, relax.Var) else None
        if _name(call) == "relax.where" and _name(self.defined.get(call.args[0])) == "relax.isnan":
            bound = self._scalar(call.args[2])
            return self._scalar(call.args[1]) if bound is not None and math.isnan(bound) else bound
        array = constant_of(value)
        return None if array is None or array.size != 1 else float(array.ravel()[0])

    def _compute(self, call: Any, to: Scale, dtype: str) -> Integers | None:
        """Emits the integers of a quantize, if the operators before it are known."""
        low, high = RANGES[dtype]
        value = self.defined.get(call.args[0])
        while (limits := self._limits(value)) is not None:
            value, least, most = limits
            low, high = max(low, _quantized(least, to)), min(high, _quantized(most, to))
        if low > high:
            return None
        rule = RULES.get(_name(value))
        return rule(self, value, _Target(to, low, high, dtype)) if rule else None


class _Target(NamedTuple):
    """What a result is quantized to."""

    to: Scale
    low: int
    high: int
    dtype: str

    def requantize(self, total: Any, multiplier: Any, shift: int, even: int | None = None) -> Any:
        """Returns a sum times multiplier / 2**shift as an integer in the bounds, rounded.

        Halves are rounded up, or with even to even: products that differ by at most even from a half.
        """
        wide, places = total.astype("int64") * multiplier.astype("int64"), tirx.const(shift, "int64")
        wide += tirx.const((1 << (shift - 1)) + (even or 0), "int64")
        result = tirx.shift_right(wide, places)
        if even is not None:
            rest = wide - result * tirx.const(1 << shift, "int64")  # TVM 0.26 cannot simplify a wide mask
            odd = tirx.bitwise_and(result, tirx.const(1, "int64"))
            result -= tirx.if_then_else(rest <= tirx.const(2 * even, "int64"), odd, tirx.const(0, "int64"))
        return self.clamp(result.astype("int32"))

    def clamp(self, value: Any) -> Any:
        """Adds the zero point and returns the result within its bounds."""
        value = value + tirx.const(self.to.zero, "int32")
        value = tirx.min(tirx.max(value, tirx.const(self.low, "int32")), tirx.const(self.high, "int32"))
        return value.astype(self.dtype)


def _number(value: Any) -> float:
    """Returns a bound of a clip, which is a scalar of one of several types."""
    while hasattr(value, "value"):
        value = value.value
    return float(value)


def _extremum(function: tirx.PrimFunc) -> str:
    """Returns the operator that a function of two tensors computes, if it is a maximum or minimum."""
    stores = nodes(function.body, tirx.BufferStore)
    if len(stores) != 1 or len(function.params) != 3 or len(function.params[1].shape) != 0:
        return ""
    value = stores[0].value
    if not isinstance(value, (tirx.Max, tirx.Min)):
        return ""
    for operand, tensor in zip((value.a, value.b), function.params):
        source = "source" if hasattr(operand, "source") else "buffer"  # TVM 0.27, or 0.26
        if not isinstance(operand, LOAD) or not getattr(operand, source).same_as(tensor):
            return ""
    return "relax.maximum" if isinstance(value, tirx.Max) else "relax.minimum"


def _quantized(real: float, scale: Scale) -> int:
    return int(np.clip(np.rint(real / scale.scale) + scale.zero, -(2**30), 2**30))


def _fixed(real: np.ndarray, reach: Any, bits: int = 31) -> tuple[np.ndarray, int] | None:
    """Returns integers of that many bits and a shift: the factors are about integers / 2**shift.

    None if a product with a number of at most reach is too large, or off by more than a quarter of a step.
    """
    shift = min(62, bits - 1 - math.frexp(float(np.max(real)))[1])
    factors = np.rint(real * 2.0**shift)
    off = np.abs(factors * 2.0**-shift - real) * reach
    if shift < 1 or not np.max(real * reach) < 2**30 or np.max(off) > 1 / 4:
        return None
    return factors.astype(np.int32), shift


class _Sums(NamedTuple):
    """Integers of which each channel of a result is (products with weights + offset) * factor / 2**shift."""

    weights: np.ndarray  # int8
    offsets: np.ndarray  # int32
    factors: np.ndarray
    shift: int

    def constants(self) -> list[Any]:
        """Returns the arrays as arguments of an operator."""
        return [relax.const(a) for a in (self.weights, self.offsets, self.factors)]


def _sums(q: np.ndarray, steps: np.ndarray, bias: np.ndarray, zero: int) -> _Sums | None:
    """Returns the integers for products, each of which is so many steps of the result, and a bias in steps.

    zero is of the operand, if it is among the products. A channel whose bias is too large for its products has coarser
    weights: those of a channel without influence become 0. None if a result might be off by more than half a step.
    """
    if q.min() < -128 or q.max() > 127 or not np.all((steps >= 0) & (steps < math.inf)):
        return None
    rows = q.reshape(len(q), -1)
    most = 255.0 * np.abs(rows).sum(axis=1)
    bias = np.clip(bias, -most * steps - 1024, most * steps + 1024)  # a larger one saturates, too
    units = np.maximum(np.maximum(steps, np.abs(bias) / 2**29), 1e-300)
    weights = np.rint(rows * (steps / units)[:, None])
    offsets = np.rint(bias / units)
    lost = 255 * np.abs(rows * steps[:, None] - weights * units[:, None]).sum(axis=1)
    lost += np.abs(bias - offsets * units)
    offsets -= zero * weights.sum(axis=1)
    most = 255 * np.abs(weights).sum(axis=1) + np.abs(offsets)
    fixed = _fixed(units, most)
    if fixed is None or not most.max() < 2**31 or lost.max() > 1 / 4:
        return None
    return _Sums(weights.astype(np.int8).reshape(q.shape), offsets.astype(np.int32), *fixed)


def _sum_parts(r: Rewriter, value: Any) -> tuple[Any, Any]:
    """Splits an addition of constants off an operator."""
    for a, b in ((0, 1), (1, 0)):
        if r._real(value.args[b]) is not None:
            return r.defined.get(value.args[a]), value.args[b]
    return None, None


def _bias(r: Rewriter, value: Any, channels: int, rank: int, axis: int) -> np.ndarray | None:
    """Returns the real bias of each channel, which is an axis of a result with that rank."""
    if value is None:
        return np.zeros(channels)
    real = r._real(value)
    if real is None or real.ndim > rank:
        return None
    shape = [1] * (rank - real.ndim) + list(real.shape)
    if shape.pop(axis) not in (1, channels) or math.prod(shape) != 1:
        return None
    return np.broadcast_to(real.ravel(), channels)


def _add(r: Rewriter, value: Any, target: _Target) -> Integers | None:
    """A bias after a convolution or product, or a sum of two tensors of equal shape."""
    inner, bias = _sum_parts(r, value)
    if bias is not None:
        rule = {"relax.nn.conv2d": _conv, "relax.matmul": _matmul}.get(_name(inner))
        return rule(r, inner, target, bias) if rule else None
    operands = [r._operand(a) for a in value.args]
    if any(o is None for o in operands) or _shape(value.args[0]) != _shape(value.args[1]):
        return None
    (a, scale_a), (b, scale_b) = operands  # type: ignore[misc]
    last = a.last or b.last
    x, y = (r._last(a), r._last(b)) if last else (a.value, b.value)
    if (fixed := _fixed(np.array([scale_a.scale, scale_b.scale]) / target.to.scale, 255, 21)) is None:
        return None
    factors, shift = fixed

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        def element(*i: Any) -> Any:
            total = (x[i].astype("int32") - scale_a.zero) * int(factors[0])
            total += (y[i].astype("int32") - scale_b.zero) * int(factors[1])
            return target.clamp(tirx.shift_right(total + (1 << (shift - 1)), tirx.const(shift, "int32")))

        return te.compute(x.shape, element, "add_int8")

    return Integers(r.builder.emit_te(compute, x, y, primfunc_name_hint="add_int8"), last)


def _conv(r: Rewriter, value: Any, target: _Target, bias: Any = None) -> Integers | None:
    """A convolution with channels last: of images (N, H, W, C) with weights (O, KH, KW, C / groups)."""
    operand, weights, attrs = r._operand(value.args[0]), r._weights(value.args[1]), value.attrs
    axes = ORDERS.get((str(attrs.data_layout), str(attrs.kernel_layout)))
    if operand is None or weights is None or axes is None:
        return None
    integers, scale = operand
    axis = 3 if str(attrs.data_layout) == "NHWC" else 1
    q, scales = weights.q.transpose(axes), weights.scale.transpose(axes)
    real, channels, groups = scales[:, 0, 0, 0], q.shape[0], int(attrs.groups)
    offsets = _bias(r, bias, channels, 4, axis)
    if offsets is None or np.any(scales != real[:, None, None, None]) or _shape(value)[axis] != channels:
        return None
    (top, left, bottom, right), strides, dilation = _ints(attrs.padding), _ints(attrs.strides), _ints(attrs.dilation)
    padded = any((top, left, bottom, right))
    zero = 0 if padded else scale.zero
    if (sums := _sums(q, real * scale.scale / target.to.scale, offsets / target.to.scale, zero)) is None:
        return None
    image = r._own(integers) if axis == 3 else r._last(integers)
    _, height, width, _ = _shape(image)
    rows = (height + top + bottom - (q.shape[1] - 1) * dilation[0] - 1) // strides[0] + 1
    columns = (width + left + right - (q.shape[2] - 1) * dilation[1] - 1) // strides[1] + 1

    def compute(x: te.Tensor, w: te.Tensor, b: te.Tensor, m: te.Tensor) -> te.Tensor:
        def pad(n: Any, h: Any, v: Any, c: Any) -> Any:
            inside = tirx.all(h >= top, h < height + top, v >= left, v < width + left)
            real = x[n, h - top, v - left, c].astype("int32") - scale.zero
            return tirx.if_then_else(inside, real, tirx.const(0, "int32"))

        if padded:
            shape = (x.shape[0], height + top + bottom, width + left + right, x.shape[3])
            image = te.compute(shape, pad, "pad")
        else:
            image = te.compute(x.shape, lambda *i: x[i].astype("int32"), "image")
        ry, rx = te.reduce_axis((0, q.shape[1]), "ry"), te.reduce_axis((0, q.shape[2]), "rx")
        rc = te.reduce_axis((0, q.shape[3]), "rc")
        each = channels // groups  # results of a group

        def product(n: Any, h: Any, v: Any, o: Any) -> Any:
            c = rc if groups == 1 else o if each == q.shape[3] == 1 else tirx.floordiv(o, each) * q.shape[3] + rc
            pixel = image[n, h * strides[0] + ry * dilation[0], v * strides[1] + rx * dilation[1], c]
            return te.sum(pixel * w[o, ry, rx, rc].astype("int32"), axis=[ry, rx, rc])

        total = te.compute((x.shape[0], rows, columns, channels), product, "total")
        return te.compute(
            total.shape, lambda n, h, v, o: target.requantize(total[n, h, v, o] + b[o], m[o], sums.shift), "conv_int8")

    return Integers(r.builder.emit_te(compute, image, *sums.constants(), primfunc_name_hint="conv_int8"), axis == 1)


def _matmul(r: Rewriter, value: Any, target: _Target, bias: Any = None) -> Integers | None:
    """A product of a matrix with constants, which are kept transposed."""
    operand, weights = r._operand(value.args[0]), r._weights(value.args[1])
    if operand is None or weights is None or weights.q.ndim != 2 or len(_shape(value.args[0])) != 2:
        return None
    integers, scale = operand
    q, real = weights.q.T, weights.scale[0]
    offsets = _bias(r, bias, q.shape[0], 2, 1)
    if offsets is None or np.any(weights.scale != real):
        return None
    if (sums := _sums(q, real * scale.scale / target.to.scale, offsets / target.to.scale, scale.zero)) is None:
        return None

    def compute(x: te.Tensor, w: te.Tensor, b: te.Tensor, m: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, q.shape[1]), "k")
        total = te.compute(
            (x.shape[0], q.shape[0]),
            lambda n, o: te.sum(x[n, k].astype("int32") * w[o, k].astype("int32"), axis=k), "total")
        return te.compute(
            total.shape, lambda n, o: target.requantize(total[n, o] + b[o], m[o], sums.shift), "dense_int8")

    dense = r.builder.emit_te(compute, integers.value, *sums.constants(), primfunc_name_hint="dense_int8")
    return Integers(dense, False)


def _average(r: Rewriter, value: Any, target: _Target) -> Integers | None:
    """The mean of each channel of an image."""
    shape, axes = _shape(value.args[0]), value.attrs.axis
    axes = None if axes is None else sorted(a % 4 for a in _ints(axes))
    if len(shape) != 4 or axes not in ([1, 2], [2, 3]):
        return None
    size = [shape[a] for a in axes]
    result = _windows(r, value, target, _Windows(size, [1, 1], [0, 0, 0, 0], False, [1, 1]), axes[0])
    return result and Integers(r.builder.emit(relax.op.reshape(result.value, _shape(value))), False)


def _average_pool(r: Rewriter, value: Any, target: _Target) -> Integers | None:
    """The mean of windows, which may lie partly in padding or, with ceil_mode, behind it."""
    attrs = value.attrs
    first = {"NHWC": 1, "NCHW": 2}.get(str(attrs.layout))
    if set(_ints(attrs.dilation)) != {1} or first is None:
        return None
    return _windows(r, value, target, _Windows(
        _ints(attrs.pool_size), _ints(attrs.strides), _ints(attrs.padding), bool(attrs.count_include_pad),
        list(_shape(value)[first:first + 2])), first)


class _Windows(NamedTuple):
    """The windows of a pooling, by axis: height, width."""

    size: list[int]
    strides: list[int]
    padding: list[int]  # top, left, bottom, right
    counted: bool  # the padding is among the elements of a mean
    results: list[int]

    def count(self, at: Any, axis: int, length: int) -> Any:
        """Returns of how many elements on an axis a mean is, for a result there."""
        before, after = self.padding[axis], self.padding[axis + 2]
        begin = at * self.strides[axis] - before
        end = tirx.min(begin + self.size[axis], length + (after if self.counted else 0))
        return tirx.max(end - (begin if self.counted else tirx.max(begin, 0)), 1)

    def whole(self, lengths: tuple[int, int]) -> bool:
        """Reports whether no window leaves the image."""
        return not any(self.padding) and all(
            (n - 1) * stride + size <= length
            for n, stride, size, length in zip(self.results, self.strides, self.size, lengths))


def _windows(r: Rewriter, value: Any, target: _Target, w: _Windows, first: int) -> Integers | None:
    """The means of windows along two axes. Halves are frequent, and rounded to even as ONNX does."""
    if (operand := r._operand(value.args[0])) is None:
        return None
    integers, scale = operand
    image = r._own(integers) if first == 1 else r._last(integers)
    n, height, width, c = _shape(image)
    whole, most = w.whole((height, width)), w.size[0] * w.size[1]
    counts = np.array([most]) if whole else np.arange(1, most + 1)  # one factor for each number of elements
    if (fixed := _fixed(scale.scale / target.to.scale / counts, 255 * counts)) is None:
        return None
    factors, shift = fixed
    error = most * 128  # at most half a unit of a factor for each unit of a sum, which has at most 255 for each element
    shape = (n, *w.results, c)

    def compute(x: te.Tensor, m: te.Tensor) -> te.Tensor:
        ry, rx = te.reduce_axis((0, w.size[0]), "ry"), te.reduce_axis((0, w.size[1]), "rx")

        def window(n: Any, h: Any, v: Any, c: Any) -> Any:
            y, x_ = h * w.strides[0] + ry - w.padding[0], v * w.strides[1] + rx - w.padding[1]
            if whole:
                return te.sum(x[n, y, x_, c].astype("int32"), axis=[ry, rx])
            inside = tirx.all(y >= 0, y < height, x_ >= 0, x_ < width)
            real = x[n, y, x_, c].astype("int32") - scale.zero
            return te.sum(tirx.if_then_else(inside, real, tirx.const(0, "int32")), axis=[ry, rx])

        total = te.compute(shape, window, "total")

        def mean(n: Any, h: Any, v: Any, c: Any) -> Any:
            if whole:
                return target.requantize(total[n, h, v, c] - scale.zero * most, m[0], shift, even=error)
            count = w.count(h, 0, height) * w.count(v, 1, width)
            return target.requantize(total[n, h, v, c], m[count - 1], shift, even=error)

        return te.compute(shape, mean, "mean_int8")

    mean = r.builder.emit_te(compute, image, relax.const(factors), primfunc_name_hint="mean_int8")
    return Integers(mean, first == 2)


def _maximum(r: Rewriter, value: Any, target: _Target) -> Integers | None:
    """The maximum of windows, of integers with the same scale."""
    operand, attrs = r._operand(value.args[0]), value.attrs
    if operand is None or operand[1] != target.to or (target.low, target.high) != RANGES[target.dtype]:
        return None
    if str(attrs.layout) != "NCHW" or str(type_of(operand[0].value).dtype) != target.dtype:
        return None
    call = relax.op.nn.max_pool2d(
        r._last(operand[0]), _ints(attrs.pool_size), _ints(attrs.strides), _ints(attrs.padding), _ints(attrs.dilation),
        bool(attrs.ceil_mode), layout="NHWC")
    return Integers(r.builder.emit(call), True)


def _moved(r: Rewriter, value: Any, target: _Target) -> Integers | None:
    """A reshape of integers with the same scale."""
    call, operand = r.defined.get(value.args[0]), r._operand(value.args[0])
    if operand is None or operand[1] != target.to:
        return None
    if str(type_of(call.args[0]).dtype) != target.dtype or (target.low, target.high) != RANGES[target.dtype]:
        return None
    return Integers(r.builder.emit(relax.op.reshape(r._plain(call.args[0]), _shape(value))), False)


RULES: dict[str, Callable[..., Integers | None]] = {
    "relax.add": _add, "relax.nn.conv2d": _conv, "relax.matmul": _matmul, "relax.mean": _average,
    "relax.nn.avg_pool2d": _average_pool, "relax.nn.max_pool2d": _maximum, "relax.reshape": _moved,
}  # fmt: skip


def rewrite(module: tvm.IRModule) -> tuple[tvm.IRModule, tuple[str, ...]]:
    """Replaces quantized operators by integer arithmetic, and returns those that it does not.

    Other modules are returned as they are.
    """
    calls = [b.value for block in module["main"].body.blocks for b in block.bindings]
    if not any(_name(c) == "relax.quantize" for c in calls):
        return module, ()
    rewriter = Rewriter(module)
    return rewriter.run(), rewriter.floats()

"""Layers as loops over elements in C, and what all layers have in common.

Layers compute what TensorFlow Lite Micro's kernels do, bit by bit.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import fixedpoint
from .plan import DTYPES

if TYPE_CHECKING:
    from .layers import Layer, Tensor

OPERATORS: dict[str, Callable[[Layer], None]] = {}

LIMIT = """\
static inline int32_t limit(int32_t x, int32_t low, int32_t high) {
  return x < low ? low : x > high ? high : x;
}
"""


def includes(code: str) -> str:
    """Returns what comes before the C of the layers."""
    support = "#include <arm_nnsupportfunctions.h>\n" if re.search("arm_nn_(requantize|vec)", code) else ""
    tables = "#include <arm_nn_tables.h>\n" if "sigmoid_table" in code else ""
    functions = "#include <arm_nnfunctions.h>\n" if re.search("arm_|cmsis_nn", code) else ""
    return functions + support + tables + (LIMIT if "limit(" in code else "")


def operator(*names: str) -> Callable[[Callable[[Layer], None]], Callable[[Layer], None]]:
    """Declares what computes an operator."""

    def declare(function: Callable[[Layer], None]) -> Callable[[Layer], None]:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return declare


def types(layer: Layer, *allowed: str) -> str:
    """Returns the data type of the first input and the first result, one of those allowed, as s8 or s16."""
    kinds = [t.dtype for t in (layer.inputs[0], layer.outputs[0])]
    layer.require(kinds[0] == kinds[1] and kinds[0] in (allowed or ("int8", "int16")), f"{kinds[0]} to {kinds[1]}")
    layer.require(all(len(t.scales) == 1 for t in (layer.inputs[0], layer.outputs[0])), "a tensor without one scale")
    return {"int8": "s8", "int16": "s16"}.get(kinds[0], "")


def activation(layer: Layer, result: Tensor) -> tuple[int, int]:
    """Returns the limits of a result, with those of the activation that follows the layer, unless it has its own."""
    if (own := layer.option("Limits", None)) is not None:
        return own
    kind, (least, most) = layer.option("FusedActivationFunction"), result.limits
    bounds = {0: (None, None), 1: (0, None), 2: (-1, 1), 3: (0, 6)}
    layer.require(kind in bounds, f"activation {kind}")
    low, high = (None if x is None else result.zero + int(fixedpoint.rounded(np.float32(x) / result.scale))
                 for x in bounds[kind])  # fmt: skip
    return least if low is None else max(least, low), most if high is None else min(most, high)


def ratio(result: Tensor, *operands: Tensor) -> tuple[int, int]:
    """Returns the factor from a product of operands to a result."""
    return fixedpoint.multiplier(math.prod(float(t.scale) for t in operands) / float(result.scale))


def struct(kind: str, fields: str) -> str:
    """Returns the address of a struct in C."""
    return f"&({kind}){{{fields}}}"


def dims(*sizes: int) -> str:
    """Returns CMSIS-NN's four dimensions."""
    return struct("cmsis_nn_dims", ", ".join(map(str, sizes)))


def call(layer: Layer, function: str, *arguments: object, scratch: int = 0, size: str = "") -> None:
    """Calls a function of CMSIS-NN. size is the function's own call for the bytes of the buffer that it needs."""
    text = f"{function}({', '.join(str(a) for a in arguments)})"
    if "&c," in text:
        layer.body.append(f"  const cmsis_nn_context c = {{{layer.scratch(scratch)}, {scratch}}};")
    text = text.replace(", &(", ",\n      &(")
    if function.startswith("arm_softmax_s8"):
        layer.body.append(f"  {text};")
        return
    enough = f"{size} > {scratch} ||\n      ".replace(", &(", ",\n      &(") if size else ""
    layer.body += [f"  if ({enough}{text} != ARM_CMSIS_NN_SUCCESS) {{", "    return -1;", "  }"]


# Loops over elements.


def whole(tensor: Tensor) -> np.ndarray:
    """Returns an array of a tensor's shape, whose views have strides that count elements."""
    return np.empty(tensor.shape, "int8")


def start(view: np.ndarray) -> int:
    """Returns the place of a view's first element in the tensor."""
    base = view
    while base.base is not None:
        base = base.base
    return int(view.ctypes.data - base.ctypes.data)


def loops(views: Mapping[str, np.ndarray], statement: Callable[..., str], copies: str = "") -> list[str]:
    """Returns loops over views of one shape. statement gets each view's element, by its name in C. With copies, the
    type of the elements, the innermost loop is a copy if both views have its elements side by side."""
    names, arrays = list(views), list(views.values())
    steps = [(n, [a.strides[i] for a in arrays]) for i, n in enumerate(arrays[0].shape) if n > 1]
    merged: list[tuple[int, list[int]]] = []
    for count, strides in steps:
        if merged and all(outer == s * count for outer, s in zip(merged[-1][1], strides)):
            merged[-1] = (merged[-1][0] * count, strides)
        else:
            merged.append((count, strides))

    last = None
    if copies and merged and merged[-1][1] == [1, 1]:
        last = merged.pop()[0]
    elements = []
    for name, array, position in zip(names, arrays, range(len(names))):
        terms = [f"i{depth} * {s[position]}" if s[position] != 1 else f"i{depth}"
                 for depth, (_, s) in enumerate(merged) if s[position]]  # fmt: skip
        offset = start(array)
        elements.append(f"{name}[{' + '.join(terms + [str(offset)] * (offset != 0 or not terms))}]")
    body = statement(*elements) if last is None else \
        f"(void)memcpy(&{elements[0]}, &{elements[1]}, {last} * sizeof({copies}));"
    lines = ["  " * (d + 1) + f"for (int32_t i{d} = 0; i{d} < {n}; i{d}++) {{" for d, (n, _) in enumerate(merged)]
    lines.append("  " * (len(merged) + 1) + body)
    return lines + ["  " * (d + 1) + "}" for d in reversed(range(len(merged)))]


def copied(
    shape: Sequence[int], dtype: str, target: tuple[str, np.ndarray], source: tuple[str, np.ndarray]
) -> list[str]:
    """Returns loops that copy elements between two views of one shape."""
    views = {target[0]: target[1].reshape(shape), source[0]: source[1].reshape(shape)}
    return loops(views, lambda y, x: f"{y} = {x};", DTYPES[dtype][0])


def copy(layer: Layer, target: Tensor, to: np.ndarray, source: Tensor, view: np.ndarray) -> None:
    """Copies a part of a tensor to a part of another, whose integers have the same meaning."""
    layer.require(source.dtype == target.dtype, f"{source.dtype} to {target.dtype}")
    same = len(source.scales) == len(target.scales) == 0 or (
        (source.zero, source.scale) == (target.zero, target.scale))
    layer.require(same, "another scale of the result")
    layer.body += loops({layer.pointer(target): to, layer.pointer(source): view}, lambda y, x: f"{y} = {x};",
                        DTYPES[source.dtype][0])  # fmt: skip


def requantized(value: str, factor: tuple[int, int]) -> str:
    """Returns a product with a factor in C."""
    return f"arm_nn_requantize({value}, {factor[0]}, {factor[1]})"


def less(value: str, zero: int) -> str:
    """Returns the difference from a zero point in C."""
    return f"({value} - {zero})" if zero > 0 else f"({value} + {-zero})" if zero else value


def plus(value: str, zero: int) -> str:
    """Returns the sum with a zero point in C."""
    return f"{value} + {zero}" if zero else value


def limited(tensor: Tensor, value: str, limits: tuple[int, int] | None = None) -> str:
    """Returns a value within limits, in the type of a tensor."""
    low, high = limits or tensor.limits
    return f"({DTYPES[tensor.dtype][0]})limit({value}, {low}, {high})"


@operator("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
def reshape(layer: Layer) -> None:
    """Gives the same elements another shape."""
    layer.alias(layer.outputs[0], layer.inputs[0])


@operator("TRANSPOSE")
def transpose(layer: Layer) -> None:
    """Permutes axes."""
    x, y = layer.inputs[0], layer.outputs[0]
    copy(layer, y, whole(y), x, whole(x).transpose([int(i) for i in layer.constant(1)]))


@operator("SLICE")
def part(layer: Layer) -> None:
    """Copies a part."""
    x, y = layer.inputs[0], layer.outputs[0]
    begins = [int(i) for i in layer.constant(1)]
    copy(layer, y, whole(y), x, whole(x)[tuple(slice(b, b + n) for b, n in zip(begins, y.shape))])


@operator("STRIDED_SLICE")
def strided(layer: Layer) -> None:
    """Copies a part, with steps."""
    x, y = layer.inputs[0], layer.outputs[0]
    layer.require(layer.option("EllipsisMask") == layer.option("NewAxisMask") == 0, "an ellipsis or a new axis")
    begins, ends, steps = (layer.constant(i).ravel() for i in (1, 2, 3))
    parts: list[Any] = []
    for i, (begin, end, step) in enumerate(zip(begins, ends, steps)):
        begin = None if layer.option("BeginMask") >> i & 1 else int(begin)
        end = None if layer.option("EndMask") >> i & 1 else int(end)
        parts.append(begin if layer.option("ShrinkAxisMask") >> i & 1 else slice(begin, end, int(step)))
    copy(layer, y, whole(y), x, whole(x)[tuple(parts)].reshape(y.shape))


@operator("SPLIT", "SPLIT_V", "UNPACK")
def split(layer: Layer) -> None:
    """Copies parts to several results."""
    if layer.operator == "UNPACK":
        x, axis = layer.inputs[0], layer.option("Axis")
    else:
        x, axis = (layer.inputs[1], 0) if layer.operator == "SPLIT" else (layer.inputs[0], 2)
        axis = int(layer.constant(axis).ravel()[0])
    at, axis = 0, axis % len(x.shape)
    for y in layer.outputs:
        count = 1 if layer.operator == "UNPACK" else y.shape[axis]
        view = whole(x)[(slice(None),) * axis + (slice(at, at + count),)]
        copy(layer, y, whole(y), x, view.squeeze(axis) if layer.operator == "UNPACK" else view)
        at += count


@operator("CONCATENATION", "PACK")
def concatenated(layer: Layer) -> None:
    """Copies several inputs to parts of the result."""
    y, axis, at = layer.outputs[0], layer.option("Axis") % len(layer.outputs[0].shape), 0
    layer.require(layer.option("FusedActivationFunction") == 0 if layer.operator != "PACK" else True, "an activation")
    for x in layer.inputs:
        count = 1 if layer.operator == "PACK" else x.shape[axis]
        view = whole(y)[(slice(None),) * axis + (slice(at, at + count),)]
        copy(layer, y, view.squeeze(axis) if layer.operator == "PACK" else view, x, whole(x))
        at += count


@operator("PAD", "PADV2")
def pad(layer: Layer) -> None:
    """Puts constants around a tensor."""
    x, y, pads = layer.inputs[0], layer.outputs[0], layer.constant(1)
    value = y.zero if layer.input(2) is None else int(layer.constant(2).ravel()[0])
    layer.body += loops({layer.pointer(y): whole(y)}, lambda y: f"{y} = {value};")
    inner = whole(y)[tuple(slice(int(b), int(b) + n) for (b, _), n in zip(pads, x.shape))]
    copy(layer, y, inner, x, whole(x))


@operator("RESIZE_NEAREST_NEIGHBOR")
def nearest(layer: Layer) -> None:
    """Resizes an image: each pixel is the nearest one."""
    x, y = layer.inputs[0], layer.outputs[0]
    layer.require(x.dtype == y.dtype == "int8" and (x.zero, x.scale) == (y.zero, y.scale), "another type or scale")
    places = []
    for axis in (1, 2):
        size, count = x.shape[axis], y.shape[axis]
        corners, half = layer.option("AlignCorners") and count > 1, layer.option("HalfPixelCenters")
        ratio = np.float32(size - 1) / np.float32(count - 1) if corners else np.float32(size) / np.float32(count)
        at = (np.arange(count, dtype="float32") + np.float32(0.5 if half else 0)) * ratio
        at = fixedpoint.rounded(at) if corners else np.floor(at)
        places.append(np.clip(at, 0, size - 1).astype(int))
    (rows, columns), depth = places, x.shape[3]
    table = (rows[:, None] * x.shape[2] + columns[None, :]).ravel() * depth
    size, count = x.shape[1] * x.shape[2] * depth, len(table)
    layer.body += [f"  for (int32_t i = 0; i < {x.shape[0] * count}; i++) {{",
                   f"    (void)memcpy({layer.pointer(y)} + i * {depth}, {layer.pointer(x)} + "
                   f"i / {count} * {size} + {layer.data(table, 'int32')}[i % {count}], {depth});", "  }"]  # fmt: skip


# Functions of one element, and of two.


def mapped(layer: Layer, function: Callable[[int], int]) -> None:
    """Computes a function of int8 by a table."""
    x, y = layer.inputs[0], layer.outputs[0]
    low, high = y.limits
    table = [max(low, min(high, function(int(v)))) for v in np.arange(256).astype("uint8").view(x.dtype)]
    looked_up(layer, np.array(table, y.dtype))


def looked_up(layer: Layer, table: np.ndarray) -> None:
    """Looks each element of 8 bits up in a table."""
    name = layer.data(table)
    unary(layer, lambda to, at: f"{to} = {name}[(uint8_t){at}];")


def unary(layer: Layer, statement: Callable[[str, str], str]) -> None:
    """Computes each element of the result from that of the input."""
    x, y = layer.inputs[0], layer.outputs[0]
    layer.body += loops({layer.pointer(y): whole(y), layer.pointer(x): whole(x)}, statement)


def each(layer: Layer, value: Callable[[str], str], limits: tuple[int, int] | None = None) -> None:
    """Computes a function of each element, of type int32_t in C."""
    unary(layer, lambda to, at: f"{to} = {limited(layer.outputs[0], value(at), limits)};")


@operator("QUANTIZE")
def quantize(layer: Layer) -> None:
    """Converts to integers of another scale."""
    x, y = layer.inputs[0], layer.outputs[0]
    if x.dtype == "float32":
        layer.require(y.dtype in ("int8", "int16"), f"float32 to {y.dtype}")
        (low, high), scale, ctype = y.limits, f"{float(y.scale).hex()}F", DTYPES[y.dtype][0]
        unary(layer, lambda to, at: (
            f"{to} = ({ctype})fminf(fmaxf(roundf({at} / {scale}) + {y.zero}, {low}), {high});"))
        return
    kinds = {"int8", "int16", "int32", "uint8"}
    layer.require({x.dtype, y.dtype} <= kinds and "uint8" not in (x.dtype, y.dtype)
                  or {x.dtype, y.dtype} == {"int8", "uint8"}, f"{x.dtype} to {y.dtype}")  # fmt: skip
    factor = ratio(y, x)
    if x.dtype in ("int8", "uint8"):
        mapped(layer, lambda v: fixedpoint.scaled(v - x.zero, *factor) + y.zero)
    else:
        each(layer, lambda v: plus(requantized(less(v, x.zero), factor), y.zero))


@operator("TABLE")
def table(layer: Layer) -> None:
    """Computes a function of 8 bits that is a constant: TensorFlow Lite has no such layer."""
    looked_up(layer, layer.constant(1))


@operator("DEQUANTIZE")
def dequantize(layer: Layer) -> None:
    """Converts integers to real numbers."""
    x, y = layer.inputs[0], layer.outputs[0]
    layer.require(y.dtype == "float32" and x.dtype in ("int8", "int16", "uint8"), f"{x.dtype} to {y.dtype}")
    unary(layer, lambda to, at: f"{to} = {float(x.scale).hex()}F * (float){less(at, x.zero)};")


@operator("LOGISTIC", "TANH")
def sigmoid(layer: Layer) -> None:
    """Computes the logistic function or tanh."""
    kind, x, y = types(layer), layer.inputs[0], layer.outputs[0]
    is_tanh = layer.operator == "TANH"
    if kind == "s16":
        _sigmoid16(layer, x, is_tanh)
        return
    layer.require((y.zero, float(y.scale)) == ((0, 1 / 128) if is_tanh else (-128, 1 / 256)), "another scale")
    fraction, shift = math.frexp(float(x.scale) * (1 << 27))
    factor, radius = math.floor(fraction * (1 << 31) + 0.5), math.floor(15 * 2.0 ** (27 - shift))
    curve, bits = (fixedpoint.tanh, 24) if is_tanh else (fixedpoint.logistic, 23)

    def value(v: int) -> int:
        v -= x.zero
        if abs(v) >= radius:
            return 127 if v > 0 else -128
        return fixedpoint.divided(curve(fixedpoint.scaled(v, factor, shift)), bits) + y.zero

    mapped(layer, value)


def _sigmoid16(layer: Layer, x: Tensor, is_tanh: bool) -> None:
    """Interpolates in CMSIS-NN's table of the logistic function."""
    y = layer.outputs[0]
    layer.require(x.zero == y.zero == 0 and float(y.scale) == 1 / 32768, "another scale")
    fraction, exponent = math.frexp(float(x.scale))
    power, shift = 12 + exponent - 1, 0
    if fraction == 0.5 and (power == 0 or power == 1 and is_tanh):
        factor = 3 << power
    else:
        real = float(x.scale) * 4096 * 3
        while real <= 32767 / 2 and shift <= 30:
            shift, real = shift + 1, real * 2
        factor = int(real)
    bits, top = (8, "(0xFFFF << 8)") if is_tanh else (9, "(0x7FFF << 10)")
    bias = 1 << (shift - 1) if shift else 0
    result = (f"(v >= 0 ? r - {(1 << 23) - 128} : {(1 << 23) + 127} - r) >> 8" if is_tanh else
              f"(v >= 0 ? r + 512 : {(1 << 25) + 511} - r) >> 10")  # fmt: skip
    layer.body += [f"  for (int32_t i = 0; i < {x.count}; i++) {{",
                   f"    const int32_t v = ({layer.pointer(x)}[i] * {factor} + {bias}) >> {shift};",
                   "    const int32_t a = v < 0 ? -v : v;",
                   f"    const int32_t u = a >> {bits};",
                   f"    const int32_t r = u >= 255 ? {top} : (sigmoid_table_uint16[u] << {bits}) +",
                   f"      (a & {(1 << bits) - 1}) * (sigmoid_table_uint16[u + 1] - sigmoid_table_uint16[u]);",
                   f"    {layer.pointer(y)}[i] = (int16_t)({result});", "  }"]  # fmt: skip


@operator("HARD_SWISH")
def hard_swish(layer: Layer) -> None:
    """Computes x * relu6(x + 3) / 6, with factors of 15 bits after the point."""
    types(layer, "int8")
    x, y, fine = layer.inputs[0], layer.outputs[0], np.float32(1 / 128) * layer.inputs[0].scale
    (factor, shift), (gate, left) = (fixedpoint.multiplier(float(fine / s))
                                     for s in (y.scale, np.float32(3) / np.float32(32768)))  # fmt: skip
    layer.require(shift <= 0, "a scale of the result that is so much smaller than that of the input")
    short = functools.partial(fixedpoint.limited, bits=16)

    def value(v: int) -> int:
        v = (v - x.zero) << 7
        real = fixedpoint.high(v, fixedpoint.narrow(factor), 15)
        v = short(v << max(left - 1, 0))
        v = fixedpoint.high(v, fixedpoint.narrow(gate), 15)
        v = fixedpoint.divided(short(v << (left > 0)), max(-left, 0))
        return fixedpoint.divided(int(((v + (1 << 15)) >> 1) * real / (1 << 15)), -shift) + y.zero

    mapped(layer, value)


@operator("RELU", "RELU6", "LEAKY_RELU")
def relu(layer: Layer) -> None:
    """Limits elements, or scales those below zero."""
    kind, x, y = types(layer), layer.inputs[0], layer.outputs[0]
    factor = ratio(y, x)
    if layer.operator == "RELU6":
        six = min(x.limits[1], x.zero + int(fixedpoint.rounded(np.float32(6) / x.scale)))
        if kind == "s8":
            mapped(layer, lambda v: max(x.zero, min(six, v)))
        else:
            each(layer, lambda v: v, (x.zero, six))
    elif layer.operator == "RELU":
        low = max(y.limits[0], y.zero)
        if kind == "s8":
            mapped(layer, lambda v: max(low, fixedpoint.scaled(v - x.zero, *factor) + y.zero))
        else:
            each(layer, lambda v: plus(requantized(less(v, x.zero), factor), y.zero), (low, y.limits[1]))
    else:
        alpha = fixedpoint.multiplier(float(x.scale) * layer.option("Alpha") / float(y.scale))
        if kind == "s8":
            mapped(layer, lambda v: y.zero + fixedpoint.scaled(v - x.zero, *(factor if v >= x.zero else alpha)))
        else:
            each(layer, lambda v: plus(f"({v} >= {x.zero} ? {requantized(less(v, x.zero), factor)} : "
                                       f"{requantized(less(v, x.zero), alpha)})", y.zero))  # fmt: skip


def paired(layer: Layer, value: Callable[[str, str], str], limits: tuple[int, int]) -> None:
    """Computes a function of elements of two tensors, whose shapes are broadcast."""
    (a, b), y = layer.inputs, layer.outputs[0]
    views = {layer.pointer(y): whole(y)}
    elements = [np.broadcast_to(whole(t), y.shape) for t in (a, b)]
    names = [layer.pointer(t) for t in (a, b)]
    if names[0] == names[1]:
        layer.body += loops(views | {names[0]: elements[0]}, lambda to, v: f"{to} = {limited(y, value(v, v), limits)};")
        return
    layer.body += loops(views | dict(zip(names, elements)),
                        lambda to, v, w: f"{to} = {limited(y, value(v, w), limits)};")  # fmt: skip


@operator("ADD", "SUB")
def add(layer: Layer) -> None:
    """Computes a sum or a difference."""
    kind, (a, b), y = types(layer), layer.inputs, layer.outputs[0]
    layer.require(a.dtype == b.dtype, f"{a.dtype} and {b.dtype}")
    limits, left = activation(layer, y), 20 if kind == "s8" else 15
    twice = 2 * max(float(a.scale), float(b.scale))
    ratios = [float(t.scale) / twice for t in (a, b)] + [twice / ((1 << left) * float(y.scale))]
    factors = [fixedpoint.multiplier(r) for r in ratios]
    if layer.operator == "ADD" and a.shape == b.shape == y.shape:
        terms = [f"{-t.zero}, {m}, {s}" for t, (m, s) in zip((a, b), factors)]
        call(layer, f"arm_elementwise_add_{kind}", layer.pointer(a), layer.pointer(b), *terms, left, layer.pointer(y),
             y.zero, *factors[2], *limits, y.count)  # fmt: skip
        return

    def value(v: str, w: str) -> str:
        parts = [requantized(f"{less(e, t.zero)} * {1 << left}", f) for e, t, f in zip((v, w), (a, b), factors)]
        return plus(requantized(f"{parts[0]} {'+' if layer.operator == 'ADD' else '-'} {parts[1]}", factors[2]), y.zero)

    paired(layer, value, limits)


@operator("MUL")
def multiply(layer: Layer) -> None:
    """Computes a product of elements."""
    kind, (a, b), y = types(layer), layer.inputs, layer.outputs[0]
    layer.require(a.dtype == b.dtype, f"{a.dtype} and {b.dtype}")
    factor, limits = ratio(y, a, b), activation(layer, y)
    if a.shape == b.shape == y.shape:
        call(layer, f"arm_elementwise_mul_{kind}", layer.pointer(a), layer.pointer(b), -a.zero, -b.zero,
             layer.pointer(y), y.zero, *factor, *limits, y.count)  # fmt: skip
        return
    paired(layer, lambda v, w: plus(requantized(f"{less(v, a.zero)} * {less(w, b.zero)}", factor), y.zero), limits)


@operator("MAXIMUM", "MINIMUM")
def extreme(layer: Layer) -> None:
    """Computes the larger or the smaller of two elements."""
    (a, b), y = layer.inputs, layer.outputs[0]
    types(layer)
    layer.require((a.scale, a.zero) == (b.scale, b.zero) == (y.scale, y.zero), "another scale of a tensor")
    sign = ">" if layer.operator == "MAXIMUM" else "<"
    paired(layer, lambda v, w: f"{v} {sign} {w} ? {v} : {w}", y.limits)


@operator("MEAN", "SUM")
def mean(layer: Layer) -> None:
    """Computes means or sums along axes."""
    types(layer)
    x, y = layer.inputs[0], layer.outputs[0]
    axes = sorted({int(i) % len(x.shape) for i in layer.constant(1).ravel()})
    kept = [i for i in range(len(x.shape)) if i not in axes]
    view, count = whole(x), math.prod(x.shape[i] for i in axes)
    factor, shift = ratio(y, x)
    if layer.operator == "MEAN":
        bits = min(count.bit_length() - 1, 32, 31 + shift)
        factor, shift = (factor << bits) // count, shift - bits
    inner = [f"int32_t sum = {-x.zero * count};"]
    strides = [(x.shape[i], view.strides[i]) for i in axes if x.shape[i] > 1]
    inner += [f"for (int32_t k{d} = 0; k{d} < {n}; k{d}++) {{" for d, (n, _) in enumerate(strides)]
    place = " + ".join([f"k{d} * {s}" for d, (_, s) in enumerate(strides)] or ["0"])

    def statement(to: str, at: str) -> str:
        added = f"sum += {at[:-1]} + {place}];"
        total = plus(requantized("sum", (factor, shift)), y.zero)
        return "\n    ".join([*inner, added, *"}" * len(strides), f"{to} = {limited(y, total)};"])

    results = np.empty([x.shape[i] for i in kept], "int8")
    source = view.transpose(kept + axes)[(...,) + (0,) * len(axes)]
    scope = loops({layer.pointer(y): results, layer.pointer(x): source}, statement)
    layer.body += ["  {", *scope, "  }"]

"""Layers of TensorFlow Lite as C: calls of Arm's CMSIS-NN, and loops for what it lacks. Both compute what TensorFlow
Lite Micro's kernels do, bit by bit. Buffers are as large as CMSIS-NN takes on cores without Helium: on others, where
one may be larger, a layer returns -1."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import fixedpoint
from .plan import DTYPES

if TYPE_CHECKING:
    from .lite import Layer, Tensor

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
    """Returns the limits of a result, with those of the activation that follows the layer."""
    kind, (least, most) = layer.option("FusedActivationFunction"), result.limits
    bounds = {0: (None, None), 1: (0, None), 2: (-1, 1), 3: (0, 6)}
    layer.require(kind in bounds, f"activation {kind}")
    low, high = (None if x is None else result.zero + int(fixedpoint.rounded(np.float32(x) / result.scale))
                 for x in bounds[kind])  # fmt: skip
    return least if low is None else max(least, low), most if high is None else min(most, high)


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


# Convolutions, dense layers and pooling.


def window(layer: Layer, x: Tensor, y: Tensor, kernel: Sequence[int]) -> tuple[list[int], str, list[int]]:
    """Returns the padding before the first row and column; strides, padding and dilations in C; and dilations."""
    strides = [layer.option("StrideH", 1), layer.option("StrideW", 1)]
    has_dilation = hasattr(layer.options, "DilationHFactor")
    dilations = [layer.options.DilationHFactor(), layer.options.DilationWFactor()] if has_dilation else [1, 1]
    pads = []
    for axis, (stride, dilation, size) in enumerate(zip(strides, dilations, kernel), 1):
        span = (size - 1) * dilation + 1
        total = max((y.dims()[axis] - 1) * stride + span - x.dims()[axis], 0)
        pads.append(total // 2 if layer.option("Padding") == 0 else 0)
    pairs = {"stride": strides, "padding": pads} | ({"dilation": dilations} if has_dilation else {})
    return pads, ", ".join(f".{n} = {{.w = {w}, .h = {h}}}" for n, (h, w) in pairs.items()), dilations


def factors(layer: Layer, x: Tensor, weights: Tensor, y: Tensor, channels: int) -> tuple[str, str]:
    """Returns the constants with a factor and a shift for each channel."""
    scales = weights.scales if len(weights.scales) > 1 else np.repeat(weights.scales, channels)
    layer.require(len(scales) == channels, f"{len(scales)} scales of {channels} channels")
    pairs = [fixedpoint.multiplier(float(x.scale) * float(s) / float(y.scale)) for s in scales]
    return layer.data([m for m, _ in pairs], "int32"), layer.data([s for _, s in pairs], "int32")


def bias_of(layer: Layer, index: int, kind: str) -> str:
    """Returns the pointer to a bias, NULL without one. That of int16 layers has 64 bits."""
    bias = layer.input(index)
    if bias is None:
        return "NULL"
    return layer.data(layer.constant(index), "int64" if kind == "s16" else "int32")


def filtered(layer: Layer, params: str, more: str, channels: int) -> tuple[list[str], list[str]]:
    """Returns the arguments of a convolution in CMSIS-NN's order, and those for the size of its buffer."""
    x, weights, y = layer.inputs[0], layer.inputs[1], layer.outputs[0]
    low, high = activation(layer, y)
    fields = f".input_offset = {-x.zero}, .output_offset = {y.zero}, {more}, .activation = {{{low}, {high}}}"
    multipliers, shifts = factors(layer, x, weights, y, channels)
    # The struct has pointers to variables, which the functions only read.
    scales = struct("cmsis_nn_per_channel_quant_params", f"(int32_t*){multipliers}, (int32_t*){shifts}")
    sized = [struct(params, fields), *(dims(*t.dims()) for t in (x, weights, y))]
    kind = types(layer)
    bias = bias_of(layer, 2, kind)
    if kind == "s16" and params == "cmsis_nn_conv_params":
        bias = struct("cmsis_nn_bias_data", f"{bias}, false")
    arguments = ["&c", sized[0], scales, sized[1], layer.pointer(x), sized[2], layer.data(layer.constant(1)),
                 dims(1, 1, 1, channels), bias, sized[3], layer.pointer(y)]  # fmt: skip
    layer.require(weights.dtype == "int8" and weights.zero == 0, f"weights of {weights.dtype}")
    return arguments, sized


@operator("CONV_2D")
def conv(layer: Layer) -> None:
    """Computes a convolution."""
    kind, x, weights, y = types(layer), layer.inputs[0], layer.inputs[1], layer.outputs[0]
    channels, height, width, _ = weights.dims()
    pads, more, dilations = window(layer, x, y, (height, width))
    arguments, sized = filtered(layer, "cmsis_nn_conv_params", more, channels)
    columns = height * width * x.dims()[3]
    scratch = 4 * columns
    if kind == "s8":
        is_point = (height, width, *pads, *dilations) == (1, 1, 0, 0, 1, 1)
        scratch = 0 if is_point else 16 * -(-columns // 4)
    name = f"arm_convolve_wrapper_{kind}"
    call(layer, name, *arguments, scratch=scratch, size=f"{name}_get_buffer_size({', '.join(sized)})")


@operator("DEPTHWISE_CONV_2D")
def depthwise(layer: Layer) -> None:
    """Computes a convolution of each channel."""
    kind, x, weights, y = types(layer), layer.inputs[0], layer.inputs[1], layer.outputs[0]
    _, height, width, channels = weights.dims()
    pads, more, dilations = window(layer, x, y, (height, width))
    factor = channels // x.dims()[3]
    arguments, sized = filtered(layer, "cmsis_nn_dw_conv_params", f".ch_mult = {factor}, {more}", channels)
    is_fast = factor == 1 and dilations == [1, 1]
    if kind == "s8":
        is_fast = is_fast and x.dims()[0] == 1 and not ((height, width) == (3, 3) and max(pads) <= 1)
    scratch = 2 * channels * height * width if is_fast else 0
    name = f"arm_depthwise_conv_wrapper_{kind}"
    call(layer, name, *arguments, scratch=scratch, size=f"{name}_get_buffer_size({', '.join(sized)})")


@operator("FULLY_CONNECTED")
def dense(layer: Layer) -> None:
    """Computes a dense layer."""
    kind, x, weights, y = types(layer), layer.inputs[0], layer.inputs[1], layer.outputs[0]
    layer.require(weights.dtype == "int8", f"weights of {weights.dtype}")
    layer.require(layer.option("WeightsFormat") == 0, "a format of weights of its own")
    count, depth = weights.shape
    low, high = activation(layer, y)
    params = struct("cmsis_nn_fc_params", f".input_offset = {-x.zero}, .filter_offset = {-weights.zero}, "
                    f".output_offset = {y.zero}, .activation = {{{low}, {high}}}")  # fmt: skip
    function = f"arm_fully_connected_{kind}"
    if len(weights.scales) == 1:
        product = float(x.scale * weights.scale)  # of two float32
        factor, shift = fixedpoint.multiplier(product / float(y.scale))
        scales = struct("cmsis_nn_per_tensor_quant_params", f"{factor}, {shift}")
    else:
        layer.require(kind == "s8", "a scale for each channel")
        function = "arm_fully_connected_wrapper_s8"
        pair = factors(layer, x, weights, y, count)
        scales = struct("cmsis_nn_quant_params", f"(int32_t*){pair[0]}, (int32_t*){pair[1]}, 1")
    batches, shape = x.count // depth, dims(depth, 1, 1, count)
    call(layer, function, "&c", params, scales, dims(batches, 1, 1, depth), layer.pointer(x), shape,
         layer.pointer(weights), dims(1, 1, 1, count), bias_of(layer, 2, kind), dims(batches, 1, 1, count),
         layer.pointer(y), size=f"arm_fully_connected_{kind}_get_buffer_size({shape})")  # fmt: skip


@operator("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool(layer: Layer) -> None:
    """Computes the mean or the maximum of windows."""
    kind, x, y = types(layer), layer.inputs[0], layer.outputs[0]
    kernel = layer.option("FilterHeight"), layer.option("FilterWidth")
    _, more, _ = window(layer, x, y, kernel)
    low, high = activation(layer, y)
    params = struct("cmsis_nn_pool_params", f"{more}, .activation = {{{low}, {high}}}")
    shapes = dims(*x.dims()), dims(1, *kernel, 1), dims(*y.dims())
    if layer.operator == "MAX_POOL_2D":
        call(layer, f"arm_max_pool_{kind}", "&c", params, shapes[0], layer.pointer(x), *shapes[1:], layer.pointer(y))
        return
    channels = x.dims()[3]
    call(layer, f"arm_avgpool_{kind}", "&c", params, shapes[0], layer.pointer(x), *shapes[1:], layer.pointer(y),
         scratch=4 * channels, size=f"arm_avgpool_{kind}_get_buffer_size({y.dims()[2]}, {channels})")  # fmt: skip


@operator("TRANSPOSE_CONV")
def transposed(layer: Layer) -> None:
    """Computes a transposed convolution."""
    weights, x, y = layer.inputs[1], layer.inputs[2], layer.outputs[0]
    layer.inputs[0] = x  # which was the result's shape
    kind = types(layer)
    strides = layer.option("StrideH", 1), layer.option("StrideW", 1)
    channels, *kernel, depth = weights.dims()
    pads, odd = [], []
    for axis in (0, 1):
        size = y.dims()[axis + 1]
        count = -(-size // strides[axis])
        total = max((count - 1) * strides[axis] + kernel[axis] - size, 0) if layer.option("Padding") == 0 else 0
        pads.append(total // 2)
        odd.append(total // 2 + total % 2)
    low, high = activation(layer, y)
    bias = bias_of(layer, 3, kind)
    is_reversed = max(strides) <= 2 and depth > 16
    # The library's other way writes all rows of an input at once, without regard to the result's size.
    rows, columns = (x.dims()[i] * strides[i - 1] for i in (1, 2))
    fits = pads[0] % strides[0] == 0 and rows - pads[0] <= y.dims()[1] and \
        pads[1] + y.dims()[2] <= columns + max(kernel[1] - strides[1], 0)
    if kind == "s16" or not (is_reversed or fits):
        _gathered(layer, strides, pads, bias, (low, high))
        return

    pairs = {"stride": strides, "padding": pads, "padding_offsets": odd, "dilation": (1, 1)}
    more = ", ".join(f".{n} = {{.w = {w}, .h = {h}}}" for n, (h, w) in pairs.items())
    params = struct("cmsis_nn_transpose_conv_params", f".input_offset = {-x.zero}, .output_offset = {y.zero}, {more}, "
                    f".activation = {{{low}, {high}}}")  # fmt: skip
    multipliers, shifts = factors(layer, x, weights, y, channels)
    scales = struct("cmsis_nn_per_channel_quant_params", f"(int32_t*){multipliers}, (int32_t*){shifts}")
    shapes = [dims(*t.dims()) for t in (x, weights, y)]
    columns = kernel[0] * kernel[1] * depth
    width = (x.dims()[2] - 1) * strides[1] + max(kernel[1], *strides)
    scratch = 16 * -(-columns // 4) if is_reversed else 4 * width * channels * max(kernel[0], strides[0])
    reverse = columns * channels if is_reversed else 0
    layer.body.append(f"  const cmsis_nn_context r = {{{layer.scratch(reverse)}, {reverse}}};")
    call(layer, "arm_transpose_conv_wrapper_s8", "&c", "&r", params, scales, shapes[0], layer.pointer(x), shapes[1],
         layer.data(layer.constant(1)), dims(1, 1, 1, channels), bias, shapes[2], layer.pointer(y), scratch=scratch,
         size=f"arm_transpose_conv_s8_get_buffer_size({params}, {', '.join(shapes)})")  # fmt: skip


def _gathered(
    layer: Layer, strides: Sequence[int], pads: Sequence[int], bias: str, limits: tuple[int, int]
) -> None:
    """Computes a transposed convolution: each result is a sum of the inputs that reach it."""
    weights, x, y = layer.inputs[1], layer.inputs[2], layer.outputs[0]
    n, height, width, channels = y.dims()
    _, rows, columns, depth = weights.dims()
    is_wide = x.dtype == "int16"
    pairs = [fixedpoint.multiplier(float(x.scale) * float(s) / float(y.scale))
             for s in np.broadcast_to(weights.scales, channels)]  # fmt: skip
    # Sums of 64 bits are scaled by 15 bits.
    multipliers = [min((m + (1 << 15)) >> 16, 0x7FFF) if is_wide else m for m, _ in pairs]
    scale = "arm_nn_requantize_s64" if is_wide else "arm_nn_requantize"
    scaled = f"{scale}(sum, {layer.data(multipliers, 'int32')}[c], {layer.data([s for _, s in pairs], 'int32')}[c])"
    start = "0" if bias == "NULL" else f"{bias}[c]"
    source, kernel, result = layer.pointer(x), layer.data(layer.constant(1)), layer.pointer(y)
    layer.body += f"""\
  for (int32_t i = 0; i < {n * height * width}; i++) {{
    const int32_t row = i / {width} % {height}, column = i % {width};
    for (int32_t c = 0; c < {channels}; c++) {{
      {"int64_t" if is_wide else "int32_t"} sum = {start};
      for (int32_t ky = 0; ky < {rows}; ky++) {{
        const int32_t y = row + {pads[0]} - ky;
        if (y < 0 || y % {strides[0]} != 0 || y >= {x.dims()[1] * strides[0]}) {{
          continue;
        }}
        for (int32_t kx = 0; kx < {columns}; kx++) {{
          const int32_t x = column + {pads[1]} - kx;
          if (x < 0 || x % {strides[1]} != 0 || x >= {x.dims()[2] * strides[1]}) {{
            continue;
          }}
          const int32_t line = i / {height * width} * {x.dims()[1]} + y / {strides[0]};
          const {DTYPES[x.dtype][0]}* in = {source} + (line * {x.dims()[2]} + x / {strides[1]}) * {depth};
          const int8_t* w = {kernel} + ((c * {rows} + ky) * {columns} + kx) * {depth};
          for (int32_t k = 0; k < {depth}; k++) {{
            sum += {less("(int32_t)in[k]", x.zero)} * w[k];
          }}
        }}
      }}
      {result}[i * {channels} + c] = {limited(y, plus(scaled, y.zero), limits)};
    }}
  }}""".split("\n")


@operator("BATCH_MATMUL")
def matmul(layer: Layer) -> None:
    """Multiplies two tensors."""
    kind, x, w, y = types(layer), layer.inputs[0], layer.inputs[1], layer.outputs[0]
    layer.require(w.dtype == x.dtype, f"{x.dtype} by {w.dtype}")
    factor, shift = fixedpoint.multiplier(float(x.scale * w.scale) / float(y.scale))
    low, high = y.limits
    views = []
    for tensor, is_swapped in ((x, layer.option("AdjX")), (w, not layer.option("AdjY"))):
        view = whole(tensor).swapaxes(-1, -2) if is_swapped else whole(tensor)
        name = layer.pointer(tensor) if tensor.values is None or not is_swapped else \
            layer.data(tensor.values.swapaxes(-1, -2))
        if is_swapped and tensor.values is None:  # the library multiplies rows by rows
            size = tensor.count * DTYPES[tensor.dtype][1]
            copy = layer.scratch(size, DTYPES[tensor.dtype][0])
            layer.body += copied(view.shape, tensor.dtype, (copy, np.empty(view.shape, "int8")), (name, view))
            name = copy
        views.append((name, dims(*((1,) * (4 - view.ndim) + view.shape))))
    params = struct("cmsis_nn_bmm_params", f"false, false, {{{-x.zero}, {-w.zero}, {y.zero}, {{{low}, {high}}}}}")
    scales = struct("cmsis_nn_per_tensor_quant_params", f"{factor}, {shift}")
    call(layer, f"arm_batch_matmul_{kind}", "&c", params, scales, views[0][1], views[0][0], views[1][1], views[1][0],
         dims(*y.dims()), layer.pointer(y))  # fmt: skip


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
    dtype = np.dtype(y.dtype)
    table = [max(low, min(high, function(int(v)))) for v in np.arange(256).astype("uint8").view(x.dtype)]
    name = layer.data(table, str(dtype))
    layer.body += loops({layer.pointer(y): whole(y), layer.pointer(x): whole(x)},
                        lambda y, x: f"{y} = {name}[(uint8_t){x}];")  # fmt: skip


def each(layer: Layer, value: Callable[[str], str], limits: tuple[int, int] | None = None) -> None:
    """Computes a function of each element, of type int32_t in C."""
    x, y = layer.inputs[0], layer.outputs[0]
    layer.body += loops({layer.pointer(y): whole(y), layer.pointer(x): whole(x)},
                        lambda to, at: f"{to} = {limited(y, value(at), limits)};")  # fmt: skip


@operator("QUANTIZE")
def quantize(layer: Layer) -> None:
    """Converts to integers of another scale."""
    x, y = layer.inputs[0], layer.outputs[0]
    if x.dtype == "float32":
        layer.require(y.dtype in ("int8", "int16"), f"float32 to {y.dtype}")
        low, high = y.limits
        scale = f"{float(y.scale).hex()}F"
        ctype = DTYPES[y.dtype][0]
        layer.body += loops({layer.pointer(y): whole(y), layer.pointer(x): whole(x)}, lambda to, at: (
            f"{to} = ({ctype})fminf(fmaxf(roundf({at} / {scale}) + {y.zero}, {low}), {high});"))  # fmt: skip
        return
    kinds = {"int8", "int16", "int32", "uint8"}
    layer.require({x.dtype, y.dtype} <= kinds and "uint8" not in (x.dtype, y.dtype)
                  or {x.dtype, y.dtype} == {"int8", "uint8"}, f"{x.dtype} to {y.dtype}")  # fmt: skip
    factor = fixedpoint.multiplier(float(x.scale) / float(y.scale))
    if x.dtype in ("int8", "uint8"):
        mapped(layer, lambda v: fixedpoint.scaled(v - x.zero, *factor) + y.zero)
    else:
        each(layer, lambda v: plus(requantized(less(v, x.zero), factor), y.zero))


@operator("DEQUANTIZE")
def dequantize(layer: Layer) -> None:
    """Converts integers to real numbers."""
    x, y = layer.inputs[0], layer.outputs[0]
    layer.require(y.dtype == "float32" and x.dtype in ("int8", "int16", "uint8"), f"{x.dtype} to {y.dtype}")
    layer.body += loops({layer.pointer(y): whole(y), layer.pointer(x): whole(x)}, lambda to, at: (
        f"{to} = {float(x.scale).hex()}F * (float){less(at, x.zero)};"))  # fmt: skip


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


@operator("RELU", "RELU6", "LEAKY_RELU")
def relu(layer: Layer) -> None:
    """Limits elements, or scales those below zero."""
    kind, x, y = types(layer), layer.inputs[0], layer.outputs[0]
    factor = fixedpoint.multiplier(float(x.scale) / float(y.scale))
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
    factor, limits = fixedpoint.multiplier(float(a.scale) * float(b.scale) / float(y.scale)), activation(layer, y)
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
    factor, shift = fixedpoint.multiplier(float(x.scale) / float(y.scale))
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


@operator("SOFTMAX")
def softmax(layer: Layer) -> None:
    """Computes softmax along the last axis."""
    x, y = layer.inputs[0], layer.outputs[0]
    kinds, beta = (x.dtype, y.dtype), float(np.float32(layer.option("Beta", 1.0)))
    expected = {("int8", "int8"): (1 / 256, -128), ("int8", "int16"): (1 / 65536, -32768),
                ("int16", "int16"): (1 / 32768, 0)}.get(kinds)  # fmt: skip
    layer.require(expected is not None, f"{x.dtype} to {y.dtype}")
    close = abs(float(y.scale) - expected[0]) <= 0.001 * expected[0]
    layer.require(y.zero == expected[1] and close, f"a scale of the result other than {expected[0]}")
    row = x.shape[-1]
    if x.dtype == "int16":
        factor, shift = fixedpoint.multiplier(float(x.scale) * beta / (10.0 / 65535.0))
        exp = fixedpoint.curve(np.exp, *_ranges(10, 32767, 2))
        inverse = fixedpoint.curve(lambda v: np.float32(1) / (np.float32(1) + v), *_ranges(1, -32768, 2))
        tables = struct("cmsis_nn_softmax_lut_s16", f"{layer.data(exp)}, {layer.data(inverse)}")
        call(layer, "arm_softmax_s16", layer.pointer(x), x.count // row, row, factor, shift, tables, layer.pointer(y))
        return
    factor, shift = fixedpoint.multiplier(min(beta * float(x.scale) * (1 << 26), (1 << 31) - 1))
    least = -(31 * (1 << 26) // (1 << shift))
    name = "arm_softmax_s8" if y.dtype == "int8" else "arm_softmax_s8_s16"
    call(layer, name, layer.pointer(x), x.count // row, row, factor, shift, least, layer.pointer(y))


def _ranges(width: float, zero: int, result: float) -> tuple[tuple[np.float32, ...], tuple[np.float32, ...]]:
    """Returns the real limits of int16 of the width and the zero point, and of a result around 0."""
    step, out = np.float32(width) / np.float32(65535), np.float32(result) / np.float32(65535)
    return (tuple(step * np.float32(v - zero) for v in (-32768, 32767)),
            tuple(out * np.float32(v) for v in (-32768, 32767)))  # fmt: skip


# Layers with a state.


@operator("SVDF")
def svdf(layer: Layer) -> None:
    """Computes a filter of the last inputs."""
    x, feature, time, bias, state = layer.inputs
    y = layer.outputs[0]
    types(layer, "int8")
    layer.require(bias is not None, "a layer without a bias")
    layer.require(state.dtype == time.dtype, f"a state of {state.dtype} with weights of {time.dtype}")
    (batch, size), filters, memory, rank = x.shape, feature.shape[0], time.shape[1], layer.option("Rank")
    first = fixedpoint.multiplier(float(x.scale) * float(feature.scale) / float(state.scale))
    second = fixedpoint.multiplier(float(state.scale) * float(time.scale) / float(y.scale))
    units = filters // rank
    source, result, kept = layer.pointer(x), layer.pointer(y), layer.state(state)
    weights, biases = [layer.data(layer.constant(i)) for i in (1, 2)], layer.data(layer.constant(3))
    if state.dtype == "int16":
        params = struct("cmsis_nn_svdf_params", f"{rank}, {x.zero}, {y.zero}, {{-32768, 32767}}, {{-128, 127}}")
        scales = [struct("cmsis_nn_per_tensor_quant_params", f"{m}, {s}") for m, s in (first, second)]
        sizes = 4 * batch * filters, 4 * batch * units
        buffers = [struct("cmsis_nn_context", f"{layer.scratch(n)}, {n}") for n in sizes]
        call(layer, "arm_svdf_state_s16_s8", *buffers, params, *scales, dims(batch, size, 0, 0), source,
             dims(batch, memory * filters, 0, 0), kept, dims(filters, size, 0, 0), weights[0],
             dims(filters, memory, 0, 0), weights[1], dims(units, 1, 1, 1), biases, dims(batch, units, 0, 0),
             result)  # fmt: skip
        return

    # CMSIS-NN's function takes no zero point of the state.
    feature_sum = limited(state, requantized("sum", first), (-128, 127))
    layer.body += f"""\
  (void)memmove({kept}, {kept} + 1, sizeof({kept}) - 1);
  for (int32_t i = 0; i < {batch * units}; i++) {{
    int32_t total = {biases}[i % {units}];
    for (int32_t f = 0; f < {rank}; f++) {{
      const int32_t row = i % {units} * {rank} + f;
      int8_t* last = {kept} + (i / {units} * {filters} + row) * {memory};
      int32_t sum = 0;
      for (int32_t k = 0; k < {size}; k++) {{
        sum += {weights[0]}[row * {size} + k] * {less(f"{source}[i / {units} * {size} + k]", x.zero)};
      }}
      last[{memory - 1}] = (int8_t)({plus(feature_sum, state.zero)});
      for (int32_t k = 0; k < {memory}; k++) {{
        total += {weights[1]}[row * {memory} + k] * {less("last[k]", state.zero)};
      }}
    }}
    {result}[i] = {limited(y, plus(requantized("total", second), y.zero))};
  }}""".split("\n")


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(layer: Layer) -> None:
    """Computes an LSTM, whose states are kept between runs."""
    x, y, hidden, cell = layer.inputs[0], layer.outputs[0], layer.inputs[18], layer.inputs[19]
    kind = types(layer)
    layer.require(all(layer.input(i) is None for i in (9, 10, 11, 16, 17, 20, 21, 22, 23)),
                  "a peephole, a projection or a normalization")  # fmt: skip
    layer.require(cell.dtype == "int16" and math.frexp(float(cell.scale))[0] == 0.5, "a scale of the cell's state")
    is_time_major, (first, second, size) = layer.option("TimeMajor"), x.shape
    batch, steps = (second, first) if is_time_major else (first, second)
    units = hidden.shape[1]
    layer.require(batch == 1 or is_time_major, "several batches, one after the other,")
    count, ctype = batch * units, DTYPES[x.dtype][0]
    source, result, kept, memory = layer.pointer(x), layer.pointer(y), layer.state(hidden), layer.state(cell)
    first, second, third = (layer.scratch(2 * count, "int16_t") for _ in range(3))

    def gate(index: int, target: str, function: str) -> str:
        """Returns C of a gate. CMSIS-NN's own adds the two products before the second one is limited."""
        calls = []
        for at, end, weights, bias, to in ((x, f"{source} + t * {batch * size}", index, index + 11, target),
                                           (hidden, "hidden", index + 4, None, third)):  # fmt: skip
            factor = fixedpoint.multiplier(float(at.scale) * float(layer.inputs[weights].scale) / 2.0**-12)
            values = layer.constant(weights)
            sums = -at.zero * values.astype("int64").sum(axis=1) + (0 if bias is None else layer.constant(bias))
            effective = layer.data(sums, "int32" if kind == "s8" else "int64")
            calls.append(f"""\
    (void)memset({to}, 0, {2 * count});
    arm_nn_vec_mat_mul_result_acc_{"s8_s16" if kind == "s8" else kind}({end}, {layer.data(values)}, {effective}, {to},
      {factor[0]}, {factor[1]}, {values.shape[1]}, {units}, {batch}, 1);
""")
        return "".join(calls) + f"""\
    for (int32_t i = 0; i < {count}; i++) {{
      {target}[i] = (int16_t)limit({target}[i] + {third}[i], -32768, 32767);
    }}
    arm_nn_activation_s16({target}, {target}, {count}, 0, {function});
"""

    step, scale = 2.0**-15, float(cell.scale)
    kept_factor, new_factor, out_factor = (", ".join(map(str, fixedpoint.multiplier(r))) for r in (
        step * scale / scale, step * step / scale, step * step / float(hidden.scale)))  # fmt: skip
    clip = int(min(float(np.float32(layer.option("CellClip"))) / scale, 32767.0)) or 32767
    narrow = "arm_elementwise_mul_s16_s8" if kind == "s8" else "arm_elementwise_mul_s16_batch_offset"
    layer.body += f"""\
  const {ctype}* hidden = {kept};
  for (int32_t t = 0; t < {steps}; t++) {{
    {ctype}* out = {result} + t * {count};
{gate(2, first, "ARM_SIGMOID")}\
    arm_elementwise_mul_s16({first}, {memory}, 0, 0, {memory}, 0, {kept_factor}, -32768, 32767, {count});
{gate(1, first, "ARM_SIGMOID")}\
{gate(3, second, "ARM_TANH")}\
    arm_elementwise_mul_acc_s16({first}, {second}, 0, 0, {memory}, 0, {new_factor}, {-clip}, {clip}, {count});
{gate(4, first, "ARM_SIGMOID")}\
    arm_nn_activation_s16({memory}, {second}, {count}, {math.frexp(scale)[1] + 11}, ARM_TANH);
    {narrow}({first}, {second}, out, {hidden.zero}, {out_factor}, {units}, {batch}, 1);
    hidden = out;
  }}
  (void)memcpy({kept}, hidden, sizeof({kept}));""".split("\n")

"""Layers with weights, windows or a state as calls of Arm's CMSIS-NN, and as loops for what it lacks.

Buffers are as large as CMSIS-NN takes on cores without Helium: on others, where one may be larger, a layer returns -1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from . import fixedpoint
from .elements import (activation, call, copied, dims, less, limited, operator, plus, ratio, requantized, struct,
                       types, whole)  # fmt: skip
from .plan import DTYPES

if TYPE_CHECKING:
    from .layers import Layer, Tensor

# Convolutions, dense layers and pooling.


def window(layer: Layer, x: Tensor, y: Tensor, kernel: Sequence[int]) -> tuple[list[int], str, list[int]]:
    """Returns the padding before the first row and column; strides, padding and dilations in C; and dilations."""
    strides, dilations = ([layer.option(name, 1) for name in names] for names in (
        ("StrideH", "StrideW"), ("DilationHFactor", "DilationWFactor")))  # fmt: skip
    if (pads := layer.option("Pads", None)) is None:
        is_same = layer.option("Padding") == 0
        pads = [is_same * max((out - 1) * stride + (size - 1) * dilation + 1 - n, 0) // 2
                for out, stride, size, dilation, n in zip(y.dims()[1:], strides, kernel, dilations, x.dims()[1:])]
    pairs = {"stride": strides, "padding": pads} | ({} if "POOL" in layer.operator else {"dilation": dilations})
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
    channels, height, width, depth = weights.dims()
    pads, more, dilations = window(layer, x, y, (height, width))
    arguments, sized = filtered(layer, "cmsis_nn_conv_params", more, channels)
    columns = height * width * x.dims()[3]
    scratch = 4 * columns
    if kind == "s8":
        is_point = (height, width, *pads, *dilations, depth) == (1, 1, 0, 0, 1, 1, x.dims()[3])
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
    pads, more, _ = window(layer, y, x, kernel)
    ends = [max((n - 1) * stride + size - out - pad, 0) for n, stride, size, out, pad
            in zip(x.dims()[1:], strides, kernel, y.dims()[1:], pads)]  # fmt: skip
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

    params = struct("cmsis_nn_transpose_conv_params", f".input_offset = {-x.zero}, .output_offset = {y.zero}, {more}, "
                    f".padding_offsets = {{.w = {ends[1]}, .h = {ends[0]}}}, .activation = {{{low}, {high}}}")
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
    multipliers = [fixedpoint.narrow(m) if is_wide else m for m, _ in pairs]
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
    low, high = activation(layer, y)
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
    first, second = ratio(state, x, feature), ratio(y, state, time)
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

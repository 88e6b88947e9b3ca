"""ONNX operators that TVM's frontend lacks, or reads wrongly, as operators that it reads: from nodes to nodes.

Each rewrite is a function of the graph that is being built and of a node; it adds nodes whose results have the names of
the node's. Quantized operators become pairs of quantize and dequantize. Definitions are at onnx.ai/onnx/operators.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from onnx import helper

from .graph import Graph, Node, Rule
from .recurrent import recurrent

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


def qlinear_binary(g: Graph, node: Node) -> None:
    """QLinearMatMul, and QLinearAdd and QLinearMul of ONNX Runtime (com.microsoft)."""
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


def lp_normalization(g: Graph, node: Node) -> None:
    """LpNormalization: a vector of zeros stays one."""
    norm = g.reduce({1: "ReduceL1", 2: "ReduceL2"}[node.get("p", 2)], node.input(0), [node.get("axis", -1)])
    dtype = g.dtype(node.input(0))
    is_zero = g.add("Equal", norm, g.constant(0, dtype))
    g.add("Div", node.input(0), g.add("Where", is_zero, g.constant(1, dtype), norm), to=node.output(0))


def cum_prod(g: Graph, node: Node) -> None:
    """CumProd of an axis that is a constant."""
    x, axis = node.input(0), node.input(1)
    if axis not in g.constants:
        raise node.refuse("an axis that is no constant is not supported")
    at = int(g.constants[axis].reshape(())) % len(g.shape(x))
    step = -1 if node.get("reverse", 0) else 1
    one = g.constant(np.ones([1 if i == at else n for i, n in enumerate(g.shape(x))]), g.dtype(x))
    results, product = [], one
    for part in g.split(x, g.shape(x)[at], at)[::step]:
        before, product = product, part if product == one else g.add("Mul", product, part)
        results.append(before if node.get("exclusive", 0) else product)
    g.add("Concat", *results[::step], axis=at, to=node.output(0))


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
        index[tuple(at)] = np.flip(index[tuple(at)], time_axis - (batch_axis < time_axis))
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
        return
    has_sign = g.add(signs[0], x, zero) if signs else g.constant(False, bool)
    g.add("And", g.add("IsInf", x), has_sign, to=node.output(0))


def _same(auto: str, totals: list[int]) -> list[int]:
    """Returns the paddings at the starts and the ends for their sums along each axis."""
    small, large = [n // 2 for n in totals], [n - n // 2 for n in totals]
    return [*large, *small] if auto == "SAME_LOWER" else [*small, *large]


def _window(g: Graph, node: Node) -> list[Any]:
    """Returns the lengths, the kernel, the strides and the dilations of each axis."""
    shape = g.shape(node.input(0))[2:]
    return [shape, node.get("kernel_shape") or g.shape(node.input(1))[2:],
            *(node.get(name) or [1] * len(shape) for name in ("strides", "dilations"))]  # fmt: skip


def conv_transpose(g: Graph, node: Node) -> None:
    """ConvTranspose whose paddings follow from the shape of its output."""
    attributes = dict(node.attributes)
    wanted, auto = attributes.pop("output_shape", None), node.get("auto_pad", "NOTSET")
    shape, kernel, strides, dilations = _window(g, node)
    if wanted or auto.startswith("SAME"):
        attributes.pop("auto_pad", None)
        extra = list(node.get("output_padding") or [0] * len(shape))
        wanted = list(wanted or [n * s for n, s in zip(shape, strides)])[-len(shape) :]
        totals = [s * (n - 1) + more + (k - 1) * d + 1 - out
                  for n, k, s, d, more, out in zip(shape, kernel, strides, dilations, extra, wanted)]  # fmt: skip

        # Where nothing is cut off, the output grows.
        extra = [more - min(total, 0) for more, total in zip(extra, totals)]
        pads = _same(auto, [max(total, 0) for total in totals])
        attributes |= {"pads": pads, "output_padding": extra}
    g.add("ConvTranspose", *node.inputs, to=node.output(0), **attributes)


def pool(g: Graph, node: Node) -> None:
    """Pooling and convolutions whose paddings are the same on both sides, or one more at the start."""
    attributes = dict(node.attributes)
    shape, kernel, strides, dilations = _window(g, node)
    if (auto := node.get("auto_pad", "NOTSET")).startswith("SAME"):
        del attributes["auto_pad"]
        totals = [(-(-n // s) - 1) * s + (k - 1) * d + 1 - n for n, k, s, d in zip(shape, kernel, strides, dilations)]
        attributes["pads"] = _same(auto, [max(total, 0) for total in totals])
    if node.output(1):
        raise node.refuse("the indices of the largest elements are not supported: leave the second output out")
    x = node.input(0)
    if node.op == "Conv" and (padded := _zeros_around(g, x)):
        x, around = padded
        attributes["pads"] = [a + b for a, b in zip(attributes.get("pads") or [0] * len(around), around)]
        attributes.pop("auto_pad", None)
    g.add(node.op, x, *node.inputs[1:], to=node.output(0), **attributes)


def _zeros_around(g: Graph, x: str) -> tuple[str, list[int]] | None:
    """Returns what a Pad puts zeros around, and their numbers at the starts and ends of an image's axes."""
    pad = next((Node(g.model, n) for n in reversed(g.nodes) if x in n.output), None)
    if pad is None or pad.op != "Pad" or pad.get("mode", "constant") != "constant":
        return None
    numbers, value, axes = (g.constants.get(pad.input(i)) for i in (1, 2, 3))
    if numbers is None or pad.input(2) and (value is None or value.any()) or pad.input(3) and axes is None:
        return None
    rank = len(g.shape(x))
    around = np.zeros((2, rank), int)
    around[:, list(range(rank)) if axes is None else axes] = numbers.reshape(2, -1)
    return (pad.input(0), around[:, 2:].ravel().tolist()) if (around >= 0).all() and not around[:, :2].any() else None


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

    def channels(value: str) -> str:
        return g.reshape(value, 1, -1, *[1] * (len(shape) - 2))

    own = g.reduce("ReduceMean", x, axes)
    centered = g.add("Sub", x, own)
    spread = g.reduce("ReduceMean", g.add("Mul", centered, centered), axes)
    deviation = g.add("Sqrt", g.add("Add", spread, g.constant(node.get("epsilon", 1e-5), g.dtype(x))))
    normal = g.add("Div", centered, deviation)
    g.add("Add", g.add("Mul", normal, channels(scale)), channels(bias), to=node.output(0))

    momentum = node.get("momentum", 0.9)
    for name, running, batch in ((node.output(1), mean, own), (node.output(2), variance, spread)):
        if name:
            kept = g.add("Mul", running, g.constant(momentum, g.dtype(running)))
            new = g.add("Mul", g.reshape(batch, -1), g.constant(1 - momentum, g.dtype(running)))
            g.add("Add", kept, new, to=name)


def _heads(g: Graph, x: str, count: int) -> str:
    """Returns a value with an axis of heads: batch, heads, positions, features."""
    if len(shape := g.shape(x)) == 4:
        return x
    return g.add("Transpose", g.reshape(x, shape[0], shape[1], count, shape[2] // count), perm=[0, 2, 1, 3])


def _attention_bias(g: Graph, node: Node, queries: int, keys: int, past: int, dtype: np.dtype) -> str:
    """Returns what is added to the scores of an Attention, minus infinity where a query sees no key; "" for nothing."""
    mask, lengths = node.input(3), node.input(6)
    left, right = node.get("left_window_size", -1), node.get("right_window_size", -1)
    terms = []

    # A query at i sees keys around i + offset.
    offset = g.constant(past)
    if lengths:
        lengths = g.reshape(lengths, -1, 1, 1, 1)
        terms.append(g.add("Less", g.constant(np.arange(keys)), lengths))
        offset = g.add("Sub", lengths, g.constant(queries))
    ahead = g.constant(np.arange(keys)[None, :] - np.arange(queries)[:, None])
    if node.get("is_causal", 0):
        terms.append(g.add("LessOrEqual", ahead, offset))
    if left >= 0:
        terms.append(g.add("GreaterOrEqual", ahead, g.add("Sub", offset, g.constant(left))))
    if right >= 0:
        terms.append(g.add("LessOrEqual", ahead, g.add("Add", offset, g.constant(right))))

    added = g.constant(0, dtype)
    if mask:
        is_bool = g.dtype(mask) == bool
        shape = g.shape(mask)
        if shape[-1] < keys:  # keys behind it are not seen
            rest = np.full([*shape[:-1], keys - shape[-1]], False if is_bool else -np.inf)
            mask = g.add("Concat", mask, g.constant(rest, g.dtype(mask)), axis=-1)
        if is_bool:
            terms.append(mask)
        else:
            added = mask
    if not terms:
        return added if mask else ""
    seen = functools.reduce(lambda a, b: g.add("And", a, b), terms)
    return g.add("Where", seen, added, g.constant(-np.inf, dtype))


def attention(g: Graph, node: Node) -> None:
    """Attention. A query that sees no key has a result of zeros."""
    q, k, v, past_k, past_v = (node.input(i) for i in (0, 1, 2, 4, 5))
    flat, dtype = len(g.shape(q)) == 3, g.dtype(q)
    q = _heads(g, q, node.get("q_num_heads"))
    k, v = (_heads(g, x, node.get("kv_num_heads")) for x in (k, v))
    past = g.shape(past_k)[2] if past_k else 0
    if past:
        k, v = g.add("Concat", past_k, k, axis=2), g.add("Concat", past_v, v, axis=2)
    for index, value in ((1, k), (2, v)):
        if node.output(index):
            g.add("Identity", value, to=node.output(index))

    # Heads of queries that share one of keys are adjacent.
    batch, heads, queries, size = g.shape(q)
    _, groups, keys, _ = g.shape(k)
    if heads != groups:
        k, v = (g.reshape(g.add("Expand", g.reshape(x, batch, groups, 1, keys, width), g.constant(
            [batch, groups, heads // groups, keys, width])), batch, heads, keys, width)
            for x, width in ((k, g.shape(k)[3]), (v, g.shape(v)[3])))  # fmt: skip

    scale = node.get("scale") or 1 / np.sqrt(size)
    scores = g.add("MatMul", g.add("Mul", q, g.constant(scale, dtype)), g.add("Transpose", k, perm=[0, 1, 3, 2]))
    steps = [scores]
    if cap := node.get("softcap", 0.0):
        scores = g.add("Mul", g.add("Tanh", g.add("Div", scores, g.constant(cap, dtype))), g.constant(cap, dtype))
    steps.append(scores)
    bias = _attention_bias(g, node, queries, keys, past, dtype)
    scores = g.add("Add", scores, bias) if bias else scores
    steps.append(scores)
    weights = g.add("Softmax", scores, axis=-1)
    if bias:
        hidden = g.add("Equal", g.reduce("ReduceMax", bias, [-1]), g.constant(-np.inf, dtype))
        if hidden not in g.constants or g.constants[hidden].any():
            weights = g.add("Where", hidden, g.constant(0, dtype), weights)
    steps.append(weights)
    if node.output(3):
        g.add("Identity", steps[node.get("qk_matmul_output_mode", 0)], to=node.output(3))

    result = g.add("MatMul", weights, v, to=None if flat else node.output(0))
    if flat:
        g.reshape(g.add("Transpose", result, perm=[0, 2, 1, 3]), batch, queries, -1, to=node.output(0))


def linear_attention(g: Graph, node: Node) -> None:
    """LinearAttention: a state for each head, changed by each step of time."""
    q, k, v, past, decay, beta = (node.input(i) for i in range(6))
    heads, groups, rule = node.get("q_num_heads"), node.get("kv_num_heads"), node.get("update_rule", "gated_delta")
    batch, steps, width = g.shape(q)
    size, depth = width // heads, g.shape(v)[2] // groups

    def each(x: str, count: int, *shape: int) -> list[str]:
        """Returns the steps of a value, per batch and head."""
        whole = g.reshape(x, batch, steps, count, -1)
        return [g.reshape(part, batch, count, *shape) for part in g.split(whole, steps, 1)]

    scale = g.constant(node.get("scale") or 1 / np.sqrt(size), "float32")
    state = past or g.constant(np.zeros((batch, groups, size, depth)), "float32")
    queries, keys, values = each(q, heads, 1, size), each(k, groups, 1, size), each(v, groups, 1, depth)
    decays = each(g.add("Exp", decay), groups, -1, 1) if decay else []
    betas = each(beta, g.shape(beta)[2], 1, 1) if beta else []
    results = []
    for t in range(steps):
        state = g.add("Mul", state, decays[t]) if "gated" in rule else state
        value = values[t]
        if "delta" in rule:
            value = g.add("Mul", betas[t], g.add("Sub", value, g.add("MatMul", keys[t], state)))
        state = g.add("Add", state, g.add("MatMul", g.reshape(keys[t], batch, groups, size, 1), value))
        query = g.reshape(queries[t], batch, groups, heads // groups, size)
        result = g.add("MatMul", g.add("Mul", query, scale), state)
        results.append(g.reshape(result, batch, 1, heads * depth))
    g.add("Concat", *results, axis=1, to=node.output(0))
    if node.output(1):
        g.add("Identity", state, to=node.output(1))


# Linear maps of constants: ONNX's evaluator gives their factors.


def _taps(g: Graph, x: str, axis: int, factors: np.ndarray, beyond: np.ndarray) -> str:
    """Adds a linear map of an axis as a sum of a few weighted elements: factors has a row for each result, beyond the
    value of a result that has no factors."""
    shape, dtype = [1] * len(g.shape(x)), g.dtype(x)
    shape[axis] = len(factors)
    order = np.argsort(factors == 0, axis=1, kind="stable")
    used = (factors != 0).sum(axis=1)
    count = max(int(used.max()), 1)

    # A result of fewer elements has its first one in parts: no factor is 0, since an element may be infinite.
    places = np.where(np.arange(count) < np.maximum(used, 1)[:, None], order[:, :count], order[:, :1])
    weights = np.take_along_axis(factors, places, 1)
    weights = np.where(places == order[:, :1], weights / np.maximum(count - used + 1, 1)[:, None], weights)
    terms = []
    for column, weight in zip(places.T, weights.T):
        term = g.add("Gather", x, g.constant(column), axis=axis)
        has_weight = not (weight == 1).all()
        terms.append(g.add("Mul", term, g.constant(weight.reshape(shape), dtype)) if has_weight else term)
    total = functools.reduce(lambda a, b: g.add("Add", a, b), terms)

    # What reads no element does not multiply one, which may be infinite.
    if (empty := ~factors.any(axis=1)).any():
        beyond = g.constant(beyond.reshape(shape), dtype)
        total = g.add("Where", g.constant(empty.reshape(shape), bool), beyond, total)
    return total


def resize(g: Graph, node: Node) -> None:
    """Resize by constants, axis by axis."""
    x, roi, scales, sizes = (node.input(i) for i in range(4))
    shape, wanted, given = g.shape(x), g.shape(node.output(0)), sizes or scales
    roi = roi if node.get("coordinate_transformation_mode") == "tf_crop_and_resize" else ""
    if given not in g.constants or (roi and roi not in g.constants):
        raise node.refuse("scales, sizes and regions that are no constants are not supported: make them constants")
    axes = [a % len(shape) for a in node.get("axes") or range(len(shape))]
    values, policy = g.constants[given], node.get("keep_aspect_ratio_policy", "stretch")
    if sizes and policy != "stretch":
        ratios = [int(n) / shape[a] for n, a in zip(values, axes)]
        values = np.full(len(axes), max(ratios) if policy == "not_smaller" else min(ratios), "float32")
        sizes = ""
    attributes = {k: v for k, v in node.attributes.items() if k not in ("axes", "keep_aspect_ratio_policy")}

    for i, axis in enumerate(axes):
        n = shape[axis]
        region = g.constants[roi][[i, len(axes) + i]] if roi else np.float32([0, 1])
        if wanted[axis] == n and values[i] in (1, n) and list(region) == [0, 1]:
            continue
        region = g.constant([0, region[0], 1, region[1]], "float32")
        size = ["", g.constant([n, values[i]])] if sizes else [g.constant([1, values[i]], "float32")]
        columns, zeros = (g.constants[g.add("Resize", g.constant(data, "float32"), region, *size, **attributes)]
                          for data in (np.eye(n), np.zeros((n, n))))  # fmt: skip
        if columns.shape[1] != wanted[axis]:
            raise node.refuse(f"{policy} is not supported for these sizes: give the sizes of the result")
        factors = (columns - zeros).T
        if g.dtype(x).kind != "f" and not np.isin(factors, (0, 1)).all():
            raise node.refuse("integers are resized by mode nearest only: add a Cast before it")

        # Repeated elements need no table of where they are.
        repeats, rest = divmod(wanted[axis], n)
        if not rest and np.array_equal(factors, np.eye(n).repeat(repeats, 0)):
            now = g.shape(x)
            wide = g.constant([*now[: axis + 1], repeats, *now[axis + 1 :]])
            x = g.add("Expand", g.reshape(x, *now[: axis + 1], 1, *now[axis + 1 :]), wide)
            x = g.reshape(x, *now[:axis], wanted[axis], *now[axis + 1 :])
        else:
            x = _taps(g, x, axis, factors, zeros[0])
    g.add("Identity", x, to=node.output(0))


def _fourier(g: Graph, x: str, axis: int, length: str, to: str, **attributes: Any) -> None:
    """Adds a Fourier transform of an axis as a product with a matrix of constants."""
    shape = list(g.shape(x))
    n, parts = shape[axis], shape[-1]
    basis = g.constant(np.eye(n * parts).reshape(n * parts, n, parts), g.dtype(x))
    if g.opset < 20:
        columns = g.add("DFT", basis, length, axis=1, **attributes)
    else:
        columns = g.add("DFT", basis, length, g.constant(1), **attributes)
    _, count, results = g.shape(columns)
    matrix = g.constant(g.constants[columns].reshape(n * parts, -1), g.dtype(x))

    others = [i for i in range(len(shape) - 1) if i != axis]
    order = [*others, axis, len(shape) - 1]
    rows = g.reshape(g.add("Transpose", x, perm=order), -1, n * parts)
    product = g.reshape(g.add("MatMul", rows, matrix), *(shape[i] for i in others), count, results)
    g.add("Transpose", product, perm=[int(i) for i in np.argsort(order)], to=to)


def dft(g: Graph, node: Node) -> None:
    """DFT of a length and an axis that are constants."""
    x, length, axis = (node.input(i) for i in range(3))
    if any(name and name not in g.constants for name in (length, axis)):
        raise node.refuse("a length or an axis that is no constant is not supported: make it a constant")
    axis = int(g.constants[axis]) if axis else node.get("axis", 1 if g.opset < 20 else -2)
    attributes = {k: v for k, v in node.attributes.items() if k != "axis"}
    _fourier(g, x, axis % len(g.shape(x)), length, node.output(0), **attributes)


def stft(g: Graph, node: Node) -> None:
    """STFT: the transform of windows of a signal."""
    x, step, window, length = (node.input(i) for i in range(4))
    if any(name and name not in g.constants for name in (step, length)):
        raise node.refuse("a step or a length that is no constant is not supported: make it a constant")
    if len(g.shape(x)) == 2:
        x = g.reshape(x, *g.shape(x), 1)
    size = g.shape(window)[0] if window else int(g.constants[length])
    begins = np.arange(0, g.shape(x)[1] - size + 1, int(g.constants[step]))
    frames = g.add("Gather", x, g.constant(begins[:, None] + np.arange(size)), axis=1)
    frames = g.add("Mul", frames, g.reshape(window, -1, 1)) if window else frames
    _fourier(g, frames, 2, length, node.output(0), onesided=node.get("onesided", 1))


def top_k(g: Graph, node: Node) -> None:
    """TopK of a constant number: the rank of an element is the number of those that come before it."""
    x, count = node.input(0), node.input(1)
    if count not in g.constants:
        raise node.refuse("a number that is no constant is not supported: make it a constant")
    rank = len(g.shape(x))
    axis, k = node.get("axis", -1) % rank, int(g.constants[count].reshape(()))
    order = [i for i in range(rank) if i != axis] + [axis]
    rows = g.add("Transpose", x, perm=order)
    n, at = g.shape(x)[axis], np.arange(g.shape(x)[axis])

    # Of equal elements, the one with the lower index comes first.
    shape = g.shape(rows)
    one, other = g.reshape(rows, *shape, 1), g.reshape(rows, *shape[:-1], 1, n)
    before = g.add("Less" if node.get("largest", 1) else "Greater", one, other)
    ties = g.add("And", g.add("Equal", one, other), g.constant(at[None, :] < at[:, None], bool))
    ranks = g.reduce("ReduceSum", g.cast(g.add("Or", before, ties), "int64"), [-1])  # of each element, n by 1
    chosen = g.cast(g.add("Equal", ranks, g.constant(np.arange(k))), "int64")  # n by k
    indices = g.reduce("ReduceSum", g.add("Mul", chosen, g.constant(at[:, None])), [-2], keepdims=0)

    back = [int(i) for i in np.argsort(order)]
    for result, value in ((0, g.add("GatherElements", rows, indices, axis=rank - 1)), (1, indices)):
        if node.output(result):
            g.add("Transpose", value, perm=back, to=node.output(result))


def power(g: Graph, node: Node) -> None:
    """Pow of two types, or of integers: both become floating-point numbers."""
    x, y = node.inputs
    kinds = g.dtype(x), g.dtype(y)
    if kinds[0] == kinds[1] and kinds[0].kind == "f":
        g.emit(node.proto)
        return
    dtype = kinds[0] if kinds[0].kind == "f" else "float64"
    g.cast(g.add("Pow", g.cast(x, dtype), g.cast(y, dtype)), kinds[0], to=node.output(0))


def modulo(g: Graph, node: Node) -> None:
    """Mod of floating-point numbers with the sign of the divisor, which may be infinite."""
    x, y = node.inputs
    if g.dtype(x).kind != "f" or node.get("fmod", 0):
        g.emit(node.proto)
        return
    zero, rest = g.constant(0, g.dtype(x)), g.add("Mod", x, y, fmod=1)
    has_other_sign = g.add("Xor", g.add("Less", rest, zero), g.add("Less", y, zero))
    is_above = g.add("And", has_other_sign, g.add("Not", g.add("Equal", rest, zero)))
    g.add("Where", is_above, g.add("Add", rest, y), rest, to=node.output(0))


def extreme(g: Graph, node: Node) -> None:
    """ReduceMax and ReduceMin of booleans."""
    if g.dtype(node.input(0)) != bool:
        g.emit(node.proto)
        return
    value = g.add(node.op, g.cast(node.input(0), "uint8"), *node.inputs[1:], **node.attributes)
    g.cast(value, bool, to=node.output(0))


def compress(g: Graph, node: Node) -> None:
    """Compress by a constant."""
    x, condition = node.inputs
    if condition not in g.constants:
        raise node.refuse("a condition that is no constant gives a shape known only at run time: make it a constant")
    axis = node.get("axis")
    x = g.reshape(x, -1) if axis is None else x
    g.add("Gather", x, g.constant(np.flatnonzero(g.constants[condition])), axis=axis or 0, to=node.output(0))


def eye_like(g: Graph, node: Node) -> None:
    """EyeLike: a constant of the operand's shape."""
    kind = node.get("dtype")
    dtype = helper.tensor_dtype_to_np_dtype(kind) if kind else g.dtype(node.input(0))
    value = np.eye(*g.shape(node.input(0)), k=node.get("k", 0))
    g.add("Identity", g.constant(value, dtype), to=node.output(0))


def col2im(g: Graph, node: Node) -> None:
    """Col2Im: a transposed convolution with one kernel for each place of a block."""
    x, image, block = node.inputs
    if not {image, block} <= g.constants.keys():
        raise node.refuse("a shape that is no constant is not supported: make it a constant")
    kernel, image = [int(n) for n in g.constants[block]], [int(n) for n in g.constants[image]]
    rank, area = len(kernel), int(np.prod(kernel))
    attributes = {name: node.get(name) or [default] * count for name, default, count in (
        ("dilations", 1, rank), ("pads", 0, 2 * rank), ("strides", 1, rank))}  # fmt: skip
    pads = attributes["pads"]
    places = [(n + pads[i] + pads[rank + i] - attributes["dilations"][i] * (kernel[i] - 1) - 1)
              // attributes["strides"][i] + 1 for i, n in enumerate(image)]  # fmt: skip
    batch, channels = g.shape(x)[0], g.shape(x)[1] // area
    weights = g.constant(np.eye(area).reshape(area, 1, *kernel), g.dtype(x))
    planes = g.add("ConvTranspose", g.reshape(x, batch * channels, area, *places), weights, **attributes)
    g.reshape(planes, batch, channels, *image, to=node.output(0))


REWRITES: dict[str, Rule] = {
    "Attention": attention, "AveragePool": pool, "BatchNormalization": batch_normalization, "BitShift": bit_shift,
    "Col2Im": col2im, "Compress": compress, "Conv": pool, "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose, "CumProd": cum_prod, "DFT": dft, "Dropout": dropout, "EyeLike": eye_like,
    "GRU": recurrent, "IsInf": is_inf, "LinearAttention": linear_attention, "LpNormalization": lp_normalization,
    "LpPool": pool, "LSTM": recurrent, "MaxPool": pool, "Mod": modulo, "Pow": power, "QLinearAdd": qlinear_binary,
    "QLinearConv": qlinear_conv, "QLinearGlobalAveragePool": qlinear_unary, "QLinearLeakyRelu": qlinear_unary,
    "QLinearMatMul": qlinear_binary, "QLinearMul": qlinear_binary, "QLinearSigmoid": qlinear_unary,
    "ReduceMax": extreme, "ReduceMin": extreme, "Resize": resize, "ReverseSequence": reverse_sequence,
    "RNN": recurrent, "STFT": stft, "TopK": top_k,
}  # fmt: skip

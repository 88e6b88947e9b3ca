"""Makes an ONNX graph simple before TVM reads it, by ONNX's own tools: functions inlined, constants computed.

What comes out computes the same, in fewer kinds of operators and with constants where TVM's frontend needs them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import rewrites
from .kernels import ExportError

# Opsets before this one have axes, scales and the like as attributes, in forms of their own.
OLDEST = 13

# Operators that ONNX defines as functions of others, and that TVM's frontend reads, but not in all their forms.
INLINED = {"AffineGrid", "Attention", "CastLike", "DynamicQuantizeLinear", "GroupNormalization",
           "MeanVarianceNormalization", "RMSNormalization"}  # fmt: skip

# Constants that are computed have at most this many bytes: a fill or a tile of a small one may have any number.
FOLDED_BYTES = 1 << 20

# Weights that are quantized stay so.
KEPT = {"DequantizeLinear", "QuantizeLinear"}


def simplify(model: Any) -> Any:
    """Returns a simpler model with the same inputs and outputs, in an opset that TVM's frontend reads well."""
    from onnx import shape_inference, version_converter

    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if 0 < opset < OLDEST:
        model = _or_unchanged(model, lambda m: version_converter.convert_version(m, OLDEST))
    model = _or_unchanged(model, _inline)
    return _fold(shape_inference.infer_shapes(model, data_prop=True))


def _or_unchanged(model: Any, step: Any) -> Any:
    """Applies a tool of ONNX that does not take every model: TVM's frontend may."""
    try:
        return step(model)
    except Exception:  # of many classes
        return model


def _inline(model: Any) -> Any:
    from onnx import helper, inliner, shape_inference
    from tvm.relax.frontend.onnx import onnx_frontend

    # The inliner looks up the type of each operand, which constants do not have otherwise.
    model = shape_inference.infer_shapes(model)
    inputs = {i.name for i in model.graph.input}
    model.graph.value_info.extend(helper.make_tensor_value_info(i.name, i.data_type, i.dims)
                                  for i in model.graph.initializer if i.name not in inputs)  # fmt: skip

    known = set(onnx_frontend._get_convert_map()) - INLINED
    if any(n.op_type == "LayerNormalization" and any(n.output[1:]) for n in model.graph.node):
        known.remove("LayerNormalization")  # TVM has its first result only
    return inliner.inline_selected_functions(
        model, [("", name) for name in sorted(known)], exclude=True, inline_schema_functions=True
    )


def _fold(model: Any) -> Any:
    """Computes what depends on constants and on fixed shapes only."""
    from onnx import helper, numpy_helper

    graph = model.graph
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    shapes = _shapes(graph)
    results = {o.name for o in graph.output}
    nodes = []
    for node in rewrites.rewrite(model, constants):
        values = _computed(model, node, constants, shapes)
        if values is None:
            nodes.append(node)
            continue
        for name, value in zip(node.output, values):
            constants[name] = np.asarray(value)
            if name in results:  # a result has a node
                constants[f"{name}_constant"] = constants.pop(name)
                nodes.append(helper.make_node("Identity", [f"{name}_constant"], [name]))
    used = {name for node in nodes for name in node.input} | results | _outer_names(nodes)

    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    inputs = {i.name for i in graph.input}
    kept = {name: value for name, value in constants.items() if name in used or name in inputs}
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in kept.items())
    return model


def _shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            shapes[value.name] = tuple(d.dim_value for d in kind.shape.dim)
    return shapes


def _outer_names(nodes: list[Any]) -> set[str]:
    """Returns the names that bodies of control flow read."""
    bodies = [a.g for node in nodes for a in node.attribute if a.HasField("g")]
    return {name for body in bodies for n in body.node for name in n.input} | {
        name for body in bodies for name in _outer_names(list(body.node))
    }


def _is_large(node: Any, feeds: dict[str, Any]) -> bool:
    """Reports whether operands give the shape of a result that is too large to compute here."""
    if node.op_type not in ("ConstantOfShape", "Expand", "Tile", "Resize", "Pad", "OneHot", "Range", "EyeLike"):
        return False
    numbers = [np.abs(v.astype("float64")) for v in feeds.values() if v.dtype.kind in "iu" and v.size <= 16]
    return any(float(np.prod(np.maximum(v, 1))) * 8 > FOLDED_BYTES for v in numbers)


def _computed(model: Any, node: Any, constants: dict[str, Any], shapes: dict[str, Any]) -> list[Any] | None:
    """Returns the values of a node that depends on constants only, or None."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    if node.op_type in KEPT or any(a.HasField("g") for a in node.attribute) or node.domain not in ("", "ai.onnx"):
        return None
    feeds = {}
    for name in node.input:
        if name in constants:
            feeds[name] = constants[name]
        elif name and node.op_type in ("Shape", "Size") and name in shapes:
            feeds[name] = np.broadcast_to(np.float32(0), shapes[name])
        elif name:
            return None
    if node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial"):
        raise ExportError(f"{node.op_type} (node {node.name or node.output[0]}) draws numbers: no archive does")

    inputs = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
              for n, v in feeds.items()]  # fmt: skip
    outputs = [onnx.helper.make_empty_tensor_value_info(o) for o in node.output if o]
    graph = onnx.helper.make_graph([node], "constant", inputs, outputs)
    part = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    if _is_large(node, feeds):
        return None
    try:
        with np.errstate(all="ignore"):
            values = [np.asarray(v) for v in ReferenceEvaluator(part).run(None, feeds)]
    except Exception:  # of many classes, for an operator that the evaluator lacks
        return None
    return values if sum(v.nbytes for v in values) <= FOLDED_BYTES and len(values) == len(node.output) else None

"""Makes an ONNX graph simple before it is read: by ONNX's own tools and definitions, and by rewrites of our own.

What comes out computes the same, in fewer kinds of operators and with constants where TVM's frontend needs them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from onnx import inliner, shape_inference, version_converter

from . import rewrites
from .errors import Refusal
from .graph import Graph, Rule, describe, opset_of

# Opsets before this one have axes, scales and the like as attributes, in forms of their own.
OLDEST = 13

# Operators that ONNX defines as functions of others, and that TVM's frontend reads, but not in all their forms.
INLINED = {"CastLike", "DynamicQuantizeLinear", "GroupNormalization", "MeanVarianceNormalization",
           "RMSNormalization"}  # fmt: skip


def simplify(model: Any) -> Any:
    """Returns a simpler model with the same inputs and outputs, in an opset that TVM's frontend reads well."""
    model = graph_of(model, rewrites.REWRITES, _is_known).model
    if lacking := {describe(model, n): None for n in model.graph.node if n.op_type not in supported()}:
        raise Refusal(f"{'; '.join(lacking)}: TVM's frontend has no such operator: replace it by others that compute "
                      "the same")  # fmt: skip
    return model


def graph_of(model: Any, rules: Mapping[str, Rule], is_known: Callable[[Any], bool]) -> Graph:
    """Returns the graph of a simpler model: operators that are not known become others, if ONNX defines them so."""
    if model.functions:
        model = inliner.inline_local_functions(model)
    if 0 < opset_of(model) < OLDEST:
        try:
            model = version_converter.convert_version(model, OLDEST)
        except (version_converter.ConvertError, RuntimeError):  # some operators have no way between versions
            pass  # TVM's frontend may read the old operator; its values are compared anyway
    model = shape_inference.infer_shapes(model, data_prop=True)
    graph = Graph(model, rules, is_known)
    graph.run()
    return graph


@functools.cache
def supported() -> frozenset[str]:
    """Returns the operators that TVM's frontend reads."""
    from tvm.relax.frontend.onnx import onnx_frontend

    return frozenset(("If", *onnx_frontend._get_convert_map()))


def _is_known(node: Any) -> bool:
    """Reports whether TVM's frontend reads a node in all its forms."""
    if node.op_type == "LayerNormalization" and any(node.output[1:]):
        return False  # it has the first result only
    return node.op_type in supported() - INLINED

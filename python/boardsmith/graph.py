"""An ONNX graph that is being built: its nodes, constants, and the types of its values, which follow each node at once.

What depends on constants and fixed shapes only is computed by ONNX's evaluator when its node is added, so that what
follows has constants for its axes, shapes and the like. Operators that ONNX defines by others are replaced by these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import FunctionProto, TypeProto, defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from .errors import ExportError, Refusal

# Constants that are computed have at most this many bytes: a fill or a tile of a small one may have any number.
FOLDED_BYTES = 1 << 20

# Weights that are quantized stay so.
KEPT = {"DequantizeLinear", "QuantizeLinear"}

# Operators whose results are drawn: no archive has a source of them.
DRAWN = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

STANDARD = ("", "ai.onnx")


def opset_of(model: Any, domain: str = "") -> int:
    """Returns the version of a domain's operators that a model has, 0 for none."""
    domains = STANDARD if domain in STANDARD else (domain,)
    return next((o.version for o in model.opset_import if o.domain in domains), 0)


def describe(model: Any, node: Any) -> str:
    """Returns a node's operator, name and version, for an error."""
    name = node.name or next(iter(node.output), "")
    return f"{node.op_type} (node {name}, opset {opset_of(model, node.domain)})"


class Node:
    """A node's attributes and operands, with ONNX's defaults filled in by the caller."""

    def __init__(self, model: Any, node: Any) -> None:
        self.model, self.proto, self.op = model, node, node.op_type
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

    def refuse(self, reason: str) -> Refusal:
        """Returns the error that this form of the node is not supported."""
        return Refusal(f"{describe(self.model, self.proto)}: {reason}")


Rule = Callable[["Graph", Node], None]


class Graph:
    """Takes nodes one after the other. known are the operators that remain as they are, if they have no rule."""

    def __init__(self, model: Any, rules: Mapping[str, Rule], known: Callable[[Any], bool]) -> None:
        self.model, self.rules, self.known = model, rules, known
        self.nodes: list[Any] = []
        self.count, self.opset = 0, opset_of(model)
        self.constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        values = [*model.graph.input, *model.graph.value_info, *model.graph.output]
        self.types: dict[str, Any] = {v.name: v.type for v in values}

    def run(self) -> None:
        """Replaces the nodes of the model by what they become."""
        graph = self.model.graph
        for node in graph.node:
            self.take(node)

        # A result has a node.
        results = [o.name for o in graph.output]
        for name in results:
            if name in self.constants:
                self.constants[f"{name}_constant"] = self.constants.pop(name)
                self.nodes.insert(0, helper.make_node("Identity", [f"{name}_constant"], [name]))

        # What nothing reads is left out, from the end.
        used, nodes = set(results), []
        for node in reversed(self.nodes):
            if used.intersection(node.output):
                nodes.append(node)
                used.update(node.input, outer_names([node]))

        del graph.node[:], graph.initializer[:], graph.value_info[:]
        graph.node.extend(nodes[::-1])
        inputs = {i.name for i in graph.input}
        kept = {name: value for name, value in self.constants.items() if name in used or name in inputs}
        graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in kept.items())

    def take(self, node: Any) -> None:
        """Adds a node of a network: what its rule makes of it, or ONNX's definition, or the node itself."""
        if rule := self.rules.get(node.op_type):
            rule(self, Node(self.model, node))
        elif not self.known(node) and (body := self._definition(node)):
            self._inline(node, body)
        else:
            self.emit(node)

    def emit(self, node: Any) -> None:
        """Adds a node as it is, or its results if they are constants."""
        values = self._computed(node)
        if values is None:
            self._infer(node)
            self.nodes.append(node)
            return
        self.constants.update(zip(node.output, values))

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns a value's shape, which must be fixed."""
        if (known := self.fixed_shape(name)) is None:
            raise ExportError(f"{name}: its shape is not fixed: give its dimensions with --shape")
        return known

    def fixed_shape(self, name: str) -> tuple[int, ...] | None:
        """Returns a value's shape, None if it is not fixed."""
        if name in self.constants:
            return self.constants[name].shape
        kind = self.types[name].tensor_type if name in self.types else None
        if kind is None or not kind.HasField("shape") or not all(d.HasField("dim_value") for d in kind.shape.dim):
            return None
        return tuple(d.dim_value for d in kind.shape.dim)

    def dtype(self, name: str) -> np.dtype:
        """Returns a value's type."""
        if name in self.constants:
            return self.constants[name].dtype
        if name not in self.types or not self.types[name].tensor_type.elem_type:
            raise ExportError(f"{name}: its type is not known")
        return helper.tensor_dtype_to_np_dtype(self.types[name].tensor_type.elem_type)

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Adds a constant and returns its name."""
        name = self._fresh("constant")
        self.constants[name] = np.asarray(value, dtype)
        return name

    def add(self, op: str, *inputs: str, to: str | None = None, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node and returns the names of its results."""
        names = [to or self._fresh(op)] if outputs == 1 else [self._fresh(op) for _ in range(outputs)]
        self.emit(helper.make_node(op, list(inputs), names, **attributes))
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
        name = to or self._fresh("Cast")
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.emit(helper.make_node("Cast", [x], [name], to=kind))
        return name

    def reduce(self, op: str, x: str, axes: list[int], keepdims: int = 1, to: str | None = None) -> str:
        """Adds a reduction, whose axes are an attribute before opset 18."""
        if self.opset < 18 and op != "ReduceSum":
            return self.add(op, x, to=to, axes=axes, keepdims=keepdims)
        return self.add(op, x, self.constant(axes), to=to, keepdims=keepdims)

    def _fresh(self, what: str) -> str:
        self.count += 1
        return f"boardsmith_{what}_{self.count}"

    def _type(self, name: str) -> Any:
        if name in self.constants:
            value = self.constants[name]
            return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        return self.types.get(name, TypeProto())

    def _schema(self, node: Any) -> Any:
        """Returns ONNX's definition of a node's operator, None for operators of others."""
        domain = "" if node.domain in STANDARD else node.domain
        try:
            return defs.get_schema(node.op_type, opset_of(self.model, domain), domain)
        except defs.SchemaError:
            return None

    def _infer(self, node: Any) -> None:
        """Derives the types of a node's results."""
        schema = self._schema(node)
        if schema is None or all(self.fixed_shape(o) is not None for o in node.output if o):
            return
        types = {name: self._type(name) for name in node.input if name}
        if not all(t.WhichOneof("value") for t in types.values()):
            return
        small = {n: numpy_helper.from_array(self.constants[n], n) for n in types
                 if n in self.constants and self.constants[n].size <= 64}  # fmt: skip
        try:
            inferred = shape_inference.infer_node_outputs(
                schema, node, types, small, opset_imports=list(self.model.opset_import))
        except shape_inference.InferenceError as error:
            raise Refusal(f"{describe(self.model, node)}: {error}") from error
        self.types |= inferred

    def _definition(self, node: Any) -> Any:
        """Returns the function by which ONNX defines a node, None if it has none."""
        schema, opset = self._schema(node), opset_of(self.model, node.domain)
        if schema is None:
            return None

        def newest(versions: list[int]) -> int:
            return max((v for v in versions if v <= opset), default=0)

        if version := newest(schema.function_opset_versions):
            return FunctionProto.FromString(schema.get_function_with_opset_version(version))
        if version := newest(schema.context_dependent_function_opset_versions):
            types = [self._type(name).SerializeToString() for name in node.input]
            text = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
            return FunctionProto.FromString(text) if text else None
        return None

    def _inline(self, node: Any, body: Any) -> None:
        """Takes the nodes of a function's body, with the names of a node's operands and results."""
        names = {name: "" for name in [*body.input, ""]}
        names |= dict(zip(body.input, node.input))
        names |= {inner: outer for inner, outer in zip(body.output, node.output) if outer}
        defaults = [a.default_value for a in self._schema(node).attributes.values() if a.default_value.type]
        attributes = {a.name: a for a in [*defaults, *node.attribute]}

        for inner in body.node:
            part = type(node)()
            part.CopyFrom(inner)
            part.name = node.name or node.output[0]
            part.input[:] = [names[name] for name in inner.input]
            part.output[:] = [names.setdefault(name, self._fresh(inner.op_type)) for name in inner.output]
            del part.attribute[:]
            for attribute in inner.attribute:
                if not attribute.ref_attr_name:
                    part.attribute.append(attribute)
                elif attribute.ref_attr_name in attributes:
                    part.attribute.append(attributes[attribute.ref_attr_name])
                    part.attribute[-1].name = attribute.name
            self.take(part)

    def _computed(self, node: Any) -> list[Any] | None:
        """Returns the values of a node that depends on constants only, or None."""
        if node.op_type in DRAWN:
            raise Refusal(f"{describe(self.model, node)}: draws numbers, which no archive does: make them an input")
        if node.op_type in KEPT or any(a.HasField("g") for a in node.attribute) or node.domain not in STANDARD:
            return None
        feeds = {}
        for name in node.input:
            if name in self.constants:
                feeds[name] = self.constants[name]
            elif name and node.op_type in ("Shape", "Size") and (shape := self.fixed_shape(name)) is not None:
                feeds[name] = np.broadcast_to(np.float32(0), shape)
            elif name:
                return None
        if _is_large(node, feeds):
            return None

        try:
            values = evaluated(self.model, [node], feeds, [o for o in node.output if o])
        except Exception:  # of many classes, for an operator that the evaluator lacks
            return None
        if any(v.dtype == object for v in values) or len(values) != len(node.output):
            return None
        return values if sum(v.nbytes for v in values) <= FOLDED_BYTES else None


def evaluated(model: Any, nodes: list[Any], feeds: Mapping[str, np.ndarray], results: list[str]) -> list[np.ndarray]:
    """Returns what ONNX's evaluator computes by nodes of a model."""
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
              for n, v in feeds.items()]  # fmt: skip
    outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph(nodes, "part", inputs, outputs)
    part = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in ReferenceEvaluator(part).run(None, dict(feeds))]


def _is_large(node: Any, feeds: dict[str, Any]) -> bool:
    """Reports whether operands give the shape of a result that is too large to compute here."""
    if node.op_type not in ("ConstantOfShape", "Expand", "Tile", "Resize", "Pad", "OneHot", "Range", "EyeLike"):
        return False
    numbers = [np.abs(v.astype("float64")) for v in feeds.values() if v.dtype.kind in "iu" and v.size <= 16]
    return any(float(np.prod(np.maximum(v, 1))) * 8 > FOLDED_BYTES for v in numbers)


def outer_names(nodes: list[Any]) -> set[str]:
    """Returns the names that bodies of control flow read."""
    bodies = [a.g for node in nodes for a in node.attribute if a.HasField("g")]
    return {name for body in bodies for n in body.node for name in n.input} | {
        name for body in bodies for name in outer_names(list(body.node))
    }

"""Networks in files: ONNX, and what torch.export saves. Each is exported with its own evaluator beside it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import ExportError, Report, check, export, plan, simplify


def from_onnx(path: Path, archive: Path, name: str | None = None, verify: bool = True) -> Report:
    """Exports an ONNX file. Tensors keep their names; a result that is an input has another one."""
    import onnx

    model = _readable(path, "ONNX file", lambda: onnx.load(path))
    if not model.graph.node and not model.graph.output:
        raise ExportError(f"{path} is no ONNX file: it has no graph")
    return export_onnx(model, archive, name, verify)


def export_onnx(model: Any, archive: Path, name: str | None = None, verify: bool = True) -> Report:
    """Exports an ONNX model, after its outputs were compared with what the model declares, and its values with those
    of ONNX's reference evaluator."""
    declared = _declared(model)
    try:
        return _export(model, archive, name, declared, _evaluator(model, declared) if verify else None)
    except check.Difference as difference:
        raise ExportError(f"{difference}{_first_difference(model, difference)}") from None


def _export(
    model: Any, archive: Path, name: str | None, declared: dict[str, Any], evaluator: check.Evaluator | None
) -> Report:
    from tvm.relax.frontend.onnx import from_onnx as read

    weights = {i.name for i in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in weights]
    outputs = [o.name for o in model.graph.output]
    simple = simplify.simplify(model)
    with _silent():
        module = _readable(_title(model), "network that TVM reads", lambda: read(simple))

    # A frontend that ignores an attribute computes other shapes.
    kinds = plan.fields(plan.type_of(module["main"].body.body))
    for output, kind in zip(outputs, kinds):
        if (want := declared.get(output)) and (fault := _unlike(kind, want)):
            raise check.Difference(f"output {output} is {fault}", ())

    names = [o + "_output" if o in inputs else o for o in outputs]
    return export(module, archive, name=name, input_names=inputs, output_names=names, evaluator=evaluator)


def _title(model: Any) -> str:
    return f"network {model.graph.name or 'without a name'}"


def _declared(model: Any) -> dict[str, tuple[str, tuple[int, ...] | None]]:
    """Returns types and shapes of tensors, as the model declares them and as ONNX infers them. A shape that is not
    fixed is None."""
    import onnx

    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ExportError(f"{_title(model)}: its shapes contradict each other: {reason}") from error

    declared = {}
    for value in [*model.graph.value_info, *model.graph.output]:
        tensor = value.type.tensor_type
        if not tensor.elem_type:
            continue
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        fixed = tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
        declared[value.name] = dtype, tuple(d.dim_value for d in tensor.shape.dim) if fixed else None
    return declared


def _unlike(kind: Any, want: tuple[str, tuple[int, ...] | None]) -> str:
    """Returns in what a type of Relax differs from what is declared."""
    try:
        got = plan.tensor_of("", kind)
    except ExportError:
        return ""  # another error names it
    dtype, shape = want
    if got.dtype != dtype:
        return f"{got.dtype} as TVM computes it, not {dtype}: put a Cast before it"
    if shape is not None and got.shape != shape:
        return f"of shape {got.shape} as TVM computes it, not {shape}"
    return ""


def _evaluator(model: Any, declared: dict[str, tuple[str, tuple[int, ...] | None]]) -> check.Evaluator:
    from onnx.reference import ReferenceEvaluator

    evaluator: list[Any] = []  # made when it is needed: it may lack an operator

    def evaluate(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        if not evaluator:
            evaluator.append(ReferenceEvaluator(model))
        weights = {i.name for i in model.graph.initializer}
        names = [i.name for i in model.graph.input if i.name not in weights]
        with np.errstate(all="ignore"):
            results = evaluator[0].run(None, dict(zip(names, inputs, strict=True)))

        # Some of its operators give other shapes than ONNX infers: these are no reference.
        for output, result in zip(model.graph.output, results):
            shape = declared.get(output.name, ("", None))[1]
            if shape is not None and np.shape(result) != shape:
                raise ValueError(f"output {output.name} has shape {np.shape(result)}, where ONNX infers {shape}")
        return results

    return evaluate


def _first_difference(model: Any, difference: check.Difference) -> str:
    """Returns the first node whose results differ, by an archive that has the results of all nodes as outputs."""
    import onnx

    declared = _declared(model)
    inferred = onnx.shape_inference.infer_shapes(model).graph
    known = {v.name for v in [*inferred.value_info, *model.graph.output]}
    results = [o for node in model.graph.node for o in node.output if o in known]
    constants = {i.name for i in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in constants]
    extractor = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(model))

    def differs(result: str) -> bool:
        part = extractor.extract_model(inputs, [result])
        with tempfile.TemporaryDirectory() as folder:
            try:
                _export(part, Path(folder, "part.tar"), None, declared, _evaluator(part, declared))
            except check.Difference:
                return True
            except (ExportError, ValueError):  # no archive holds this result
                return False
        return False

    # The nodes are in order: half of those that are left are tried at a time.
    low, high = 0, len(results)
    while low < high:
        middle = (low + high) // 2
        if differs(results[middle]):
            high = middle
        else:
            low = middle + 1
    if low == len(results):
        return ""
    node = next(n for n in model.graph.node if results[low] in n.output)
    return f"; the first node that differs is {describe(model, node)}"


def describe(model: Any, node: Any) -> str:
    """Returns a node's operator, name and version, for an error."""
    opset = next((o.version for o in model.opset_import if o.domain == node.domain), 0)
    return f"{node.op_type} (node {node.name or node.output[0]}, opset {opset})"


def from_torch(path: Path, archive: Path, name: str | None = None, verify: bool = True) -> Report:
    """Exports a file that torch.export.save has written. Inputs keep their names."""
    import torch
    from tvm.relax.frontend.torch import from_exported_program as read

    if not path.exists():  # PyTorch's error names no file
        raise FileNotFoundError(f"no such file: {path}")
    program = _readable(path, "file of torch.export.save", lambda: torch.export.load(path))
    signature = program.run_decompositions({}).graph_signature  # before that, it lists no changes
    if kept := [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]:
        raise ExportError(f"the network changes {', '.join(kept)}, which no archive keeps between runs: "
                          "call eval() before torch.export, or make it an input and an output")  # fmt: skip

    def evaluate(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        results = program.module()(*(torch.from_numpy(x) for x in inputs))
        return [r.detach().numpy() for r in (results if isinstance(results, (list, tuple)) else [results])]

    with _silent():
        module = _readable(path, "network that TVM reads", lambda: read(program))
    return export(module, archive, name=name, evaluator=evaluate if verify else None)


def _readable(title: object, what: str, read: Callable[[], Any]) -> Any:
    """Returns what read does. A frontend raises errors of many classes for a file that it cannot read."""
    try:
        return read()
    except (OSError, ImportError):
        raise
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ExportError(f"{title} is no {what}: {reason}") from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Discards what TVM's compiler prints on standard error, in C++ and in Python."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing):
            os.dup2(nothing.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)

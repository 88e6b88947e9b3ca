"""Networks in files: ONNX, TensorFlow Lite and torch.export's. Each is exported with its own evaluator beside it."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import check
from .archive import Report
from .errors import ExportError, Refusal, cause


def from_onnx(
    path: Path, archive: Path, name: str | None = None, verify: bool = True, *,
    shapes: Mapping[str, Sequence[int]] = {}, params: Mapping[str, np.ndarray] = {}, **options: Any,
) -> Report:  # fmt: skip
    """Exports an ONNX file. Tensors keep their names; a result that is an input has another one.

    shapes has the dimensions of inputs, by the input's name, or one value by the name of a dimension. params are values
    of inputs, which become constants. options are those of export_onnx.
    """
    import onnx

    model = _readable(path, "ONNX file", lambda: onnx.load(path))
    if not model.graph.node and not model.graph.output:
        raise ExportError(f"{path} is no ONNX file: it has no graph")
    _bind(model, params)
    _fix(model, shapes)
    return export_onnx(model, archive, name, verify, **options)


def export_onnx(
    model: Any, archive: Path, name: str | None = None, verify: bool = True, *, library: Path | None = None,
    **options: Any,
) -> Report:  # fmt: skip
    """Exports an ONNX model, after its outputs were compared with what the model declares, and its values with those
    of ONNX's reference evaluator. An error names the first node concerned.

    library is a folder with a library.json and CMSIS-NN, which a quantized network calls, and needs no TVM. Without it,
    TVM compiles the network, and options are those of export.
    """
    from .graph import describe

    if library:
        _check_options(options)
        export = functools.partial(_export_integers, library=library)
    else:
        export = functools.partial(_export, options=options)
    with _silent():
        inferred, declared = _inferred(model)
        return _located(
            lambda: export(model, archive, declared, verify, name), len(model.graph.node),
            lambda i: describe(model, model.graph.node[i]),
            lambda count, path, verify: export(_part(model, inferred, count), path, declared, verify))  # fmt: skip


def _export_integers(
    model: Any, archive: Path, declared: dict[str, Any], verify: bool, name: str | None = None, *, library: Path
) -> Report:  # fmt: skip
    from . import layers, pairs

    network, evaluator = pairs.read(model), functools.cache(lambda: pairs.Evaluator(model, library))
    return layers.export(network, archive, name, (lambda arrays: evaluator()(arrays)) if verify else None, library,
                         check.QUANTIZED_SHARE)  # fmt: skip


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuses options of export for a network that it does not compile."""
    if unused := [o for o, value in options.items() if value not in (None, "c")]:
        raise ExportError(f"{', '.join(unused)}: TVM does not compile this network of integers")


def _located(
    write: Callable[[], Report], count: int, title: Callable[[int], str], part: Callable[[int, Path, bool], Any]
) -> Report:
    """Exports a network. An error names the first node without which the nodes before it are exported, and compute what
    the evaluator does; part exports so many nodes, with an evaluator or without."""
    try:
        return write()
    except Refusal:
        raise
    except ExportError as error:
        fault, is_different = error, isinstance(error, check.Difference)

    def fails(count: int) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            try:
                part(count, Path(folder, "part.tar"), is_different)
            except check.Difference:
                return True
            except ExportError:
                return not is_different
        return False

    # The nodes are in order: half of those that are left are tried at a time.
    low, high = 0, count
    if not count or not fails(count):
        raise fault
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    if is_different:
        raise ExportError(f"{fault}; the first node that differs is {title(high - 1)}: replace it, "
                          "or pass --no-check if the difference is meant") from fault  # fmt: skip
    step = "" if "replace it" in str(fault) else ": replace it by others that compute the same"
    raise Refusal(f"{title(high - 1)}: {fault}{step}") from fault


def _bind(model: Any, params: Mapping[str, np.ndarray]) -> None:
    """Makes constants of inputs."""
    from onnx import helper, numpy_helper

    inputs = {i.name: i for i in model.graph.input}
    for name, value in params.items():
        if name not in inputs:
            raise ExportError(f"params: the network has no input {name}; it has {', '.join(inputs)}")
        kind = inputs[name].type.tensor_type
        if helper.np_dtype_to_tensor_dtype(value.dtype) != kind.elem_type or len(kind.shape.dim) != value.ndim:
            raise ExportError(f"params: {name} is {value.dtype} {value.shape}, unlike the network's input")
        model.graph.input.remove(inputs[name])
        model.graph.initializer.append(numpy_helper.from_array(value, name))


def _fix(model: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Fixes dimensions of a model's inputs, and refuses those that are left."""
    constants, used, left = {i.name for i in model.graph.initializer}, set(), []
    for value in model.graph.input:
        dimensions = value.type.tensor_type.shape.dim
        given = shapes.get(value.name)
        if given is not None and len(given) != len(dimensions):
            raise ExportError(f"input {value.name} has {len(dimensions)} dimensions, not {len(given)}")
        for i, dimension in enumerate(dimensions):
            key = value.name if given is not None else dimension.dim_param
            if key in shapes and (given is not None or not dimension.HasField("dim_value")):
                used.add(key)
                dimension.dim_value = (given or shapes[key])[i if given is not None else 0]
            elif not dimension.HasField("dim_value") and value.name not in constants:
                left.append(f"{value.name} has the dimension {dimension.dim_param or i}")
    if unused := shapes.keys() - used:
        raise ExportError(f"no input and no dimension that is not fixed has the name {', '.join(sorted(unused))}")
    if left:
        raise ExportError(f"{'; '.join(left)}: give it a value, as in --shape batch=1 or --shape x=1,49,10")
    if used:  # what follows from the inputs is inferred anew
        del model.graph.value_info[:]
    for value in model.graph.output if used else ():
        if any(not d.HasField("dim_value") for d in value.type.tensor_type.shape.dim):
            value.type.tensor_type.ClearField("shape")


def _export(
    model: Any, archive: Path, declared: dict[str, Any], verify: bool, name: str | None = None,
    options: Mapping[str, Any] = {},
) -> Report:  # fmt: skip
    from tvm.relax.frontend.onnx import from_onnx as read

    from .compiler import export
    from .reader import fields, type_of
    from .simplify import simplify

    weights = {i.name for i in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in weights]
    outputs = [o.name for o in model.graph.output]
    simple = simplify(model)
    module = _readable(_title(model), "network that TVM reads", lambda: read(simple))

    # A frontend that ignores an attribute computes other shapes.
    kinds = fields(type_of(module["main"].body.body))
    for output, kind in zip(outputs, kinds):
        if (want := declared.get(output)) and (fault := _unlike(kind, want)):
            raise check.Difference(f"output {output} is {fault}")

    names = [o + "_output" if o in inputs else o for o in outputs]
    evaluator = _evaluator(model, declared) if verify else None
    return export(module, archive, name=name, input_names=inputs, output_names=names, evaluator=evaluator, **options)


def _title(model: Any) -> str:
    return f"network {model.graph.name or 'without a name'}"


def _inferred(model: Any) -> tuple[Any, dict[str, tuple[str, tuple[int, ...] | None]]]:
    """Returns a model with all types and shapes that ONNX infers, and these with those that the model declares. A shape
    that is not fixed is None."""
    import onnx

    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        reason = next(iter(str(error).strip().splitlines()), "")
        raise ExportError(f"{_title(model)}: its shapes contradict each other: {reason}: correct its file") from error

    declared = {}
    for value in [*model.graph.value_info, *model.graph.output]:
        tensor = value.type.tensor_type
        if not tensor.elem_type:
            continue
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        fixed = tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
        declared[value.name] = dtype, tuple(d.dim_value for d in tensor.shape.dim) if fixed else None
    return model, declared


def _unlike(kind: Any, want: tuple[str, tuple[int, ...] | None]) -> str:
    """Returns in what a type of Relax differs from what is declared."""
    from .reader import tensor_of

    try:
        got = tensor_of("", kind)
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

    made = functools.cache(lambda: ReferenceEvaluator(model))  # when it is needed: it may lack an operator

    def evaluate(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        weights = {i.name for i in model.graph.initializer}
        names = [i.name for i in model.graph.input if i.name not in weights]
        with np.errstate(all="ignore"):
            results = made().run(None, dict(zip(names, inputs, strict=True)))

        # Some of its operators give other shapes than ONNX infers: these are no reference.
        for output, result in zip(model.graph.output, results):
            shape = declared.get(output.name, ("", None))[1]
            if shape is not None and np.shape(result) != shape:
                raise ValueError(f"output {output.name} has shape {np.shape(result)}, where ONNX infers {shape}")
        return results

    return evaluate


def _part(model: Any, inferred: Any, count: int) -> Any:
    """Returns the first nodes of a model, with all of their results that no other node reads."""
    known = {v.name: v for v in [*inferred.graph.value_info, *inferred.graph.output] if v.type.tensor_type.elem_type}
    part = type(model)()
    part.CopyFrom(inferred)
    del part.graph.node[count:], part.graph.output[:], part.graph.value_info[:]
    read = {name for node in part.graph.node for name in node.input}
    ends = {name for node in part.graph.node for name in node.output if name not in read}
    results = ends | {o.name for o in model.graph.output if o.name in read}
    part.graph.output.extend(known[name] for name in sorted(results) if name in known)
    return part


def from_torch(path: Path, archive: Path, name: str | None = None, verify: bool = True, **options: Any) -> Report:
    """Exports a file that torch.export.save has written. Inputs keep their names. options are those of export."""
    import torch
    from tvm.relax.frontend.torch import from_exported_program as read

    from .compiler import export

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
        return export(module, archive, name=name, evaluator=evaluate if verify else None, **options)


def from_tflite(
    path: Path, archive: Path, name: str | None = None, verify: bool = True, *, library: Path | None = None,
    **options: Any,
) -> Report:  # fmt: skip
    """Exports a file of TensorFlow Lite. Tensors keep their names; a result that is an input has another one. A network
    of integers calls CMSIS-NN, and needs no TVM: library is a folder with a library.json and CMSIS-NN, with which its C
    is compared. options are those of export, for networks that TVM compiles. An error names the first layer
    concerned."""
    from . import layers, lite

    network = _readable(path, "file of TensorFlow Lite", lambda: lite.Network(path))
    count, title = len(network.layers), lambda i: network.layers[i].title
    if not network.is_float:
        _check_options(options)
        if (graphs := network.model.SubgraphsLength()) != 1:
            raise ExportError(f"the file has {graphs} graphs: one is supported")

        def export(count: int, archive: Path, verify: bool, name: str | None = None) -> Report:
            part = network.first(count)
            evaluator = functools.partial(part.evaluate, functools.cache(part.interpreter)) if verify else None
            return layers.export(part, archive, name, evaluator, library)

        return _located(lambda: export(count, archive, verify, name), count, title, export)

    def write(count: int, archive: Path, verify: bool, name: str | None = None, **options: Any) -> Report:
        from .compiler import export

        part = network.first(count)
        module = _readable(path, "network that TVM reads", lambda: _read_tflite(part.model))
        inputs, outputs = part.names()
        options["evaluator"] = functools.partial(_evaluate_tflite, part) if verify else None
        return export(module, archive, name=name, input_names=inputs, output_names=outputs, **options)

    with _silent():
        return _located(lambda: write(count, archive, verify, name, **options), count, title, write)


def _read_tflite(model: Any) -> Any:
    """Returns a network as Relax."""
    from tvm import relax
    from tvm.relax.frontend.tflite import tflite_frontend as frontend

    class Converter(frontend.OperatorConverter):
        def convert_fully_connected(self, op: Any) -> Any:
            x, weights = self.get_input_tensors(op)[:2]
            depth = int(self.get_tensor_shape(weights)[1])
            if int(self.get_tensor_shape(x)[-1]) == depth:
                return super().convert_fully_connected(op)

            name, before = frontend.get_tensor_name(self.subgraph, x.tensor_idx), self.get_expr(x.tensor_idx)
            self.exp_tab.set_expr(name, relax.op.reshape(before, (-1, depth)), force_override=True)
            result = super().convert_fully_connected(op)
            self.exp_tab.set_expr(name, before, force_override=True)
            return result

    return frontend.from_tflite(model, op_converter=Converter)


def _evaluate_tflite(network: Any, arrays: Sequence[np.ndarray]) -> list[Any]:
    """Returns what TensorFlow Lite's reference kernels compute for inputs."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(model_content=network.data, experimental_preserve_all_tensors=True,
                              experimental_op_resolver_type=OpResolverType.BUILTIN_REF)  # fmt: skip
    interpreter.allocate_tensors()
    for tensor, array in zip(network.inputs, arrays, strict=True):
        # What infinities become depends on its kernels.
        interpreter.set_tensor(network.tensors.index(tensor), np.asarray_chkfinite(array))
    interpreter.invoke()
    return [interpreter.get_tensor(network.tensors.index(tensor)) for tensor in network.outputs]


def _readable(title: object, what: str, read: Callable[[], Any]) -> Any:
    """Returns what read does. A frontend raises errors of many classes for a file that it cannot read."""
    try:
        return read()
    except (OSError, ImportError):
        raise
    except Exception as error:
        error = error.with_traceback(None)  # which has objects of TVM
        raise ExportError(f"{title} is no {what}: {cause(error).rstrip('.')}") from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Discards what TVM's compiler and frontends print, in C++ and in Python."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
            for stream in (1, 2):
                os.dup2(nothing.fileno(), stream)
            yield
    finally:
        gc.collect()  # objects of TVM that an error has left print when they end
        for stream, handle in zip((1, 2), kept):
            os.dup2(handle, stream)
            os.close(handle)

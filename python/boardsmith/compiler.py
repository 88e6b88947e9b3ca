"""Compiles networks of Apache TVM, as Relax, to archives."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import tvm
from tvm import relax, tirx

from . import archive, check, kernels, lowering, quantized, reader
from .errors import ExportError, cause


def export(
    module: tvm.IRModule, path: str | PathLike[str], *, target: str | Mapping[str, Any] | tvm.target.Target = "c",
    params: Mapping[str, Any] | None = None, name: str | None = None, input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None, database: Any = None, evaluator: check.Evaluator | None = None,
) -> archive.Report:  # fmt: skip
    """Writes a network as an archive, and returns what it needs.

    module has a function main of tensors of fixed shapes; params are values for some of its parameters. target is of
    kind c, or llvm with the architecture of a board: operators are then an object. name, of
    lower-case letters, digits and underscores, is the model's; by default it is the file's. database is one of
    MetaSchedule: operators that it has a schedule for get that one. Names of tensors are those of main's parameters,
    and output, or output0, output1 ..., if not given here. Two exports of one module are equal byte by byte.
    evaluator computes the network's outputs for its inputs: the archive's C is run on this computer beside it.

    Raises ExportError for what is not supported, before anything is written.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: {path.parent} is not a folder")
    name = archive.model_name(name, path)
    module = lowering.bind(module, params)
    lowering.check(module)
    main = module["main"]
    inputs = archive.named(input_names, [p.name for p in main.params], "inputs")
    tensors = [reader.tensor_of(n, reader.type_of(p)) for n, p in zip(inputs, main.params)]
    target = _target(target)
    integers, floats = quantized.rewrite(module)
    share = check.FLOAT_SHARE if integers is module else getattr(evaluator, "share", check.QUANTIZED_SHARE)
    spans = check.INDEX_SPANS if lowering.has_indices(module) else check.SPANS
    verdict = functools.partial(check.verdict, evaluator=evaluator, share=share, spans=spans)
    module = lowering.lower(integers, target)
    if database is not None:
        with target, database:
            module = relax.transform.MetaScheduleApplyDatabase()(module)
    functions = {gv.name_hint: f for gv, f in module.functions_items() if isinstance(f, tirx.PrimFunc)}
    for function in functions:
        if function in ("run", "__tvm_main__"):
            raise ExportError(f"function {function}: its name in C is that of the network's own function: rename it")
        if not re.fullmatch(r"\w+", function, re.ASCII):
            raise ExportError(f"function {function}: its name in C has only letters, digits and _: rename it")
    lowered = kernels.lower({n: kernels.schedule(f) for n, f in functions.items()})
    network = reader.Reader(module["main"], lowered, tensors).plan
    kinds = reader.fields(reader.type_of(module["main"].body.body))
    if not kinds:
        raise ExportError("main returns no tensor")
    default = ["output"] if len(kinds) == 1 else [f"output{i}" for i in range(len(kinds))]
    outputs = archive.named(output_names, default, "outputs")
    network.outputs = [reader.tensor_of(n, k) for n, k in zip(outputs, kinds)]
    archive.check_names(network.inputs + network.outputs)
    network.place()

    used = sorted({s.kernel for s in network.steps})
    parts = {f"tvmgen_{name}_{k}": lowered[k] for k in used}
    code, binary = kernels.build(parts, target)
    # An object is for another computer: the same operators as C are compared in its place.
    compared = code if binary is None else kernels.build(parts, _target("c"))[0]
    exporter = f"boardsmith {archive.VERSION} with Apache TVM {tvm.__version__}"
    return archive.export(path, name, network, code, target=str(target), exporter=exporter, compare=verdict,
                          floats=floats, binary=binary, compared=compared)  # fmt: skip


def lower(
    module: tvm.IRModule, *, target: str | Mapping[str, Any] | tvm.target.Target = "c",
    params: Mapping[str, Any] | None = None,
) -> tvm.IRModule:  # fmt: skip
    """Returns the functions that export schedules, and a main that calls them: what MetaSchedule tunes for a database.

    Raises ExportError as export does.
    """
    module = lowering.bind(module, params)
    lowering.check(module)
    return lowering.lower(quantized.rewrite(module)[0], _target(target))


def _target(target: str | Mapping[str, Any] | tvm.target.Target) -> tvm.target.Target:
    try:
        parsed = tvm.target.Target(target)
    except Exception as error:
        raise ExportError(f"target {target}: {cause(error)}") from error
    if parsed.kind.name not in ("c", "llvm"):
        raise ExportError(f"target {parsed.kind.name} is not supported; c and llvm are")
    return parsed

"""Exports networks of Apache TVM 0.26 and later, as Relax, to archives that boardsmith builds.

>>> import boardsmith
>>> boardsmith.export(module, "kws.tar")

The archive has the operators as C on raw pointers, the constants as const arrays, one pool of memory for tensors and
temporaries, and a function tvmgen_<name>_run. Its format is Model Library Format 7 with the C interface.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import tvm
from tvm import relax, tirx

from . import archive, check, kernels, lowering, plan, quantized
from .kernels import ExportError

__all__ = ["ExportError", "Report", "export", "lower"]
__version__ = "0.1.0"

KEYWORDS = set("""auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool
true false asm typeof""".split())  # fmt: skip

# Macros of compilers, and of the headers that an archive's C includes.
MACRO = re.compile(r"unix|linux|i386|NULL|NAN|INFINITY|EOF|errno|math_errhandling|HUGE_VAL[FL]?"
                   r"|(FLT|DBL|LDBL|FP|M|TVM|DLPACK)_\w+|U?INT(PTR|MAX|_?(LEAST|FAST)?\d+)_(MAX|MIN|C)"
                   r"|(SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(MAX|MIN)")  # fmt: skip


@dataclass(frozen=True)
class Report:
    """What an archive needs. All sizes are bytes."""

    path: Path
    name: str
    inputs: tuple[plan.Tensor, ...]
    outputs: tuple[plan.Tensor, ...]
    workspace: int  # the pool of tensors between operators and of operators' temporaries
    peak: int  # the largest sum of what one operator needs of it: a lower bound of workspace
    constants: int
    operators: int
    floats: tuple[str, ...]  # operators that read quantized tensors and compute in float32
    verdict: check.Verdict  # whether the C computes what the network does


def export(
    module: tvm.IRModule, path: str | PathLike[str], *, target: str | Mapping[str, Any] | tvm.target.Target = "c",
    params: Mapping[str, Any] | None = None, name: str | None = None, input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None, database: Any = None, evaluator: check.Evaluator | None = None,
) -> Report:  # fmt: skip
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
    name = _model_name(name, path)
    module = lowering.bind(module, params)
    lowering.check(module)
    main = module["main"]
    inputs = _named(input_names, [p.name for p in main.params], "inputs")
    tensors = [plan.tensor_of(n, plan.type_of(p)) for n, p in zip(inputs, main.params)]
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
    network = plan.Reader(module["main"], lowered, tensors).plan
    kinds = plan.fields(plan.type_of(module["main"].body.body))
    if not kinds:
        raise ExportError("main returns no tensor")
    default = ["output"] if len(kinds) == 1 else [f"output{i}" for i in range(len(kinds))]
    outputs = _named(output_names, default, "outputs")
    network.outputs = [plan.tensor_of(n, k) for n, k in zip(outputs, kinds)]
    _check_names(network.inputs + network.outputs)
    network.place()
    return _write(path, name, network, lowered, target, floats, verdict)


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
        raise ExportError(f"target {target}: {kernels.cause(error)}") from error
    if parsed.kind.name not in ("c", "llvm"):
        raise ExportError(f"target {parsed.kind.name} is not supported; c and llvm are")
    return parsed


def _write(
    path: Path, name: str, network: plan.Plan, lowered: dict[str, kernels.Kernel], target: tvm.target.Target,
    floats: tuple[str, ...], compare: Callable[..., check.Verdict],
) -> Report:  # fmt: skip
    """Writes the archive, once its C was compared with the network."""
    source = archive.Source(name, network)
    used = sorted({s.kernel for s in network.steps})
    parts = {f"tvmgen_{name}_{k}": lowered[k] for k in used}
    code, binary = kernels.build(parts, target)
    members = {
        f"codegen/host/include/tvmgen_{name}.h": source.header().encode(),
        f"codegen/host/src/{name}_lib0.c": source.entry().encode(),
        f"codegen/host/src/{name}_lib1.c": source.operators(code).encode(),
    }

    # An object is for another computer: the same operators as C are compared in its place.
    compared = members
    if binary is not None:
        members[f"codegen/host/lib/{name}_lib0.o"] = binary
        in_c, _ = kernels.build(parts, _target("c"))
        compared = members | {f"codegen/host/src/{name}_lib1.c": source.operators(in_c).encode()}
    verdict = compare(name, compared, network)

    exporter = f"boardsmith {__version__} with Apache TVM {tvm.__version__}"
    members["metadata.json"] = archive.metadata(name, network, used, str(target), exporter, str(verdict)).encode()
    archive.write(path, members)
    return Report(path, name, tuple(network.inputs), tuple(network.outputs), network.pool, network.peak,
                  network.constant_bytes, len(network.steps), floats, verdict)  # fmt: skip


def _model_name(name: str | None, path: Path) -> str:
    name = re.sub(r"[^a-z0-9]", "_", path.name.split(".")[0].lower()) if name is None else name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ExportError(f"model name {name!r}: use lower-case letters, digits and underscores")
    if name.startswith("boardsmith_"):
        raise ExportError(f"model name {name!r}: names that begin with boardsmith_ are those of generated files")
    return name


def _named(names: Sequence[str] | None, default: list[str], kind: str) -> list[str]:
    if names is not None and len(names) != len(default):
        raise ExportError(f"{len(names)} names for {len(default)} {kind}")
    return [_c_compatible(n) for n in (default if names is None else names)]


def _c_compatible(name: str) -> str:
    # TVMGEN_<model>_WORKSPACE_SIZE is a macro of the header.
    usable = re.match(r"[A-Za-z]", name) and name not in KEYWORDS and not MACRO.fullmatch(archive.c_name(name))
    usable = usable and name.lower() != "workspace"
    return name if usable else "tensor_" + name


def _check_names(tensors: list[plan.Tensor]) -> None:
    seen: dict[str, str] = {}
    for t in tensors:
        key = archive.c_name(t.name).upper()
        if key in seen:
            raise ExportError(f"tensors {seen[key]!r} and {t.name!r} have the same name in C: rename one")
        seen[key] = t.name

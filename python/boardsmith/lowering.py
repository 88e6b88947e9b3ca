"""From a Relax module to operators and a plan, with TVM's stock passes; what is not supported is refused here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from .errors import ExportError
from .plan import tensor_of, type_of

PACKED_CALLS = {"relax.call_pure_packed", "relax.call_dps_packed", "relax.call_inplace_packed",
                "relax.call_py_func", "relax.invoke_closure", "relax.invoke_pure_closure"}  # fmt: skip


def bind(module: tvm.IRModule, params: Mapping[str, Any] | None) -> tvm.IRModule:
    """Makes constants of parameters, by their names or, as frontends detach them, by functions."""
    if not params:
        return module
    if "main" in params and isinstance(params["main"], (list, tuple)):
        main = module["main"]
        names = [p.name for p in main.params]
        count = int(main.attrs["num_input"]) if main.attrs and "num_input" in main.attrs else None
        if count is None:
            count = len(names) - len(params["main"])
        params = dict(zip(names[count:], params["main"]))
    values = {k: v.numpy() if hasattr(v, "numpy") else np.asarray(v) for k, v in params.items()}
    return relax.transform.BindParams("main", {k: tvm.runtime.tensor(v) for k, v in values.items()})(module)


def check(module: tvm.IRModule) -> None:
    """Refuses what no archive can hold, all of it in one error."""
    if "main" not in [gv.name_hint for gv in module.get_global_vars()]:
        raise ExportError("the module has no function main")
    main = module["main"]
    if not isinstance(main, relax.Function):
        raise ExportError("main is not a Relax function")
    faults: list[str] = []
    for p in main.params:
        try:
            tensor_of(f"input {_name(p)}", type_of(p))
        except ExportError as fault:
            faults.append(str(fault))
    if not isinstance(main.body, relax.SeqExpr):
        raise ExportError("main is not normalized: its body is not a sequence of bindings")
    for block in main.body.blocks:
        for binding in block.bindings:
            faults += _faults(module, binding)
    if faults:
        raise ExportError("; ".join(dict.fromkeys(faults)))


def _name(var: Any) -> str:
    return str(var.name)


def _faults(module: tvm.IRModule, binding: Any) -> Iterator[str]:
    name = _name(binding.var)
    if isinstance(binding, relax.MatchCast):
        yield f"{name}: match_cast, a shape known only at run time, is not supported"
        return
    value = binding.value
    if isinstance(value, relax.If):
        yield f"{name}: control flow (if) is not supported"
    elif isinstance(value, relax.Function):
        yield f"{name}: a function inside main is not supported"
    elif isinstance(value, relax.Call):
        yield from _call_faults(module, name, value)


def _call_faults(module: tvm.IRModule, name: str, call: Any) -> Iterator[str]:
    op = call.op
    if isinstance(op, relax.ExternFunc):
        yield f"{name}: call_packed of {op.global_symbol} is not supported"
    elif isinstance(op, tvm.ir.GlobalVar):
        if not isinstance(module[op], tirx.PrimFunc):
            yield f"{name}: call of function {op.name_hint} is not supported: inline it"
    elif isinstance(op, relax.Var):
        yield f"{name}: call of a closure is not supported"
    elif str(op.name) in PACKED_CALLS:
        callee = getattr(call.args[0], "global_symbol", call.args[0])
        yield f"{name}: {str(op.name).rpartition('.')[2]} of {callee} is not supported"
    else:
        yield from _shape_faults(name, type_of(call))


def _shape_faults(name: str, kind: Any) -> Iterator[str]:
    for part in getattr(kind, "fields", None) or [kind]:
        if isinstance(part, relax.TensorType):
            try:
                tensor_of(name, part)
            except ExportError as fault:
                yield str(fault)


def lower(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Applies TVM's passes from operators of Relax to calls of fused functions."""
    t = relax.transform
    with target:
        return tvm.transform.Sequential([
            t.DecomposeOpsForInference(), t.CanonicalizeBindings(), t.LegalizeOps(), t.AnnotateTIROpPattern(),
            t.FoldConstant(), t.RewriteDataflowReshape(), t.FuseOps(), t.FuseTIR(), t.DeadCodeElimination(["main"]),
            t.ToNonDataflow(), t.RemovePurityChecking(),
        ])(module)  # fmt: skip

"""From a Relax module to operators and a plan, with TVM's stock passes; what is not supported is refused here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from .errors import ExportError
from .kernels import apply
from .reader import fields, tensor_of, type_of

PACKED_CALLS = {"relax.call_pure_packed", "relax.call_dps_packed", "relax.call_inplace_packed",
                "relax.call_py_func", "relax.invoke_closure", "relax.invoke_pure_closure"}  # fmt: skip
INDEXED = {"relax.gather_elements", "relax.gather_nd", "relax.index_tensor", "relax.scatter_elements",
           "relax.scatter_nd", "relax.take"}  # fmt: skip


def bind(module: tvm.IRModule, params: Mapping[str, Any] | None) -> tvm.IRModule:
    """Makes constants of parameters, by their names or, as frontends detach them, by functions."""
    if not params or "main" not in [gv.name_hint for gv in module.get_global_vars()]:
        return module
    if not isinstance(params, Mapping):
        raise ExportError("params has no names: it maps each parameter's name to its value")
    main = module["main"]
    if "main" in params and isinstance(params["main"], (list, tuple)):
        names = [p.name for p in main.params]
        count = len(names) - len(params["main"])
        inputs = int(main.attrs["num_input"]) if main.attrs and "num_input" in main.attrs else max(count, 0)
        if inputs != count:
            raise ExportError(f"params: {len(params['main'])} values for {len(names) - inputs} parameters of main")
        params = dict(zip(names[count:], params["main"]))
    values = {k: v.numpy() if hasattr(v, "numpy") else np.asarray(v) for k, v in params.items()}
    _check_values({p.name: type_of(p) for p in main.params}, values)
    return relax.transform.BindParams("main", {k: tvm.runtime.tensor(v) for k, v in values.items()})(module)


def _check_values(kinds: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> None:
    """Refuses values that are of no parameter, or not of its type: an operator might broadcast them."""
    faults = []
    for name, value in values.items():
        if name not in kinds:
            faults.append(f"main has no parameter {name}; it has {', '.join(kinds)}")
            continue
        want = tensor_of(name, kinds[name])
        if (str(value.dtype), value.shape) != (want.dtype, want.shape):
            faults.append(f"{name} is {value.dtype} {value.shape}, not {want.dtype} {want.shape}")
    if faults:
        raise ExportError("params: " + "; ".join(faults))


def check(module: tvm.IRModule) -> None:
    """Refuses what no archive can hold, all of it in one error."""
    if not hasattr(tirx, "Return"):
        raise ExportError(f"Apache TVM {tvm.__version__} is not supported; 0.26 and later are")
    if "main" not in [gv.name_hint for gv in module.get_global_vars()]:
        raise ExportError("the module has no function main")
    main = module["main"]
    if not isinstance(main, relax.Function):
        raise ExportError("main is not a Relax function")
    if not isinstance(main.body, relax.SeqExpr):
        raise ExportError("main is not normalized: its body is not a sequence of bindings")
    faults: dict[str, None] = {}  # in order, each once
    tensors = [(f"input {p.name}", type_of(p)) for p in main.params]
    for binding in (b for block in main.body.blocks for b in block.bindings):
        if what := _unsupported(module, binding):
            faults[f"{binding.var.name}: {what}"] = None
        elif isinstance(binding.value, relax.Call):
            types = fields(type_of(binding.value))
            tensors += [(str(binding.var.name), t) for t in types if isinstance(t, relax.TensorType)]
    for name, kind in tensors:
        try:
            tensor_of(name, kind)
        except ExportError as fault:
            faults[str(fault)] = None
    if faults:
        raise ExportError("; ".join(faults))


def has_indices(module: tvm.IRModule) -> bool:
    """Reports whether an operator takes indices."""
    calls = (b.value for block in module["main"].body.blocks for b in block.bindings)
    names = {str(getattr(c.op, "name", "")) for c in calls if isinstance(c, relax.Call)}
    return bool(names & (INDEXED | {"relax.one_hot", "relax.dynamic_strided_slice"}))


def _unsupported(module: tvm.IRModule, binding: Any) -> str:
    """Returns what no archive can hold of a binding."""
    if isinstance(binding, relax.MatchCast):
        return "match_cast, a shape known only at run time, is not supported"
    value = binding.value
    if isinstance(value, relax.If):
        return "control flow (if) is not supported"
    if isinstance(value, relax.Function):
        return "a function inside main is not supported"
    op = value.op if isinstance(value, relax.Call) else None
    if isinstance(op, relax.ExternFunc):
        return f"call_packed of {op.global_symbol} is not supported"
    if isinstance(op, tvm.ir.GlobalVar) and not isinstance(module[op], tirx.PrimFunc):
        return f"call of function {op.name_hint} is not supported: inline it"
    if isinstance(op, relax.Var):
        return "call of a closure is not supported"
    if str(getattr(op, "name", "")) == "relax.scatter_elements" and str(value.attrs.reduction) == "mean":
        return "scatter_elements with the reduction mean is not supported: TVM computes another one for several values"
    if isinstance(op, tvm.ir.Op) and str(op.name) in PACKED_CALLS:
        callee = getattr(value.args[0], "global_symbol", value.args[0])
        return f"{str(op.name).rpartition('.')[2]} of {callee} is not supported"
    return ""


@relax.expr_functor.mutator
class _Counted(relax.expr_functor.PyExprMutator):
    """Counts negative indices from the end, as ONNX and PyTorch do: these operators of TVM read outside the tensor."""

    def visit_call_(self, call: relax.Call) -> Any:
        call = super().visit_call_(call)
        name = str(call.op.name) if isinstance(call.op, tvm.ir.Op) else ""
        if name == "relax.one_hot":
            return relax.Call(call.op, [self._count(call.args[0], int(call.attrs.depth)), *call.args[1:]], call.attrs)
        if name not in INDEXED:
            return call
        lengths, index = [int(n) for n in type_of(call.args[0]).shape], call.args[1]
        if name == "relax.index_tensor":
            parts = [self.builder_.emit(relax.TupleGetItem(index, i)) for i in range(len(fields(type_of(index))))]
            parts = [self._count(part, n) for part, n in zip(parts, lengths)]
            if len(parts) == 1:  # TVM finds no name for such an operator, once it is fused
                return relax.op.take(call.args[0], parts[0], axis=0)
            index = relax.Tuple(parts)
        elif name == "relax.scatter_elements":  # it counts them itself
            return self._scatter(call, int(call.attrs.axis) % len(lengths), lengths)
        elif name.endswith("_nd"):
            batch = int(call.attrs.batch_dims) if name == "relax.gather_nd" else 0
            index = self._count(index, lengths[batch : batch + int(type_of(index).shape[-1])])
        elif name == "relax.gather_elements" or call.attrs.mode == "fast":
            axis = call.attrs.axis
            index = self._count(index, math.prod(lengths) if axis is None else lengths[int(axis)])
        return relax.Call(call.op, [call.args[0], index, *call.args[2:]], call.attrs)

    def _count(self, index: Any, lengths: Any) -> Any:
        if not isinstance(type_of(index), relax.TensorType):
            at = getattr(index, "value", index)  # of an integer, in TVM 0.26 in another object
            at = getattr(at, "value", at)
            return relax.prim_value(at + lengths) if isinstance(at, int) and at < 0 else index
        dtype, emit = str(type_of(index).dtype), self.builder_.emit
        if not dtype.startswith("int"):
            return index
        if dtype in ("int8", "int16"):
            index, dtype = emit(relax.op.astype(index, "int32")), "int32"
        below = emit(relax.op.less(index, relax.const(0, dtype)))
        return emit(relax.op.where(below, emit(relax.op.add(index, relax.const(np.array(lengths), dtype))), index))

    def _scatter(self, call: relax.Call, axis: int, lengths: list[int]) -> Any:
        """Returns a scatter_elements whose indices TVM finds in the data, also if they have fewer rows than it."""
        shape, emit = [int(n) for n in type_of(call.args[1]).shape], self.builder_.emit
        if shape[1:axis] == lengths[1:axis] and shape[axis + 2 :] == lengths[axis + 2 :]:
            return call
        places = [relax.const(np.expand_dims(at, -1), "int64") for at in np.indices(shape)]
        places[axis] = emit(relax.op.expand_dims(self._count(call.args[1], lengths[axis]), -1))
        places[axis] = emit(relax.op.astype(places[axis], "int64"))
        where = emit(relax.op.concat(places, -1))
        return relax.op.scatter_nd(call.args[0], where, call.args[2], str(call.attrs.reduction))

    @staticmethod
    def of(module: tvm.IRModule) -> tvm.IRModule:
        counted = _Counted(module)
        counted.builder_.update_func(module.get_global_var("main"), counted.visit_expr(module["main"]))
        return counted.builder_.get()


def lower(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Applies TVM's passes from operators of Relax to calls of fused functions."""
    t = relax.transform
    passes = tvm.transform.Sequential([
        t.DecomposeOpsForInference(), t.CanonicalizeBindings(), relax.backend.DispatchSortScan(), t.LegalizeOps(),
        t.AnnotateTIROpPattern(), t.FoldConstant(), t.RewriteDataflowReshape(), t.FuseOps(), t.FuseTIR(),
        t.DeadCodeElimination(["main"]), t.ToNonDataflow(), t.RemovePurityChecking(),
    ])  # fmt: skip
    module = _Counted.of(module)
    bindings = [b for block in module["main"].body.blocks for b in block.bindings if isinstance(b.value, relax.Call)]
    with target:
        return apply(lambda part: passes(part()), lambda: module, {
            f"{_title(b.value)} ({b.var.name})": lambda b=b: _alone(module, b.value) for b in bindings})


def _title(call: relax.Call) -> str:
    """Returns an operator's name with the data types of its operands."""
    dtypes = {str(t.dtype): None for a in call.args if isinstance(t := type_of(a), relax.TensorType)}
    return f"{getattr(call.op, 'name', call.op)} of {', '.join(dtypes)}" if dtypes else str(call.op)


def _alone(module: tvm.IRModule, call: relax.Call) -> tvm.IRModule:
    """Returns a module whose main is one operator."""
    builder = relax.BlockBuilder(tvm.IRModule({gv: f for gv, f in module.functions_items() if gv.name_hint != "main"}))
    with builder.function("main", list(relax.analysis.free_vars(call))):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(call))
        builder.emit_func_output(result)
    return builder.get()

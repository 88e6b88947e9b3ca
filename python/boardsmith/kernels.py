"""Operators as C: a default schedule, and functions on raw pointers.

A kernel gets pointers to its arguments, its results and its temporaries, in this order, and returns 0. It allocates
nothing: the memory plan places temporaries beside the tensors.
"""

from __future__ import annotations

import functools
import math
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import PointerType, PrimType

from .errors import ExportError, cause
from .plan import DTYPES, byte_size, c_name

# Allocations of at most this many bytes stay in the kernel, on its stack.
STACK_BYTES = 64

# So many results are computed side by side, and so many rounds of an inner loop that sums are written as one: the first
# of these that divides their number.
ROUNDS = 4, 3, 2


def apply(step: Callable[[Any], Any], whole: Any, parts: Mapping[str, Any]) -> Any:
    """Applies a step of TVM to all operators, or refuses the first of the parts that it fails for.

    TVM raises errors of many classes, most of them without the operator's name.
    """
    try:
        return step(whole)
    except Exception as failure:
        for name, part in parts.items():
            try:
                step(part)
            except Exception as error:
                raise ExportError(f"TVM generates no code for operator {name} ({cause(error)}): "
                                  "replace it, or convert its operands") from error  # fmt: skip
        raise ExportError(f"TVM generates no code for the network: {cause(failure)}") from failure


@dataclass(frozen=True)
class Kernel:
    """A lowered operator. temporaries are the bytes of its last parameters."""

    function: tirx.PrimFunc
    temporaries: tuple[int, ...]


def _attempt(step: Callable[[], Any]) -> bool:
    """Applies a step of a schedule. A step that the schedule refuses changes nothing."""
    try:
        step()
    except s_tir.ScheduleError:
        return False
    return True


def _is_spatial(block: Any) -> bool:
    return all(int(v.iter_type) == 0 for v in block.iter_vars)


def _calls_function(block: Any) -> bool:
    """Reports whether a block computes a function such as exp, whose result is worth its memory."""
    return any(_name(call) not in CHEAP_CALLS for call in nodes(block.body, tvm.ir.Call))


ARITHMETIC = tvm.sym if hasattr(tvm, "sym") else tvm.arith  # TVM 0.27, or 0.26
LOAD = getattr(tvm.ir, "TensorLoad", None) or tirx.BufferLoad
REALIZE = getattr(s_tir, "SBlockRealize", None) or tirx.SBlockRealize

CHEAP_CALLS = {"if_then_else", "likely", "shift_left", "shift_right", "bitwise_and",
               "bitwise_or", "bitwise_xor", "bitwise_not"}  # fmt: skip


def _elements(block: Any) -> int:
    """Returns the number of elements that a block computes."""
    return math.prod(int(v.dom.extent) for v in block.iter_vars if int(v.iter_type) == 0)


def _inline(sch: s_tir.Schedule) -> None:
    """Inlines padding and element-wise steps into the blocks that read them."""
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        node, consumers = sch.get(block), sch.get_consumers(block)
        if not _is_spatial(node) or not consumers:
            continue
        once = len(consumers) == 1 and _is_spatial(sch.get(consumers[0]))
        once = once and _elements(sch.get(consumers[0])) <= _elements(node)
        if once or not _calls_function(node):
            _attempt(lambda block=block: sch.compute_inline(block))


def _accumulate(sch: s_tir.Schedule) -> None:
    """Computes each reduction in a register, right where its result is used."""
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        node = sch.get(block)
        if _is_spatial(node):
            continue
        consumers = sch.get_consumers(block)
        fits = len(consumers) == 1 and _is_spatial(sch.get(consumers[0]))
        if not fits or _elements(sch.get(consumers[0])) != _elements(node):
            consumers = []
            if not _attempt(lambda: consumers.append(sch.cache_write(block, 0, "global"))):
                continue
        together = _side_by_side(sch, block, consumers[0])
        loops = sch.get_loops(consumers[0])[:-1 if together else None]
        if not loops or not _attempt(lambda: sch.compute_at(block, loops[-1])):
            continue
        own = sch.get_loops(block)[len(loops):]
        inner = own[0] if together else None  # spatial loops come before those of the sum
        if own := own[1:] if together else own:
            own = _outermost_bounds(sch, block, own)
            if inner is not None:
                sch.reorder(*own, inner)
                sch.unroll(inner)
            _attempt(lambda: sch.decompose_reduction(block, own[0]))


def _side_by_side(sch: s_tir.Schedule, block: Any, consumer: Any) -> int:
    """Splits a loop of results that have operands or bounds of padding in common, so that some are computed side by
    side with one load of these. Returns their number, which is the length of the innermost loop, or 0."""
    node, loops = sch.get(block), sch.get_loops(consumer)
    places = [v for v in node.iter_vars if int(v.iter_type) == 0]
    if [int(v.dom.extent) for v in places] != [int(sch.get(loop).extent) for loop in loops]:
        return 0

    bounded = _bounded(node)
    operands = [load for load in nodes(node.body, LOAD) if nodes(load, tirx.Var)]
    for at, v in enumerate(places):
        count = next((n for n in ROUNDS if int(v.dom.extent) % n == 0), 0)
        own = [_depends(load, v.var) for load in operands]
        if count and any(own) and v.var.name not in bounded and (bounded or not all(own)):
            outer, inner = sch.split(loops[at], [None, count])
            sch.reorder(*loops[:at], outer, *loops[at + 1:], inner)
            sch.unroll(inner)
            return count
    return 0


def _bounded(node: Any) -> set[str]:
    """Returns the names of the variables that conditions of inlined padding depend on."""
    conditions = [call.args[0] for call in nodes(node.body, tvm.ir.Call) if _name(call) == "if_then_else"]
    return {v.name for condition in conditions for v in nodes(condition, tirx.Var)}


def _outermost_bounds(sch: s_tir.Schedule, block: Any, loops: list[Any]) -> list[Any]:
    """Reorders a reduction's loops: those that conditions of inlined padding depend on come first."""
    node = sch.get(block)
    bounded = _bounded(node)
    realize = next(r for r in nodes(sch.get(loops[0]), REALIZE) if r.block.same_as(node))
    used = {x.name for v, value in zip(node.iter_vars, realize.iter_values) if v.var.name in bounded
            for x in nodes(value, tirx.Var)}  # fmt: skip
    order = sorted(loops, key=lambda loop: sch.get(loop).loop_var.name not in used)
    return order if used and len(order) > 1 and _attempt(lambda: sch.reorder(*order)) else loops


def nodes(root: Any, kind: Any) -> list[Any]:
    """Returns the nodes of one class, children first."""
    matches: list[Any] = []
    tvm_ffi.structural_walk(root, (kind, matches.append), order="post")
    return matches


def schedule(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Applies the default schedule. A function with a schedule from a database, or that the default one does not fit,
    remains as it is."""
    if any(str(key).endswith("is_scheduled") for key in (function.attrs or {}).keys()):
        return function
    sch = s_tir.Schedule(function, error_render_level="none")
    if not _attempt(lambda: sch.get_sblock("root")):
        return function
    _inline(sch)
    _accumulate(sch)
    return sch.mod["main"]


def _conjuncts(condition: Any) -> list[Any]:
    return [*_conjuncts(condition.a), *_conjuncts(condition.b)] if isinstance(condition, tirx.And) else [condition]


def _name(call: Any) -> str:
    """Returns the name of a call's operator without its dialect, which differs between versions of TVM."""
    return str(getattr(call.op, "name", "")).rpartition(".")[2]


def _dtype(value: Any) -> str:
    return str(value.dtype if hasattr(value, "dtype") else value.ty.dtype)


def _unpadded(value: Any, neutral: float) -> tuple[Any, Any] | None:
    """Returns a factor's condition and the value under it, if it is neutral otherwise."""
    if isinstance(value, tirx.Cast):
        inner = _unpadded(value.value, neutral)
        return inner and (inner[0], tirx.Cast(_dtype(value), inner[1]))
    if isinstance(value, tirx.Mul) and neutral == 0:
        for a, b in ((value.a, value.b), (value.b, value.a)):
            if inner := _unpadded(a, neutral):
                return inner[0], tirx.Mul(inner[1], b)
    if isinstance(value, tvm.ir.Call) and _name(value) == "if_then_else":
        other = value.args[2]
        if isinstance(other, (tirx.IntImm, tirx.FloatImm)) and other.value == neutral:
            return value.args[0], value.args[1]
    return None


def _skip_padding(store: Any) -> Any:
    """Turns a sum or maximum over inlined padding into a step that is skipped where the padding is."""
    value = store.value
    load = tirx.BufferLoad(store.buffer, store.indices)
    if not isinstance(value, (tirx.Add, tirx.Max)) or not tvm_ffi.structural_equal(value.a, load):
        return store
    if str(store.buffer.dtype) == "bool":  # has no least value
        return store
    neutral = 0 if isinstance(value, tirx.Add) else float(tirx.min_value(str(store.buffer.dtype)).value)
    if not (inner := _unpadded(value.b, neutral)):
        return store
    step = tirx.BufferStore(store.buffer, type(value)(load, inner[1]), store.indices)
    return _under(_conjuncts(inner[0]), step)


def _started(store: Any) -> Any:
    """Starts a maximum or a minimum at infinity: TVM starts at the largest finite number, which elements may exceed."""
    value, dtype = store.value, str(store.buffer.dtype)
    if isinstance(value, tirx.FloatImm) and abs(value.value) == float(tirx.max_value(dtype).value):
        return tirx.BufferStore(store.buffer, tirx.FloatImm(dtype, math.copysign(math.inf, value.value)), store.indices)
    return store


def _hoist(stmt: Any) -> Any:
    """Skips padding: moves each condition out of a loop on which it does not depend, or into the loop's bounds. Loops
    are serial: there is one core."""
    if isinstance(stmt, tirx.BufferStore):
        return _skip_padding(_started(stmt))
    if isinstance(stmt, tirx.SeqStmt):
        return _under_one(list(stmt.seq))
    if not isinstance(stmt, tirx.For):
        return stmt
    body, inside, outside, first, end = stmt.body, [], [], [stmt.min], [stmt.min + stmt.extent]
    while isinstance(body, tirx.IfThenElse) and body.else_case is None:
        if nodes(body.condition, LOAD):
            break  # what the loop writes may change it
        if not any(v.same_as(stmt.loop_var) for v in nodes(body.condition, tirx.Var)):
            outside.append(body.condition)
        elif not _bound(body.condition, stmt.loop_var, first, end):
            inside.append(body.condition)
        body = body.then_case
    low, high = functools.reduce(tirx.max, first), functools.reduce(tirx.min, end)
    inner = _under(inside, body)
    kind = tirx.ForKind.SERIAL if stmt.kind == tirx.ForKind.PARALLEL else stmt.kind
    steps = list(inner.seq) if isinstance(inner, tirx.SeqStmt) else [inner]
    if len(first) == len(end) == 1 and (together := _rounds(stmt, steps)):
        return _under(outside, _together(stmt, steps, together))
    return _under(outside, tirx.For(stmt.loop_var, low, high - low, kind, inner, None, stmt.annotations))


def _source(load: Any) -> Any:
    """Returns the memory that is read."""
    return load.source if hasattr(load, "source") else load.buffer  # TVM 0.27, or 0.26


def _depends(node: Any, var: Any) -> bool:
    return any(v.same_as(var) for v in nodes(node, tirx.Var))


def _rounds(loop: tirx.For, steps: list[Any]) -> int:
    """Returns how many rounds of an inner loop are written as one; 0 if it does anything but sums, of which none reads
    what another one has changed, or if its length is not fixed."""
    if not all(isinstance(s, tirx.BufferStore) for s in steps):
        return 0
    if not isinstance(loop.min, tirx.IntImm) or not isinstance(loop.extent, tirx.IntImm):
        return 0
    for step in steps:
        changed = [load for load in nodes(step.value, LOAD) if any(_source(load).same_as(s.buffer) for s in steps)]
        total = tirx.BufferLoad(step.buffer, step.indices)
        if not changed or not all(tvm_ffi.structural_equal(load, total) for load in changed):
            return 0
        if any(_depends(i, loop.loop_var) for i in step.indices):
            return 0
    return next((n for n in (ROUNDS if len(steps) == 1 else (2,)) if int(loop.extent) % n == 0), 0)


def _together(loop: tirx.For, steps: list[Any], count: int) -> Any:
    """Returns an inner loop that sums with so many rounds as one, or this one alone if it is all. Each sum is one
    expression: TVM keeps what it has read of an element over a step that changes it."""
    var, dtype, rounds = loop.loop_var, _dtype(loop.loop_var), int(loop.extent) // count
    first = var * count if rounds > 1 else tirx.IntImm(dtype, 0)
    sums = []
    for step in steps:
        total = value = tirx.BufferLoad(step.buffer, step.indices)
        for at in (first + int(loop.min) + i for i in range(count)):
            own = _rewrite(step, lambda node, at=at: at if var.same_as(node) else node)
            own = _rewrite(own, lambda node, so_far=value: so_far if tvm_ffi.structural_equal(node, total) else node)
            value = own.value
        sums.append(tirx.BufferStore(step.buffer, value, step.indices))
    body = tirx.SeqStmt(sums) if len(sums) > 1 else sums[0]
    bounds = tirx.IntImm(dtype, 0), tirx.IntImm(dtype, rounds)
    return tirx.For(var, *bounds, tirx.ForKind.SERIAL, body, None, loop.annotations) if rounds > 1 else body


def _bound(condition: Any, var: Any, first: list[Any], end: list[Any]) -> bool:
    """Adds a condition on a loop's variable to the bounds of the loop, if it is simple enough."""
    if not isinstance(condition, (tirx.LT, tirx.LE, tirx.GT, tirx.GE)):
        return False
    less, more = condition.a, condition.b
    if isinstance(condition, (tirx.GT, tirx.GE)):
        less, more = more, less
    linear = ARITHMETIC.detect_linear_equation(more - less, [var])
    if len(linear) != 2 or not isinstance(linear[0], tirx.IntImm) or abs(int(linear[0])) != 1:
        return False
    rest = linear[1] - 1 if isinstance(condition, (tirx.LT, tirx.GT)) else linear[1]
    if int(linear[0]) == 1:
        first.append(-rest)  # var + rest >= 0
    else:
        end.append(rest + 1)  # rest - var >= 0
    return True


def _under_one(steps: list[Any]) -> Any:
    """Returns steps one after the other; a condition that all of them have comes once, before them."""
    first = steps[0]
    if all(isinstance(s, tirx.IfThenElse) and s.else_case is None and not nodes(s.condition, LOAD)
           and tvm_ffi.structural_equal(s.condition, first.condition) for s in steps):  # fmt: skip
        return tirx.IfThenElse(first.condition, _under_one([s.then_case for s in steps]), None)
    return tirx.SeqStmt(steps)


def _under(conditions: list[Any], stmt: Any) -> Any:
    return functools.reduce(lambda inner, condition: tirx.IfThenElse(condition, inner, None), conditions[::-1], stmt)


def _passes() -> tvm.transform.Sequential:
    """TVM's passes for operators, without those for threads and packed functions."""
    st, tx = s_tir.transform, tirx.transform
    simplify = st.StmtSimplify if hasattr(st, "StmtSimplify") else tx.StmtSimplify
    return tvm.transform.Sequential([
        st.CanonicalizeLoop(), st.LowerInitBlock(), st.PlanAndUpdateBufferAllocationLocation(),
        st.ConvertBlocksToOpaque(), st.CompactBufferAllocation(), st.LowerMatchBuffer(), simplify(),
        st.LowerOpaqueBlock(), tx.FlattenBuffer(), tx.NarrowDataType(32), st.LoopPartition(),
        tx.VectorizeLoop(False), tx.StorageRewrite(), tx.UnrollLoop(), st.RenormalizeSplitPattern(),
        tx.StmtSimplify(), tx.RemoveNoOp(), st.RewriteUnsafeSelect(),
    ])  # fmt: skip


def _raw(function: tirx.PrimFunc) -> Kernel:
    """Replaces buffers of parameters by pointers, and larger allocations by more parameters."""
    parameters, temporaries = [], []

    def pointer(name: str, buffer: Any) -> Any:
        parameters.append(tirx.Var(c_name(name), PointerType(PrimType(str(buffer.dtype)))))
        return tirx.DeclBuffer(buffer, data=parameters[-1])

    declarations = [pointer(p.name + "_ptr", p) for p in function.params]
    offsets = [p.elem_offset for p in function.params if isinstance(p.elem_offset, tirx.Var)]

    def begin(node: Any) -> Any:
        return tirx.IntImm(_dtype(node), 0) if any(offset.same_as(node) for offset in offsets) else node

    def place(stmt: Any) -> Any:
        if not isinstance(stmt, tirx.AllocBuffer):
            return stmt
        buffer = stmt.buffer
        size = byte_size(str(buffer.dtype), tuple(int(x) for x in buffer.shape))
        if size <= STACK_BYTES and buffer.scope() == "global":
            return stmt
        temporaries.append(size)
        return pointer(f"temporary{len(temporaries)}", buffer)

    body = _rewrite(function.body, begin) if offsets else function.body
    body = _rewrite(_rewrite(body, place), _hoist)
    success = tirx.Return(tirx.IntImm("int32", 0))
    raw = tirx.PrimFunc(parameters, tirx.SeqStmt([*declarations, body, success]), ret_type=PrimType("int32"))
    return Kernel(raw.with_attr("tirx.noalias", True), tuple(temporaries))


def lower(functions: dict[str, tirx.PrimFunc]) -> dict[str, Kernel]:
    """Lowers scheduled operators to loops on raw pointers."""
    for name, function in functions.items():
        for call in nodes(function.body, tvm.ir.Call):
            if _name(call) == "tvm_call_packed":
                raise ExportError(f"operator {name} calls {call.args[0].value}, a function of TVM's runtime, "
                                  "which no archive has: replace it")  # fmt: skip
    modules = {n: tvm.IRModule({n: f}) for n, f in functions.items()}
    module = apply(lambda part: _passes()(part), tvm.IRModule(functions), modules)
    return {gv.name_hint: _raw(f) for gv, f in module.functions_items()}


def build(kernels: dict[str, Kernel], target: tvm.target.Target) -> tuple[str, bytes | None]:
    """Returns the C of lowered operators, without what it includes; for target llvm, their declarations and an object.
    They have external linkage, and return 0."""
    _add_intrinsics()
    built = apply(lambda parts: _build(parts, target), kernels, {n: {n: k} for n, k in kernels.items()})
    if target.kind.name == "c":
        lines = [line for line in str(built.inspect_source()).splitlines()
                 if not line.startswith(("#include", "void* __tvm_ffi")) and line != "#define TVM_EXPORTS"]  # fmt: skip
        return "\n".join(lines), None
    with tempfile.TemporaryDirectory() as folder:
        built.write_to_file(f"{folder}/kernels.o", "o")
        return "".join(_declaration(n, k) for n, k in kernels.items()), Path(folder, "kernels.o").read_bytes()


SHIFTS = {"LShift": tirx.shift_left, "BitwiseNot": tirx.bitwise_not}
# C computes with narrow integers as int: these types have all results of one step before it is cut to the narrow type.
WIDER = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


def _in_c(node: Any) -> Any:
    """Returns what has C for a node: calls for infinity and what is no number, and steps on narrow integers that give a
    narrow integer, which wraps as TVM's does."""
    name = type(node).__name__
    if name == "FloatImm" and not math.isfinite(node.value):
        dtype = _dtype(node)
        infinity = tirx.call_pure_extern(dtype, "__builtin_inff" if dtype == "float32" else "__builtin_inf")
        other = infinity if math.isnan(node.value) else tirx.FloatImm(dtype, 0)
        return infinity if node.value > 0 else tirx.Sub(other, infinity)
    if name in ("Add", "Sub", "Mul", "Div"):
        step, operands = type(node), [node.a, node.b]
    elif name in SHIFTS:  # TVM 0.27
        step, operands = SHIFTS[name], [node.a, node.b] if hasattr(node, "b") else [node.a]
    elif name == "Call" and _name(node) in ("shift_left", "bitwise_not"):  # TVM 0.26
        step, operands = getattr(tirx, _name(node)), list(node.args)
    else:
        return node
    wider = WIDER.get(_dtype(node))
    return node if wider is None else tirx.Cast(_dtype(node), step(*(tirx.Cast(wider, o) for o in operands)))


def _rewrite(stmt: Any, change: Callable[[Any], Any]) -> Any:
    """Replaces the nodes of a statement, from its parts up."""
    if hasattr(tvm_ffi, "structural_map"):  # TVM 0.27
        return tvm_ffi.structural_map(stmt, change)
    return tirx.stmt_functor.ir_transform(stmt, None, change)


def _build(kernels: dict[str, Kernel], target: tvm.target.Target) -> Any:
    tx = tirx.transform
    finish = tvm.transform.Sequential([
        tx.BindTarget(target), tx.StmtSimplify(), tx.RemoveNoOp(), tx.CommonSubexprElim(), tx.LowerIntrin(),
    ])  # fmt: skip
    module = finish(tvm.IRModule({n: k.function.with_attr("global_symbol", n) for n, k in kernels.items()}))
    if target.kind.name == "c":
        module = tvm.IRModule({v: f.with_body(_rewrite(f.body, _in_c)) for v, f in module.functions_items()})
    return tvm.get_global_func(f"target.build.{target.kind.name}")(module, target)


@functools.cache
def _add_intrinsics() -> None:
    """Adds functions of C that TVM calls but has no name for."""

    def absolute(call: Any) -> Any:
        name = "fabsf" if _dtype(call) == "float32" else "fabs"
        return tirx.call_pure_extern(_dtype(call), name, call.args[0])

    register = getattr(tirx, "register_intrin_lowering", None) or tvm.ir.register_intrin_lowering  # TVM 0.27, or 0.26
    register("tirx.fabs", target="c", f=absolute)


def _declaration(name: str, kernel: Kernel) -> str:
    types = [p.ty if hasattr(p, "ty") else p.type_annotation for p in kernel.function.params]
    parameters = ", ".join(DTYPES[str(t.element_type.dtype)][0] + "*" for t in types)
    return f"extern int32_t {name}({parameters});\n"

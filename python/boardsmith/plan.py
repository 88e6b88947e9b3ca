"""The order of a network's operators, and one plan of memory for their tensors and temporaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from tvm import relax, tirx

from .kernels import DTYPES, ExportError, Kernel, byte_size

ALIGNMENT = 8  # bytes; of every offset of the pool: that of the largest element


@dataclass(frozen=True)
class Tensor:
    """An input or output of a network."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The tensor's bytes."""
        return byte_size(self.dtype, self.shape)


class Value(NamedTuple):
    """Where a tensor lies: an input, a constant, or a buffer. The space is "input", "constant" or "buffer"."""

    space: str
    index: int


@dataclass
class Buffer:
    """Memory that the plan places. first and last are the steps that use it; output is the result that it is."""

    size: int
    first: int
    last: int
    output: int | None = None
    offset: int = 0


class Step(NamedTuple):
    """A call of a kernel with its arguments, results and temporaries."""

    kernel: str
    arguments: list[Value]


@dataclass
class Plan:
    """A network as a list of calls. The pool holds all buffers but those that are outputs."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    results: list[Value] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    pool: int = 0  # bytes

    @property
    def peak(self) -> int:
        """The largest sum of the bytes of buffers that one step needs: no plan has a smaller pool."""
        return max((sum(b.size for b in self._placed() if b.first <= t <= b.last) for t in range(len(self.steps))),
                   default=0)  # fmt: skip

    @property
    def constant_bytes(self) -> int:
        """The bytes of all constants."""
        return sum(a.nbytes for a in self.constants)

    def _placed(self) -> list[Buffer]:
        return [b for b in self.buffers if b.output is None]

    def place(self) -> None:
        """Sets the offset of each buffer: buffers whose lives overlap do not share bytes."""
        orders = (lambda b: (-b.size, b.first), lambda b: (b.first - b.last, -b.size),
                  lambda b: (b.first, -b.size), lambda b: (-b.last, -b.size))  # fmt: skip
        best = min(orders, key=lambda order: _place(sorted(self._placed(), key=order)))
        self.pool = _place(sorted(self._placed(), key=best))


def _place(buffers: list[Buffer]) -> int:
    """Places buffers in this order, each as low as possible. Returns the size of the pool."""
    placed: list[Buffer] = []
    for buffer in buffers:
        offset = 0
        for other in sorted(placed, key=lambda b: b.offset):
            if other.last < buffer.first or buffer.last < other.first:
                continue
            if offset + buffer.size <= other.offset:
                break
            offset = max(offset, -(-(other.offset + other.size) // ALIGNMENT) * ALIGNMENT)
        buffer.offset = offset
        placed.append(buffer)
    return max((b.offset + b.size for b in buffers), default=0)


def type_of(value: Any) -> Any:
    """Returns the type of an expression, an attribute whose name differs between versions of TVM."""
    return value.ty if hasattr(value, "ty") else value.struct_info


def fields(kind: Any) -> list[Any]:
    """Returns the types in a tuple's type, or the type itself."""
    return list(kind.fields) if hasattr(kind, "fields") else [kind]


def tensor_of(name: str, kind: Any) -> Tensor:
    """Returns the tensor of a static tensor type."""
    dimensions = getattr(kind, "shape", None)
    if not isinstance(kind, relax.TensorType) or not hasattr(dimensions, "values"):
        raise ExportError(f"{name}: type {kind} is not supported; only tensors of fixed shape are")
    if symbols := ", ".join(str(x) for x in dimensions.values if not isinstance(x, tirx.IntImm)):
        raise ExportError(f"{name}: dynamic shape ({symbols}); export the network with fixed shapes")
    shape = tuple(int(x) for x in dimensions.values)
    if any(x < 1 for x in shape):
        raise ExportError(f"{name}: a tensor without elements is not supported")
    if str(kind.dtype) not in DTYPES:
        raise ExportError(f"{name}: data type {kind.dtype} is not supported; {', '.join(DTYPES)} are")
    return Tensor(name, str(kind.dtype), shape)


def constant_of(expression: Any) -> np.ndarray | None:
    """Returns the value of a constant."""
    kind = type(expression).__name__
    if kind not in ("Constant", "GenericConst"):  # TVM 0.26, 0.27
        return None
    return np.ascontiguousarray((expression.data if kind == "Constant" else expression.value).numpy())


class Reader:
    """Reads the plan of a lowered main function."""

    def __init__(self, main: relax.Function, kernels: dict[str, Kernel], inputs: Iterable[Tensor]) -> None:
        self.plan = Plan(list(inputs), [])
        self.kernels = kernels
        self.values: dict[Any, Any] = {p: Value("input", i) for i, p in enumerate(main.params)}
        self.constants: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        for block in main.body.blocks:
            for binding in block.bindings:
                self.values[binding.var] = self._read(binding.var, binding.value)
        self._results(main.body.body)

    def _value(self, expression: Any) -> Any:
        """Returns the Value of an expression, or a list of them for a tuple."""
        if isinstance(expression, relax.Tuple):
            return [self._value(e) for e in expression.fields]
        if isinstance(expression, relax.TupleGetItem):
            return self._value(expression.tuple_value)[int(expression.index)]
        if (array := constant_of(expression)) is not None:
            return self._constant(array)
        return self.values[expression]

    def _constant(self, array: np.ndarray) -> Value:
        byte_size(str(array.dtype), array.shape)
        index = self.constants.setdefault((array.dtype.str, array.shape, array.tobytes()), len(self.constants))
        self.plan.constants[index:] = self.plan.constants[index:] or [array]
        return Value("constant", index)

    def _read(self, var: Any, value: Any) -> Any:
        if not isinstance(value, relax.Call):
            return self._value(value)
        name = str(value.op.name)
        if name in ("relax.reshape", "relax.memory.ensure_zero_offset"):
            return self._value(value.args[0])
        if name != "relax.call_tir" or len(value.args) != 2:
            raise ExportError(f"operator {name} is not supported: TVM generates no C for it")
        kernel, arguments = str(value.args[0].name_hint), self._value(value.args[1])
        results = value.ty_args[0] if hasattr(value, "ty_args") else value.sinfo_args[0]
        new = [self._buffer(tensor_of(str(var.name), kind).size) for kind in fields(results)]
        temporaries = [self._buffer(size) for size in self.kernels[kernel].temporaries]
        step = Step(kernel, [*arguments, *new, *temporaries])
        for value in step.arguments:
            if value.space == "buffer":
                self.plan.buffers[value.index].last = len(self.plan.steps)
        self.plan.steps.append(step)
        return new if hasattr(results, "fields") else new[0]

    def _buffer(self, size: int) -> Value:
        self.plan.buffers.append(Buffer(size, len(self.plan.steps), len(self.plan.steps)))
        return Value("buffer", len(self.plan.buffers) - 1)

    def _results(self, body: Any) -> None:
        value = self._value(body)
        self.plan.results = value if isinstance(value, list) else [value]
        for i, result in enumerate(self.plan.results):
            if not isinstance(result, Value):
                raise ExportError("a tuple in a tuple of results is not supported")
            if result.space == "buffer" and self.plan.buffers[result.index].output is None:
                self.plan.buffers[result.index].output = i  # the caller's memory holds it from the start

"""The order of a network's operators, and one plan of memory for their tensors and temporaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax, tirx

from .errors import ExportError
from .kernels import DTYPES, Kernel, byte_size

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


@dataclass(frozen=True)
class Value:
    """Where a tensor lies: an input, a constant, or a buffer. The space is "input", "constant" or "buffer"."""

    space: str
    index: int


@dataclass
class Buffer:
    """Memory that the plan places. first and last are the steps that use it; output is the result that it is."""

    size: int
    first: int = -1
    last: int = -1
    output: int | None = None
    offset: int = 0

    def use(self, step: int) -> None:
        """Extends the buffer's life to a step."""
        self.first = step if self.first < 0 else self.first
        self.last = step


@dataclass
class Step:
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

    def _placed(self) -> list[Buffer]:
        return [b for b in self.buffers if b.output is None and b.first >= 0]

    def place(self) -> None:
        """Sets the offset of each buffer: buffers whose lives overlap do not share bytes."""
        orders = (
            lambda b: (-b.size, b.first),
            lambda b: (b.first - b.last, -b.size),
            lambda b: (b.first, -b.size),
            lambda b: (-b.last, -b.size),
        )
        best: tuple[int, list[int]] | None = None
        for order in orders:
            size = _place(sorted(self._placed(), key=order))
            if best is None or size < best[0]:
                best = size, [b.offset for b in self.buffers]
        assert best is not None
        self.pool = best[0]
        for buffer, offset in zip(self.buffers, best[1]):
            buffer.offset = offset


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


def tensor_of(name: str, kind: Any) -> Tensor:
    """Returns the tensor of a static tensor type."""
    dimensions = getattr(kind, "shape", None)
    if isinstance(kind, relax.TensorType) and dimensions is not None and hasattr(dimensions, "values"):
        extents = list(dimensions.values)
        if all(isinstance(x, tirx.IntImm) for x in extents):
            if any(int(x) < 1 for x in extents):
                raise ExportError(f"{name}: a tensor without elements is not supported")
            if str(kind.dtype) not in DTYPES:
                raise ExportError(f"{name}: data type {kind.dtype} is not supported; {', '.join(DTYPES)} are")
            return Tensor(name, str(kind.dtype), tuple(int(x) for x in extents))
        symbols = ", ".join(str(x) for x in extents if not isinstance(x, tirx.IntImm))
        raise ExportError(f"{name}: dynamic shape ({symbols}); export the network with fixed shapes")
    raise ExportError(f"{name}: type {kind} is not supported; only tensors of fixed shape are")


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
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = len(self.plan.constants)
            self.plan.constants.append(array)
        return Value("constant", self.constants[key])

    def _read(self, var: Any, value: Any) -> Any:
        if not isinstance(value, relax.Call):
            return self._value(value)
        name = str(value.op.name)
        if name in ("relax.reshape", "relax.memory.view", "relax.memory.ensure_zero_offset"):
            return self._value(value.args[0])
        if name != "relax.call_tir" or len(value.args) != 2:
            raise ExportError(f"operator {name} is not supported: TVM generates no C for it")
        results = value.ty_args[0] if hasattr(value, "ty_args") else value.sinfo_args[0]
        several = hasattr(results, "fields")
        kinds = list(results.fields) if several else [results]
        return self._call(str(value.args[0].name_hint), self._value(value.args[1]),
                          [tensor_of(str(var.name), k) for k in kinds],
                          several)  # fmt: skip

    def _call(self, kernel: str, arguments: list[Value], results: list[Tensor], several: bool) -> Any:
        new = [self._buffer(r.size) for r in results]
        temporaries = [self._buffer(size) for size in self.kernels[kernel].temporaries]
        step = Step(kernel, [*arguments, *new, *temporaries])
        for value in step.arguments:
            if value.space == "buffer":
                self.plan.buffers[value.index].use(len(self.plan.steps))
        self.plan.steps.append(step)
        return new if several else new[0]

    def _buffer(self, size: int) -> Value:
        self.plan.buffers.append(Buffer(size))
        return Value("buffer", len(self.plan.buffers) - 1)

    def _results(self, body: Any) -> None:
        value = self._value(body)
        self.plan.results = value if isinstance(value, list) else [value]
        for i, result in enumerate(self.plan.results):
            if not isinstance(result, Value):
                raise ExportError("a tuple in a tuple of results is not supported")
            if result.space == "buffer":
                buffer = self.plan.buffers[result.index]
                if buffer.output is None:
                    buffer.output = i  # the caller's memory holds it from the start


def constant_bytes(plan: Plan) -> int:
    """Returns the bytes of all constants."""
    return sum(a.nbytes for a in plan.constants)

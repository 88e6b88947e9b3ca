"""The order of a network's operators, and one plan of memory for their tensors and temporaries."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .errors import ExportError

ALIGNMENT = 8  # bytes; of every offset of the pool: that of the largest element


DTYPES = {f"{sign}int{bits}": (f"{sign}int{bits}_t", bits // 8) for bits in (8, 16, 32, 64) for sign in ("", "u")}
DTYPES |= {"bool": ("uint8_t", 1), "float32": ("float", 4), "float64": ("double", 8)}


def c_name(name: str) -> str:
    """Returns a tensor's name in C, as boardsmith and TVM derive it: bytes, not characters, are replaced."""
    return re.sub(rb"[^A-Za-z0-9]", b"_", name.encode()).decode()


def byte_size(dtype: str, shape: tuple[int, ...]) -> int:
    """Returns the bytes of a tensor."""
    if dtype not in DTYPES:
        raise ExportError(f"data type {dtype} inside an operator is not supported; {', '.join(DTYPES)} are")
    return math.prod(shape, start=DTYPES[dtype][1])


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
    _known: dict[tuple[str, tuple[int, ...], bytes], Value] = field(default_factory=dict)  # constants by their content

    def constant(self, array: np.ndarray) -> Value:
        """Adds a constant, if there is none that is equal."""
        byte_size(str(array.dtype), array.shape)
        value = self._known.setdefault((array.dtype.str, array.shape, array.tobytes()),
                                       Value("constant", len(self.constants)))  # fmt: skip
        if value.index == len(self.constants):
            self.constants.append(array)
        return value

    def allocate(self, size: int) -> Value:
        """Adds a buffer that the next step uses first."""
        self.buffers.append(Buffer(size, len(self.steps), len(self.steps)))
        return Value("buffer", len(self.buffers) - 1)

    def call(self, kernel: str, arguments: Sequence[Value]) -> None:
        """Adds a step."""
        for value in arguments:
            if value.space == "buffer":
                self.buffers[value.index].last = len(self.steps)
        self.steps.append(Step(kernel, list(arguments)))

    def finish(self, results: Sequence[Value]) -> None:
        """Sets the results: the caller's memory holds them from the start."""
        self.results = list(results)
        for i, result in enumerate(self.results):
            if result.space == "buffer" and self.buffers[result.index].output is None:
                self.buffers[result.index].output = i

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

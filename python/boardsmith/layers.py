"""Networks of integers as layers, and plans whose steps are C functions of these. Needs no TVM.

A reader of files makes the layers, with the operators, options and orders of axes of TensorFlow Lite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import archive, check, cmsis, elements  # noqa: F401 (cmsis declares operators)
from .errors import ExportError, Refusal, cause
from .plan import DTYPES, Plan, Value
from .plan import Tensor as End


@dataclass(eq=False)
class Tensor:
    """A tensor of a network, with its quantization, and its values if it is constant."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scales: np.ndarray = field(default_factory=lambda: np.zeros(0, "float32"))
    zero: int = 0
    values: np.ndarray | None = None
    is_variable: bool = False

    @property
    def scale(self) -> np.float32:
        """The scale of the whole tensor."""
        return self.scales[0]

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest integer of the tensor's type."""
        return int(np.iinfo(self.dtype).min), int(np.iinfo(self.dtype).max)

    def dims(self) -> tuple[int, ...]:
        """The shape of a tensor of at most four dimensions, as four."""
        return (1,) * (4 - len(self.shape)) + self.shape


class Layer:
    """A layer, and the C function that computes it. option returns one by its name, or a default."""

    def __init__(
        self, operator: str, number: int, title: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor],
        option: Callable[..., Any],
    ) -> None:  # fmt: skip
        self.operator, self.title, self.name = operator, title, f"{operator.lower()}_{number}"
        self.inputs, self.outputs, self._option = list(inputs), list(outputs), option

    def option(self, name: str, default: Any = 0) -> Any:
        """Returns an option of the layer."""
        return self._option(name, default)

    def require(self, holds: object, reason: str) -> None:
        """Refuses a layer for which something does not hold."""
        if not holds:
            raise Refusal(f"{self.title}: {reason} is not supported: replace it by others that compute the same")

    def input(self, index: int) -> Tensor | None:
        """Returns an input that a layer may not have."""
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int) -> np.ndarray:
        """Returns the values of an input that must be constant."""
        tensor = self.inputs[index]
        self.require(tensor is not None and tensor.values is not None, f"an input {index} that is not constant")
        return tensor.values

    def pointer(self, tensor: Tensor) -> str:
        """Returns the parameter that points to a tensor."""
        if tensor.values is not None and tensor not in self.network.values:
            return self.data(tensor.values)
        value = self.network.values.get(tensor)
        if value is None:
            value = self.network.values[tensor] = self.network.plan.allocate(tensor.count * DTYPES[tensor.dtype][1])
        const = "" if tensor in self.outputs else "const "
        return self._parameter(value, const + DTYPES[tensor.dtype][0])

    def data(self, array: Any, dtype: str | None = None) -> str:
        """Returns the parameter that points to a constant."""
        array = np.ascontiguousarray(array, dtype)
        return self._parameter(self.network.plan.constant(array), "const " + DTYPES[str(array.dtype)][0])

    def scratch(self, size: int, ctype: str = "void") -> str:
        """Returns the parameter that points to memory of the call: NULL for none."""
        return self._parameter(self.network.plan.allocate(size), ctype) if size else "NULL"

    def state(self, tensor: Tensor) -> str:
        """Returns a variable that is kept between runs, zero at the start: a tensor's zero is its zero point."""
        self.require(tensor.is_variable and tensor.values is None, "a state that is no variable tensor")
        name = f"state{len(self.static)}"
        start = f" = {{{', '.join([str(tensor.zero)] * tensor.count)}}}" if tensor.zero else ""
        self.static.append(f"  static {DTYPES[tensor.dtype][0]} {name}[{tensor.count}]{start};")
        return name

    def _parameter(self, value: Value, ctype: str) -> str:
        return self.parameters.setdefault(value, (ctype, f"p{len(self.parameters)}"))[1]

    def alias(self, result: Tensor, tensor: Tensor) -> None:
        """Makes a result the same memory as an input."""
        self.network.values[result] = self.network.value(tensor)

    def compile(self, network: Network) -> str:
        """Adds the layer to the network's plan, and returns its C: nothing for a layer that only renames."""
        self.network = network
        self.body: list[str] = []  # lines of C
        self.static: list[str] = []  # those before them
        self.parameters: dict[Value, tuple[str, str]] = {}  # the type and name in C, in the order of the call
        for tensor in (*self.inputs, *self.outputs):
            self.require(tensor is None or tensor.dtype in DTYPES, f"data type {tensor and tensor.dtype}")
            self.require(tensor is None or all(n > 0 for n in tensor.shape), "a tensor without a fixed shape")
        self.require(self.operator in elements.OPERATORS, "this operator in a network of integers")
        try:
            elements.OPERATORS[self.operator](self)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # most of NumPy
            raise Refusal(f"{self.title}: its tensors and options contradict each other: {cause(error)}") from error
        if not self.body:
            return ""

        network.plan.call(self.name, list(self.parameters))
        parameters = ", ".join(f"{ctype}* {name}" for ctype, name in self.parameters.values())
        head = f"int32_t tvmgen_{network.name}_{self.name}({parameters})"
        return "\n".join([head + ";", head + " {", *self.static, *self.body, "  return 0;", "}", ""])


@dataclass
class Network:
    """A network, as a plan and the C of its kernels. A result whose name is that of an input gets another one."""

    layers: list[Layer]
    inputs: list[Tensor]
    outputs: list[Tensor]

    def names(self) -> tuple[list[str], list[str]]:
        """Returns the names of inputs and outputs."""
        inputs = [t.name for t in self.inputs]
        return inputs, [t.name + "_output" if t.name in inputs else t.name for t in self.outputs]

    def compile(self, name: str) -> tuple[Plan, str]:
        """Returns the plan, and the C of its kernels."""
        self.name = name
        ends = [archive.named(names, names, kind) for names, kind in zip(self.names(), ("inputs", "outputs"))]
        self.plan = Plan(*([End(n, t.dtype, t.shape) for n, t in zip(names, tensors)]
                           for names, tensors in zip(ends, (self.inputs, self.outputs))))  # fmt: skip
        archive.check_names(self.plan.inputs + self.plan.outputs)
        self.values = {t: Value("input", i) for i, t in enumerate(self.inputs)}
        code = "".join(layer.compile(self) for layer in self.layers)
        self.plan.finish([self.value(t) for t in self.outputs])
        self.plan.place()
        return self.plan, elements.includes(code) + code

    def value(self, tensor: Tensor) -> Value:
        """Returns where a tensor lies that is known."""
        if tensor not in self.values and tensor.values is None:
            raise ExportError(f"tensor {tensor.name} is read before a layer computes it")
        return self.values.get(tensor) or self.plan.constant(tensor.values)


def export(
    network: Network, path: Path, name: str | None, evaluator: check.Evaluator | None, library: Path | None,
    share: float = 0,
) -> archive.Report:  # fmt: skip
    """Writes a network as an archive, once its C was compared with an evaluator, up to a share of the result's range.

    library is a folder with a library.json and CMSIS-NN, with which the C is compiled for the comparison.
    """
    name = archive.model_name(name, path)
    plan, code = network.compile(name)
    compare = functools.partial(check.verdict, evaluator=evaluator, share=share, spans=(0,), runs=4, library=library)
    if evaluator and library is None and "#include <arm_" in code:
        compare = functools.partial(check.not_verified, "name CMSIS-NN's folder with --library")
    return archive.export(path, name, plan, code, target="c", exporter=f"boardsmith {archive.VERSION}",
                          compare=compare)  # fmt: skip

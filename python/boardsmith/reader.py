"""Reads the plan of a lowered main function of Relax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from tvm import relax, tirx

from .errors import ExportError
from .kernels import Kernel
from .plan import DTYPES, Plan, Tensor, Value


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
            return self.plan.constant(array)
        return self.values[expression]

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
        new = [self.plan.allocate(tensor_of(str(var.name), kind).size) for kind in fields(results)]
        temporaries = [self.plan.allocate(size) for size in self.kernels[kernel].temporaries]
        self.plan.call(kernel, [*arguments, *new, *temporaries])
        return new if hasattr(results, "fields") else new[0]

    def _results(self, body: Any) -> None:
        value = self._value(body)
        results = value if isinstance(value, list) else [value]
        if not all(isinstance(result, Value) for result in results):
            raise ExportError("a tuple in a tuple of results is not supported")
        self.plan.finish(results)

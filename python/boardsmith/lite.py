"""Networks of TensorFlow Lite that compute with integers, as plans whose steps call Arm's CMSIS-NN. Needs no TVM."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from . import archive, check, cmsis
from .errors import ExportError, Refusal, cause
from .plan import DTYPES, Plan, Value
from .plan import Tensor as End

QUANTIZED = ("int8", "int16", "uint8")
ARENA = 1 << 26  # bytes, of the interpreter that computes expected outputs


def _names(kinds: type) -> dict[int, str]:
    return {code: name for name, code in vars(kinds).items() if isinstance(code, int)}


OPERATORS, OPTIONS, TYPES = (_names(t) for t in (tflite.BuiltinOperator, tflite.BuiltinOptions, tflite.TensorType))


class Tensor:
    """A tensor of the file, with its quantization, and its values if it is constant."""

    def __init__(self, model: Any, graph: Any, number: int) -> None:
        table = graph.Tensors(number)
        self.number, self.name = number, (table.Name() or b"").decode() or f"tensor{number}"
        self.dtype, self.is_variable = TYPES[table.Type()].lower(), table.IsVariable()
        self.shape = tuple(int(n) for n in table.ShapeAsNumpy()) if table.ShapeLength() else ()
        quantization = table.Quantization()
        has_scales = quantization is not None and quantization.ScaleLength()
        self.scales = quantization.ScaleAsNumpy() if has_scales else np.zeros(0, "float32")
        self.zero = int(quantization.ZeroPoint(0)) if has_scales and quantization.ZeroPointLength() else 0
        self.values = None
        if self.dtype in DTYPES and (buffer := model.Buffers(table.Buffer())) and buffer.DataLength():
            self.values = np.frombuffer(buffer.DataAsNumpy().tobytes(), self.dtype).reshape(self.shape)

    @property
    def scale(self) -> np.float32:
        """The scale of the whole tensor."""
        return self.scales[0]

    @property
    def count(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest integer of the tensor's type."""
        return int(np.iinfo(self.dtype).min), int(np.iinfo(self.dtype).max)

    def dims(self) -> tuple[int, ...]:
        """The shape of a tensor of at most four dimensions, as four."""
        return (1,) * (4 - len(self.shape)) + self.shape


class Layer:
    """A layer of the file, and the C function that computes it."""

    def __init__(self, network: Network, number: int, table: Any) -> None:
        code = network.model.OperatorCodes(table.OpcodeIndex())
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        self.operator = str(OPERATORS.get(builtin, builtin))
        ends = (table.InputsAsNumpy() if table.InputsLength() else (), table.OutputsAsNumpy())
        self.inputs, self.outputs = ([network.tensors[i] if i >= 0 else None for i in end] for end in ends)
        custom = (code.CustomCode() or b"").decode()
        place = f"(layer {number}, {self.outputs[0].name})"
        self.title = " ".join(word for word in (self.operator, custom, place) if word)
        self.name = f"{self.operator.lower()}_{number}"

        self.options = None
        if (found := table.BuiltinOptions()) is not None:
            self.options = getattr(tflite, OPTIONS[table.BuiltinOptionsType()])()
            self.options.Init(found.Bytes, found.Pos)

    @property
    def is_float(self) -> bool:
        """Reports whether what the layer reads and computes are no integers with a scale."""
        read = [t for t in self.inputs if t is not None and t.values is None]
        return all(t.dtype not in QUANTIZED for t in read + self.outputs)

    def option(self, name: str, default: Any = 0) -> Any:
        """Returns an option of the layer."""
        return default if self.options is None else getattr(self.options, name)()

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
        if tensor.values is not None and tensor.number not in self.network.values:
            return self.data(tensor.values)
        value = self.network.values.get(tensor.number)
        if value is None:
            value = self.network.values[tensor.number] = self.network.plan.allocate(
                tensor.count * DTYPES[tensor.dtype][1])  # fmt: skip
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
        self.network.values[result.number] = self.network.value(tensor)

    def compile(self, network: Network) -> str:
        """Adds the layer to the network's plan, and returns its C: nothing for a layer that only renames."""
        self.network = network
        self.body: list[str] = []  # lines of C
        self.static: list[str] = []  # those before them
        self.parameters: dict[Value, tuple[str, str]] = {}  # the type and name in C, in the order of the call
        for tensor in (*self.inputs, *self.outputs):
            self.require(tensor is None or tensor.dtype in DTYPES, f"data type {tensor and tensor.dtype}")
            self.require(tensor is None or all(n > 0 for n in tensor.shape), "a tensor without a fixed shape")
        self.require(self.operator in cmsis.OPERATORS, "this operator in a network of integers")
        try:
            cmsis.OPERATORS[self.operator](self)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # most of NumPy
            raise Refusal(f"{self.title}: its tensors and options contradict each other: {cause(error)}") from error
        if not self.body:
            return ""

        network.plan.call(self.name, list(self.parameters))
        parameters = ", ".join(f"{ctype}* {name}" for ctype, name in self.parameters.values())
        head = f"int32_t tvmgen_{network.name}_{self.name}({parameters})"
        return "\n".join([head + ";", head + " {", *self.static, *self.body, "  return 0;", "}", ""])


class Network:
    """A network of a file, as a plan and the C of its kernels."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        if not tflite.Model.ModelBufferHasIdentifier(self.data, 0):
            raise ExportError(f"{path} is no file of TensorFlow Lite")
        self.model = tflite.Model.GetRootAs(self.data, 0)
        self.graph, self.is_whole = self.model.Subgraphs(0), True
        self.tensors = [Tensor(self.model, self.graph, i) for i in range(self.graph.TensorsLength())]
        self.layers = [Layer(self, i, self.graph.Operators(i)) for i in range(self.graph.OperatorsLength())]
        self.inputs, self.outputs = ([self.tensors[int(i)] for i in end]
                                     for end in (self.graph.InputsAsNumpy(), self.graph.OutputsAsNumpy()))  # fmt: skip

    def first(self, count: int) -> Network:
        """Returns the network, or one that ends with the results of a layer."""
        if count == len(self.layers):
            return self
        part, results = copy.copy(self), self.layers[count - 1].outputs
        numbers = np.int32([t.number for t in results])
        graph = _changed(self.graph, OperatorsLength=lambda _: count, OutputsAsNumpy=lambda _: numbers)
        part.model, part.outputs = _changed(self.model, Subgraphs=lambda *_: graph), results
        part.layers, part.is_whole = self.layers[:count], False
        return part

    def names(self) -> tuple[list[str], list[str]]:
        """Returns the names of inputs and outputs. A result that is an input has another one."""
        inputs = [t.name for t in self.inputs]
        return inputs, [t.name + "_output" if t.name in inputs else t.name for t in self.outputs]

    def compile(self, name: str) -> tuple[Plan, str]:
        """Returns the plan, and the C of its kernels."""
        self.name = name
        ends = [archive.named(names, names, kind) for names, kind in zip(self.names(), ("inputs", "outputs"))]
        self.plan = Plan(*([End(n, t.dtype, t.shape) for n, t in zip(names, tensors)]
                           for names, tensors in zip(ends, (self.inputs, self.outputs))))  # fmt: skip
        archive.check_names(self.plan.inputs + self.plan.outputs)
        self.values = {t.number: Value("input", i) for i, t in enumerate(self.inputs)}
        if self.model.SubgraphsLength() != 1:
            raise ExportError(f"the file has {self.model.SubgraphsLength()} graphs: one is supported")
        code = "".join(layer.compile(self) for layer in self.layers)
        self.plan.finish([self.value(t) for t in self.outputs])
        self.plan.place()
        return self.plan, cmsis.includes(code) + code

    def value(self, tensor: Tensor) -> Value:
        """Returns where a tensor lies that is known."""
        if tensor.number not in self.values and tensor.values is None:
            raise ExportError(f"tensor {tensor.name} is read before a layer computes it")
        return self.values.get(tensor.number) or self.plan.constant(tensor.values)

    def evaluate(self, interpreter: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns what the interpreter of TensorFlow Lite Micro computes. It keeps states between its runs."""
        for i, array in enumerate(arrays):
            interpreter().set_input(np.asarray_chkfinite(array), i)
        interpreter().invoke()
        if self.is_whole:
            return [interpreter().get_output(i) for i in range(len(self.outputs))]
        return [interpreter().GetTensor(t.number, 0)["tensor_data"].reshape(t.shape) for t in self.outputs]

    def interpreter(self) -> Any:
        """Returns an interpreter of TensorFlow Lite Micro. It keeps results between layers for a part of a network."""
        from tflite_micro import runtime

        kinds = runtime.InterpreterConfig
        kind = kinds.kAllocationRecording if self.is_whole else kinds.kPreserveAllTensors
        return runtime.Interpreter.from_bytes(self.data, arena_size=ARENA + 4 * len(self.data), intrepreter_config=kind)


def _changed(table: Any, **methods: Any) -> Any:
    """Returns a table of the file with methods that return something else."""
    return type("Part", (type(table),), methods | {"_tab": table._tab})()


def export(network: Network, path: Path, name: str | None, verify: bool, library: Path | None) -> archive.Report:
    """Writes a network as an archive, once its C was compared with TensorFlow Lite Micro's interpreter, bit by bit.

    library is a folder with a library.json and CMSIS-NN, with which the C is compiled for the comparison.
    """
    name = archive.model_name(name, path)
    plan, code = network.compile(name)
    evaluator = functools.partial(network.evaluate, functools.cache(network.interpreter))
    compare = functools.partial(check.verdict, evaluator=evaluator if verify else None, share=0, spans=(0,), runs=4,
                                library=library)  # fmt: skip
    if verify and library is None and "#include <arm_" in code:
        compare = functools.partial(check.not_verified, "name CMSIS-NN's folder with --library")
    return archive.export(path, name, plan, code, target="c", exporter=f"boardsmith {archive.VERSION}",
                          compare=compare)  # fmt: skip

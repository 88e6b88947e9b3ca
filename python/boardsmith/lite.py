"""Networks of TensorFlow Lite that compute with integers, as layers. Needs no TVM."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from . import layers
from .errors import ExportError
from .plan import DTYPES

QUANTIZED = ("int8", "int16", "uint8")
ARENA = 1 << 26  # bytes, of the interpreter that computes expected outputs


def _names(kinds: type) -> dict[int, str]:
    return {code: name for name, code in vars(kinds).items() if isinstance(code, int)}


OPERATORS, OPTIONS, TYPES = (_names(t) for t in (tflite.BuiltinOperator, tflite.BuiltinOptions, tflite.TensorType))


def _tensor(model: Any, table: Any, number: int) -> layers.Tensor:
    """Returns a tensor of the file."""
    shape = tuple(int(n) for n in table.ShapeAsNumpy()) if table.ShapeLength() else ()
    tensor = layers.Tensor((table.Name() or b"").decode() or f"tensor{number}", TYPES[table.Type()].lower(), shape,
                           is_variable=table.IsVariable())  # fmt: skip
    quantization = table.Quantization()
    if quantization is not None and quantization.ScaleLength():
        tensor.scales = quantization.ScaleAsNumpy()
        tensor.zero = int(quantization.ZeroPoint(0)) if quantization.ZeroPointLength() else 0
    if tensor.dtype in DTYPES and (buffer := model.Buffers(table.Buffer())) and buffer.DataLength():
        tensor.values = np.frombuffer(buffer.DataAsNumpy().tobytes(), tensor.dtype).reshape(shape)
    return tensor


def _layer(network: Network, number: int, table: Any) -> layers.Layer:
    """Returns a layer of the file."""
    code = network.model.OperatorCodes(table.OpcodeIndex())
    builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    operator = str(OPERATORS.get(builtin, builtin))
    ends = (table.InputsAsNumpy() if table.InputsLength() else (), table.OutputsAsNumpy())
    inputs, outputs = ([network.tensors[i] if i >= 0 else None for i in end] for end in ends)
    custom = (code.CustomCode() or b"").decode()
    title = " ".join(word for word in (operator, custom, f"(layer {number}, {outputs[0].name})") if word)

    options = None
    if (found := table.BuiltinOptions()) is not None:
        options = getattr(tflite, OPTIONS[table.BuiltinOptionsType()])()
        options.Init(found.Bytes, found.Pos)
    return layers.Layer(operator, number, title, inputs, outputs,
                        lambda name, default: getattr(options, name, lambda: default)())  # fmt: skip


class Network(layers.Network):
    """A network of a file."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        if not tflite.Model.ModelBufferHasIdentifier(self.data, 0):
            raise ExportError(f"{path} is no file of TensorFlow Lite")
        self.model = tflite.Model.GetRootAs(self.data, 0)
        self.graph, self.is_whole = self.model.Subgraphs(0), True
        self.tensors = [_tensor(self.model, self.graph.Tensors(i), i) for i in range(self.graph.TensorsLength())]
        ends = self.graph.InputsAsNumpy(), self.graph.OutputsAsNumpy()
        super().__init__([_layer(self, i, self.graph.Operators(i)) for i in range(self.graph.OperatorsLength())],
                         *([self.tensors[int(i)] for i in end] for end in ends))  # fmt: skip

    @property
    def is_float(self) -> bool:
        """Reports whether what all layers read and compute are no integers with a scale."""
        return not any(t.dtype in QUANTIZED for layer in self.layers for t in (*layer.inputs, *layer.outputs)
                       if t is not None and t.values is None)  # fmt: skip

    def first(self, count: int) -> Network:
        """Returns the network, or one that ends with the results of a layer."""
        if count == len(self.layers):
            return self
        part, results = copy.copy(self), self.layers[count - 1].outputs
        numbers = np.int32([self.tensors.index(t) for t in results])
        graph = _changed(self.graph, OperatorsLength=lambda _: count, OutputsAsNumpy=lambda _: numbers)
        part.model, part.outputs = _changed(self.model, Subgraphs=lambda *_: graph), results
        part.layers, part.is_whole = self.layers[:count], False
        return part

    def evaluate(self, interpreter: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns what the interpreter of TensorFlow Lite Micro computes. It keeps states between its runs."""
        for i, array in enumerate(arrays):
            interpreter().set_input(np.asarray_chkfinite(array), i)
        interpreter().invoke()
        if self.is_whole:
            return [interpreter().get_output(i) for i in range(len(self.outputs))]
        numbers = [self.tensors.index(t) for t in self.outputs]
        return [interpreter().GetTensor(n, 0)["tensor_data"].reshape(t.shape) for n, t in zip(numbers, self.outputs)]

    def interpreter(self) -> Any:
        """Returns an interpreter of TensorFlow Lite Micro. It keeps results between layers for a part of a network."""
        from tflite_micro import runtime

        kinds = runtime.InterpreterConfig
        kind = kinds.kAllocationRecording if self.is_whole else kinds.kPreserveAllTensors
        return runtime.Interpreter.from_bytes(self.data, arena_size=ARENA + 4 * len(self.data), intrepreter_config=kind)


def _changed(table: Any, **methods: Any) -> Any:
    """Returns a table of the file with methods that return something else."""
    return type("Part", (type(table),), methods | {"_tab": table._tab})()

"""Networks of TensorFlow Lite for tests: writes NAME.tflite, NAME.tar, NAME.inputs.npz and NAME.outputs.npz.

The expected outputs are those of TensorFlow Lite's interpreter. Prints the reason if there is none.

usage: lite.py FOLDER NAME... (lite_float32, lite_int8)
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import flatbuffers
    import tflite  # noqa: F401 (TVM's reader of the files)
    from ai_edge_litert import schema_py_generated as lite
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
except ImportError as missing:
    print(missing)
    sys.exit()

import numpy as np
from boardsmith import frontends

SAME, VALID = lite.Padding.SAME, lite.Padding.VALID
RELU, RELU6 = lite.ActivationFunctionType.RELU, lite.ActivationFunctionType.RELU6
TYPES = {"float32": lite.TensorType.FLOAT32, "int8": lite.TensorType.INT8, "int32": lite.TensorType.INT32}


class Network:
    """A network that is built layer by layer, in float32 or int8. Weights are drawn."""

    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.dtype, self.random = dtype, np.random.default_rng(3)
        self.graph = lite.SubGraphT([], [], [], [])
        self.model = lite.ModelT(3, [], [self.graph], buffers=[lite.BufferT()])
        self.graph.inputs = [self.tensor("serving_default_x:0", shape, scale=0.05)]

    def tensor(self, name, shape, values=None, scale=None, zero=0, axis=0):
        """Adds a tensor and returns its number. Those of networks in int8 have scales."""
        dtype = self.dtype if values is None else str(values.dtype)
        quantization = None
        if scale is not None and dtype != "float32":
            scales = np.atleast_1d(scale).tolist()
            quantization = lite.QuantizationParametersT(
                scale=scales, zeroPoint=[zero] * len(scales), quantizedDimension=axis)
        buffer = 0
        if values is not None:
            buffer = len(self.model.buffers)
            self.model.buffers.append(lite.BufferT(list(values.tobytes())))
        self.graph.tensors.append(lite.TensorT(list(shape), TYPES[dtype], buffer, name, quantization))
        return len(self.graph.tensors) - 1

    def weights(self, shape, channels, scale, axis=0):
        """Adds weights and a bias; in int8 with a scale for each channel."""
        real = self.random.normal(size=shape, scale=np.sqrt(channels / np.prod(shape))).astype("float32")
        bias = self.random.normal(size=channels, scale=0.2).astype("float32")
        if self.dtype == "float32":
            return [self.tensor("weights", shape, real), self.tensor("bias", [channels], bias)]
        spread = [1] * len(shape)
        spread[axis] = channels
        steps = np.abs(real).max(axis=tuple(i for i in range(len(shape)) if i != axis)) / 127
        q, sums = np.rint(real / steps.reshape(spread)).astype("int8"), np.rint(bias / steps / scale).astype("int32")
        return [self.tensor("weights", shape, q, steps, axis=axis),
                self.tensor("bias", [channels], sums, steps * scale)]  # fmt: skip

    def add(self, operator, inputs, shape, options=None, scale=0.05, zero=0, custom=None):
        """Adds a layer and returns the number of its result."""
        code = getattr(lite.BuiltinOperator, operator)
        self.model.operatorCodes.append(lite.OperatorCodeT(min(code, 127), custom, 1, code))
        kind = getattr(lite.BuiltinOptions, type(options).__name__[:-1]) if options else 0
        result = self.tensor(f"layer{len(self.graph.operators)}", shape, scale=scale, zero=zero)
        number = len(self.model.operatorCodes) - 1
        self.graph.operators.append(lite.OperatorT(number, inputs, [result], kind, options))
        return result

    def data(self, *outputs):
        """Returns the file."""
        self.graph.outputs = list(outputs)
        builder = flatbuffers.Builder()
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def convolutional(dtype):
    """Returns a padded, a depthwise and a pointwise convolution, a sum, pooling, a dense layer and softmax."""
    n = Network(1, 9, 8, 3, dtype=dtype)
    conv = lite.Conv2DOptionsT(SAME, 2, 2, RELU)
    h = n.add("CONV_2D", [0, *n.weights((8, 3, 3, 3), 8, 0.05)], (1, 5, 4, 8), conv, 0.02, -128)
    depthwise = lite.DepthwiseConv2DOptionsT(SAME, 1, 1, 1, RELU6)
    side = n.add("DEPTHWISE_CONV_2D", [h, *n.weights((1, 3, 3, 8), 8, 0.02, 3)], (1, 5, 4, 8), depthwise, 0.03, -128)
    h = n.add("ADD", [h, side], (1, 5, 4, 8), lite.AddOptionsT(), 0.05, -128)
    pointwise = lite.Conv2DOptionsT(VALID, 1, 1)
    h = n.add("CONV_2D", [h, *n.weights((6, 1, 1, 8), 6, 0.05)], (1, 5, 4, 6), pointwise, 0.04, 10)
    h = n.add("MAX_POOL_2D", [h], (1, 2, 2, 6), lite.Pool2DOptionsT(VALID, 2, 2, 2, 2), 0.04, 10)
    h = n.add("AVERAGE_POOL_2D", [h], (1, 1, 1, 6), lite.Pool2DOptionsT(VALID, 2, 2, 2, 2), 0.04, 10)
    h = n.add("RESHAPE", [h, n.tensor("shape", [2], np.int32([1, 6]))], (1, 6), lite.ReshapeOptionsT(), 0.04, 10)
    w, b = n.weights((5, 6), 5, 0.04)
    h = n.add("FULLY_CONNECTED", [h, w, b], (1, 5), lite.FullyConnectedOptionsT(), 0.05, 3)
    return n.data(n.add("SOFTMAX", [h], (1, 5), lite.SoftmaxOptionsT(1.0), 1 / 256, -128))


def main(folder: Path, *names: str) -> None:
    """Writes a network in each data type."""
    for name in names:
        dtype = name.removeprefix("lite_")
        path, data = folder / f"{name}.tflite", convolutional(dtype)
        path.write_bytes(data)
        report = frontends.from_tflite(path, path.with_suffix(".tar"))
        assert report.verdict.verified, report.verdict

        x = np.random.default_rng(5).normal(size=(1, 9, 8, 3), scale=1 if dtype == "float32" else 30).clip(-128, 127)
        interpreter = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x.astype(dtype))
        interpreter.invoke()
        y = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.savez(path.with_suffix(".inputs.npz"), **{report.inputs[0].name: x.astype(dtype)})
        np.savez(path.with_suffix(".outputs.npz"), **{report.outputs[0].name: y})


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

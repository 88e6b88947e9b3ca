"""Networks of TensorFlow Lite for tests: writes NAME.tflite, NAME.tar, NAME.inputs.npz and NAME.outputs.npz.

The expected outputs are those of TensorFlow Lite's interpreter. Prints the reason if there is none.

usage: lite.py FOLDER NAME... (lite_float32)
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
TYPES = {n: getattr(lite.TensorType, n.upper())
         for n in ("float32", "int8", "int16", "int32", "int64", "uint8", "uint32", "float16")}  # fmt: skip


class Network:
    """A network that is built layer by layer, in float32, int8 or int16. Weights are drawn."""

    def __init__(self, *shape: int, dtype: str = "float32", scale: float = 0.05, zero: int = 0) -> None:
        self.dtype, self.random = dtype, np.random.default_rng(3)
        self.graph = lite.SubGraphT([], [], [], [])
        self.model = lite.ModelT(3, [], [self.graph], buffers=[lite.BufferT()])
        self.graph.inputs = [self.tensor("serving_default_x:0", shape, scale=scale, zero=zero)]

    def input(self, *shape, scale=0.05, zero=0):
        """Adds an input and returns its number."""
        self.graph.inputs.append(self.tensor(f"x{len(self.graph.inputs)}", shape, scale=scale, zero=zero))
        return self.graph.inputs[-1]

    def tensor(self, name, shape, values=None, scale=None, zero=0, axis=0, dtype=None, variable=False):
        """Adds a tensor and returns its number. Those of networks in integers have scales."""
        dtype = (dtype or self.dtype) if values is None else str(values.dtype)
        quantization = None
        if scale is not None and dtype != "float32":
            scales = np.atleast_1d(scale).tolist()
            quantization = lite.QuantizationParametersT(
                scale=scales, zeroPoint=[zero] * len(scales), quantizedDimension=axis)
        buffer = 0
        if values is not None:
            buffer = len(self.model.buffers)
            self.model.buffers.append(lite.BufferT(list(values.tobytes())))
        self.graph.tensors.append(lite.TensorT(list(shape), TYPES[dtype], buffer, name, quantization, variable))
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
        q, sums = np.rint(real / steps.reshape(spread)).astype("int8"), np.rint(bias / steps / scale)
        sums = sums.astype("int32" if self.dtype == "int8" else "int64")
        return [self.tensor("weights", shape, q, steps, axis=axis),
                self.tensor("bias", [channels], sums, steps * scale)]  # fmt: skip

    def add(self, operator, inputs, shape, options=None, scale=0.05, zero=0, custom=None, dtype=None, more=()):
        """Adds a layer and returns the number of its result: more has the shapes of further ones."""
        code = getattr(lite.BuiltinOperator, operator)
        self.model.operatorCodes.append(lite.OperatorCodeT(min(code, 127), custom, 1, code))
        kind = getattr(lite.BuiltinOptions, type(options).__name__[:-1]) if options else 0
        name, number = f"layer{len(self.graph.operators)}", len(self.model.operatorCodes) - 1
        results = [self.tensor(name, shape, scale=scale, zero=zero, dtype=dtype)]
        results += [self.tensor(f"{name}_{i}", s, scale=scale, zero=zero) for i, s in enumerate(more)]
        self.graph.operators.append(lite.OperatorT(number, inputs, results, kind, options))
        return results if more else results[0]

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


def single(operator, x, y, options=None, constants=(), dtype="int8", scale=0.05, zero=3, custom=None, result=None,
           more=()):  # fmt: skip
    """Returns a network of one layer between tensors of these shapes, with constant inputs after the first one."""
    n = Network(*x, dtype=dtype, scale=0.04, zero=-5 if dtype == "int8" else 0)
    numbers = [n.tensor(f"constant{i}", np.shape(c), np.asarray(c)) for i, c in enumerate(constants)]
    zero = 0 if (result or dtype) == "int16" and zero > -32768 else zero
    results = n.add(operator, [0, *numbers], y, options, scale, zero, custom, result, more)
    return n.data(*np.atleast_1d(results))


def layered(operator, scale, result):
    """Returns a network of one layer of int8 with these scales."""
    n = Network(1, 999, dtype="int8", scale=scale, zero=-5)
    return n.data(n.add(operator, [0], (1, 999), None, result, 3))


def weighted(operator, x, y, weights, channels, options, axis=0, dtype="int8"):
    """Returns a network of one layer with weights that have a scale for each channel."""
    n = Network(*x, dtype=dtype, scale=0.04, zero=-5 if dtype == "int8" else 0)
    parts = n.weights(weights, channels, 0.04, axis)
    inputs = [0, *parts]
    if operator == "TRANSPOSE_CONV":
        inputs = [n.tensor("shape", [4], np.int32(y)), parts[0], 0, parts[1]]
    return n.data(n.add(operator, inputs, y, options, 0.09, 7 if dtype == "int8" else 0))


def pair(operator, left, right, y, options=None, dtype="int8", constant=False, same=False):
    """Returns a network of one layer of two inputs, or of one and a constant."""
    zero = 0 if dtype == "int16" else 4
    n = Network(*left, dtype=dtype, scale=0.04, zero=zero)
    scale, other = (0.04, zero) if same else (0.03, -zero)
    if constant:
        b = n.tensor("constant", right, n.random.integers(-99, 99, right).astype(dtype), scale, other)
    else:
        b = n.input(*right, scale=scale, zero=other)
    return n.data(n.add(operator, [0, b], y, options, 0.04 if same else 0.06, zero))


def recurrent(operator, dtype="int8"):
    """Returns a layer with a state."""
    is_svdf = operator == "SVDF"
    n = Network(*([1, 6] if is_svdf else [1, 3, 6]), dtype="int8" if is_svdf else dtype, scale=0.03,
                zero=0 if dtype == "int16" and not is_svdf else -4)  # fmt: skip
    draw = lambda *shape: n.random.integers(-127, 128, shape)  # noqa: E731
    if is_svdf:  # dtype is that of the state
        parts = [n.tensor("feature", (8, 6), draw(8, 6).astype("int8"), 0.01),
                 n.tensor("time", (8, 5), draw(8, 5).astype(dtype), 0.01),
                 n.tensor("bias", (4,), 99 * draw(4).astype("int32"), 0.001),
                 n.tensor("state", (1, 40), None, 0.1, 0 if dtype == "int16" else 6, dtype=dtype, variable=True)]
        return n.data(n.add("SVDF", [0, *parts], (1, 4), lite.SVDFOptionsT(2, RELU), 0.2, -3))
    weights = [n.tensor(f"w{i}", (5, 6 if i < 4 else 5), draw(5, 6 if i < 4 else 5).astype("int8"), 0.004 + i / 1000)
               for i in range(8)]
    biases = [n.tensor(f"b{i}", (5,), 20 * draw(5).astype("int32" if dtype == "int8" else "int64"), 0.0001)
              for i in range(4)]
    zero = 0 if dtype == "int16" else 2
    states = [n.tensor("hidden", (1, 5), None, 1 / 128, zero, variable=True),
              n.tensor("cell", (1, 5), None, 2.0**-11, dtype="int16", variable=True)]
    options = lite.UnidirectionalSequenceLSTMOptionsT(lite.ActivationFunctionType.TANH, 10.0)
    inputs = [0, *weights, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    return n.data(n.add("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (1, 3, 5), options, 1 / 128, zero))


def integers():
    """Yields names and networks of one layer each, of all kinds that integers have without TVM."""
    pads, axis = np.int32([[0, 0], [1, 2], [0, 1], [0, 0]]), np.int32([1, 2])
    for dtype in ("int8", "int16"):
        def layer(*arguments, **options):
            return arguments[0].lower() + "_" + dtype, single(*arguments, **{"dtype": dtype} | options)  # noqa: B023

        for name, shape, window in (("", (4, 3, 3, 6), (SAME, 2, 1, RELU)), ("point", (5, 1, 1, 6), (VALID, 1, 1)),
                                    ("dilated", (4, 3, 2, 6), (SAME, 1, 1, RELU6, 2, 2))):  # fmt: skip
            result = (1, -(-6 // window[2]), -(-5 // window[1]), shape[0])
            yield f"conv_{name}{dtype}", weighted("CONV_2D", (1, 6, 5, 6), result, shape, shape[0],
                                                  lite.Conv2DOptionsT(*window), dtype=dtype)  # fmt: skip
        yield f"row_{dtype}", weighted("CONV_2D", (1, 1, 12, 4), (1, 1, 12, 3), (3, 1, 5, 4), 3,
                                       lite.Conv2DOptionsT(SAME, 1, 1), dtype=dtype)  # fmt: skip
        for factor, size in ((1, 3), (1, 4), (2, 3)):
            yield f"depthwise_{factor}_{size}_{dtype}", weighted(
                "DEPTHWISE_CONV_2D", (1, 6, 5, 4), (1, 6, 5, 4 * factor), (1, size, size, 4 * factor), 4 * factor,
                lite.DepthwiseConv2DOptionsT(SAME, 1, 1, factor, RELU), 3, dtype)  # fmt: skip
        for depth, stride, size in ((3, 2, 3), (20, 2, 3), (3, 3, 3), (5, 2, 4)):  # CMSIS-NN is wrong for the last one
            yield f"transposed_{depth}_{stride}_{size}_{dtype}", weighted(
                "TRANSPOSE_CONV", (1, 4, 3, depth), (1, 4 * stride, 3 * stride, 2), (2, size, size, depth), 2,
                lite.TransposeConvOptionsT(SAME, stride, stride), dtype=dtype)  # fmt: skip
        for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            yield layer(kind, (1, 7, 6, 5), (1, 4, 3, 5), lite.Pool2DOptionsT(SAME, 2, 2, 3, 3, RELU), scale=0.04,
                        zero=-5)
        sums = (("ADD", lite.AddOptionsT(RELU)), ("SUB", lite.SubOptionsT()), ("MUL", lite.MulOptionsT()))
        for kind, options in sums:
            for right in ((1, 3, 4, 5), (4, 1), (1, 1, 1, 5)):
                name = f"{kind.lower()}_{len(right)}_{right[-2]}_{dtype}"
                yield name, pair(kind, (1, 3, 4, 5), right, (1, 3, 4, 5), options, dtype, constant=right[-1] == 5)
        for kind in ("MAXIMUM", "MINIMUM"):
            yield f"{kind.lower()}_{dtype}", pair(kind, (1, 4, 5), (1, 1, 5), (1, 4, 5), None, dtype, same=True)
        for adjoint in (False, True):
            right = (1, 2, 5, 3) if adjoint else (1, 2, 3, 5)
            yield f"matmul_{adjoint}_{dtype}", pair("BATCH_MATMUL", (1, 2, 4, 3), right, (1, 2, 4, 5),
                                                    lite.BatchMatMulOptionsT(False, adjoint), dtype)  # fmt: skip
        yield layer("MEAN", (1, 4, 5, 6), (1, 6), lite.ReducerOptionsT(), [axis])
        yield layer("LEAKY_RELU", (1, 999), (1, 999), lite.LeakyReluOptionsT(0.3))
        yield layer("RELU", (1, 999), (1, 999))
        yield layer("RELU6", (1, 999), (1, 999), scale=0.04, zero=-5)
        yield layer("LOGISTIC", (1, 999), (1, 999), scale=1 / 256 if dtype == "int8" else 1 / 32768, zero=-128)
        yield layer("TANH", (1, 999), (1, 999), scale=1 / 128 if dtype == "int8" else 1 / 32768, zero=0)
        yield layer("SOFTMAX", (3, 40), (3, 40), lite.SoftmaxOptionsT(0.7), zero=-128,
                    scale=1 / 256 if dtype == "int8" else 1 / 32768)
        yield layer("PAD", (1, 4, 3, 2), (1, 7, 4, 2), lite.PadOptionsT(), [pads], scale=0.04, zero=-5)
        yield layer("TRANSPOSE", (2, 3, 4, 5), (5, 2, 4, 3), None, [np.int32([3, 0, 2, 1])], scale=0.04, zero=-5)
        yield layer("STRIDED_SLICE", (1, 6, 7, 3), (1, 3, 3), lite.StridedSliceOptionsT(0, 4, 0, 0, 2),
                    [np.int32([0, 1, 1, 0]), np.int32([1, 2, 7, 3]), np.int32([1, 1, 2, 1])], scale=0.04, zero=-5)
        yield layer("SLICE", (2, 6, 4), (1, 3, 4), None, [np.int32([1, 2, 0]), np.int32([1, 3, -1])], scale=0.04,
                    zero=-5)
        yield layer("SPLIT_V", (2, 7), (2, 3), lite.SplitVOptionsT(2), [np.int32([3, 4]), np.int32(1)], scale=0.04,
                    zero=-5, more=[(2, 4)])
        yield layer("UNPACK", (2, 3, 2), (2, 2), lite.UnpackOptionsT(3, 1), scale=0.04, zero=-5, more=[(2, 2)] * 2)
        yield layer("QUANTIZE", (1, 99), (1, 99), dtype="float32", result=dtype, scale=0.02)
        yield f"lstm_{dtype}", recurrent("LSTM", dtype)
        yield f"svdf_{dtype}", recurrent("SVDF", dtype)
        n = Network(1, 3, 4, dtype=dtype, scale=0.04)
        inputs = [0, n.input(1, 2, 4, scale=0.04)]
        joined = n.add("CONCATENATION", inputs, (1, 5, 4), lite.ConcatenationOptionsT(1), 0.04)
        n.add("EXPAND_DIMS", [joined, n.tensor("axis", [], np.int32(0))], (1, 1, 5, 4), None, 0.04)
        yield f"joined_{dtype}", n.data(len(n.graph.tensors) - 1)
        n = Network(3, 8, dtype=dtype, scale=0.04)
        w = n.tensor("weights", (5, 8), n.random.integers(-127, 128, (5, 8)).astype("int8"), 0.01)
        bias = n.random.integers(-999, 999, 5).astype("int32" if dtype == "int8" else "int64")
        inputs = [0, w, n.tensor("bias", (5,), bias, 0.0004)]
        yield f"dense_{dtype}", n.data(n.add("FULLY_CONNECTED", inputs, (3, 5), lite.FullyConnectedOptionsT(RELU)))
    for scale, result in ((0.04, 0.03), (0.001, 0.001), (0.3, 0.2)):
        yield f"hard_swish_{scale}", layered("HARD_SWISH", scale, result)
    yield "channels", weighted("FULLY_CONNECTED", (3, 8), (3, 5), (5, 8), 5, lite.FullyConnectedOptionsT())
    for result, scale, zero in (("int8", 0.02, 9), ("int16", 0.0002, 0), ("int32", 0.001, 0)):
        yield f"int8_to_{result}", single("QUANTIZE", (1, 99), (1, 99), scale=scale, zero=zero, result=result)
    n = Network(1, 4, dtype="int8")
    yield "constant", n.data(n.add("RELU", [0], (1, 4)), n.tensor("constant", (1, 4), np.int8([[1, 2, 3, 4]]), 0.05))
    yield "uint8_to_int8", single("QUANTIZE", (1, 99), (1, 99), dtype="uint8", scale=0.04, result="int8")
    yield "int16_to_int8", single("QUANTIZE", (1, 99), (1, 99), dtype="int16", scale=9.0, result="int8")
    yield "dequantize", single("DEQUANTIZE", (1, 99), (1, 99), result="float32")
    yield "softmax_int8_to_int16", single("SOFTMAX", (3, 9), (3, 9), lite.SoftmaxOptionsT(1.0), scale=1 / 65536,
                                          zero=-32768, result="int16")  # fmt: skip
    for options in ((False, False), (True, False), (False, True)):
        name = f"nearest_{options[0]:d}{options[1]:d}"
        yield name, single("RESIZE_NEAREST_NEIGHBOR", (1, 4, 5, 3), (1, 7, 9, 3),
                           lite.ResizeNearestNeighborOptionsT(*options), [np.int32([7, 9])], scale=0.04,
                           zero=-5)  # fmt: skip


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

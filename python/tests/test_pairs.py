"""Networks of ONNX with pairs of quantize and dequantize on CMSIS-NN, beside ONNX's reference evaluator."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import boardsmith
import networks
import numpy as np
from boardsmith import check, fixedpoint, frontends
from networks import Quantizer
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


def layer(op, *shape, inputs=1, follow=(), opset=17, constants=(), **attributes):
    """Returns a network of one operator, and of those that follow it, between pairs of quantize and dequantize."""
    n = networks.Network(op.lower(), **{f"x{i}": s for i, s in enumerate([shape] if inputs == 1 else shape)})
    values = [n.weight(*c) if isinstance(c, tuple) else n.constant(c) for c in constants]
    h = n.add(op, *n.inputs, *values, **attributes)
    for name, *more in follow:
        h = n.add(name, h, *(n.constant(np.float32(m)) for m in more))
    return Quantizer(n.model(h, opset=opset)).run()


def layers():
    """Yields operators with a layer of their own, of images, signals and vectors."""
    image, weights = (1, 4, 7, 6), ((6, 4, 3, 3), (6,))
    for name, constants, options in (
        ("padded", weights, {"pads": [1, 1, 1, 1], "strides": [2, 1]}), ("uneven", weights, {"pads": [2, 0, 0, 1]}),
        ("same", weights, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ("dilated", weights, {"dilations": [2, 1]}), ("point", ((6, 4, 1, 1), (6,)), {}),
        ("grouped", ((6, 2, 3, 3), (6,)), {"group": 2}), ("grouped point", ((6, 2, 1, 1), (6,)), {"group": 2}),
        ("depthwise", ((4, 1, 3, 3), (4,)), {"group": 4, "pads": [1, 1, 1, 1]}),
        ("multiplied", ((8, 1, 3, 2), (8,)), {"group": 4}), ("without a bias", ((6, 4, 3, 3),), {}),
    ):  # fmt: skip
        yield f"conv {name}", layer("Conv", *image, constants=constants, **options)
    yield "conv relu", layer("Conv", *image, constants=weights, follow=[("Relu",)])
    yield "conv clip", layer("Conv", *image, constants=weights, follow=[("Clip", -0.5, 1)])
    yield "conv of a signal", layer("Conv", 1, 3, 20, constants=((5, 3, 3), (5,)), pads=[4, 0], dilations=[2])
    yield "gemm", layer("Gemm", 3, 8, constants=((5, 8), (5,)), transB=1)
    yield "matmul of two", layer("MatMul", (2, 4, 3), (2, 3, 5), inputs=2)
    for op in ("Add", "Sub", "Mul"):
        for right in (image, (1, 4, 1, 1), (7, 1)):
            yield f"{op} {len(right)} {right[-2]}", layer(op, image, right, inputs=2)
        yield f"{op} of a number", layer(op, *image, constants=[np.float32(0.7)])
    yield "add relu", layer("Add", image, image, inputs=2, follow=[("Relu",)])
    for op, options in (("MaxPool", {"pads": [1, 0, 1, 1]}), ("AveragePool", {}),
                        ("AveragePool", {"pads": [1, 0, 1, 1], "count_include_pad": 1})):  # fmt: skip
        yield f"{op} {len(options)}", layer(op, *image, kernel_shape=[3, 2], strides=[2, 2], **options)
    yield "global pool", layer("GlobalAveragePool", *image)
    yield "mean", layer("ReduceMean", *image, constants=[np.int64([1, 3])], keepdims=0, opset=18)
    yield "softmax", layer("Softmax", 3, 9, axis=-1)
    yield "softmax of channels", layer("Softmax", *image, axis=1)
    yield "concat", layer("Concat", image, (1, 2, 7, 6), inputs=2, axis=1)
    yield "slice", layer("Slice", *image, constants=[np.int64([1, -3]), np.int64([3, 99]), np.int64([1, 3])])
    yield "pad", layer("Pad", *image, constants=[np.int64([0, 1, 0, 2, 0, 0, 1, 0])])
    yield "transpose", layer("Transpose", *image, perm=[0, 2, 3, 1])
    yield "reshape", layer("Reshape", *image, constants=[np.int64([4, 42])])
    for op in ("Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "Elu", "Exp", "Relu", "Erf"):
        yield op, layer(op, *image)


def unsigned():
    """Returns a convolution and pooling of uint8, as quantized operators."""
    n = networks.Network("unsigned", x=(1, 3, 6, 5))
    scales = [n.constant(np.float32(s)) for s in (0.02, 0.01, 0.05)]
    zeros = [n.constant(np.uint8(z)) for z in (100, 128, 90)]
    w = n.constant(n.random.integers(0, 256, (4, 3, 3, 3)).astype("uint8"))
    bias = n.constant(n.random.integers(-999, 999, 4).astype("int32"))
    h = n.add("QLinearConv", "x", scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2], bias)
    n.add("MaxPool", h, to="y", kernel_shape=[2, 2])
    ends = [helper.make_tensor_value_info(name, TensorProto.UINT8, s) for name, s in (("x", (1, 3, 6, 5)), ("y", None))]
    graph = helper.make_graph(n.nodes, n.name, ends[:1], ends[1:], n.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return networks.onnx.shape_inference.infer_shapes(model, strict_mode=True)


def moved():
    """Returns an image with its channels last that is transposed, as converters write it, and parts of a result."""
    n = networks.Network("moved", x=(1, 6, 5, 4))
    h = n.add("Relu", n.conv(n.add("Transpose", "x", perm=[0, 3, 1, 2]), 4, 6))
    n.nodes.append(helper.make_node("Split", [h, n.constant(np.int64([3, 3]))], ["a", "b"], axis=1))
    h = n.add("GlobalAveragePool", n.add("Mul", "a", n.add("Sigmoid", "b")))
    return Quantizer(n.model(n.add("Squeeze", h, n.constant(np.int64([2]))))).run()


class Pairs(unittest.TestCase):
    """Networks become archives that call CMSIS-NN, or are refused by a node."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name, "net.tar")

    def test_layers(self):
        """Each operator gives integers that differ by at most one from ONNX's."""
        library = networks.library(self)
        for name, model in [*layers(), ("unsigned", unsigned())]:
            with self.subTest(name):
                report = frontends.export_onnx(model, self.path, library=library)
                self.assertTrue(report.verdict.verified, report.verdict)
                with tarfile.open(self.path) as tar:
                    members = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
                program = check.Program(Path(self.folder.name), report.name, members, report, library)
                inputs = check.draw(report.inputs, (), 0)
                wanted = ReferenceEvaluator(model).run(None, {t.name: x for t, x in zip(report.inputs, inputs)})
                for got, want in zip(program.run([inputs])[0], wanted, strict=True):
                    self.assertLessEqual(np.abs(got.astype(int) - want).max(), 1)

    def test_networks(self):
        """Whole networks compute what ONNX's evaluator does, and keep the names of tensors."""
        library = networks.library(self)
        for model in (networks.int8_convolutional(), networks.int8_residual(), moved()):
            report = frontends.export_onnx(model, self.path, library=library)
            self.assertTrue(report.verdict.verified, report.verdict)
            names = [t.name for t in (*model.graph.input, *model.graph.output)]
            self.assertEqual([t.name for t in (*report.inputs, *report.outputs)], names)

    def test_differs(self):
        """A layer that differs from ONNX by more than one unit is named."""
        library, model = networks.library(self), layer("Gemm", 3, 8, constants=((5, 8), (5,)), transB=1)
        with unittest.mock.patch.object(fixedpoint, "multiplier", return_value=(1 << 30, -3)):
            with self.assertRaisesRegex(boardsmith.ExportError, r"QuantizeLinear \(node t3_q.*differs from ONNX's by"):
                frontends.export_onnx(model, self.path, library=library)
            self.assertFalse(self.path.exists())

    def test_without_tvm(self):
        """TVM is not needed, and its options are refused."""
        file = self.path.with_suffix(".onnx")
        networks.onnx.save(networks.int8_residual(), file)
        program = ("import sys; sys.modules['tvm'] = None; from boardsmith.__main__ import main; sys.exit(main())")
        arguments = [str(file), str(self.path), "--library", self.folder.name]
        for option, words in (("--no-check",), "net.tar: "), (("--target", "llvm"), "target: TVM does not compile"):
            done = subprocess.run([sys.executable, "-c", program, *arguments, *option], capture_output=True, text=True)
            self.assertIn(words, done.stdout + done.stderr)

    def test_refused(self):
        """A node that no layer computes is named, with what to do, and nothing is written."""
        square = layer("Gemm", 3, 8, constants=((5, 8), (5,)), transB=1, alpha=2.0)
        reduced = layer("ReduceMax", 3, 8)
        for model, words in (
            (networks.dense(), r"Gemm \(node y, opset 17\): a result that is not quantized is not supported"),
            (square, r"Gemm .*: another factor than 1"), (reduced, r"ReduceMax .*: this operator is not supported"),
            (networks.int8_scales(), "Conv .*: a channel whose scale"),
            (networks.int8_pooling(), r"AveragePool .*: padding, or ceil_mode, where"),
        ):  # fmt: skip
            with self.assertRaisesRegex(boardsmith.ExportError, words + ".* without --library, TVM computes"):
                frontends.export_onnx(model, self.path, library=Path(self.folder.name))
            self.assertFalse(self.path.exists())


if __name__ == "__main__":
    unittest.main()

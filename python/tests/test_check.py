"""Tests of what is compared before an archive is written, and of what makes graphs simple before."""

from __future__ import annotations

import json
import tarfile
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import boardsmith
import networks
import numpy as np
from boardsmith import check, frontends, rewrites, simplify
from onnx import TensorProto, helper


def transposed(**attributes):
    """Returns a transposed convolution."""
    n = networks.Network("up", x=(1, 1, 4, 4))
    n.add("ConvTranspose", n.add("Relu", "x"), n.weight(1, 1, 3, 3), to="y", kernel_shape=[3, 3], **attributes)
    return n.model("y")


def resized(mode, **attributes):
    """Returns a resize by a factor that gives no whole number of pixels."""
    n = networks.Network("resized", x=(1, 1, 5, 5))
    n.add("Resize", "x", "", n.constant(np.float32([1, 1, 1.5, 1.5])), to="y", mode=mode, **attributes)
    return n.model("y", opset=18)


def layer_norm():
    """Returns a normalization with all of its results, which TVM's frontend does not have."""
    n = networks.Network("norm", x=(2, 3, 4))
    n.nodes.append(helper.make_node("LayerNormalization", ["x", n.weight(4), n.weight(4)], ["y", "m", "s"], axis=-1))
    return n.model("y", "m", "s")


def single(op, *shape, opset=22, kind=TensorProto.FLOAT, **attributes):
    """Returns a network of one node."""
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", kind, shape)
    y = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], op.lower(), [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return networks.onnx.shape_inference.infer_shapes(model, strict_mode=True)


class Check(unittest.TestCase):
    """Networks that TVM computes otherwise than ONNX are refused; others are verified."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "net.tar"

    def test_refused(self):
        """The output and the first node that differs are named, and nothing is written."""
        self.enterContext(unittest.mock.patch.dict(rewrites.REWRITES))
        del rewrites.REWRITES["Resize"]
        n = networks.Network("after", x=(1, 1, 5, 5))
        n.add("Relu", n.add("Resize", "x", "", n.constant(np.float32([1, 1, 1.5, 1.5])), mode="linear"), to="y")
        for model, *words in (
            (resized("linear"), "output y", "random inputs", "Resize (node y, opset 18)"),
            (n.model("y", opset=18), "output y", "the first node that differs is Resize (node t"),
        ):
            with self.assertRaises(boardsmith.ExportError) as caught:
                frontends.export_onnx(model, self.path)
            for word in words:
                self.assertIn(word, str(caught.exception))
            self.assertEqual(list(Path(self.folder.name).iterdir()), [])

    def test_resized(self):
        """Factors that give no whole number of pixels are those of ONNX."""
        for mode in ("nearest", "linear", "cubic"):
            report = frontends.export_onnx(resized(mode), self.path)
            self.assertEqual(report.outputs[0].shape, (1, 1, 7, 7))
            self.assertTrue(report.verdict.verified, report.verdict)

    def test_shapes(self):
        """Dimensions get values by their name or by that of their input; those that are left are named."""
        file = self.path.with_suffix(".onnx")
        networks.onnx.save(single("Relu", "batch", 3), file)
        for shapes, shape in (({"batch": [2]}, (2, 3)), ({"x": [4, 3]}, (4, 3))):
            self.assertEqual(frontends.from_onnx(file, self.path, shapes=shapes).outputs[0].shape, shape)
        for shapes, words in (({}, "x has the dimension batch"), ({"time": [2]}, "time"), ({"x": [2]}, "2 dimensions")):
            with self.assertRaisesRegex(boardsmith.ExportError, words):
                frontends.from_onnx(file, self.path, shapes=shapes)

    def test_padded(self):
        """Paddings that TVM's frontend ignores or rounds otherwise are computed before it reads the network."""
        same = {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}
        for model, shape in (
            (transposed(output_shape=[8, 8], strides=[2, 2]), (1, 1, 8, 8)),
            (transposed(auto_pad="SAME_UPPER", strides=[2, 2]), (1, 1, 8, 8)),
            (single("MaxPool", 1, 1, 5, 5, **same), (1, 1, 3, 3)),
            (single("AveragePool", 1, 1, 5, 5, count_include_pad=0, **same), (1, 1, 3, 3)),
        ):
            report = frontends.export_onnx(model, self.path)
            self.assertEqual(report.outputs[0].shape, shape)
            # ONNX's evaluator has neither all of these shapes nor output_shape.
            self.assertTrue(report.verdict.verified or "ValueError" in report.verdict.reason, report.verdict)

    def test_inlined(self):
        """Operators that ONNX defines by others are computed by these where TVM's frontend lacks them or a result."""
        for model in (layer_norm(), single("Celu", 2, 3)):
            report = frontends.export_onnx(model, self.path)
            self.assertTrue(report.verdict.verified, report.verdict)

    def test_folded(self):
        """What depends on shapes and constants only is a constant, also if it is an output."""
        report = frontends.export_onnx(single("Shape", 2, 3), self.path)
        self.assertEqual((report.operators, report.outputs[0].shape), (0, (2,)))
        self.assertTrue(report.verdict.verified)

        n = networks.Network("folded", x=(2, 6))
        half = n.add("Div", n.add("Shape", "x"), n.constant(np.int64([1, 2])))
        n.add("Reshape", "x", n.add("Concat", half, n.constant(np.int64([2])), axis=0), to="y")
        self.assertEqual(frontends.export_onnx(n.model("y"), self.path).outputs[0].shape, (2, 3, 2))

    def test_old_opset(self):
        """A network of an old opset is converted."""
        model = single("Softmax", 2, 3, opset=7)
        self.assertEqual(simplify.simplify(model).opset_import[0].version, simplify.OLDEST)
        self.assertTrue(frontends.export_onnx(model, self.path).verdict.verified)

    def test_drawn(self):
        """A network that draws numbers is refused by its operator."""
        with self.assertRaisesRegex(boardsmith.ExportError, "RandomNormalLike"):
            frontends.export_onnx(single("RandomNormalLike", 2, 3), self.path)

    def test_not_verified(self):
        """Without a check, a compiler or an evaluator, report and archive say that nothing was compared, and why."""
        model = networks.dense()
        nothing = unittest.mock.patch.object(check.shutil, "which", return_value=None)
        fails = unittest.mock.patch("onnx.reference.ReferenceEvaluator.run", side_effect=NotImplementedError("Gemm"))
        for replaced, reason in ((None, "no evaluator"), (nothing, "no C compiler"), (fails, "Gemm")):
            if replaced:
                with replaced:
                    report = frontends.export_onnx(model, self.path)
            else:
                report = frontends.export_onnx(model, self.path, verify=False)
            self.assertFalse(report.verdict.verified)
            self.assertIn(reason, str(report.verdict))
            with tarfile.open(self.path) as tar:
                metadata = json.load(tar.extractfile("./metadata.json"))
            self.assertEqual(metadata["modules"]["net"]["checked"], str(report.verdict))

    def test_library(self):
        """A library is compiled with its own flags; its headers are those of the archive's C, too."""
        folder = Path(self.folder.name)
        (folder / "one.c").write_text('#include "one.h"\nint one(void) { return ONE; }\n')
        (folder / "one.h").write_text("int one(void);\n")
        for flags in ([], ["-DONE=1"]):
            described = {"sources": ["*.c"], "headers": ["."], "flags": flags}
            (folder / "library.json").write_text(json.dumps(described))
            if flags:
                self.assertIn(f"-I{folder.resolve()}", check._library(folder))
            else:
                with self.assertRaisesRegex(boardsmith.ExportError, "does not compile.*ONE"):
                    check._library(folder)

    def test_compare(self):
        """Differences are relative to the output; infinities, no numbers and integers are exact."""
        f, i = np.float32, np.int32
        for got, want, share, difference in (
            (f([1, 100]), f([1.5, 100]), 1e-4, 0.005),
            (f([1, np.inf]), f([1, 3e38]), 1e-4, np.inf),
            (f([1, np.nan]), f([1, np.nan]), 1e-4, 0),
            (f([1, np.nan]), f([1, 0]), 1e-4, np.inf),
            (f([np.inf]), f([-np.inf]), 1e-4, np.inf),
            (i([7, 9]), i([7, 10]), check.FLOAT_SHARE, np.inf),
            (i([7, 9]), i([7, 10]), check.QUANTIZED_SHARE, 0.1),
        ):
            with self.subTest(got=got, want=want):
                self.assertAlmostEqual(check.compare(got, want, share), difference, places=6)

    def test_target(self):
        """Operators as an object for another processor are compared as C."""
        target = {"kind": "llvm", "mtriple": "thumbv7em-none-eabihf", "mcpu": "cortex-m4", "mfloat-abi": "hard"}
        calls = []

        def evaluate(inputs):
            calls.append(inputs)
            return [np.maximum(inputs[0], 0)]

        from tvm.relax.frontend.onnx import from_onnx as read

        model = single("Relu", 2, 3)
        report = boardsmith.export(read(model), self.path, target=target, evaluator=evaluate)
        self.assertTrue(report.verdict.verified and calls)


if __name__ == "__main__":
    unittest.main()

"""Networks of TensorFlow Lite, beside its own interpreter, where its package ai-edge-litert is installed."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import boardsmith
from boardsmith import fixedpoint, frontends
from boardsmith.__main__ import main

if missing := [m for m in ("flatbuffers", "tflite", "ai_edge_litert") if importlib.util.find_spec(m) is None]:
    raise unittest.SkipTest(f"not installed: {', '.join(missing)}")

import numpy as np  # noqa: E402
from lite import Network, convolutional, integers, lite, single  # noqa: E402
from networks import library  # noqa: E402

def faulty(operator, custom=None):
    """Returns a network whose second layer TVM's reader lacks."""
    n = Network(1, 4)
    h = n.add("TANH", [0], (1, 4))
    return n.data(n.add(operator, [n.add("TANH", [h], (1, 4)) if custom is None else h], (1, 4), custom=custom))


class Lite(unittest.TestCase):
    """Networks become archives, beside TensorFlow Lite's interpreter, or are refused by a layer."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file, self.path = Path(self.folder.name, "net.tflite"), Path(self.folder.name, "net.tar")

    def exported(self, data, **options):
        """Returns the report of a network's archive."""
        self.file.write_bytes(data)
        return frontends.from_tflite(self.file, self.path, **options)

    def test_float(self):
        """A network in float32 computes what the interpreter does, and keeps the names of tensors."""
        report = self.exported(convolutional("float32"))
        self.assertTrue(report.verdict.verified, report.verdict)
        self.assertEqual([t.name for t in (*report.inputs, *report.outputs)], ["serving_default_x:0", "layer8"])

    def test_integers(self):
        """Layers of integers compute what TensorFlow Lite Micro's interpreter does, bit by bit, in several runs."""
        library = self.library()
        for name, data in [*integers(), ("network", convolutional("int8"))]:
            with self.subTest(name):
                report = self.exported(data, library=library)
                self.assertTrue(report.verdict.verified, report.verdict)
                self.assertEqual(report.verdict.largest, 0)

    def test_integers_differ(self):
        """The first layer of integers that differs from the interpreter is named."""
        library = self.library()
        n = Network(1, 9, dtype="int8")
        h = n.add("TANH", [n.add("LEAKY_RELU", [0], (1, 9), lite.LeakyReluOptionsT(0.5))], (1, 9), scale=1 / 128)
        with unittest.mock.patch.object(fixedpoint, "tanh", fixedpoint.logistic):
            with self.assertRaisesRegex(boardsmith.ExportError, r"first node that differs is TANH \(layer 1, layer1\)"):
                self.exported(n.data(h), library=library)

    def library(self):
        """Returns a folder with CMSIS-NN, where the interpreter is installed, too."""
        if importlib.util.find_spec("tflite_micro") is None:
            self.skipTest("there is no tflite-micro")
        return library(self)

    def test_integers_without_tvm(self):
        """A network of integers needs no TVM; without CMSIS-NN or by --no-check, nothing is compared."""
        self.file.write_bytes(convolutional("int8"))
        program = ("import sys; sys.modules['tvm'] = None; from boardsmith.__main__ import main; sys.exit(main())")
        files = str(self.file), str(self.path)
        for option, words in ((), "not verified: name CMSIS-NN's folder with --library"), \
                (("--no-check",), "not verified: there was no evaluator"), \
                (("--target", "llvm"), "target: TVM does not compile this network of integers"):  # fmt: skip
            done = subprocess.run([sys.executable, "-c", program, *files, *option], capture_output=True, text=True)
            self.assertIn(words, done.stdout + done.stderr)
            self.assertEqual(done.returncode == 0, words.startswith("not"), done.stderr)

    def test_integers_refused(self):
        """What is not supported is named with its layer, and nothing is written."""
        for data, words in (
            (single("FLOOR_MOD", (1, 4), (1, 4)), r"FLOOR_MOD \(layer 0, layer0\): this operator"),
            (single("SOFTMAX", (1, 4), (1, 4)), r"SOFTMAX \(layer 0, layer0\): a scale of the result other"),
            (single("STRIDED_SLICE", (1, 4), (1, 4), lite.StridedSliceOptionsT(0, 0, 1), [np.int32([0])] * 3),
             "an ellipsis or a new axis"),
            (single("TRANSPOSE", (2, 3), (3, 2), None, [np.int32([1, 7])]), "contradict each other: axis 7"),
            (single("CUSTOM", (1, 4), (1, 4), custom="Mine"), r"CUSTOM Mine \(layer 0, layer0\): this operator"),
            (single("CONCATENATION", (1, 4), (1, 4), lite.ConcatenationOptionsT(1)), "another scale of the result"),
        ):  # fmt: skip
            with self.assertRaisesRegex(boardsmith.ExportError, words):
                self.exported(data)
            self.assertFalse(self.path.exists())

    def test_refused(self):
        """An operator that TVM's reader lacks is named with its layer, and nothing is written."""
        for data, words in ((faulty("LSH_PROJECTION"), "LSH_PROJECTION \\(layer 2, layer2\\)"),
                            (faulty("CUSTOM", "Mine"), "CUSTOM Mine \\(layer 1, layer1\\)"),
                            (b"no network", "net.tflite is no file of TensorFlow Lite")):  # fmt: skip
            with self.assertRaisesRegex(boardsmith.ExportError, words):
                self.exported(data)
            self.assertFalse(self.path.exists())

    def test_different(self):
        """The first layer that differs from the interpreter is named."""
        from tvm import relax

        with unittest.mock.patch.object(relax.op, "tanh", relax.op.sin):
            with self.assertRaisesRegex(boardsmith.ExportError, r"first node that differs is TANH \(layer 0, layer0\)"):
                n = Network(1, 4)
                self.exported(n.data(n.add("TANH", [n.add("TANH", [0], (1, 4))], (1, 4))))

    def test_not_verified(self):
        """Without the interpreter, nothing is compared, and the command says so."""
        self.file.write_bytes(convolutional("float32"))
        arguments, printed = ["boardsmith", str(self.file), str(self.path)], io.StringIO()
        with unittest.mock.patch.dict("sys.modules", {"ai_edge_litert.interpreter": None}), \
                unittest.mock.patch("sys.argv", arguments), contextlib.redirect_stdout(printed):  # fmt: skip
            self.assertEqual(main(), 0)
        self.assertIn("not verified: the evaluator computes no outputs: ModuleNotFoundError", printed.getvalue())


if __name__ == "__main__":
    unittest.main()

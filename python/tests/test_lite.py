"""Networks of TensorFlow Lite, beside its own interpreter, where its package ai-edge-litert is installed."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import boardsmith
from boardsmith import frontends
from boardsmith.__main__ import main

if missing := [m for m in ("flatbuffers", "tflite", "ai_edge_litert") if importlib.util.find_spec(m) is None]:
    raise unittest.SkipTest(f"not installed: {', '.join(missing)}")

from lite import Network, convolutional  # noqa: E402


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

    def test_int8(self):
        """A network in int8 computes with integers but for softmax, as the interpreter does to a few units."""
        report = self.exported(convolutional("int8"))
        self.assertTrue(report.verdict.verified, report.verdict)
        self.assertEqual([f.split()[0] for f in report.floats], ["nn.softmax"])

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

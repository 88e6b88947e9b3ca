"""ONNX's own tests of operators: each gives the outputs that ONNX expects, or is refused with its name.

BOARDSMITH_TESTS=full or soak runs all of them; a plain run draws some by SEED, of operators that are rewritten.
"""

from __future__ import annotations

import os
import random
import tarfile
import tempfile
import unittest
import warnings
from pathlib import Path

import boardsmith
import numpy as np
import onnx
from boardsmith import check, frontends, rewrites
from boardsmith.plan import DTYPES
from onnx.backend.test.case.node import collect_testcases

# Why rewritten operators are refused in some forms. For p=1, ONNX's evaluator sums elements, not their magnitudes. Its
# inference contradicts a test of STFT.
REFUSED = ("draws numbers", "indices of the largest", "LpNormalization (node y, opset 22)", "for these sizes",
           "network test_stft: its shapes contradict each other")  # fmt: skip

# Inputs that TVM's frontend reads as constants only, as shapes and axes, are constants in networks.
BOUND = (lambda i, a: False, lambda i, a: a.dtype == np.int64, lambda i, a: a.dtype == np.int64 or a.size <= 1,
         lambda i, a: i > 0)  # fmt: skip


def cases(plain):
    """Returns the cases of tensors whose types archives have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = collect_testcases(None)
    chosen, seen = [], {}
    for case in every:
        values = [*case.model.graph.input, *case.model.graph.output]
        kinds = [v.type.tensor_type.elem_type for v in values]
        if not all(kinds) or not {str(onnx.helper.tensor_dtype_to_np_dtype(k)) for k in kinds} <= DTYPES.keys():
            continue
        op = case.model.graph.node[0].op_type
        seen[op] = seen.get(op, 0) + 1
        if "_expanded" not in case.name and (not plain or op in rewrites.REWRITES and seen[op] % 4 == 1):
            chosen.append(case)
    return random.Random(os.environ.get("SEED", "1")).sample(chosen, 3) if plain else chosen


def bound(model, arrays, is_constant):
    """Returns a model with some inputs as constants, and the arrays of the others."""
    part, rest = onnx.ModelProto(), []
    part.CopyFrom(model)
    del part.graph.input[:]
    for i, (value, array) in enumerate(zip(model.graph.input, arrays)):
        if is_constant(i, array):
            part.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        else:
            part.graph.input.append(value)
            rest.append(array)
    return part, rest


def array(value):
    """Returns a case's tensor as an array."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


class Nodes(unittest.TestCase):
    """The cases."""

    def outputs(self, case, inputs):
        """Returns the outputs of an archive, or the reason why it is refused."""
        for is_constant in BOUND:
            model, rest = bound(case.model, inputs, is_constant)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "net.tar")
                try:
                    report = frontends.export_onnx(model, path)
                except boardsmith.ExportError as error:
                    reason = str(error)
                    continue
                with tarfile.open(path) as tar:
                    members = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
                return check.Program(Path(folder), report.name, members, report).run([rest])[0]
        return reason

    def test_cases(self):
        """Outputs are those that ONNX expects, or the operator is refused. Rewritten ones are right."""
        plain = os.environ.get("BOARDSMITH_TESTS", "") == ""
        right = 0
        for case in cases(plain):
            with self.subTest(case.name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                inputs, wanted = case.data_sets[0]
                got = self.outputs(case, [array(a) for a in inputs])
                if isinstance(got, str):
                    self.assertTrue(not plain or any(reason in got for reason in REFUSED), got)
                    continue
                for value, want in zip(got, wanted, strict=True):
                    np.testing.assert_allclose(value, array(want), rtol=max(case.rtol, 1e-3), atol=1e-5)
                right += 1
        self.assertGreater(right, 0 if plain else 520)


if __name__ == "__main__":
    unittest.main()

"""python -m boardsmith model.onnx kws.tar"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ExportError
from .frontends import from_onnx, from_tflite, from_torch


def _shape(text: str) -> tuple[str, list[int]]:
    """Returns the name and the numbers of x=1,49,10."""
    name, _, numbers = text.rpartition("=")
    if not name:
        raise ValueError(text)
    return name, [int(n) for n in numbers.split(",")]


def main() -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m boardsmith", description=__doc__)
    parser.add_argument("model", type=Path, help="a network: .onnx, .tflite, or .pt2 of torch.export.save")
    parser.add_argument("archive", type=Path, help="the archive to write, such as kws.tar")
    parser.add_argument("--name", help="the model's name in C; default: that of the archive")
    parser.add_argument("--shape", type=_shape, action="append", default=[], metavar="NAME=N,N",
                        help="the dimensions of an ONNX input, as in x=1,49,10, or one that has a name, as in batch=1")
    parser.add_argument("--params", type=Path, help="an .npz file with values of ONNX inputs, which become constants")
    parser.add_argument("--target", default="c", help="TVM's target as JSON, of kind llvm with a board's architecture; "
                        "default: c")  # fmt: skip
    parser.add_argument("--database", type=Path, help="a folder of MetaSchedule's records of tuning")
    parser.add_argument("--library", type=Path,
                        help="a folder with a library.json and CMSIS-NN, which a network of integers calls")
    parser.add_argument("--no-check", action="store_true",
                        help="do not run the archive's C on this computer beside the network's evaluator")
    arguments = parser.parse_args()
    options: dict[str, Any] = {}
    try:
        options["target"] = json.loads(arguments.target) if arguments.target.startswith("{") else arguments.target
        if arguments.database:
            from tvm.s_tir.meta_schedule.database import JSONDatabase

            options["database"] = JSONDatabase(work_dir=str(arguments.database))
        read = {".pt2": from_torch, ".tflite": from_tflite}.get(arguments.model.suffix, from_onnx)
        if read is from_onnx:
            params = np.load(arguments.params) if arguments.params else {}
            options |= {"shapes": dict(arguments.shape), "params": dict(params)}
        elif arguments.shape or arguments.params:
            parser.error("--shape and --params are for ONNX files: others have fixed both")
        if arguments.library and read is from_torch:
            parser.error("--library is for networks of ONNX and TensorFlow Lite")
        if arguments.library:
            options["library"] = arguments.library
        report = read(arguments.model, arguments.archive, arguments.name, not arguments.no_check, **options)
    except (ExportError, OSError, ImportError, json.JSONDecodeError) as error:
        print(f"boardsmith: error: {error}", file=sys.stderr)
        return 1
    print(f"{report.path}: {report.operators} operators, {report.constants} bytes of constants, "
          f"{report.workspace} bytes of workspace")  # fmt: skip
    print(report.verdict)
    if report.floats:
        print(f"quantized, and computed in float32: {', '.join(report.floats)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

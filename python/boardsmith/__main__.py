"""python -m boardsmith model.onnx kws.tar"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import ExportError
from .frontends import from_onnx, from_torch


def main() -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m boardsmith", description=__doc__)
    parser.add_argument("model", type=Path, help="an ONNX file, or a file of torch.export.save, which ends in .pt2")
    parser.add_argument("archive", type=Path, help="the archive to write, such as kws.tar")
    parser.add_argument("--name", help="the model's name in C; default: that of the archive")
    parser.add_argument("--no-check", action="store_true",
                        help="do not run the archive's C on this computer beside the network's evaluator")
    arguments = parser.parse_args()
    read = from_torch if arguments.model.suffix == ".pt2" else from_onnx
    try:
        report = read(arguments.model, arguments.archive, arguments.name, not arguments.no_check)
    except (ExportError, OSError, ImportError) as error:
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

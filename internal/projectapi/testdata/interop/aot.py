"""Runs TVM's tests of generated code with a runtime: aot.py ARCHIVE ARGUMENTS OF PYTEST…

ARCHIVE is linked with each program; "" if the folder standalone_crt has all that is needed. Tests that need Arm's
simulator are skipped.
"""

import os
import shutil
import sys

import pytest

LEAST = 60  # tests that pass: fewer are not the suite


class Count:
    """Counts the tests by their end."""

    def __init__(self):
        self.ends = {"passed": 0, "failed": 0, "skipped": 0}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.ends[report.outcome] += 1


def which_without_arm(command, *args, find=shutil.which, **more):
    return None if command == "arm-none-eabi-gcc" else find(command, *args, **more)


if __name__ == "__main__":
    shutil.which = which_without_arm  # TVM's tests ask it before they use the simulator
    if sys.argv[1]:
        os.environ["PKG_LDFLAGS"] = sys.argv[1]  # of the makefile of TVM's tests
    count = Count()
    status = pytest.main(sys.argv[2:], plugins=[count])
    print("note: " + ", ".join(f"{n} {end}" for end, n in count.ends.items()), flush=True)
    sys.exit(status or count.ends["passed"] < LEAST)

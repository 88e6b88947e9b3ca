"""Imported by every Python with this folder on PYTHONPATH: appends the time of each request of TVM's client of the
Project API to the file $INTEROP_TIMES, as "METHOD SECONDS". TVM's processes for trials are ended by signals, so each
line is written at once.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time

CLIENT = "tvm.micro.project_api.client"


def timed(request):
    def of(self, method, params):
        start = time.monotonic()
        try:
            return request(self, method, params)
        finally:
            with open(os.environ["INTEROP_TIMES"], "a", encoding="ascii") as times:
                times.write(f"{method} {time.monotonic() - start:.6f}\n")

    return of


class Finder(importlib.abc.MetaPathFinder):
    """Finds the client as Python would, and changes it once it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != CLIENT:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.ProjectAPIClient._request_reply = timed(module.ProjectAPIClient._request_reply)

        spec.loader.exec_module = exec_module
        return spec


if "INTEROP_TIMES" in os.environ:
    sys.meta_path.insert(0, Finder())

"""Exports networks to archives that boardsmith builds: of Apache TVM 0.26 and later, as Relax, and of TensorFlow Lite.

>>> import boardsmith
>>> boardsmith.export(module, "kws.tar")

The archive has the operators as C on raw pointers, the constants as const arrays, one pool of memory for tensors and
temporaries, and a function tvmgen_<name>_run. Its format is Model Library Format 7 with the C interface.
"""

from __future__ import annotations

from typing import Any

from .archive import VERSION as __version__
from .archive import Report
from .errors import ExportError

__all__ = ["ExportError", "Report", "__version__", "export", "lower"]


def __getattr__(name: str) -> Any:
    """Returns the functions that need TVM, which is imported for them only."""
    if name not in ("export", "lower"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import compiler

    return getattr(compiler, name)

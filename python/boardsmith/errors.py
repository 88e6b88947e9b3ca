"""Errors of an export, and what they say."""

from __future__ import annotations

import re


class ExportError(Exception):
    """A network that cannot be exported: the text names what is not supported. Nothing was written."""


class Refusal(ExportError):
    """A node that cannot be exported: the text names its operator, its name, the opset and the reason."""


def cause(error: Exception) -> str:
    """Returns the first line of an error of TVM: expressions follow, which may have many."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    unresolved = re.match(r'Unresolved call .*name="([^"]*)"', line)
    return f"it calls {unresolved[1]}" if unresolved else line

"""Errors of the exporter."""


class ExportError(Exception):
    """A network that cannot be exported: the text names what is not supported. Nothing was written."""

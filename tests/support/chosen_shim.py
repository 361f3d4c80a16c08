"""Which hook command the tests run: set by the fixture `each_shim`."""

from __future__ import annotations

from typing import Final

from bus.shim import native as built

USUAL: Final = "native" if built.compiler() else "python"
"""The one of both that the usual run has where a test has the marker `one_shim`: the one that `install` writes here."""

native = ""
"""The path of the native hook command; empty: tests run the one in Python."""

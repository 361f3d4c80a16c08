"""Which hook command the tests run: set by the fixture `each_shim`."""

from __future__ import annotations

native = ""
"""The path of the native hook command; empty: tests run the one in Python."""

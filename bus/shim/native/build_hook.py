"""Puts the native hook command into a wheel that is built where there is a C compiler; hatchling runs it (`pyproject.toml`).

Without a compiler, or with FLEETHOOK_NATIVE_HOOK=0, the wheel is one for every platform, and has the source only.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Hook = Any
else:
    try:
        from hatchling.builders.hooks.plugin.interface import BuildHookInterface as Hook
    except ImportError:  # it is there only where a wheel is built
        Hook = object

LINUX = ("manylinux_2_17", "manylinux2014", "musllinux_1_1")
"""A program without shared libraries runs on all of them."""
MACOS = "11.0"
"""Not tried: nobody has built it on macOS yet."""


class NativeHook(Hook):  # type: ignore[misc]  # of a library that is not installed
    """Builds the program before the wheel is written."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the program and the wheel's platform; an editable install builds it with `fleethook install`."""
        if version == "editable" or os.environ.get("FLEETHOOK_NATIVE_HOOK") == "0":
            return
        native = _native()
        self._made = Path(tempfile.mkdtemp(prefix="fleethook-native-"))
        program = self._made / native.NAME
        try:
            native.build(program, static=sys.platform == "linux")
        except (native.NotBuilt, OSError) as error:
            self.app.display_warning(f"the wheel has no native hook command: {error}")
            return
        build_data["force_include"][str(program)] = f"bus/shim/native/{native.NAME}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's arguments
        """Removes what was built beside the wheel."""
        if hasattr(self, "_made"):
            shutil.rmtree(self._made, ignore_errors=True)


def _native() -> ModuleType:
    """`bus.shim.native` of this source; it needs nothing else, which matters where a wheel is built."""
    sys.path.insert(0, str(Path(__file__).parents[3]))
    try:
        return importlib.import_module("bus.shim.native")
    finally:
        sys.path.pop(0)


def _platform() -> str:
    """The wheel's platform tags."""
    machine = platform.machine()
    if sys.platform == "darwin":
        return f"macosx_{MACOS.replace('.', '_')}_{machine}"
    return ".".join(f"{one}_{machine}" for one in LINUX)

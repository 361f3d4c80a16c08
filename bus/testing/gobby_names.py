"""Makes `gobby` importable in tests where Gobby is not installed: its names are ours, imported when a test asks for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType


class GobbyFinder(Loader):
    """The last finder of modules: it finds `gobby`."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The package `gobby`, made with everything below it; no other module."""
        if name != "gobby":
            return None
        from bus.plugins.gobby_names import add_gobby_modules

        add_gobby_modules()
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module that was made."""
        return sys.modules.get(spec.name)

    def exec_module(self, _module: ModuleType) -> None:
        """It is complete."""


def add_finder() -> None:
    """Let `import gobby` find our names where nothing else does."""
    if not any(isinstance(finder, GobbyFinder) for finder in sys.meta_path):
        sys.meta_path.append(GobbyFinder())

"""Modules that are imported when one of their names is used: a process that meets no YAML does without its reader."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """Imports the module at the first use of a name, and is a plain module with its names from then on."""

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        self.__dict__.update(module.__dict__)
        self.__class__ = ModuleType  # type: ignore[assignment]  # without `__getattr__`
        return getattr(module, name)


def lazy_module(name: str) -> ModuleType:
    """The module of this name, imported at its first use; ImportError is raised there (X-14)."""
    return _LazyModule(name)

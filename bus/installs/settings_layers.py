"""Reads agents' settings layers, to find what is switched off. Reports files that cannot be read, without raising."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bus.config.edit_json import read_text
from bus.errors import ConfigError
from bus.installs.base import InstallProblem


class Layer(NamedTuple):
    """One settings file, as far as it could be read."""

    path: Path
    settings: dict[str, Any]
    trouble: str = ""

    def at(self, *names: str) -> object:
        """The value below these names; None if there is none."""
        value: object = self.settings
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


def json_layers(paths: Iterable[Path], *, comments: bool = False) -> tuple[Layer, ...]:
    """The files that exist, in this order, each once."""
    return tuple(_read(path, comments=comments) for path in dict.fromkeys(paths) if path.exists())


def toml_layers(paths: Iterable[Path]) -> tuple[Layer, ...]:
    """The files that exist, in this order, each once."""
    found = []
    for path in dict.fromkeys(paths):
        try:
            found.append(Layer(path, tomllib.loads(path.read_bytes().decode("utf-8"))))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            found.append(Layer(path, {}, str(error)))
    return tuple(found)


def unreadable(layers: Iterable[Layer]) -> Iterator[InstallProblem]:
    """One trouble for each file that could not be read: it may switch hooks off."""
    for layer in layers:
        if layer.trouble:
            what = f"{layer.path} cannot be read, so it may switch hooks off: {layer.trouble}"
            yield InstallProblem(what, f"correct {layer.path}")


def switched(
    layers: Iterable[Layer], names: tuple[str, ...], *, off: object = True, fix: str = ""
) -> Iterator[InstallProblem]:
    """A problem if the strongest layer (the first) that has a value under these names has the value `off`."""
    for layer in layers:
        value = layer.at(*names)
        if value is None:
            continue
        if value is off:
            what = f"{layer.path}: `{'.'.join(names)}` is {str(value).lower()}, so no hook runs"
            yield InstallProblem(what, fix or f"take `{'.'.join(names)}` out of {layer.path}, or ask who set it")
        return


def folder_trust(path: Path, folder: Path) -> bool | None:
    """Whether Gemini's or Qwen's list of trusted folders trusts a folder; None if no rule fits.

    Of the rules that fit, the one with the longest path counts (as in Gemini CLI 0.61.0).
    """
    layer = next(iter(json_layers([path], comments=True)), None)
    best, says = -1, ""
    for rule, level in (layer.settings if layer else {}).items():
        above = Path(rule).parent if level == "TRUST_PARENT" else Path(rule)
        if folder.resolve().is_relative_to(above.resolve()) and len(rule) > best:
            best, says = len(rule), str(level)
    return {"DO_NOT_TRUST": False, "TRUST_FOLDER": True, "TRUST_PARENT": True}.get(says)


def _read(path: Path, *, comments: bool) -> Layer:
    try:
        return Layer(path, read_text(path.read_bytes(), file=str(path), comments=comments)[1])
    except (ConfigError, OSError) as error:
        return Layer(path, {}, error.message if isinstance(error, ConfigError) else str(error))

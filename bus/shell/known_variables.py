"""Variables whose value can be told without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "HOME": ("~",),
    "PWD": (".",),
    "TMPDIR": ("/tmp",),  # noqa: S108  (a name in what is read)
    "SHELL": ("/bin/sh",),
    "BASH": ("/bin/bash",),
    "0": ("bash",),
    "XDG_CONFIG_HOME": ("~/.config",),
    "XDG_DATA_HOME": ("~/.local/share",),
    "XDG_STATE_HOME": ("~/.local/state",),
    "XDG_CACHE_HOME": ("~/.cache",),
    "GOPATH": ("~/go",),
    "CARGO_HOME": ("~/.cargo",),
    "NVM_DIR": ("~/.nvm",),
    "ANDROID_HOME": ("~/Android/Sdk",),
    "GNUPGHOME": ("~/.gnupg",),
    "KUBECONFIG": ("~/.kube/config",),
    "JAVA_HOME": ("/usr/lib/jvm/default",),
    "VIRTUAL_ENV": (".venv",),
    "GOROOT": ("/usr/local/go",),
    "RUSTUP_HOME": ("~/.rustup",),
    "PYENV_ROOT": ("~/.pyenv",),
    "CONDA_PREFIX": ("~/miniconda3",),
    "IFS": (" \t\n",),
}


def default_variables(more: Mapping[str, tuple[str, ...]] | None = None) -> dict[str, tuple[str, ...]]:
    """The variables that are known without running anything: HOME is written `~`, and PWD `.`."""
    return {**_KNOWN, **(more or {})}

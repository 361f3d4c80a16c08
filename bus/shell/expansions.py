"""Values of variables, operators and escapes: `$HOME`, `${x%/}`, `${x/a/b}`, `$'\\x72'`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Final

from bus.lazy.regex import lazy_regex

_KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "HOME": ("~",),
    "PWD": (".",),
    "OLDPWD": ("~",),
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


RESERVED: Final = lazy_regex("[\x00-\x06]")
"""Control characters that this package uses as marks; a shell's words hardly ever hold them."""
_ANSI: Final = lazy_regex(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_NAMES: Final = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


def ansi_c(text: str) -> str:
    r"""The text of `$'…'`, with `\x72` and similar escapes decoded."""

    def decoded(match: re.Match[str]) -> str:
        x, u, big, octal, control, other = match.groups()
        if x or u or big:
            return _character(int(x or u or big, 16))
        if octal:
            return chr(int(octal, 8) & 0xFF)
        if control:
            return chr(ord(control) & 0x1F)
        return _ANSI_NAMES.get(other, other if other in "\\'\"?" else f"\\{other}")

    return RESERVED.sub("", _ANSI.sub(decoded, text))


def _character(number: int) -> str:
    return chr(number) if number < 0x110000 else "\ufffd"


_LONGEST: Final = 1024
"""Most characters of a value and of a pattern; an operator on longer ones gives no value."""
OPERATORS: Final = frozenset({"#", "##", "%", "%%", "/", "//", "/#", "/%", ":", "^", "^^", ",", ",,"})


def apply_operator(value: str, operator: str, operands: Sequence[str]) -> str | None:
    """The value with the operator applied; None if the result is not known."""
    first = operands[0] if operands else ""
    if len(value) > _LONGEST or len(first) > 64 or first.count("*") > 4:
        return None
    if operator in ("^", "^^", ",", ",,"):
        change = str.upper if operator[0] == "^" else str.lower
        return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
    if operator == ":":
        return _part(value, operands)
    if operator in ("%", "%%") and value in ("~", ".") and first.startswith("/"):
        return value if first == "/" else f"{value}/.."  # these stand for a path with a parent
    try:
        regex = re.compile(translate(first).replace(r"\Z", "").replace(r"\z", ""), re.DOTALL)
    except re.error:
        return None
    if operator in ("#", "##"):
        places = range(len(value) + 1) if operator == "#" else range(len(value), -1, -1)
        end = next((place for place in places if regex.fullmatch(value, 0, place)), 0)
        return value[end:]
    if operator in ("%", "%%"):
        places = range(len(value), -1, -1) if operator == "%" else range(len(value) + 1)
        start = next((place for place in places if regex.fullmatch(value, place)), len(value))
        return value[:start]
    if not first:
        return value
    replacement = operands[1] if len(operands) > 1 else ""
    return regex.sub(lambda _: replacement, value, count=0 if operator == "//" else 1)


def _part(value: str, operands: Sequence[str]) -> str | None:
    try:
        numbers = [int(operand.strip()) for operand in operands[:2]]
    except ValueError:
        return None
    start = numbers[0] if numbers else 0
    rest = value[start:]
    return rest if len(numbers) < 2 else rest[: numbers[1]]

"""Translates scripts of fish, Nushell, xonsh, zsh and csh to bash, but only forms that change which command runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, Unwrap
from bus.shell.words import Output

_FOREACH: Final = lazy_regex(r"\bforeach\s+(\w+)\s*\(([^()]*)\)\s*[;\n]?")
_END: Final = lazy_regex(r"(?<=[\s;])end\b")
_SET: Final = lazy_regex(r"(^|[;\n]\s*)set\s+(?:-\w+\s+)*(\w+)\s+([^;\n]+)")
_BRACKET: Final = lazy_regex(r"(?<=[\s=])\((?=[\w/])")
_JOINT: Final = lazy_regex(r"[;\n]\s*(and|or)\s")
_CARET: Final = lazy_regex(r"(?<![\w])\^(?=[\w/])")
_EACH: Final = lazy_regex(
    r"(?:ls|glob)\s*(?:-\w+\s+)*([^\s|]*)\s*\|(?:[^{}]*\|)?\s*(?:par-)?each\s*(?:-\w+\s+)*\{\s*(?:\|(\w+)\|)?([^{}]*)\}"
)
_CELL: Final = lazy_regex(r"\$(\w+)\.\w+")
_XONSH: Final = lazy_regex(r"(?:\$|!)[\[(]([^\[\]()]+)[\])]")


def _zsh(text: str) -> str:
    return _END.sub("done", _FOREACH.sub(r"for \1 in \2; do ", text)) if "foreach" in text else text


def _fish(text: str) -> str:
    text = _SET.sub(r"\1\2=\3", text)
    text = _BRACKET.sub("$(", text)
    return _JOINT.sub(lambda found: " && " if found[1] == "and" else " || ", text)


def _nu(text: str) -> str:
    def loop(found: re.Match[str]) -> str:
        folder = found[1].rstrip("/") if found[1] != "/" else ""
        files = found[1] if "*" in found[1] else f"{folder}/*" if found[1] else "*"
        body = _CELL.sub(r"$\1", found[3])
        return f"for {found[2] or 'it'} in {files}; do {body}; done"

    return _CARET.sub("", _EACH.sub(loop, text))


_TRANSLATIONS: Final = {"zsh": _zsh, "csh": _zsh, "tcsh": _zsh, "fish": _fish, "nu": _nu}


def shell_readers(read_shell: Unwrap) -> Mapping[str, Unwrap]:
    """By shell, a reader of its arguments: `read_shell` finds the script, which is then translated."""

    def reader(name: str) -> Unwrap:
        translate = _TRANSLATIONS[name]

        def unwrap(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
            for inner in read_shell(args, stdin):
                yield inner if inner.script is None else inner._replace(script=translate(inner.script))

        return unwrap

    def xonsh(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
        """Xonsh runs Python, and commands in `$[…]`, `![…]`, `$(…)`."""
        for inner in read_shell(args, stdin):
            yield inner
            if inner.script:
                yield from (Inner(script=script) for script in _XONSH.findall(inner.script))
                yield Inner(argv=(Arg("python3"), Arg("-c"), Arg(inner.script)))

    return {**{name: reader(name) for name in _TRANSLATIONS}, "xonsh": xonsh}

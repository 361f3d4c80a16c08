"""The programs that run PowerShell and cmd.exe texts, from any shell: `powershell -Command …`, `cmd /c …`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Final

from bus.shell.inner import Arg, Inner, Unwrap
from bus.shell.powershell import powershell_calls
from bus.shell.words import Output


def _powershell(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`powershell -NoProfile -Command …` and `-EncodedCommand …`, from any shell."""
    place = 0
    while place < len(args):
        name = args[place].text.lower().lstrip("-/")
        if not args[place].text.startswith(("-", "/")):
            break
        place += 1
        if name and "encodedcommand".startswith(name) and name[0] == "e" and name not in ("ex", "ep"):
            for arg in args[place : place + 1]:
                yield from powershell_calls(_decoded(arg.text))
            return
        if name and "command".startswith(name):
            break
        if name and "file".startswith(name):
            yield Inner(sources=tuple(source for arg in args[place:] for source in arg.sources))
            return
        if name in (
            "executionpolicy",
            "ep",
            "ex",
            "windowstyle",
            "w",
            "version",
            "workingdirectory",
            "inputformat",
            "outputformat",
        ):
            place += 1
    rest = args[place:]
    if rest and rest[0].text != "-":
        yield Inner(sources=tuple(source for arg in rest for source in arg.sources))
        yield from powershell_calls(" ".join(arg.text for arg in rest))
    else:
        yield Inner(sources=stdin.programs)
        yield from powershell_calls(stdin.text or "")


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-16-le", "replace")
    except (ValueError, binascii.Error):
        return ""


def _cmd(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`cmd /c …`."""
    for place, arg in enumerate(args):
        if arg.text.lower().lstrip("/-") in ("c", "k"):
            text = " ".join(one.text for one in args[place + 1 :])
            yield from powershell_calls(re.sub(r"(?<!&)&(?!&)", ";", text.replace("^", "")))
            return


POWERSHELL: Final[dict[str, Unwrap]] = {"powershell": _powershell, "pwsh": _powershell, "cmd": _cmd}
"""By program."""

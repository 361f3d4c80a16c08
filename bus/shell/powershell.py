r"""PowerShell, and cmd.exe: what a text deletes, writes and runs, as the commands that a POSIX shell has for it.

A reader of its own, since its quoting, its paths and its words are others: `Remove-Item -Recurse C:\x` is `rm -r /c/x`.
A cmdlet that has no such form keeps its own name, for rules about it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from bus.shell.inner import Arg, Inner, Unwrap
from bus.shell.words import UNKNOWN, UNSET, Output

_MOST: Final = 256
_REDIRECT: Final = "\ue002"
"""Stands for `>` among words."""
_LONGEST: Final = 64 * 1024
_TOKEN: Final = re.compile(
    r"""`\r?\n|[ \t]+|<\#.*?\#>|\#[^\n]*|@'\r?\n(.*?)\r?\n'@|@"\r?\n(.*?)\r?\n"@|'((?:''|[^'])*)'|"((?:`.|""|[^"`])*)\""""
    r"""|(\r?\n|&&|\|\||[;{}()]|\$\(|@\(|@\{|\|)|(\d?>>?&?\d?|\*>>?)|((?:`.|[^\s;{}()|'"`>])+)|(.)""",
    re.DOTALL,
)
_VARIABLE: Final = re.compile(r"\$\{?(env:)?([A-Za-z_]\w*(?::\w+)?)\}?|%([A-Za-z_]\w*)%", re.IGNORECASE)
_TEMPORARY: Final = "/tmp"  # noqa: S108  (a name in what is read)
_KNOWN: Final[Mapping[str, str]] = {
    "home": "~", "userprofile": "~", "homepath": "~", "pwd": ".", "psscriptroot": ".", "cd": ".", "temp": _TEMPORARY,
    "tmp": _TEMPORARY, "systemroot": "/c/Windows", "windir": "/c/Windows", "systemdrive": "/c", "homedrive": "/c",
    "programfiles": "/c/Program Files",
    "programdata": "/c/ProgramData", "appdata": "~/AppData/Roaming", "localappdata": "~/AppData/Local",
    "public": "/c/Users/Public",
    "onedrive": "~/OneDrive",
}  # fmt: skip
_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(["ri", "rm", "rd", "del", "erase", "rmdir"], "remove-item"),
    **dict.fromkeys(["gci", "ls", "dir"], "get-childitem"), **dict.fromkeys(["iex"], "invoke-expression"),
    **dict.fromkeys(["iwr", "wget"], "invoke-webrequest"), "irm": "invoke-restmethod", "sc": "set-content", "ac": "add-content",
    **dict.fromkeys(["mi", "mv", "move"], "move-item"), **dict.fromkeys(["cpi", "cp", "copy"], "copy-item"),
    "clc": "clear-content",
    **dict.fromkeys(["spps", "kill"], "stop-process"), **dict.fromkeys(["saps", "start"], "start-process"), "ni": "new-item",
    **dict.fromkeys(["sl", "chdir"], "set-location"), **dict.fromkeys(["rni", "ren"], "rename-item"), "sv": "set-variable",
}  # fmt: skip
_SWITCHES: Final = (
    "recurse",
    "force",
    "confirm",
    "verbose",
    "whatif",
    "passthru",
    "nonewline",
    "append",
    "noclobber",
    "wait",
)
_PROVIDER: Final = re.compile(r"\w{2,}:")
"""Of a path that is no file: `HKLM:\\Software`."""
_DELETES: Final = frozenset({"remove-item"})
_WRITES: Final = frozenset({"set-content", "add-content", "out-file", "clear-content", "tee-object"})
_FETCHES: Final = re.compile(
    r"\b(?:iwr|irm|curl|wget|invoke-webrequest|invoke-restmethod)\b|download(?:string|data|file)|net\.webclient|start-bitstransfer",
    re.IGNORECASE,
)
_RUNS: Final = re.compile(r"\b(?:iex|invoke-expression)\b|scriptblock\]::create|\.invoke\(", re.IGNORECASE)
_NET: Final = re.compile(
    r"\[(?:System\.)?IO\.(Directory|File)\]::(Delete|WriteAllText|WriteAllBytes|WriteAllLines|Move)\(\s*(['\"])(.*?)\3",
    re.IGNORECASE,
)


def powershell_calls(text: str) -> Iterator[Inner]:
    """What a PowerShell text runs; never raises."""
    yield from islice(_calls(text[:_LONGEST]), _MOST)


def _calls(text: str) -> Iterator[Inner]:
    variables: dict[str, str] = {}
    for match in islice(_ASSIGNED.finditer(text), _MOST):
        variables[match[1].lower()] = _filled(match[2] or match[3] or match[4] or "", variables)
    if _RUNS.search(text):
        yield Inner(
            sources=("curl",) if _FETCHES.search(text) else ("base64",) if "frombase64string" in text.lower() else ()
        )
    for kind, method, _, path in _NET.findall(text):
        form = {"delete": ("rm", "-r") if kind.lower() == "directory" else ("rm",)}.get(method.lower(), ("tee",))
        yield _argv([*form, to_posix(_filled(path, variables))])
    pipeline: list[str] = []
    directory = ""
    for words, ends in _statements(text, variables):
        called = words[1:] if words[:1] and words[0] in ("&", ".", "call", "@call") else words
        if called:
            program = _program(called[0])
            for call in _translated(program, called[1:], pipeline):
                yield call._replace(directory=directory)
            if program in ("set-location", "cd", "pushd", "push-location") and len(called) > 1:
                directory = to_posix(called[-1])
            if program == "get-childitem":
                pipeline = [to_posix(word) for word in _operands(called[1:])] or ["."]
        if ends not in ("|", "{"):
            pipeline = []


def _statements(text: str, variables: dict[str, str]) -> Iterator[tuple[list[str], str]]:
    """The words of each simple command, and the sign that it ends with."""
    words: list[str] = []
    glued = False
    for token in _TOKEN.finditer(text):
        here, here_filled, single, double, sign, redirect, bare, other = token.groups()
        literal = next((one for one in (here, single) if one is not None), None)
        if literal is None and (here_filled is not None or double is not None):
            literal = _filled(re.sub(r"`(.)", r"\1", here_filled or double or "").replace('""', '"'), variables)
        elif single is not None:
            literal = single.replace("''", "'")
        if bare is not None:
            literal = _filled(re.sub(r"`(.)", r"\1", bare), variables)
        if literal is not None:
            if glued and words:
                words[-1] += literal
            else:
                words.append(literal)
            glued = True
            continue
        glued = False
        if redirect is not None:
            words.append(_REDIRECT)
        elif sign is not None or other is not None:
            yield from _ended(words, sign or ";")
            words = []
    yield from _ended(words, ";")


def _ended(words: list[str], sign: str) -> Iterator[tuple[list[str], str]]:
    while _REDIRECT in words:  # `> file`
        place = words.index(_REDIRECT)
        if words[place + 1 : place + 2]:
            yield ["out-file", words[place + 1]], ";"
        words = words[:place] + words[place + 2 :]
    if len(words) > 1 and words[1] == "=":  # `$x = Get-ChildItem …`
        words = words[2:]
    yield words, sign


_ASSIGNED: Final = re.compile(r"""\$(?:env:)?(\w+)\s*=\s*(?:'([^'\n]*)'|"([^"\n]*)"|([^\s;'"$(@{]+))""", re.IGNORECASE)


def _filled(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = (match[2] or match[3]).lower().removeprefix("env:")
        if name == "_":
            return UNKNOWN
        return variables.get(name) or _KNOWN.get(name) or (UNKNOWN if name in ("args", "_", "psitem") else UNSET)

    return _VARIABLE.sub(value, text) if "$" in text or "%" in text else text


def to_posix(word: str) -> str:
    r"""A path of Windows as its POSIX shells write it: `C:\x` is `/c/x`, and `..\x` is `../x`."""
    drive = re.match(r"([A-Za-z]):(?!:)", word)
    path = word.replace("\\", "/")
    if drive:
        return f"/{drive[1].lower()}/{path[2:].lstrip('/')}".rstrip("/") or "/"
    return "/c" if path == "/" and word == "\\" else path


def _program(word: str) -> str:
    name = word.replace("\\", "/").rstrip("/").rpartition("/")[2].lower().removesuffix(".exe")
    return _ALIASES.get(name, name)


def _operands(words: Sequence[str]) -> list[str]:
    """The paths among the arguments of a cmdlet; `a, b` are two of them."""
    found: list[str] = []
    skip = False
    for word in words:
        name = word.lower().lstrip("-")
        if re.fullmatch(r"/[a-z](:\S*)?", word, re.IGNORECASE):
            continue  # cmd's switches
        if word.startswith("-") and len(word) > 1:
            paths = name in ("path", "literalpath", "lp", "filepath", "destination")
            skip = not paths and not any(switch.startswith(name.partition(":")[0]) for switch in _SWITCHES)
        elif skip:
            skip = False
        else:
            found += [part for part in word.split(",") if part]
    return found


def _translated(program: str, words: Sequence[str], pipeline: Sequence[str]) -> Iterator[Inner]:
    flags = [word.lower().partition(":")[0] for word in words if word.startswith("-") and len(word) > 1]
    if any(flag in ("-whatif", "-wi") for flag in flags):
        return  # it only says what it would do
    if program not in _DELETES or any(_PROVIDER.match(word) for word in words):
        yield _argv([program, *(to_posix(word) for word in words)])
    if program in _DELETES:
        recursive = any("-recurse".startswith(flag) for flag in flags) or any(word.lower() == "/s" for word in words)
        paths = [to_posix(word) for word in _operands(words)]
        if (not paths or all(path.startswith(UNKNOWN) for path in paths)) and pipeline:
            paths = [path if "*" in path else f"{path}/*" for path in pipeline]
            recursive = True
        if paths:
            yield _argv(["rm", *(["-r"] if recursive else []), "-f", *paths])
    elif program in _WRITES:
        yield _argv(["tee", *(to_posix(word) for word in _operands(words)[:1])])
    elif program in ("move-item", "rename-item"):
        yield _argv(["mv", *map(to_posix, _operands(words)[:2])])
    elif program == "copy-item":
        yield _argv(["cp", *map(to_posix, _operands(words)[:2])])
    elif program == "start-process":
        yield _argv(
            [word for word in words if word.lower() not in ("-verb", "runas", "-argumentlist", "-wait", "-filepath")]
        )
    elif program == "wsl":
        yield _argv([word for word in words if word not in ("-e", "--exec", "--")])


def _argv(words: Sequence[str]) -> Inner:
    return Inner(argv=tuple(Arg(word) for word in words))


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

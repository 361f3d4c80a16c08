r"""PowerShell and cmd.exe: what a text deletes, writes and runs, as commands of a POSIX shell.

PowerShell has its own quoting, paths and names, so it has its own reader: `Remove-Item -Recurse C:\x` is `rm -r /c/x`.
A cmdlet without a POSIX command keeps its own name, for rules about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, names
from bus.shell.programs.dotnet_calls import (
    LISTED,
    added_in,
    adds_deletes,
    contents_in,
    deletes_unknown_paths,
    dotnet_calls,
    each_in,
    found_by_forfiles,
    functions_in,
    listed,
    places_in_script,
    plain_powershell,
    with_drives,
    with_loops,
    with_quoted_code,
)
from bus.shell.words import UNKNOWN, UNSET

_MOST: Final = 1024
_REDIRECT: Final = "\ue002"
"""Stands for `>` among words."""
_LONGEST: Final = 64 * 1024
_LOSES: Final = ("rm", "truncate", "stop-computer")  # what a text may run that is too long to be read
_TOKEN: Final = lazy_regex(
    r"""`\r?\n|[ \t]+|<\#.*?\#>|\#[^\n]*|@'\r?\n(.*?)\r?\n'@|@"\r?\n(.*?)\r?\n"@|'((?:''|[^'])*)'|"((?:`.|""|[^"`])*)\""""
    r"""|(\r?\n|&&|\|\||[;{}()]|\$\(|@\(|@\{|\|)|(\d?>>?&?\d?|\*>>?)|((?:`.|[^\s;{}()|'"`>])+)|(.)""",
    re.DOTALL,
)
_VARIABLE: Final = lazy_regex(r"\$\{?(env:)?([A-Za-z_]\w*(?::\w+)?)\}?|%([A-Za-z_]\w*)%", re.IGNORECASE)
_TEMPORARY: Final = "/tmp"  # noqa: S108  (a name in what is read)
_KNOWN: Final[Mapping[str, str]] = {
    "home": "~",
    "userprofile": "~",
    "homepath": "~",
    "pwd": ".",
    "psscriptroot": ".",
    "cd": ".",
    "temp": _TEMPORARY,
    "tmp": _TEMPORARY,
    "systemroot": "/c/Windows",
    "windir": "/c/Windows",
    "systemdrive": "/c",
    "homedrive": "/c",
    "programfiles": "/c/Program Files",
    "programdata": "/c/ProgramData",
    "appdata": "~/AppData/Roaming",
    "localappdata": "~/AppData/Local",
    "public": "/c/Users/Public",
    "onedrive": "~/OneDrive",
}
_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(["ri", "rm", "rd", "del", "erase", "rmdir"], "remove-item"),
    **dict.fromkeys(["gci", "ls", "dir"], "get-childitem"),
    **dict.fromkeys(["iex"], "invoke-expression"),
    **dict.fromkeys(["iwr", "wget"], "invoke-webrequest"),
    "irm": "invoke-restmethod",
    "sc": "set-content",
    "ac": "add-content",
    **dict.fromkeys(["mi", "mv", "move"], "move-item"),
    **dict.fromkeys(["cpi", "cp", "copy"], "copy-item"),
    "clc": "clear-content",
    **dict.fromkeys(["spps", "kill"], "stop-process"),
    **dict.fromkeys(["saps", "start"], "start-process"),
    "ni": "new-item",
    **dict.fromkeys(["sl", "chdir"], "set-location"),
    **dict.fromkeys(["rni", "ren"], "rename-item"),
    "sv": "set-variable",
}
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
    "directory",
    "file",
    "hidden",
)
_STARTING: Final = names("-verb runas -argumentlist -args -wait -filepath -nonewwindow -passthru ,")
"""The options of `Start-Process`, which are no part of what it starts."""
_PATH: Final = lazy_regex(r"[\\\\/:]")
_PROVIDER: Final = lazy_regex(r"\w{2,}:")
"""The start of a path that is no file: `HKLM:\\Software`."""
_CONTROLS: Final = frozenset({"stop", "delete", "config", "create", "failure", "start", "query", "sdset", "pause"})
"""The verbs of Windows' `sc`, which changes services; PowerShell's alias `sc` writes a file."""
_POSIX_FLAGS: Final = lazy_regex(r"-(?=[fivdR]*[rR])(?!r\b)[rRfivd]{2,}|-R|--(?:recursive|force|no-preserve-root)")
_WRITES: Final = frozenset({"set-content", "add-content", "out-file", "clear-content", "tee-object"})
_FETCHES: Final = lazy_regex(
    r"\b(?:iwr|irm|curl|wget|invoke-webrequest|invoke-restmethod)\b|download(?:string|data|file)|net\.webclient|start-bitstransfer",
    re.IGNORECASE,
)
_JOINED: Final = lazy_regex(
    r"""\(?\bJoin-Path\s+(?:-Path\s+)?['"]?([^\s'"()]+)['"]?\s+(?:-ChildPath\s+)?['"]?([^\s'"()]+)['"]?\)?""",
    re.IGNORECASE,
)
_ARRAY: Final = lazy_regex(
    r"""\$(\w+)\s*=\s*(?:@\(([^()]{1,1024})\)|((?:'[^'\n]*'|"[^"\n]*")(?:\s*,\s*(?:'[^'\n]*'|"[^"\n]*"))+))"""
)
_TABLE: Final = lazy_regex(r"\$(\w+)\s*=\s*@\{(.*?)\}", re.DOTALL)
_ENTRY: Final = lazy_regex(r"""(\w+)\s*=\s*(?:'([^'\n]*)'|"([^"\n]*)"|([^\s;}]+))""")
_OBJECT: Final = lazy_regex(
    r"""(?:\bGet-Item|\bgi|\bGet-ChildItem|DirectoryInfo\]?(?:::new)?|FileInfo\]?(?:::new)?)[\s(]+(?:-\w+\s+)?['"]?([^'")\n]+?)['"]?\s*\)+\.Delete\(""",
    re.IGNORECASE,
)
_DOWNLOAD: Final = lazy_regex(r"""\.DownloadFile\(\s*[^,]+,\s*['"]?([^'")\s]+)""", re.IGNORECASE)
_TAKES: Final = lazy_regex(r"(remove|clear|disable|uninstall|unregister|reset|revoke|dismount|stop)-(\w+)")
_OWN_NOUNS: Final = names(
    "item itemproperty content variable module job pssession typedata event alias member psbreakpoint pssnapin "
    "host history script process transcript computer progress psdebug poshgitprompt mockverifiable "
    "pscustomobject"
)
"""Nouns that `_TAKES` does not count: they belong to a session or project, or have rules of their own."""
_RUNS: Final = lazy_regex(r"\b(?:iex|invoke-expression)\b|scriptblock\]::create|\.invoke\(", re.IGNORECASE)
_NET: Final = lazy_regex(
    r"\[(?:System\.)?IO\.(Directory|File)\]::(Delete|WriteAllText|WriteAllBytes|WriteAllLines|Move)\(\s*(['\"])(.*?)\3",
    re.IGNORECASE,
)


def powershell_calls(text: str) -> Iterator[Inner]:
    """What a PowerShell text runs; never raises. The last item has `unread` if there is more than is read."""
    yield from islice(calls := chain.from_iterable(map(_calls, with_quoted_code(text[:_LONGEST]))), _MOST)
    if len(text) > _LONGEST or next(calls, None) is not None:
        yield Inner(unread=_LOSES)


def _calls(text: str) -> Iterator[Inner]:
    variables: dict[str, str] = {}
    text = _JOINED.sub(lambda match: f'"{match[1]}\\{match[2]}"', plain_powershell(text))
    text = with_loops(with_drives(text))
    for match in islice(_ASSIGNED.finditer(text), _MOST):
        variables[match[1].lower()] = _filled(match[2] or match[3] or match[4] or "", variables)
    for match in islice(_ARRAY.finditer(text), _MOST):
        variables[match[1].lower()] = _filled(listed(match[2] or match[3]), variables)
    for name, folder, chosen in contents_in(text):
        path = _filled(folder, variables)
        variables[name] = path if "*" in path else f"{path}\\{UNKNOWN if chosen else '*'}"
    for name, item in added_in(text):
        held = variables.get(name, "")
        variables[name] = f"{held},{_filled(item, variables)}" if _PATH.search(held) else _filled(item, variables)
    for name, values in each_in(text):
        variables[name] = _filled(values, variables)
    own = functions_in(text)
    tables = {match[1].lower(): _given(match[2]) for match in islice(_TABLE.finditer(text), _MOST)}
    for match in islice(_OBJECT.finditer(text), _MOST):
        yield _argv(["rm", "-r", to_posix(_filled(match[1], variables))])
    for match in islice(_DOWNLOAD.finditer(text), _MOST):
        yield _argv(["curl", "-o", to_posix(match[1])])
    if _RUNS.search(text):
        yield Inner(
            sources=("curl",) if _FETCHES.search(text) else ("base64",) if "frombase64string" in text.lower() else ()
        )
    for kind, method, _, path in _NET.findall(text):
        form = {"delete": ("rm", "-r") if kind.lower() == "directory" else ("rm",)}.get(method.lower(), ("tee",))
        fetched = form == ("tee",) and _FETCHES.search(text)
        yield _argv([*(("curl", "-o") if fetched else form), to_posix(_filled(path, variables))])
    yield from dotnet_calls(text, lambda given: to_posix(_filled(given, variables)))
    pipe, braces, opened = _Pipe(), 0, 0
    directory = ""
    unsaid = adds_deletes(text)
    for words, ends in _statements(text, variables):
        called = words[1:] if words[:1] and words[0] in ("&", ".", "call", "@call") else words
        called = (
            [one for word in called for one in tables.get(word[1:].lower(), [word] if word else [""])]
            if any(word[:1] == "@" for word in called)
            else called
        )
        if called:
            program = _program(called[0], called[1:2])
            for call in _translated(program, called, pipe) if program not in own else ():
                yield call._replace(directory=directory)
                unsaid = unsaid or deletes_unknown_paths(call)
            if program in ("set-location", "cd", "pushd", "push-location") and len(called) > 1:
                directory = to_posix(called[-1])
        if ends == "|" and (called or not words):
            pipe, opened = _fed(pipe, called), braces
        elif ends in (";", "\n", "\r\n", "&&", "||") and braces <= opened:
            pipe = _Pipe()
        braces += (ends == "{") - (ends == "}")
    if unsaid and (places := [to_posix(_filled(one, variables)) for one in places_in_script(text)]):
        yield _argv(["rm", "-r", *places])


class _Pipe(NamedTuple):
    """The objects in a pipeline: files, the contents of directories, or other objects of a cmdlet."""

    paths: tuple[str, ...] = ()
    program: str = ""
    named: tuple[str, ...] = ()
    """The arguments of the first cmdlet: `node` of `Get-Process node`."""
    empty: bool = False
    """It is `$null` or an empty text."""


def _fed(pipe: _Pipe, called: Sequence[str]) -> _Pipe:
    """The objects that a stage of a pipeline passes on."""
    if not called:
        return pipe
    program = _program(called[0])
    if program == "get-childitem":
        chosen = any(re.match(r"-(inc|fil(?!e$)|exc)", word.lower()) for word in called)
        roots = [to_posix(word) for word in _operands(called[1:])] or ["."]
        return _Pipe(tuple(root if "*" in root else f"{root}/{UNKNOWN if chosen else '*'}" for root in roots), program)
    if program in ("get-item", "resolve-path"):
        return _Pipe(tuple(to_posix(word) for word in _operands(called[1:])), program)
    if program in ("where-object", "where", "?"):
        return pipe._replace(paths=tuple(path.replace("*", UNKNOWN) for path in pipe.paths), named=(UNKNOWN,))
    if called == [""]:
        return _Pipe(empty=True)
    if re.search(r"[\\/:]", called[0]) and "-" not in called[0]:
        return _Pipe(tuple(to_posix(one) for word in called for one in word.split(",") if one))
    return pipe if pipe.program else _Pipe(program=program, named=tuple(_operands(called[1:])))


def _given(table: str) -> list[str]:
    """The arguments that `@{ Path = 'x'; Recurse = $true }` gives a cmdlet."""
    found: list[str] = []
    for match in islice(_ENTRY.finditer(table), _MOST):
        value = match[2] or match[3] or match[4] or ""
        if value.lower() != "$false":
            found += [f"-{match[1]}"] if value.lower() == "$true" else [f"-{match[1]}", value]
    return found


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
            empty = words[:place] in ([], [""])
            yield ["out-file", words[place + 1], *([""] if empty else [])], ";"
        words = words[:place] + words[place + 2 :]
    if len(words) > 1 and words[1] == "=":  # `$x = Get-ChildItem …`
        words = words[2:]
    yield words, sign


_ASSIGNED: Final = lazy_regex(r"""\$(?:env:)?(\w+)\s*=\s*(?:'([^'\n]*)'|"([^"\n]*)"|([^\s;'"$(@{]+))""", re.IGNORECASE)


def _filled(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = (match[2] or match[3]).lower().removeprefix("env:")
        if name in ("_", "null"):
            return UNKNOWN if name == "_" else ""
        return variables.get(name) or _KNOWN.get(name) or (UNKNOWN if name in ("args", "_", "psitem") else UNSET)

    return _VARIABLE.sub(value, text) if "$" in text or "%" in text else text


def to_posix(word: str) -> str:
    r"""A path of Windows as its POSIX shells write it: `C:\x` is `/c/x`, and `..\x` is `../x`."""
    drive = re.match(r"([A-Za-z]):(?!:)", word)
    path = word.replace("\\", "/")
    if drive:
        return f"/{drive[1].lower()}/{path[2:].lstrip('/')}".rstrip("/") or "/"
    return "/c" if path == "/" and word == "\\" else path


def _program(word: str, after: Sequence[str] = ()) -> str:
    if word.lower() in ("sc", "sc.exe") and after and after[0].lower() in _CONTROLS:
        return "sc"
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


def _translated(program: str, called: Sequence[str], pipe: _Pipe) -> Iterator[Inner]:
    words = called[1:]
    flags = [word.lower().partition(":")[0] for word in words if word.startswith("-") and len(word) > 1]
    if any(flag in ("-whatif", "-wi") for flag in flags):
        return  # it only says what it would do
    provided = any(_PROVIDER.match(word) for word in words)
    named = () if _operands(words) or not pipe.program else pipe.named or ("*",)
    if program != "remove-item" or provided:
        first = to_posix(called[0]) if re.search(r"[\\/]", called[0]) else program
        given = words if program == "cmd" else [to_posix(word) for word in words]  # `/c` is a switch of cmd
        yield _argv([first, *given, *(named if program.startswith("stop-") else ())])
    if (taken := _TAKES.match(program)) and taken[2] not in _OWN_NOUNS:
        yield _argv(["remove-resource", program, *words])
    if called[0].lower() == f"{UNKNOWN}.delete" and pipe.paths:
        yield _argv(["rm", "-r", *pipe.paths])
    if program == "remove-item" and any(map(_POSIX_FLAGS.fullmatch, words)):
        yield _argv(["rm", *map(to_posix, words)])  # PowerShell of Linux and macOS has no `rm` of its own
    elif program == "remove-item":
        yield from _deleted(words, flags, pipe)
    elif program in _WRITES or (program == "new-item" and any(flag in ("-force", "-f", "-fo") for flag in flags)):
        paths = [to_posix(word) for word in _operands(words)[:1]]
        if program == "new-item":
            if "directory" not in [word.lower() for word in words]:
                yield _argv(["truncate", "-s", "0", *paths])
            return
        emptied = pipe.empty or program == "clear-content" or any(word == "" for word in words[1:])
        yield _argv(["tee", *paths])
        if emptied and paths:
            yield _argv(["truncate", "-s", "0", *paths])
    elif program in ("move-item", "rename-item"):
        yield _argv(["mv", *map(to_posix, _operands(words)[:2])])
    elif program == "copy-item":
        yield _argv(["cp", *map(to_posix, _operands(words)[:2])])
    elif program in ("invoke-webrequest", "invoke-restmethod", "start-bitstransfer"):
        for place, word in enumerate(words[:-1]):
            if word.lower() in ("-outfile", "-o", "-destination"):
                yield _argv(["curl", "-o", to_posix(words[place + 1])])
    elif program == "invoke-expression":
        yield from _calls(" ".join(words))
    elif program == "start-process":
        rest = [one for word in words if word.lower() not in _STARTING for one in re.split(r"[\s,]+", word) if one]
        if rest:
            runs = rest[0].lower().endswith((".exe", ".msi", ".ps1", ".bat")) and not re.search(r"[\\/]", rest[0])
            yield _argv([f"./{rest[0]}" if runs else to_posix(rest[0]), *rest[1:]])
    elif program == "forfiles":
        yield from map(_argv, found_by_forfiles([to_posix(word) for word in words]))
    elif program == "wsl":
        yield _argv([word for word in words if word not in ("-e", "--exec", "--")])


def _deleted(words: Sequence[str], flags: Sequence[str], pipe: _Pipe) -> Iterator[Inner]:
    """What `Remove-Item` deletes: the paths that it is given, or what comes through the pipeline."""
    recursive = any("-recurse".startswith(flag) for flag in flags) or any(word.lower() == "/s" for word in words)
    paths = [to_posix(word) for word in _operands(words) if not _PROVIDER.match(word)]
    if recursive and any(path[:1] == LISTED and "/" not in path.rstrip("/*") for path in paths):
        yield _argv(["xargs", "-a", "list", "rm", "-rf"])
    elif (not paths or all(path.startswith(UNKNOWN) for path in paths)) and pipe.paths:
        paths, recursive = list(pipe.paths), True
    elif recursive and pipe.program in ("get-content", "import-csv", "gc", "cat", "type"):
        yield _argv(["xargs", "-a", *pipe.named[:1], "rm", "-rf"])
    if paths:
        yield _argv(["rm", *(["-r"] if recursive else []), "-f", *paths])


def _argv(words: Sequence[str]) -> Inner:
    return Inner(argv=tuple(Arg(word.replace(LISTED, UNKNOWN)) for word in words))

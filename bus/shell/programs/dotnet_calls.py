"""Calls of .NET in PowerShell: enumerated files that are deleted, and SQL that is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner
from bus.shell.words import UNKNOWN, UNSET

_MOST: Final = 64
_QUOTED_CODE: Final = lazy_regex(r'"[^"\n$]*\$\(')
"""The first code in a text in double quotes."""
_DELETES: Final = lazy_regex(r"(?:::|\.)(?:Delete|DeleteFile|DeleteDirectory|DeleteFolder)(?:\(|\b)", re.IGNORECASE)
_LITERAL: Final = r"""(?:'([^'\n]*)'|"([^"\n]*)"|(\$\{?[\w:]+\}?(?:\\[^\s'")(,|]*)?|[A-Za-z]:\\[^\s'")(,|;]*))"""
_ENUMERATED: Final = lazy_regex(
    rf"""(?:(?:\[(?:System\.)?IO\.Directory\]::(?:Get|Enumerate)\w+|(?:System\.)?IO\.(?:Directory|File)Info\]?(?:::new)?|\bIO\.Path\]::(?:Combine|GetFullPath))\s*\(?\s*"""
    rf"""|\[(?:System\.)?IO\.(?:Directory|File)\]::Delete\(\s*|\b(?:Get-ChildItem|gci|Get-Item|gi|dir|ls)\s+(?:-\w+\s+)*){_LITERAL}""",
    re.IGNORECASE,
)
_EXECUTES: Final = lazy_regex(
    r"ExecuteNonQuery|ExecuteScalar|ExecuteReader|SqlCommand|Invoke-DbaQuery|\.Execute\(", re.IGNORECASE
)
_SQL: Final = lazy_regex(
    r"""(?:'|"|@['"]\r?\n)\s*((?:drop\s|truncate\s|delete\s+from\s|update\s|alter\s)[^'"]{1,2048})""", re.IGNORECASE
)


_FOLDER: Final = lazy_regex(
    r"""\[(?:System\.)?Environment\]::(?:GetFolderPath\(\s*(?:['"](\w+)['"]|\[[^\]]*\]::(\w+))\s*\)|GetEnvironmentVariable\(\s*['"](\w+)['"][^)]*\))""",
    re.IGNORECASE,
)
_FOLDERS: Final = {
    "userprofile": "$HOME",
    "home": "$HOME",
    "system": r"C:\Windows\System32",
    "windows": r"C:\Windows",
    "programfiles": r"C:\Program Files",
    "commonapplicationdata": r"C:\ProgramData",
    "applicationdata": r"$HOME\AppData\Roaming",
    "localapplicationdata": r"$HOME\AppData\Local",
    "mydocuments": r"$HOME\Documents",
    "personal": r"$HOME\Documents",
    "desktop": r"$HOME\Desktop",
    "desktopdirectory": r"$HOME\Desktop",
    "mypictures": r"$HOME\Pictures",
    "temp": "$env:TEMP",
    "tmp": "$env:TEMP",
}
_PROPERTY: Final = lazy_regex(r"(\$\w+)\.(?:FullName|PSPath|ProviderPath|DirectoryName)\b", re.IGNORECASE)
_CONTENTS: Final = lazy_regex(
    r"""\$(\w+)\s*=\s*@?\(?\s*(?:(?:Get-ChildItem|gci|dir|ls)\s+(?:-(?:Literal)?Path\s+|-\w+\s+(?=['"$A-Za-z.]:?[\\'"$\w]*[\\:]))?|\[(?:System\.)?IO\.Directory\]::(?:Get|Enumerate)\w+\(\s*)"""
    r"""(?:'([^'\n]+)'|"([^"\n]+)"|([^\s'",;|)]+))([^\n;]*)""",
    re.IGNORECASE,
)
_CHOSEN: Final = lazy_regex(r"-(?:fil(?!e\b)|inc|exc)\w*|\bwhere|\?\s*\{|,\s*['\"]", re.IGNORECASE)
_VISUAL_BASIC: Final = lazy_regex(
    r"""(?:FileSystem\]::Delete(?:Directory|File)|\$\w+\.Delete(?:Folder|File))\(\s*(?:['"]([^'"\n]+)['"]|(\$[\w:]+))""",
    re.IGNORECASE,
)


_PLACE: Final = lazy_regex(
    r"(?<![\w/:])((?:[A-Za-z]:\\[^\s'\"|;,)(`]*|\$(?:env:(?:USERPROFILE|APPDATA|LOCALAPPDATA|PROGRAMDATA|SystemRoot|ProgramFiles)"
    r"|HOME)\b[^\s'\"|;,)(`]*))",
    re.IGNORECASE,
)
_LINES: Final = lazy_regex(r"""(['"])[ \t]*\r?\n[ \t]*(?=['"])""")
"""The end of a line in an array of texts."""
_ADDED: Final = lazy_regex(r"""\$(\w+)(?:\.Add\(\s*|\s*\+=\s*)(?:'([^'\n]+)'|"([^"\n]+)")""", re.IGNORECASE)


def plain_powershell(text: str) -> str:
    """`text` with special folders as paths (`GetFolderPath('UserProfile')` is `$HOME`) and `$x.FullName` as `$x`."""
    if "::Get" in text:
        text = _FOLDER.sub(
            lambda match: '"{}"'.format(_FOLDERS.get((match[1] or match[2] or match[3]).lower(), "$unknown")), text
        )
    text = _LINES.sub(r"\1,", text) if "@(" in text else text
    return _PROPERTY.sub(r"\1", text) if ".F" in text or "Path" in text or ".f" in text else text


def contents_in(text: str) -> Iterator[tuple[str, str, bool]]:
    """The variables that hold what a folder has, each with the folder, and whether only a part of it."""
    for match in islice(_CONTENTS.finditer(text) if "=" in text else (), _MOST):
        yield match[1].lower(), match[2] or match[3] or match[4], _CHOSEN.search(match[5]) is not None


def added_in(text: str) -> Iterator[tuple[str, str]]:
    """The texts that are added to a list, each with the list's variable: `$x.Add('C:\\y')`, `$x += 'C:\\y'`."""
    for match in islice(_ADDED.finditer(text) if ".Add(" in text or "+=" in text else (), _MOST):
        yield match[1].lower(), match[2] or match[3]


_SHUTDOWN: Final = lazy_regex(r"\bWin32Shutdown\(|\bExitWindowsEx\b", re.IGNORECASE)
_MACHINE: Final = lazy_regex(r"""SetEnvironmentVariable\([^)]*['"]Machine['"]""", re.IGNORECASE)
_SHADOWS: Final = lazy_regex(
    r"Win32_ShadowCopy.*(?:\.Delete\(|Remove-(?:CimInstance|WmiObject))", re.IGNORECASE | re.DOTALL
)


def places_in_script(text: str) -> Iterator[str]:
    """The folders and files of Windows that a script of PowerShell names, quoted or not."""
    for match in islice(_PLACE.finditer(text), _MOST):
        yield match[1].rstrip(".")


def dotnet_calls(text: str, path: Callable[[str], str]) -> Iterator[Inner]:
    """What calls of .NET delete that get no literal, as commands; `path` makes a literal of PowerShell a POSIX path."""
    if _SHUTDOWN.search(text):
        yield _argv(("stop-computer",))
    if _MACHINE.search(text):
        yield _argv(("setx", "/M"))
    if ".Uninstall()" in text:
        yield _argv(("remove-resource", "uninstall-product"))
    if _SHADOWS.search(text):
        yield _argv(("vssadmin", "delete", "shadows"))
    if "elete" in text and (found := _DELETES.search(text)):
        for match in islice(_ENUMERATED.finditer(text), _MOST):
            given = match[1] or match[2] or match[3] or ""
            if "$_" in given or not given:
                continue
            root = path(given)
            if root and not root.startswith(UNKNOWN):
                below = match[0][: match.start(match.lastindex or 1) - match.start()].lower()
                whole = "::delete(" in below or (
                    "info" in below and "get" not in text[match.end() : found.start()].lower()
                )
                yield _argv(("rm", "-r", root if whole or "*" in root else f"{root.rstrip('/')}/*"))
        for match in islice(_VISUAL_BASIC.finditer(text), _MOST):
            yield _argv(("rm", "-r", path(match[1] or match[2])))
    if _EXECUTES.search(text):
        for match in islice(_SQL.finditer(text), _MOST):
            yield _argv(("sqlite3", "database", match[1]))


def _argv(words: tuple[str, ...]) -> Inner:
    return Inner(argv=tuple(map(Arg, words)))


def deletes_unknown_paths(call: Inner) -> bool:
    """Whether a command deletes folders that only running it can tell."""
    words = [arg.text for arg in call.argv]
    if words[:2] != ["rm", "-r"]:
        return False
    return all(word.startswith((UNKNOWN, UNSET)) for word in words[2:] if word[:1] != "-")


_DRIVES: Final = lazy_regex(r"\b(?:Get-PSDrive|gdr|Get-Volume|Get-Partition|Win32_LogicalDisk)\b", re.IGNORECASE)
_ROOT_OF: Final = r"\$\w+\.(?:Root|DriveLetter|DeviceID)\b"
_DRIVE_ROOT: Final = lazy_regex(rf"""(?:\$\(\s*{_ROOT_OF}\s*\)|{_ROOT_OF}):?\\?""", re.IGNORECASE)
_ADDS_CODE: Final = lazy_regex(r"\bAdd-Type\b", re.IGNORECASE)
_CODE_DELETES: Final = lazy_regex(
    r"\b(?:Directory|File|FileSystem)\.Delete(?:File|Directory)?\(|Info\([^()\n]*\)\.Delete\("
)


def with_drives(text: str) -> str:
    """The text with a drive in place of `$_.Root`, where it lists drives."""
    return _DRIVE_ROOT.sub(r"C:\\", text) if _DRIVES.search(text) else text


def adds_deletes(text: str) -> bool:
    """Whether it compiles C# that deletes. Such a delete counts for the paths that the script names."""
    return _ADDS_CODE.search(text) is not None and _CODE_DELETES.search(text) is not None


LISTED: Final = "\ue003"
"""Stands for a line of a list that only running the script can read: of a file, of a table, of what a person types."""
_EACH: Final = lazy_regex(r"\bforeach\s*\(\s*\$(\w+)\s+in\s+([^)]*)\)", re.IGNORECASE)
_LIST_SIGNS: Final = lazy_regex(r"^\s*(?:get-childitem|gci|ls|dir)\s|\s-\w+|['\"\s]|@\(", re.IGNORECASE)
_READS: Final = (
    r"[@(\s]*(?:(?:Get-Content|gc|cat|type|Import-Csv|ipcsv|Import-Clixml|Read-Host|Select-String|Invoke-Sqlcmd|Invoke-RestMethod|irm)\b"
    r"|\[(?:System\.)?IO\.File\]::Read\w+)"
)
_READ: Final = lazy_regex(_READS, re.IGNORECASE)
_READ_INTO: Final = lazy_regex(rf"\$(\w+)\s*={_READS}", re.IGNORECASE)
_FUNCTION: Final = lazy_regex(r"\bfunction\s+(?:\w+:)?([\w-]+)", re.IGNORECASE)
_CMD_LOOP: Final = lazy_regex(
    r"""\bfor\s(?:\s{0,4}(/[dfr](?:\s(?:"[^"\n]{0,256}"|[A-Za-z]:\\\S{0,256}|\.))?)\s)?\s{0,4}%%?(\w)\s{1,4}in\s{0,4}\(([^)]{0,256})\)\s{0,4}do\s""",
    re.IGNORECASE,
)


def listed(text: str) -> str:
    """The values in a list, with commas between them: of `'a', 'b'` and of `Get-ChildItem C:\\x`."""
    return _LIST_SIGNS.sub("", text)


def each_in(text: str) -> Iterator[tuple[str, str]]:
    """The variables that get the lines of a list or the values of a loop, each with these values."""
    if "=" in text:
        yield from ((match[1].lower(), LISTED) for match in islice(_READ_INTO.finditer(text), _MOST))
    for match in islice(_EACH.finditer(text), _MOST):
        yield match[1].lower(), LISTED if _READ.match(match[2]) else listed(match[2])


def functions_in(text: str) -> frozenset[str]:
    """The functions that a script defines. What they do is read where they are defined."""
    return (
        frozenset(match[1].lower() for match in islice(_FUNCTION.finditer(text), _MOST))
        if "unction" in text
        else frozenset()
    )


def with_loops(text: str) -> str:
    """The text with the values of cmd's loops in place of their variables: `for /d %i in (C:\\x\\*) do rd /s /q %i`."""
    for match in islice(_CMD_LOOP.finditer(text) if "%" in text else (), 8):
        values = LISTED if (match[1] or "").lower().startswith("/f") else match[3].strip()
        text = re.sub(
            rf"%%?(?:~\w*)?{match[2]}\b(?!%)", values.replace("\\", "\\\\"), text.replace(match[0], "; "), count=_MOST
        )
    return text


def found_by_forfiles(words: Sequence[str]) -> Iterator[list[str]]:
    """What `forfiles /p DIR /m *.bak /c "cmd /c del @path"` deletes."""
    given = {
        word.lower(): words[place + 1] for place, word in enumerate(words[:-1]) if word[:1] == "/" and len(word) == 2
    }
    command = given.get("/c", "").lower()
    if re.search(r"\b(?:rd|rmdir)\b", command):
        yield ["rm", "-r", f"{given.get('/p', '.')}/*"]
    elif re.search(r"\b(?:del|erase)\b", command):
        yield ["find", given.get("/p", "."), "-name", given.get("/m", "*"), "-delete"]


def with_quoted_code(text: str) -> Iterator[str]:
    """A PowerShell text, and then the code of each `$(…)` in its quoted texts: `"$(Remove-Item x)"`."""
    yield text
    for match in islice(_QUOTED_CODE.finditer(text) if "$(" in text else (), _MOST):
        depth, place = 1, match.end()
        while depth and place < len(text):
            depth += (text[place] == "(") - (text[place] == ")")
            place += 1
        code = text[match.end() : place - (depth == 0)]
        while code.startswith("$("):
            code = code[2:].removesuffix(")")
        yield code

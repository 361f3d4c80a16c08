"""Calls of .NET in PowerShell: enumerated files that are deleted, and SQL that is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner
from bus.shell.words import UNKNOWN

_MOST: Final = 64
_DELETES: Final = lazy_regex(r"(?:::|\.)(?:Delete|DeleteFile|DeleteDirectory)(?:\(|\b)", re.IGNORECASE)
_LITERAL: Final = r"""(?:'([^'\n]*)'|"([^"\n]*)"|(\$\{?[\w:]+\}?(?:\\[^\s'")(,|]*)?))"""
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


def dotnet_calls(text: str, path: Callable[[str], str]) -> Iterator[Inner]:
    """What calls of .NET delete that get no literal, as commands; `path` makes a literal of PowerShell a POSIX path."""
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
    if _EXECUTES.search(text):
        for match in islice(_SQL.finditer(text), _MOST):
            yield _argv(("sqlite3", "database", match[1]))


def _argv(words: tuple[str, ...]) -> Inner:
    return Inner(argv=tuple(map(Arg, words)))

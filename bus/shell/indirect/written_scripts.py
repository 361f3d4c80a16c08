"""Scripts that inline code of any language writes into a file, which the line may then run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Inner

_LONGEST: Final = 64 * 1024
_MOST: Final = 16
"""The most files of one text of code."""
_TEXT: Final = (
    r"""[rbuf]{0,2}(?:\"\"\"(.{1,65535}?)\"\"\"|'''(.{1,65535}?)'''|"((?:\\.|[^"\\]){1,65535})"|'((?:\\.|[^'\\]){1,65535})'"""
    r"|`((?:\\.|[^`\\]){1,65535})`)"
)
_FILE: Final = r"""['"`]>{0,2}\s{0,8}([^'"`\s<>]{1,300})['"`]"""
_OPENED: Final = lazy_regex(
    rf"""(?s)\bopen\s{{0,8}}\(?\s{{0,8}}{_FILE}\s{{0,8}},\s{{0,8}}(?:mode\s{{0,8}}=\s{{0,8}})?['"][wax]"""
    rf"""|\bopen\s{{0,8}}\(?\s{{0,8}}(?:my\s{{0,8}})?\$?\w{{1,64}}\s{{0,8}},\s{{0,8}}(?:['"]>>?['"]\s{{0,8}},\s{{0,8}})?{_FILE}"""
    rf"|\bPath\(\s{{0,8}}{_FILE}\s{{0,8}}\)"
    rf"|\b(?:writeFile|appendFile|outputFile)\w{{0,8}}\(\s{{0,8}}{_FILE}"
    rf"|\bfile_put_contents\(\s{{0,8}}{_FILE}"
    rf"|\b(?:File|IO)\.(?:write|binwrite|open)\(?\s{{0,8}}{_FILE}"
    rf"|\bDeno\.writeTextFile\w{{0,8}}\(\s{{0,8}}{_FILE}|\bBun\.write\(\s{{0,8}}{_FILE}"
    rf"|\bprintf?\s[^>\n]{{0,300}}>>?\s{{0,8}}{_FILE}"
)
_WRITTEN: Final = lazy_regex(
    r"(?s)(?:\bwrite(?:lines|_text|_bytes)?\s{0,8}\(\s{0,8}\[?\s{0,8}|\bwriteFile\w{0,8}\(\s{0,8}[^,()]{1,300},\s{0,8}|\bappendFile\w{0,8}\(\s{0,8}[^,()]{1,300},\s{0,8}"
    r"|\bfile_put_contents\(\s{0,8}[^,()]{1,300},\s{0,8}|\b(?:File|IO)\.(?:bin)?write\(?\s{0,8}[^,()]{1,300},\s{0,8}|\bDeno\.writeTextFile\w{0,8}\(\s{0,8}[^,()]{1,300},\s{0,8}"
    r"|\bBun\.write\(\s{0,8}[^,()]{1,300},\s{0,8}|\b(?:print|puts|say|printf)\b\s{0,8}\(?\s{0,8}(?:\{?\$?[A-Za-z]\w{0,64}\}?\s+)?|\.puts\s{0,8}\(?\s{0,8})"
    + _TEXT
)
_END: Final = "END_OF_WRITTEN_TEXT"
"""The line that ends the here-document of a command."""


def written_scripts(code: str) -> Iterator[Inner]:
    """Commands of a shell that write what `code` writes.

    Which text goes into which file is not told apart: each file gets all texts.
    """
    if len(code) > _LONGEST or not ("open" in code or "rite" in code or "put" in code or "print" in code):
        return
    files = dict.fromkeys(next(filter(None, found.groups()), "") for found in _OPENED.finditer(code))
    if not files:
        return
    texts = [next(filter(None, found.groups()), "") for found in _WRITTEN.finditer(code)]
    text = "\n".join(texts).replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
    if not text or _END in text:
        return
    for name in list(files)[:_MOST]:
        if name and "\0" not in name and name[:1] != "-":
            yield Inner(script=f"tee {shlex.quote(name)} <<'{_END}'\n{text}\n{_END}")

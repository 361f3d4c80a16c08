"""Scripts that inline code of any language writes into a file, which the line may then run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Inner

_LONGEST: Final = 64 * 1024
_MOST: Final = 16
_TEXT: Final = (
    r"""[rbuf]{0,2}(?:\"\"\"(.{1,4096}?)\"\"\"|'''(.{1,4096}?)'''|"((?:\\.|[^"\\]){1,4096})"|'((?:\\.|[^'\\]){1,4096})'"""
    r"|`((?:\\.|[^`\\]){1,4096})`)"
)
_FILE: Final = r"""['"`]>{0,2}\s*([^'"`\s<>]{1,300})['"`]"""
_OPENED: Final = lazy_regex(
    rf"""(?s)\bopen\s*\(?\s*{_FILE}\s*,\s*(?:mode\s*=\s*)?['"][wax]"""
    rf"""|\bopen\s*\(?\s*(?:my\s*)?\$?\w+\s*,\s*(?:['"]>>?['"]\s*,\s*)?{_FILE}"""
    rf"|\bPath\(\s*{_FILE}\s*\)"
    rf"|\b(?:writeFile|appendFile|outputFile)\w*\(\s*{_FILE}"
    rf"|\bfile_put_contents\(\s*{_FILE}"
    rf"|\b(?:File|IO)\.(?:write|binwrite|open)\(?\s*{_FILE}"
    rf"|\bDeno\.writeTextFile\w*\(\s*{_FILE}|\bBun\.write\(\s*{_FILE}"
    rf"|\bprintf?\s[^>\n]*>>?\s*{_FILE}"
)
_WRITTEN: Final = lazy_regex(
    r"(?s)(?:\bwrite(?:lines|_text|_bytes)?\s*\(\s*\[?\s*|\bwriteFile\w*\(\s*[^,()]+,\s*|\bappendFile\w*\(\s*[^,()]+,\s*"
    r"|\bfile_put_contents\(\s*[^,()]+,\s*|\b(?:File|IO)\.(?:bin)?write\(?\s*[^,()]+,\s*|\bDeno\.writeTextFile\w*\(\s*[^,()]+,\s*"
    r"|\bBun\.write\(\s*[^,()]+,\s*|\b(?:print|puts|say|printf)\b\s*\(?\s*(?:\{?\$?[A-Za-z]\w*\}?\s+)?|\.puts\s*\(?\s*)"
    + _TEXT
)
_END: Final = "END_OF_WRITTEN_TEXT"


def written_scripts(code: str) -> Iterator[Inner]:
    """The files that `code` writes, as commands of a shell that write the same text."""
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

"""Paths and commands among the literals of a text of code: what a call deletes or runs whose argument cannot be worked out.

`dirs.filter(Boolean).map(d => d + "/").forEach(remove)` deletes what some literal of the text names, whichever way it takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import RUN_BY_UNKNOWN
from bus.shell.words import UNKNOWN

_MOST: Final = 64
_LONGEST: Final = 4 * 1024
_LITERAL: Final = lazy_regex(
    r"""\"\"\"(.{1,4096}?)\"\"\"|'''(.{1,4096}?)'''|"((?:\\.|[^"\\]){1,4096})"|'((?:\\.|[^'\\\n]){1,4096})'|`((?:\\.|[^`\\]){1,4096})`"""
    r"""|<<[~-]?['"]?([A-Z]\w*)['"]?[^\n]*\n(.{1,4096}?)\n[ \t]*\6\b"""
    r"""|\b(?:qw|q|qq)\s*[({\[]([^)}\]]{1,1024})[)}\]]|%w[\[({]([^\])}]{1,1024})[\])}]"""
    r"""|\bR"(?:\w*)\((.{1,4096}?)\)\w*\"""",
    re.DOTALL,
)
_ROOTS: Final = (
    r"(?:etc|usr|var|home|root|opt|srv|boot|lib|lib64|bin|sbin|mnt|media|data|backups?|Users|Library|Applications|System|Volumes|private"
    r"|c|d|e|storage|export|nfs|app|proc)"
)
_PLACE: Final = lazy_regex(
    rf"(?:/{_ROOTS}(?:/[^\s'\"<>|;$`]{{0,200}})?|~(?:/[^\s'\"<>|;`]{{0,200}})?|[A-Za-z]:\\[^'\"<>|;\n]{{0,200}})$"
)
_NO_PLACE: Final = lazy_regex(
    r"/(?:usr/(?:local/)?s?bin/|bin/|sbin/|etc/(?:os-release|hostname|localtime|timezone)$|proc/(?!$)|var/(?:tmp|folders)\b|usr/share/dict/)"
)
"""Programs and files that code names without deleting them."""
_READ_ONLY: Final = lazy_regex(
    r"(?:\b(?:readFile\w*|require|import|from|exists\w*|isfile|isdir|File\.(?:read|exist\?|file\?)|IO\.read\w*|load_file|file_get_contents"
    r"|ReadFile|read_to_string|cwd|PATH|shebang|readlines?|access|stat)['\"]?\s*[(:=]?\s*(?:[rbfu]{0,2})?|#!)$"
)
_SAID: Final = lazy_regex(
    r"(?:\b(?:includes|startsWith|startswith|endsWith|indexOf|match|search|test|assert\w*|expect|toBe|toEqual|print\w*|puts|p|say|echo|log"
    r"|info|warn\w*|error|debug|die|raise|throw|abort|Error|Exception|describe|it|in|grep|fullmatch|compile|Println|Printf|eprintln!|println!"
    r"|logger|help|description|usage|console\.\w+)\s*\(?\s*(?:[rbfu]{0,2})?|\B(?:===?|!==?|=~)\s*)$"
)
_HOME: Final = lazy_regex(
    r"""\bos\.UserHomeDir\(|\b(?:os\.)?Getenv\("HOME"\)|\bgetProperty\(\s*"user\.home"|\bgetenv\(\s*["']HOME["']\)|\benv::(?:var|var_os)\(\s*"HOME"|\b(?:dirs::)?home_dir\(\)"""
    r"""|\bNSHomeDirectory\(\)|homeDirectoryForCurrentUser|SpecialFolder\.UserProfile|\bhomedir\(\)|\bDir\.home\b|ENV(?:\[|\.fetch\(|\{)\s*['"]?HOME['"]?"""
    r"""|process\.env\.(?:HOME|USERPROFILE)|Platform\.environment\[['"]HOME['"]\]|\bexpanduser\(\s*['"]~|\bPath\.home\(\)|Deno\.env\.get\(['"]HOME['"]\)"""
    r"""|(?<=[\s,(=])~(?=\s*[,);])|System\.user_home|getHomeDirectory|\$HOME\b|\bGetEnvironmentVariable\(\s*"(?:HOME|USERPROFILE)\""""
)
_ROOT: Final = lazy_regex(
    r"""(?:\b(?:opendir|readdir\w*|walk\w*|Walk\w*|WalkDir::new|scandir|children|entries|find\w*|glob\w*|chdir|list\w*|DirEntries|read_dir|nftw|getFiles"""
    r"""|Path\.of|Paths\.get|new File|GetFiles|GetDirectories|Enumerate\w+)\s*(?:\(\s*\S{0,24}?\s*)?"""
    r"""|\b(?:root|dir|base|target|path)\w*\s*(?::=|=)\s*)['"]/['"]"""
)
_TEMPORARY: Final = lazy_regex(r"(?i)tempfile|mk[sd]?temp|temp_?dir|tmp_?path|tmp_?dir|tempnam|\bDir\.mktmpdir")
"""Code that makes temporary files deletes them again."""
_ARGUMENTS: Final = lazy_regex(
    r"""(?:[\s,\[\]()]|vec!|&|\.\w{1,6}\(|\b[\w.]{1,24}\s*[(:=])*(?:'((?:\\.|[^'\\\n]){0,512})'|"((?:\\.|[^"\\\n]){0,512})"|`([^`\n]{0,512})`)"""
)
_WORDS: Final = lazy_regex(r"[^\s;&|]+")
_DANGEROUS: Final = frozenset(RUN_BY_UNKNOWN)
_DELETES_UNKNOWN: Final = lazy_regex(rf"\brm(?:\s+-\S+)+(?:\s+[\"']?(?:{UNKNOWN}|[$#%{{])|\s*$)")
_SHELL_LITERAL: Final = lazy_regex(
    r"""['"`](?:/bin/|/usr/bin/)?(?:sh|bash|zsh|dash|ksh|pwsh|powershell)(?:\.exe)?(?: -[is]+)?['"`]"""
)
ESCAPES: Final = {"\\n": "\n", '\\"': '"', "\\'": "'", "\\t": "\t", "\\\\": "\\"}


def _literals(code: str) -> Iterator[tuple[str, str]]:
    """Each literal, and the 48 characters before it."""
    for match in islice(_LITERAL.finditer(code), _MOST * 4):
        text = next((one for place, one in enumerate(match.groups(), 1) if one is not None and place != 6), "")
        yield text, code[max(match.start() - 48, 0) : match.start()]


def places_in(code: str) -> list[str]:
    """The paths outside a project that literals of `code` name; `~` where it asks for the home directory."""
    if len(code) > 16 * _LONGEST or _TEMPORARY.search(code):
        return []
    found: dict[str, None] = {}
    for text, before in _literals(code):
        if "\n" in text:
            found |= {line: None for line in map(_bare_line, text.splitlines()[:_MOST]) if _PLACE.match(line)}
            continue
        words = text.split() if " " in text and len(text) < 512 else [text]
        if not all(map(_PLACE.match, words)) or _READ_ONLY.search(before) or _SAID.search(before):
            continue
        found |= {word.replace("\\\\", "\\"): None for word in words if not _NO_PLACE.match(word)}
    if _HOME.search(code):
        found["~"] = None
    if _ROOT.search(code):
        found["/"] = None
    return list(found)[:_MOST]


def _bare_line(line: str) -> str:
    """A line of a list (`- /etc/x`) without its sign."""
    return line.strip(" \t-*,'\"")


def commands_in(code: str, *, printed: bool = False) -> Iterator[list[str] | str]:
    """The commands that literals of `code` hold: a text for a shell, or a list of arguments (`"rm", ["-rf", "/etc"]`).

    With `printed`, also the texts that the code prints: into the shell that it has opened.
    """
    for match in islice(_LITERAL.finditer(code), _MOST * 4):
        text = next((one for place, one in enumerate(match.groups(), 1) if one is not None and place != 6), "")
        plain = text.strip()
        if plain.rpartition("/")[2] in _DANGEROUS and " " not in plain:
            words, place = [plain], match.end()
            while len(words) < _MOST and (more := _ARGUMENTS.match(code, place)) is not None:
                given = more[1] or more[2] or more[3] or ""
                words += given.split() if given[:1] == "-" else [given]  # `Arguments = "-rf /etc"`
                place = more.end()
            if plain.endswith("rm") and all(word[:1] == "-" for word in words[1:]):
                words += places_in(code)  # `"rm", "-rf", folder`
            if len(words) > 1 and RUN_BY_UNKNOWN[plain.rpartition("/")[2]].match(words[1]):
                yield words
        elif '"' in plain and plain[:1] in ("[", "{"):  # JSON
            yield from commands_in(plain.replace('\\"', '"'), printed=printed) if len(plain) < len(code) else ()
        elif " " in plain and _names_command(plain):
            before = code[max(match.start() - 48, 0) : match.start()]
            if printed or not _SAID.search(before):
                for sign, character in ESCAPES.items():
                    text = text.replace(sign, character)
                yield text


def _names_command(text: str) -> bool:
    """Whether a text has the name of a program that deletes or runs, and an argument of it."""
    words = _WORDS.findall(text.replace("\\n", " "))
    return any(
        (follows := RUN_BY_UNKNOWN.get(word.rpartition("/")[2])) is not None and follows.match(after)
        for word, after in pairwise(words)
    )


def deletes_unknown(script: str) -> bool:
    """Whether a script deletes what only running it can tell: `rm -rf $x`."""
    return _DELETES_UNKNOWN.search(script) is not None


def opens_shell(code: str) -> bool:
    """Whether a literal of `code` is the bare name of a shell, which then reads what is written to it."""
    return _SHELL_LITERAL.search(code) is not None

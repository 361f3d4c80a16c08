"""Files that a line copies from another machine or a store and then runs unread: `scp host:x.sh . && sh x.sh`."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.commands import Command
from bus.shell.inner import names
from bus.shell.interpreters import find_interpreter
from bus.shell.programs.cloned_code import SOURCE, is_inside, path_in, runs_script
from bus.shell.script_runners import SHELLS

Words = Sequence[str]
_MOST: Final = 256
_REMOTE: Final = lazy_regex(r"(?:[\w.+-]+://|(?:[\w.-]+@)?[\w./$-]{2,}:|[A-Za-z]:[^\\/])")
"""The start of a file elsewhere: `host:x`, `s3://bucket/x`, `pod:/x`; `C:\\x` is none."""
_VALUES: Final = names(
    "-P -i -o -F -l -c -S -J -e -n --namespace --container --profile --region --exclude --include --filter --rsh --context"
    " --endpoint-url --port --project -R --repo --pattern -p --bwlimit --max-size -b"
)
_SHOWING: Final = names("-n --dry-run --dryrun --list-only --help")


def _given(words: Words) -> list[str]:
    """The operands: without options and their values."""
    return [
        word for place, word in enumerate(words) if word[:1] != "-" and (not place or words[place - 1] not in _VALUES)
    ]


def _copied(words: Words) -> Iterator[str]:
    """`scp host:x.sh DIR`: the file in DIR, and DIR itself as the file's new name or as a folder that was copied."""
    *sources, target = _given(words) or [""]
    if not sources or (_REMOTE.match(target) and not target.startswith(("/", "."))):
        return
    for source in sources:
        if _REMOTE.match(source) and not source.startswith(("/", "./", "../", "~")):
            yield posixpath.join(target, posixpath.basename(source.rstrip("/").rpartition(":")[2]))
            if target.rstrip("/") not in ("", ".", "..", "~", "/tmp", "$HOME"):  # noqa: S108  (only compared with)
                yield target


def _verbs(*verbs: str) -> Callable[[Words], Iterator[str]]:
    """A reader for a program whose subcommand copies: `aws s3 cp s3://bucket/x.sh DIR`."""

    def files(words: Words) -> Iterator[str]:
        given = _given(words)
        place = next((number for number, word in enumerate(given[:3]) if word in verbs), None)
        if place is not None:
            yield from _copied(given[place + 1 :])

    return files


def _named(words: Words) -> Iterator[str]:
    """`sftp host:x.sh`: the file of that name here, or what a second operand names."""
    given = _given(words)
    if given and ":" in given[0]:
        yield given[1] if len(given) > 1 else posixpath.basename(given[0].rpartition(":")[2])


def _options(*options: str) -> Callable[[Words], Iterator[str]]:
    """A reader for a program that names the file, or its folder, by an option: `gh release download -p x.sh -D DIR`."""

    def files(words: Words) -> Iterator[str]:
        if "download" in words or "pull" in words:
            folder = next((words[place + 1] for place, word in enumerate(words[:-1]) if word in ("-D", "--dir")), "")
            if folder:
                yield folder
            for place, word in enumerate(words[:-1]):
                if word in options:
                    yield posixpath.join(folder, words[place + 1])

    return files


_IN_SCRIPT: Final = lazy_regex(r"\b(?:m?get|pget|mirror)\s+(?:-\S+\s+)*([^\s;'\"]+)(?:\s+-o\s+([^\s;'\"]+))?")


def _in_script(words: Words) -> Iterator[str]:
    """`lftp -c 'get ftp://host/x.sh'`."""
    for match in _IN_SCRIPT.finditer(" ".join(words)):
        yield match[2] or posixpath.basename(match[1])


_COPY: Final = _verbs("cp", "copy", "copyto", "sync", "mv", "move", "moveto", "get", "rsync", "mirror")
COPIERS: Final[Mapping[str, Callable[[Words], Iterator[str]]]] = {
    **dict.fromkeys(["scp", "rsync", "rcp", "pscp"], _copied),
    "sftp": _named,
    **dict.fromkeys(
        ["aws", "gsutil", "gcloud", "rclone", "s3cmd", "s5cmd", "azcopy", "kubectl", "oc", "ossutil"], _COPY
    ),
    "gh": _options("-p", "--pattern", "-O", "--output"),
    "glab": _options("-n", "--asset-name"),
    "az": _options("-f", "--file"),
    "lftp": _in_script,
}
"""By program, a reader for the files and folders that it copies from elsewhere."""
_PRINTERS: Final = lazy_regex(
    r"^(?:aws .*\bs3 cp \S+ -(?: |$)|(?:gsutil|gcloud storage|rclone|mc|s5cmd|hdfs dfs) (?:-\S+ )*cat "
    r"|(?:gsutil|s3cmd|gcloud storage) .*\b(?:cp|get) \S+ -(?: |$)|gh (?:gist view|release download .*-O ?-|api \S*contents)"
    r"|ssh .* (?:sudo )?cat )"
)
"""Commands that print a file from elsewhere."""
_PRINTING: Final = names("aws gsutil gcloud rclone mc s5cmd s3cmd gh ssh hdfs")
_COPYING: Final = COPIERS.keys() | _PRINTING
_SIGN: Final = lazy_regex(
    r"\b(?:scp|rcp|pscp|sftp|rsync|lftp)\s|\b(?:aws|gsutil|gcloud|rclone|s3cmd|s5cmd|azcopy|kubectl|oc|ossutil|gh|glab|az|mc|hdfs|ssh)\s"
    r"[^|;\n]{0,120}\b(?:cp|copy|copyto|sync|mv|move|get|rsync|download|view|cat|contents)\b"
)


def may_copy(items: Sequence[Command], text: str) -> bool:
    """Whether a line that runs these commands may copy files from elsewhere."""
    # The programs come first: the search of the text takes ten times as long, and few lines run one of them.
    return any(command.program in _COPYING for command in items) and _SIGN.search(text) is not None


def copied_code(items: Sequence[Command]) -> Iterator[Command]:
    """The commands that run a file which an earlier one has copied from elsewhere, as they run it."""
    copied: list[str] = []
    printers: set[str] = set()
    for command in items[:_MOST]:
        if (reader := COPIERS.get(command.program)) is not None and _SHOWING.isdisjoint(command.words):
            copied += [path_in(command.directory, file) for file in reader(command.words) if file]
        if command.program in _PRINTING and _PRINTERS.search(command.line):
            printers.add(command.program)
        if not printers.isdisjoint(command.code_from) or (copied and _runs(command, copied)):
            yield command._replace(code_from=(SOURCE,))


def _runs(command: Command, copied: Sequence[str]) -> bool:
    """Whether a command runs one of these files, or a script of one of these folders."""
    if runs_script(command, copied):
        return True
    if command.program in SHELLS or find_interpreter(command.program) is not None:
        return any(
            sign == "<" and is_inside(path_in(command.directory, target), copied) for sign, target in command.redirects
        )
    return "/" in command.path and path_in(command.directory, command.path) in copied

"""Calls of Python code whose arguments cannot be worked out: they count for the paths and commands that the code names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, names
from bus.shell.programs.code_places import deletes_unknown, places_in
from bus.shell.programs.compiled_code import commanded
from bus.shell.words import UNKNOWN

_RUNNERS: Final = names("sh bash zsh dash ksh python python3 perl ruby node php pwsh powershell")
_FETCHES: Final = lazy_regex(
    r"\b(?:urlopen|urlretrieve|requests\.(?:get|post|Session)|httpx\.(?:get|stream|Client)|aiohttp|http\.client|urllib3|wget\.download)\b"
)
_WRITES: Final = lazy_regex(r"""\.write(?:_text|_bytes)?\(|urlretrieve|copyfileobj|wget\.download""")
_PROCESSES: Final = lazy_regex(r"""['"]/proc/?['"]|\bpsutil\.(?:process_iter|pids)\(""")
_READS: Final = lazy_regex(
    r"<>|<STDIN>|\bSTDIN\b|\bARGF\b|\bgets\b|\bstdin\b|readlines|\$_|\bchomp\b|/dev/stdin|php://stdin"
)
_DELETERS: Final = lazy_regex(
    r"\b(rmtree|remove_tree|rm_rf?|rmSync|rimraf|remove_dir)\b|\b(?:os\.(?:remove|unlink)|unlink|unlinkSync|File\.(?:delete|unlink)|\.unlink\()"
)
_CHOOSES: Final = lazy_regex(r"\bname\b|cmdline|\bexe\b|comm\b|\bpid\s*==")


def unsaid_calls(code: str, calls: Iterable[Inner]) -> Iterator[Inner]:
    """What the `calls` of `code` delete and run that have no argument which can be worked out."""
    deletes = runs = fetched = kills = False
    for one in calls:
        program = one.argv[0].text if one.argv else ""
        if program in ("rm", "rmdir", "kill"):
            paths = [arg.text for arg in one.argv[1:] if arg.text[:1] != "-"]
            if all(path.startswith(UNKNOWN) for path in paths):
                kills = kills or program == "kill"
                deletes = deletes or program != "kill"
        elif one.argv:
            runs = runs or program.startswith(UNKNOWN)
            if program in _RUNNERS or program.startswith(UNKNOWN) or program == "":
                given = [arg.text for arg in one.argv[1:]]
                fetched = fetched or not given or any(text.startswith(UNKNOWN) for text in given)
        elif one.script is not None:
            runs = runs or one.script.startswith(UNKNOWN) or one.script.strip() in _RUNNERS
            deletes = deletes or deletes_unknown(one.script)
    if deletes and (places := places_in(code)):
        yield _argv(("rm", "-r", *places))
    if runs:
        yield from commanded(code)
    if fetched and _FETCHES.search(code) and _WRITES.search(code):
        yield Inner(sources=("curl",))
    if (kills or ".kill()" in code) and _PROCESSES.search(code) and not _CHOOSES.search(code):
        yield _argv(("kill", "-9", "-1"))


def listed_calls(code: str, given: str, *, each: bool) -> Iterator[Inner]:
    """What code deletes that reads names of files from its standard input, `given`; it runs for `each` line with `-n`."""
    if (each or _READS.search(code)) and (match := _DELETERS.search(code)):
        deep = match[1] is not None
        yield _argv(("rm", *(["-r"] if deep else []), *given.split()[:64]))


def _argv(words: tuple[str, ...]) -> Inner:
    return Inner(argv=tuple(map(Arg, words)))

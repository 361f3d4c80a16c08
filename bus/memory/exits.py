"""Which exit code each command of a line had, from the one exit code of the line: never a guess that a command succeeded.

`pytest && make` with 0 shows that both succeeded. `pytest | tail`, `pytest; ls` and `pytest || true` hide what pytest said.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell import Command, commands_if_light
from bus.shell.inner import names

UNKNOWN: Final = -1
"""The exit code of a command whose line does not show it."""

_MOST_NESTED: Final = 3
_JOINTS: Final = ("&&", "||", "|&", ";;", "|", ";", "&", "\n")
_KEYWORDS: Final = names("if then elif else fi for while until do done case esac select function time coproc !")
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash"})
_OPTION_C: Final = lazy_regex(r"-[a-zA-Z]*c\Z")


class Ran(NamedTuple):
    """A command that a line ran, and its exit code."""

    command: Command
    exit: int


class _Segment(NamedTuple):
    text: str
    joint: str
    """What follows it; empty for the last one."""


def commands_with_exits(line: str, code: int, depth: int = 0) -> list[Ran]:
    """The commands of a line, with what its exit code says of each; empty for a line that is too long to be read here."""
    segments = _segments(line)
    if segments is None:
        whole = commands_if_light(line)
        return [Ran(command, UNKNOWN) for command in whole.items] if whole is not None else []
    found: list[Ran] = []
    for segment, exit_code in zip(segments, _exits(segments, code), strict=True):
        whole = commands_if_light(segment.text)
        own = [command for command in whole.items if command.depth == 0] if whole is not None else []
        substitutes = any(sign in segment.text for sign in ("$(", "`", "<(", ">("))
        for command in own:
            # What a substitution runs is read first; its own exit code is not seen.
            found.append(Ran(command, UNKNOWN if substitutes and command is not own[-1] else exit_code))
            if command.program in _SHELLS and depth < _MOST_NESTED:
                found += commands_with_exits(_script_of(command), exit_code, depth + 1)
        deeper = [command for command in whole.items if command.depth > 0] if whole is not None else []
        known = {ran.command.line for ran in found}
        found += [Ran(command, UNKNOWN) for command in deeper if command.line not in known]
    return found


def _script_of(command: Command) -> str:
    """The script that a shell is given by `-c`; empty without one."""
    for place, word in enumerate(command.words[:-1]):
        if _OPTION_C.match(word):
            return command.words[place + 1]
    return ""


def _exits(segments: list[_Segment], code: int) -> list[int]:
    """The exit code of each segment."""
    options = _options(segments)
    fails_fast = "e" in options
    pipes_show = "pipefail" in options
    exits = [UNKNOWN] * len(segments)
    start = 0
    for place, segment in enumerate(segments):
        if segment.joint not in {";", "\n", "&", "", ";;"}:
            continue
        chain = range(start, place + 1)
        start = place + 1
        is_last = all(not later.text for later in segments[start:])
        joints = {segments[one].joint for one in chain[:-1]}
        if not is_last and joints - {"|"}:
            continue  # `set -e` does not end the line where the first of `a && b` fails
        if segment.joint == "&" or "|&" in joints or not (is_last or (fails_fast and code == 0)):
            continue
        pipes = {one for one in chain[:-1] if segments[one].joint == "|"}
        if "||" in joints:
            if code != 0 and is_last:
                exits[place] = code
        elif code == 0:
            for one in chain:
                if one not in pipes or pipes_show:
                    exits[one] = 0
        elif is_last:
            exits[place] = code  # of `a && b`, b may not have run: then it has not succeeded either
    return exits


def _options(segments: list[_Segment]) -> set[str]:
    found: set[str] = set()
    for segment in segments:
        words = segment.text.split()
        if words[:1] != ["set"]:
            break
        for word in words[1:]:
            if word == "pipefail":
                found.add(word)
            elif word[:1] == "-":
                found.update(word[1:])
            elif word[:1] == "+":
                found.difference_update(word[1:])
    return found


def _segments(line: str) -> list[_Segment] | None:
    """The simple commands of a line with what joins them; None where brackets, keywords or heredocs make it more than that."""
    segments: list[_Segment] = []
    begin = place = 0
    while place < len(line):
        sign = line[place]
        if sign == "\\":
            place += 2
            continue
        if sign in "'\"":
            place = _closing(line, place)
            if place < 0:
                return None
            continue
        if sign == "$" and line[place + 1 : place + 2] == "{":
            place = line.find("}", place) + 1
            if not place:
                return None
            continue
        if sign in "(){}`" or line.startswith("<<", place):
            return None
        if sign == "#" and (place == 0 or line[place - 1] in " \t\n;"):
            end = line.find("\n", place)
            line = line[:place] + (line[end:] if end >= 0 else "")
            continue
        if sign == "&" and (line[place - 1 : place] in {">", "<"} or line[place + 1 : place + 2] == ">"):
            place += 1
            continue
        if sign not in "&|;\n":
            place += 1
            continue
        joint = next(one for one in _JOINTS if line.startswith(one, place))
        segments.append(_Segment(line[begin:place].strip(), joint))
        place += len(joint)
        begin = place
    segments.append(_Segment(line[begin:].strip(), ""))
    while len(segments) > 1 and not segments[-1].text:
        segments.pop()
    kept = [segment for segment in segments if segment.text or segment.joint not in {"\n", ";"}]
    if any(not segment.text or segment.text.split()[0] in _KEYWORDS for segment in kept):
        return None
    return kept


def _closing(line: str, place: int) -> int:
    """The place behind the quote that closes the one at `place`; -1 without one."""
    quote, at = line[place], place + 1
    while at < len(line):
        if line[at] == "\\" and quote == '"':
            at += 2
        elif line[at] == quote:
            return at + 1
        else:
            at += 1
    return -1

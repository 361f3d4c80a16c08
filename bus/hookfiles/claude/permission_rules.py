"""The `if` of a Claude Code hook: one permission rule, `Bash(git *)` or `Edit(src/**)`. If it is unclear, the rule fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from bus.errors import PatternError
from bus.events import Event
from bus.hookfiles.claude.matching import names
from bus.lazy.regex import lazy_regex
from bus.matching.globs import compile_path_glob
from bus.matching.paths import event_place, located
from bus.matching.regexes import Regex, compile_regex
from bus.shell import commands_if_light

_RULE: Final = lazy_regex(r"([A-Za-z_][A-Za-z0-9_-]*\*?)(?:\((.*)\))?", re.DOTALL)
_FILES: Final = frozenset({"Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "NotebookRead", "Glob", "Grep", "LS"})
_UNKNOWN: Final = "$…"  # bus.shell's sign for a value that only the shell knows
_MORE: Final = frozenset("*")


class PermissionRule(NamedTuple):
    """A parsed rule: a tool's name (`mcp__db__*` is a pattern), and the text in brackets (empty: anything)."""

    tool: str
    content: str


@lru_cache(1024)
def parse_rule(text: str) -> PermissionRule:
    """Parse one permission rule; raises PatternError if it is not valid."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise PatternError(
            f"{text[:80]!r} is not a permission rule",
            hint="write one tool, with a pattern in brackets where it matters: Bash(git *), Edit(src/**)",
        )
    rule = PermissionRule(found[1], (found[2] or "").strip())
    if rule.tool in _FILES and rule.content:
        compile_path_glob(_glob(rule.content))
    return rule


def holds(text: str, event: Event) -> bool:
    """Whether the rule fits the tool call. It also fits a command that cannot be read, so that no guard is skipped."""
    rule = parse_rule(text)
    if not _is_tool(rule.tool, event):
        return False
    if rule.content in ("", "*"):
        return True
    fields = event.input
    if event.tool == "bash" or rule.tool in ("Bash", "PowerShell", "Monitor"):
        command = fields.get("command")
        return _runs(rule.content, command) if isinstance(command, str) else True
    if rule.tool in _FILES:
        return _touches(rule.content, event)
    if rule.tool == "WebFetch" and rule.content.startswith("domain:"):
        return _is_domain(rule.content.removeprefix("domain:"), fields.get("url"))
    return _any_text(rule.content, fields)


def _is_tool(wanted: str, event: Event) -> bool:
    known = names(event)
    if wanted.endswith("*"):
        return any(name.startswith(wanted[:-1]) for name in known)
    return wanted in known or (wanted.startswith("mcp__") and any(name.startswith(f"{wanted}__") for name in known))


def _runs(pattern: str, command: str) -> bool:
    """Whether the whole line, or any command in it, fits the pattern."""
    wanted = pattern.removesuffix(":*") + " *" if pattern.endswith(":*") else pattern
    regex = _wildcard(wanted)
    if regex.fullmatch(command.strip()):
        return True
    seen = commands_if_light(command)  # in doubt the hook runs, as in Claude Code
    if seen is None or seen.stopped or seen.incomplete:
        return True
    program, _, rest = wanted.partition(" ")
    plain = program.rpartition("/")[2].lower() + (f" {rest}" if rest else "")
    by_name = _wildcard(plain)
    return any(by_name.fullmatch(line) or _may_be(plain, line) for line in (command.line for command in seen.items))


def _may_be(pattern: str, line: str) -> bool:
    """Whether a line with a part that only the shell knows may fit: compares the text before that part."""
    known, unknown, _ = line.partition(_UNKNOWN)
    if not unknown:
        return False
    fixed = pattern.partition("*")[0]
    return known.startswith(fixed) or fixed.startswith(known)


def _touches(pattern: str, event: Event) -> bool:
    """Whether any path of the call fits, as written or with links resolved; True for a call without a path."""
    fields = event.input
    paths = fields.get("paths") if isinstance(fields.get("paths"), list) else [fields.get("path")]
    words = [path for path in paths or () if isinstance(path, str) and path]
    if not words:
        return True
    place = event_place(event)
    fits = compile_path_glob(_glob(pattern))
    text = _wildcard(pattern.replace("**", "*"))
    for word in words:
        if text.fullmatch(word) or text.fullmatch(word.removeprefix(event.cwd.rstrip("/") + "/")):
            return True
        found = {located(word, place), located(word, place, links="none")} - {None}
        if not found or any(fits(path, place) for path in found if path is not None):
            return True
    return False


def _glob(pattern: str) -> str:
    """A permission rule's path as a path pattern: `//x` is absolute, `/x` and `./x` are below the project."""
    if pattern.startswith("//"):
        return pattern[1:]
    if pattern.startswith(("/", "./")):
        below = pattern.removeprefix(".").lstrip("/") or "**"
        return below if "/" in below.rstrip("/") else f"./{below}"
    return pattern


def _is_domain(domain: str, url: object) -> bool:
    if not isinstance(url, str):
        return True
    try:
        host = urlsplit(url if "://" in url else f"https://{url}").hostname or ""
    except ValueError:
        return True
    return _wildcard(domain.lower()).fullmatch(host) is not None or host == domain.lower().removeprefix("*.")


def _any_text(pattern: str, fields: Mapping[str, Any]) -> bool:
    """Whether any text of the input fits: `Agent(Explore)`, `Skill(deploy)`. An input without text fits."""
    texts = [value for value in fields.values() if isinstance(value, str)]
    return not texts or any(_wildcard(pattern).fullmatch(value.strip()) for value in texts)


@lru_cache(1024)
def _wildcard(pattern: str) -> Regex:
    """`*` is any text; a blank and a star at the end may be missing: `git *` fits `git`."""
    parts = list(_parts(pattern))
    if len(parts) > 1 and parts[-1] == ".*" and parts.count(".*") == 1 and parts[-2].endswith("\\ "):
        parts[-2:] = [parts[-2].removesuffix("\\ "), "(?: .*)?"]
    return compile_regex("(?s)" + "".join(parts))


def _parts(pattern: str) -> Iterator[str]:
    """Literal texts and stars; `\\*` is a literal star."""
    for literal in filter(None, re.split(r"((?<!\\)\*+)", pattern)):
        yield ".*" if set(literal) == _MORE else re.escape(literal.replace("\\*", "*"))

"""What a session did, as its events show it: commands with their exit codes, files written and read, secrets seen.

Each deed is one text, so that a sorted set keeps the last time of each; `bus/memory/facts.py` looks them up for conditions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from bus.agents.event_facts import tool_failed
from bus.events import Event, EventType
from bus.matching.facts.secrets import secrets_in
from bus.matching.globs import PathMatcher, compile_path_globs
from bus.matching.paths import Place, event_place, located
from bus.memory.exits import commands_with_exits
from bus.memory.outcomes import exit_of, text_of
from bus.secrets.redaction import redact_text
from bus.shell import Command, commands_if_light
from bus.shell.command_paths import changed, operands
from bus.shell.inner import names
from bus.tool_arguments import command_of, paths_of
from bus.tools import tool_names

log = logging.getLogger("fleethook.memory")

RAN, WROTE, READ, CALLED, SECRET = "ran", "wrote", "read", "called", "secret"

_MOST_TEXT: Final = 300
_MOST_DEEDS: Final = 64
"""The most deeds of one call."""
_MOST_SCANNED: Final = 262_144
_NOTHING_DONE: Final = frozenset({"--version", "--help", "--collect-only", "--co", "--dry-run"})
"""With these a program only says something: `pytest --version` is no test run."""
_WRITING: Final = frozenset({"write", "edit", "notebook_edit", "delete"})
_LOOKS_AWAY: Final = names(
    "ls ll rm rmdir touch chmod chown mkdir stat test [ echo printf find fd git du file basename dirname readlink realpath cd"
    " ln mv"
)
"""Programs that get the path of a file and do not read it."""
_SECRET_FILES: Final = (
    *(".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa", "id_dsa"),
    *("id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials"),
    *(
        "~/.ssh/**",
        "~/.aws/credentials",
        "~/.kube/config",
        "~/.docker/config.json",
        "~/.config/gcloud/**",
        "~/.azure/**",
    ),
    *("credentials.json", "secrets.json", "secrets.yml", "secrets.yaml", "service-account*.json", "/etc/shadow"),
    *("~/.config/gh/hosts.yml", "~/.gnupg/**", "terraform.tfvars"),
)
_NO_SECRETS: Final = (
    *(
        "*.pub",
        "known_hosts",
        "~/.ssh/config",
        "~/.ssh/authorized_keys",
        ".env.example",
        ".env.sample",
        ".env.template",
    ),
    *(".env.dist", ".env.*.example", ".env.test"),
)


class Deed(NamedTuple):
    """One thing that a session did."""

    kind: str
    text: str
    exit: int = 0
    """Of a command; -1 where its line hides it."""

    @property
    def member(self) -> str:
        """The text that is kept."""
        return "\0".join((self.kind, str(self.exit), self.text))


@lru_cache(maxsize=16_384)
def read_deed(member: str) -> Deed:
    """The deed in a kept text."""
    kind, code, text = member.split("\0", 2)
    return Deed(kind, text, int(code))


def deeds_of(event: Event) -> list[Deed]:
    """What the call did that an event is about; empty for an event of another type. Never raises."""
    if event.type not in {EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value}:
        return []
    try:
        return list(dict.fromkeys(_deeds(event)))[:_MOST_DEEDS]
    except Exception:
        log.exception("what the call of event %s did cannot be read", event.id)
        return []


def _deeds(event: Event) -> Iterator[Deed]:
    tools = tool_names(event.tool, event.native_tool)
    place, failed = event_place(event), tool_failed(event)
    yield Deed(CALLED, _kept(event.tool or event.native_tool), 1 if failed else 0)
    secret = next((one.what for one in secrets_in(text_of(event)[:_MOST_SCANNED]) if one.of == "known"), "")
    if secret:
        yield Deed(SECRET, f"the output of {_kept(event.tool)} had {secret}")
    line = command_of(event)
    if line is not None:
        for ran in commands_with_exits(line, exit_of(event)):
            command = ran.command
            if command.program and _NOTHING_DONE.isdisjoint(command.words) and command.words != ("-h",):
                yield Deed(RAN, _kept(command.line), ran.exit)
        whole = commands_if_light(line)
        for command in whole.items if whole is not None else ():
            yield from _files_of(command, place)
        return
    writes = not _WRITING.isdisjoint(tools)
    for word in paths_of(event):
        path = located(word, place)
        if path is None or failed:
            continue
        if writes:
            yield Deed(WROTE, _kept(path))
        elif "read" in tools:
            yield Deed(READ, _kept(path))
            if is_secret_file(path, place):
                yield Deed(SECRET, _kept(path))


def _files_of(command: Command, place: Place) -> Iterator[Deed]:
    """The files that a command changes, and those with secrets that it reads."""
    for word in {*changed(command), *command.writes}:
        if (path := located(word, place, command.directory)) is not None:
            yield Deed(WROTE, _kept(path))
    for word in dict.fromkeys(_read_words(command)):
        path = located(word, place, command.directory, links="none")  # its name alone counts
        if path is not None and is_secret_file(path, place):
            yield Deed(SECRET, _kept(path))


def _read_words(command: Command) -> tuple[str, ...]:
    if command.program in _LOOKS_AWAY:
        return command.reads
    targets = [word.partition("=")[2] or word for word in command.words]
    named = [word.removeprefix("@") for word in (*operands(command), *targets) if word[:1] != "-"]
    return (*command.reads, *named)


def is_secret_file(path: str, place: Place) -> bool:
    """Whether a file of this name usually has secrets."""
    fits, left_out = _secret_globs()
    return fits(path, place) and not left_out(path, place)


@lru_cache(maxsize=1)
def _secret_globs() -> tuple[PathMatcher, PathMatcher]:
    return compile_path_globs(_SECRET_FILES), compile_path_globs(_NO_SECRETS)


@lru_cache(4096)
def _kept(text: str) -> str:
    """A text as it is kept, for longer than its event: redacted and cut."""
    return redact_text(text)[:_MOST_TEXT].replace("\0", " ").encode("utf-8", "replace").decode()


def parent_session(event: Event) -> str:
    """The session that a subagent's session counts for, where the event names it; else empty."""
    named = event.data.get("parent_session")
    if isinstance(named, str) and named:
        return named
    if event.source != "opencode":
        return ""
    info = event.data.get("info")
    parent = info.get("parentID") if isinstance(info, dict) else event.data.get("parent")
    return parent if isinstance(parent, str) else ""

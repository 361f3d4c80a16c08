"""The facts of one session: what it did, as conditions ask for it and as people read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import msgspec

from bus.events import Event
from bus.matching.conditions import Condition
from bus.matching.facts.session_facts import NEVER, SessionFact, runs
from bus.matching.globs import compile_path_glob
from bus.matching.paths import event_place
from bus.memory.deeds import RAN, Deed, read_deed
from bus.memory.exits import UNKNOWN
from bus.outcomes import Outcome

MOST_KEPT: Final = 1_000
"""The most deeds of a session that are kept, the last of each; secrets that were read are kept apart."""


class Memory(NamedTuple):
    """What is known of a session."""

    deeds: Sequence[tuple[str, int]] = ()
    """Its deeds as they are kept, each with its last time (ms), the last one first."""
    secrets: Sequence[tuple[str, int]] = ()
    """What secrets it has read, the last first."""
    repeats: int = 0
    """How often in a row the call at hand has come to the same outcome."""
    tokens: int = 0
    missing: str = ""
    """Why something may be missing; empty if nothing is known to be."""


NOTHING: Final = Memory()


def session_value(memory: Memory, facts: Iterable[SessionFact], event: Event) -> dict[str, Any]:
    """What conditions get as `session`: its fields, and the answer to each fact that they ask for."""
    deeds = [(read_deed(member), ms) for member, ms in memory.deeds]
    return {
        "fields": {
            "read_secret": bool(memory.secrets),
            "repeats": memory.repeats,
            "tokens": memory.tokens,
        },
        "known": {fact.key: _answer(fact, deeds, event) for fact in facts},
        "secret": read_deed(memory.secrets[0][0]).text if memory.secrets else "",
        "secret_at": memory.secrets[0][1] if memory.secrets else 0,
    }


def _answer(fact: SessionFact, deeds: Sequence[tuple[Deed, int]], event: Event) -> dict[str, Any]:
    """The answer to one fact: the last deed that fits."""
    if fact.name in {"wrote", "read"}:
        matches, place = compile_path_glob(fact.pattern), event_place(event)
        found = next(((deed, ms) for deed, ms in deeds if deed.kind == fact.name and matches(deed.text, place)), None)
    elif fact.name == RAN:
        found = next(((deed, ms) for deed, ms in deeds if deed.kind == RAN and runs(fact.pattern, deed.text)), None)
    else:
        names = fact.pattern.split("|")
        found = next(
            (
                (deed, ms)
                for deed, ms in deeds
                if deed.kind == fact.name and any(fnmatchcase(deed.text, name) for name in names)
            ),
            None,
        )
    if found is None:
        return dict(NEVER)
    deed, ms = found
    return {"found": True, "exit": deed.exit, "ok": deed.exit == 0, "at": ms}


def fact_texts(condition: Condition, value: dict[str, Any]) -> tuple[str, ...]:
    """The facts that a condition read, for the verdict: `session.ran("pytest"): exit 1 at 12:03:05 UTC`."""
    texts = []
    for fact in condition.facts:
        answer = value["known"].get(fact.key, NEVER)
        texts.append(f"{fact.written}: {_said(fact.name, answer)}")
    fields = value["fields"]
    if "session.read_secret" in condition.text:
        said = f"{value['secret']} at {_clock(value['secret_at'])}" if fields["read_secret"] else "nothing"
        texts.append(f"session.read_secret: {said}")
    numbers = (name for name in ("repeats", "tokens") if f"session.{name}" in condition.text)
    return (*texts, *(f"session.{name}: {fields[name]}" for name in numbers))


def with_facts(outcome: Outcome, condition: Condition, session: dict[str, Any], memory: Memory) -> Outcome:
    """The outcome of a hook whose condition read facts: they are in the verdict, and the reason of a decision names them."""
    facts = fact_texts(condition, session)
    missing = f"; {memory.missing}" if memory.missing else ""
    if not outcome.reason or not facts:
        return msgspec.structs.replace(outcome, facts=facts)
    return msgspec.structs.replace(
        outcome, facts=facts, reason=f"{outcome.reason.rstrip('.')} ({'; '.join(facts)}{missing})"
    )


def _said(name: str, answer: dict[str, Any]) -> str:
    if not answer["found"]:
        return "never"
    if name != RAN:
        return f"at {_clock(answer['at'])}"
    code = (
        "exit code not known: a pipe or what follows it hides it"
        if answer["exit"] == UNKNOWN
        else f"exit {answer['exit']}"
    )
    return f"{code}, at {_clock(answer['at'])}"


def _clock(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S} UTC"

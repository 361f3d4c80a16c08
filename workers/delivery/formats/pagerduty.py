"""PagerDuty's Events API v2: an event opens an incident, or ends it.

`dedup_key` is stable, so a repeated delivery pages no person twice. Every event that reaches the endpoint (see `when:`)
opens an incident, except those that end one. The endpoint's `resolve` says what belongs to one incident and what ends it:

- `never`: one for each session and deciding hook (or event type and tool if no hook decided); only people end it.
- `retry`: one for each session and tool; the tool's next call that is allowed or succeeds ends it.
- `session`: one for each session; the end of the session ends it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import msgspec

from bus.events import Event, EventType
from bus.hooks import Resolve
from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from workers.delivery.formats.card import Card
from workers.delivery.formats.facts import decider, facts_of
from workers.delivery.formats.text import cut, line

SUMMARY: Final = 1_024
DEDUP_KEY: Final = 255
_FIELD: Final = 255
_TEXT: Final = 4_000

_PLAIN: Final = re.compile(r"[A-Za-z0-9._:@-]{1,80}\Z")


def body(card: Card, event: Event, verdict: Verdict | None, resolve: Resolve, routing_key: str) -> bytes:
    """The body for PagerDuty; `routing_key` is the key itself."""
    head = {"routing_key": routing_key, "dedup_key": dedup_key(event, verdict, resolve)}
    if ends(event, verdict, resolve):
        return msgspec.json.encode({**head, "event_action": "resolve"})
    facts = facts_of(event)
    where = f" in {cut(folder, 80)}" if (folder := line(facts["cwd"]).rstrip("/").rpartition("/")[2]) else ""
    why = f": {line(card.reason)}" if card.reason else ""
    payload: dict[str, Any] = {
        "summary": cut(f"{card.title}{where}{why}", SUMMARY),
        "source": cut(line(facts["host"]), _FIELD) or "fleethook",
        "severity": card.level,
        "timestamp": card.time,
        "component": cut(line(facts["tool"]), _FIELD),
        "group": cut(line(facts["session"]), _FIELD),
        "class": cut(line(facts["type"]), _FIELD),
        "custom_details": {
            **dict(card.facts),
            "Reason": cut(card.reason, _TEXT),
            "Detail": cut(card.detail, _TEXT),
            "Event": card.show_command,
        },
    }
    payload["custom_details"] = {name: text for name, text in payload["custom_details"].items() if text}
    kept = {name: value for name, value in payload.items() if value}
    links = {"links": [{"href": link, "text": label} for label, link in card.buttons]} if card.buttons else {}
    return msgspec.json.encode({**head, "event_action": "trigger", "client": "fleethook", "payload": kept, **links})


def ends(event: Event, verdict: Verdict | None, resolve: Resolve) -> bool:
    """Whether the event ends an incident."""
    if resolve == "session":
        return event.type == EventType.SESSION_END.value
    if resolve != "retry" or not event.tool:
        return False
    if verdict is not None:
        return verdict.decision in ("allow", "abstain") and not verdict.fallback
    return event.type == EventType.TOOL_POST_EXECUTE.value


def dedup_key(event: Event, verdict: Verdict | None, resolve: Resolve) -> str:
    """The incident's name: at most 255 characters, the same for all events that belong to it."""
    if resolve == "session":
        parts = [event.session]
    elif resolve == "retry":
        parts = [event.session, event.tool or event.type]
    else:
        hook = decider(verdict) if verdict is not None else ""
        parts = [event.session, hook or "@".join(text for text in (event.type, event.tool) if text)]
    return "/".join(["fleethook", *(_plain(part) if part else "-" for part in parts)])


def _plain(text: str) -> str:
    """A short plain name unchanged; the hash of any other name, which is as stable and reveals no secret."""
    if _PLAIN.match(text) and redact_text(text) == text:
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]

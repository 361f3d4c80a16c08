"""docs/wire.md: keys, stream fields and message bodies, for programs in other languages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bus.events import Event
from bus.verdicts import Part, Verdict
from bus.wire.codec import MAX_BODY, MAX_DEPTH, encode_event
from bus.wire.entry_fields import ASKED, PUBLISHED, RECORDED
from bus.wire.keys import DECLARED, KEPT_MS, Keys
from docs.reference.fields import code, default_text, docstrings, fields, flow, table

EVENT: Final = Event(
    type="tool:post_execute", source="deployer", host="build-7", tool="bash", input={"command": "make deploy"}
)
QUESTION: Final = Event(
    type="tool:pre_execute", source="deployer", host="build-7", tool="bash", input={"command": "rm -rf /"}
)
_REPLY_NAME: Final = "0123456789abcdef0123456789abcdef"


def wire_page() -> str:
    """The page of the wire."""
    return f"""\
# Wire: keys and messages in Redis

For programs in languages other than Python. A complete one in JavaScript, without packages, is
[`examples/wire/client.mjs`](../examples/wire/client.mjs): it publishes an event, asks for a verdict, and prints it. The tests
run it and the lines below.

Every key begins with `fh:<namespace>:{{0}}:`; the namespace is `default` unless FLEETHOOK_NAMESPACE sets another. Log in as the
ACL user of the role `agent` (`fleethook acl` prints the users). New fields can come at any time: ignore those that you do not
know. Fields and types that are here keep their meaning.

## Publish an event

Add an entry to the stream `events`. The sender does not wait for a hook.

```text
{redis_cli(publish_command())}
```

{table(("field", "meaning"), _rows(PUBLISHED))}
## Ask for a verdict

Look whether an evaluator is alive, add an entry to the stream `requests`, and wait for one element of the list that you named.
Without an evaluator, or without an answer in time, decide by your own failure policy. The answer is kept for
{KEPT_MS // 60_000} minutes, so a repeated request with the same id is evaluated once.
`NOMKSTREAM` keeps a server that lost its data recognizable: it has no stream until an evaluator is back, so nil is the answer,
and the sender tries again for 2 s.

```text
{chr(10).join(redis_cli(command) for command in request_commands())}
```

A request has the fields of an event, and these:

{table(("field", "meaning"), _rows(ASKED))}
## The body of an event

A msgpack map with the schema number `v` (1) and the fields of the event. Fields without a value are left out. A body has at
most {MAX_BODY // (1024 * 1024)} MiB and nests at most {MAX_DEPTH} levels; NaN and extension types are refused.

A model chooses how deep it nests the arguments of a tool. So in an agent's payload, and in an event that a program sends
by `Bus`, a list or map that is nested deeper is read as a text of JSON, and the rest as it is. If a hook changes another
argument of an agent's call, the call is denied, and the reason says with what to call the tool: the tool would get the text.

{table(("key", "meaning", "type", "example"), _event_rows())}
A body can also be an agent's own payload: one msgpack `bin` with its JSON. `source` then names the agent and `event` its event,
and the reply is what the agent's hook command prints: `FH1 <exit code> <bytes of stdout> <bytes of stderr>`, a line break, and
both texts. While a stop is in force, a sender with the field `flag` gets a fourth number, and that many bytes of the
stop's flag after the texts.

## The reply

A msgpack map with the schema number `v` (1) and the fields of the verdict. Fields with their default are left out.

{table(("key", "meaning", "type", "default"), _struct_rows(Verdict))}
Each of `parts` is a map:

{table(("key", "meaning", "type", "default"), _struct_rows(Part))}
## What workers add to the stream of events

A request is recorded as an event with these further fields. A reader of the stream needs a consumer group of its own, or none.

{table(("field", "meaning"), _rows(RECORDED))}
## Keys

Only `events`, `requests`, `alive:evaluator` and `reply:*` are for other programs. The others are Fleethook's own and can
change; they are listed so that you know what is on your server. `*` is the rest of a name.

{table(("key", "type", "kept", "written by", "read by", "purpose"), _keys())}"""


def publish_command() -> list[str | bytes]:
    """The command that publishes the example."""
    keys = Keys("default")
    named = ["id", "deploy-1", "source", EVENT.source, "event", EVENT.type, "host", EVENT.host]
    return ["XADD", keys("events"), "*", *named, "body", encode_event(EVENT)]


def request_commands() -> list[list[str | bytes]]:
    """The commands that ask the example's question, and read its answer."""
    keys = Keys("default")
    reply = keys("reply", _REPLY_NAME)
    named = ["id", "deploy-2", "source", QUESTION.source, "event", QUESTION.type, "host", QUESTION.host]
    add: list[str | bytes] = ["XADD", keys("requests"), "*", "reply", reply, "budget", "5000", *named]
    return [
        ["EXISTS", keys("alive", "evaluator")],
        [*add, "body", encode_event(QUESTION)],
        ["BLPOP", reply, "5"],
    ]


def redis_cli(command: Iterable[str | bytes]) -> str:
    """A command as it is typed into redis-cli."""
    return " ".join(part if isinstance(part, str) else _quoted(part) for part in command)


def _quoted(raw: bytes) -> str:
    escaped = {0x22: '\\"', 0x5C: "\\\\"}
    return '"' + "".join(escaped.get(c, chr(c) if 32 <= c < 127 else f"\\x{c:02x}") for c in raw) + '"'


def _rows(described: dict[str, str]) -> Iterable[tuple[str, str]]:
    return [(code(name), text) for name, text in described.items()]


def _event_rows() -> Iterable[tuple[str, str, str, str]]:
    for field in fields(Event):
        yield (
            code(field.name),
            field.description,
            field.type,
            "<br>".join(code(flow(value)) for value in field.examples),
        )


def _struct_rows(kind: type) -> Iterable[tuple[str, str, str, str]]:
    described = docstrings(kind)
    for field in fields(kind):
        default = "required" if field.required else default_text(field.default)
        yield code(field.name), described.get(field.name, ""), field.type, default


def _keys() -> Iterable[tuple[str, ...]]:
    for key in DECLARED:
        kept = key.ttl if isinstance(key.ttl, str) else _duration(key.ttl)
        yield code(key.pattern), key.kind, kept, key.writer, key.reader, key.purpose


def _duration(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms // 1000} s"

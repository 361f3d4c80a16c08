"""What an agent, or who speaks through it, may put into every text of an event; and events made of it."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from bus.events import Event
from bus.verdicts import DECISIONS, Part, Verdict

FRAGMENTS: Final = (
    "<!channel>",
    "<@U024BE7LH>",
    "@everyone",
    "@here",
    "<@&1234>",
    "<at>Everyone</at>",
    "[safe](https://evil.example)",
    "<https://evil.example|safe>",
    "```",
    "`",
    "*",
    "_",
    "~~",
    "||",
    "> ",
    "# ",
    "&",
    "&lt;",
    "<",
    ">",
    "\\",
    '"',
    "'",
    "{{DATE(x)}}",
    "\x00",
    "\x07",
    "\x1b[31m",
    "\r\n",
    "\n",
    "\t",
    "\x7f",
    "\x85",
    "\u2028",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\ufffe",
    "\u200b",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd",
    "\U0001f1e9\U0001f1ea",
    "e\u0301",
    "\u0e01\u0e33",
    "o" + "\u0335" * 60,
    "\ud83d",
    "\udc4d",
    "\ud83d\udc4d",
    "שלום",
    "漢字",
    " ",
    "word ",
    "x" * 5_000,
)
"""Mentions, markup, control and bidirectional characters, emoji of many parts, halves of characters, long words."""

pieces = st.sampled_from(FRAGMENTS) | st.text(st.characters(), max_size=20)
texts = st.builds(
    lambda parts, times: "".join(parts) * times, st.lists(pieces, max_size=6), st.sampled_from((1, 1, 3, 400))
)
"""Up to about twelve million characters, mostly few."""

values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(texts.map(lambda text: text[:300]), below, max_size=3),
    max_leaves=5,
)
inputs = st.dictionaries(
    st.sampled_from(("command", "path", "x")) | texts.map(lambda text: text[:300]), values, max_size=3
)

parts = st.builds(Part, hook=texts, decision=st.sampled_from(DECISIONS), reason=texts)
verdicts = st.builds(
    Verdict,
    decision=st.sampled_from(DECISIONS),
    reason=texts,
    instead=texts,
    fallback=st.just("") | texts,
    version=texts,
    parts=st.lists(parts, max_size=3).map(tuple),
)


def event_of(**fields: Any) -> Event:
    """An event of any text."""
    return Event(**fields)


events = st.builds(
    event_of,
    type=st.sampled_from(("tool:pre_execute", "tool:error", "session:end")) | texts,
    id=texts,
    source=texts,
    native=texts,
    time=st.integers(-(2**60), 2**60),
    session=texts,
    host=texts,
    cwd=texts,
    tool=texts,
    call=texts,
    input=inputs,
    output=values,
    data=inputs,
)


def all_hostile(times: int) -> tuple[Event, Verdict]:
    """An event and a verdict whose every text is every fragment, `times` times."""
    text = "".join(FRAGMENTS) * times
    event = Event(
        type="tool:pre_execute",
        id=text,
        source=text,
        native=text,
        session=text,
        host=text,
        cwd=text,
        tool=text,
        native_tool=text,
        call=text,
        input={"command": text, text: [text]},
        output=text,
        data={text: text},
    )
    part = Part(hook=text, decision="deny", reason=text)
    return event, Verdict(decision="deny", reason=text, instead=text, fallback=text, version=text, parts=(part,))

"""CloudEvents 1.0 in structured mode: our data in the standard envelope of event routers."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from bus.events import Event
from bus.tracing.context import trace_of
from bus.wire.codec import write_json
from workers.delivery.formats.facts import timestamp
from workers.delivery.formats.text import line

PREFIX: Final = "dev.fleethook."
_MOST: Final = 256
"""The most characters of an attribute."""

_SPACES: Final = re.compile(r"\s+")


def body(event: Event, facts: dict[str, str], data: dict[str, Any]) -> bytes:
    """The envelope with `data` in it; its attributes are never empty and have only characters that the format allows."""
    envelope: dict[str, Any] = {
        "specversion": "1.0",
        "id": line(facts["id"])[:_MOST] or "unknown",
        "source": "/fleethook/" + quote(line(facts["host"])[:_MOST], safe=""),
        "type": PREFIX + (_SPACES.sub("_", line(facts["type"]))[:_MOST] or "event"),
        "time": timestamp(event.time).replace("+00:00", "Z"),
        "datacontenttype": "application/json",
    }
    if subject := line(facts["session"])[:_MOST]:
        envelope["subject"] = subject
    envelope |= trace_of(event).headers()  # the extension for distributed tracing
    return write_json({**envelope, "data": data})

"""CloudEvents 1.0 in structured mode: our data in the standard envelope of event routers."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from bus.events import Event
from bus.wire.codec import write_json
from workers.delivery.formats.facts import timestamp
from workers.delivery.formats.text import line

PREFIX: Final = "dev.fleethook."
_NAME: Final = 256
_SPACES: Final = re.compile(r"\s+")


def body(event: Event, facts: dict[str, str], data: dict[str, Any]) -> bytes:
    """The envelope with `data` in it; its attributes are never empty and have only characters that the format allows."""
    envelope: dict[str, Any] = {
        "specversion": "1.0",
        "id": line(facts["id"])[:_NAME] or "unknown",
        "source": "/fleethook/" + quote(line(facts["host"])[:_NAME], safe=""),
        "type": PREFIX + (_SPACES.sub("_", line(facts["type"]))[:_NAME] or "event"),
        "time": timestamp(event.time).replace("+00:00", "Z"),
        "datacontenttype": "application/json",
    }
    if subject := line(facts["session"])[:_NAME]:
        envelope["subject"] = subject
    return write_json({**envelope, "data": data})

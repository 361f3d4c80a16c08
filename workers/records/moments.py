"""Times as people write them in filters: `now`, a length of time ago, a date, or milliseconds since 1970."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Final

from bus.config.settings import duration
from bus.errors import ConfigError

TIME_FORMS: Final = "90s, 30m, 12h or 7d (ago), now, or a date such as 2026-11-21 or 2026-11-21T14:30"
"""The forms of a time that messages name."""

_MILLISECONDS: Final = re.compile(r"[0-9]{12,15}")


def parse_moment(text: str) -> int:
    """The milliseconds since 1970, at least 1; raises ConfigError. A date without an offset is in local time."""
    if text == "now":
        return int(time.time() * 1000)
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        return max(1, int((time.time() - duration("time", text)) * 1000))
    except (ConfigError, OverflowError):
        pass  # not a length of time, so it may be a date
    try:
        return max(1, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(f"{text[:80]!r} is no time; write {TIME_FORMS}") from error

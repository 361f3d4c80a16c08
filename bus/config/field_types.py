"""The types of fields that several entries of fleethook.yaml share."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

END: Final = r"(?![\s\S])"
"""The end of the text in Python and in JSON Schema; Python's `$` would also match before a line break."""

ID_PATTERN: Final = "^[A-Za-z0-9_-]{1,64}" + END
ENV_PATTERN: Final = "^[A-Za-z_][A-Za-z0-9_]{0,127}" + END
DAY: Final = 86_400

Id = Annotated[str, Meta(pattern=ID_PATTERN)]
Text = Annotated[str, Meta(max_length=10_000)]
Patterns = str | list[str]
Seconds = Annotated[float, Meta(gt=0, le=DAY)]
Delay = Annotated[float, Meta(ge=0, le=30 * DAY)]
EnvName = Annotated[str, Meta(pattern=ENV_PATTERN)]

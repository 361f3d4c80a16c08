"""The kinds of values that settings have: texts, numbers, times and sizes, each with its description and example."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Meta

from bus.errors import ConfigError
from bus.lazy.regex import lazy_regex

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
MIB: Final = 1024 * 1024

_UNITS: Final[dict[str, dict[str, float]]] = {
    "duration": {"": 1, "ms": 0.001, "s": 1, "m": MINUTE, "min": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY},
    "size": {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": MIB, "gib": 1024 * MIB},
}
_WANTED: Final = {"duration": "seconds, or a time such as 90s, 12h or 14d", "size": "bytes, or a size such as 256MiB"}
_SHAPES: Final[dict[str, dict[str, Any]]] = {
    "duration": {"type": ["number", "string"], "pattern": "^[0-9]+(\\.[0-9]+)? *(ms|s|m|min|h|d|w)?$"},
    "size": {"type": ["integer", "string"], "pattern": "^[0-9]+(\\.[0-9]+)? *([kKmMgG][iI]?)?[bB]?$"},
}
_QUANTITY: Final = lazy_regex(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) *([A-Za-z]*)")


def text(description: str, example: str, *schemes: str, pattern: str | None = None) -> Meta:
    """A text of at most 2,048 characters; of a URL, the schemes that it may have."""
    return Meta(
        max_length=2048, pattern=pattern, description=description, examples=[example], extra={"schemes": schemes}
    )


def word(description: str, example: str) -> Meta:
    """One of the words of the field's type."""
    return Meta(description=description, examples=[example])


def count(description: str, example: int, least: int, most: int) -> Meta:
    """A whole number within bounds."""
    return Meta(ge=least, le=most, description=description, examples=[example])


def _quantity(measure: str, description: str, example: str, least: float, most: float) -> Meta:
    return Meta(
        ge=least,
        le=most,
        description=description,
        examples=[example],
        extra={"measure": measure},
        extra_json_schema=_SHAPES[measure],
    )


def time(description: str, example: str, least: float = 0, most: float = 3650 * DAY) -> Meta:
    """A time in seconds, or with a unit."""
    return _quantity("duration", description, example, least, most)


def size(description: str, example: str) -> Meta:
    """A number of bytes, or with a unit."""
    return _quantity("size", description, example, 0, 2**50)


def measured(name: str, raw: object, measure: str) -> float:
    """The seconds or bytes in a text; ConfigError, which mentions `name`, for any other text."""
    match = _QUANTITY.fullmatch(raw.strip()) if isinstance(raw, str) else None
    unit = _UNITS[measure].get(match[2].lower()) if match is not None else None
    if match is None or unit is None:
        raise ConfigError(f"{name} has to be {_WANTED[measure]}")
    return float(match[1]) * unit


def check_url(name: str, url: str, schemes: tuple[str, ...]) -> None:
    """ConfigError for a URL without one of these schemes; the message never quotes it, since it may have a password."""
    wanted = f"{name} has to begin with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is not a number in range
    except ValueError as error:
        raise ConfigError(f"{name} is not a URL", hint="see host and port") from error
    if parts.scheme not in schemes:
        raise ConfigError(wanted)
    if not (parts.path if parts.scheme == "unix" else parts.hostname):
        raise ConfigError(f"{name} names no {'socket' if parts.scheme == 'unix' else 'host'}")

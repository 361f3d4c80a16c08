"""The wire format: msgpack with a schema number. Reading checks size, nesting and types, and raises DecodeError."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgpack
import msgspec

from bus.errors import DecodeError
from bus.events import Event
from bus.lazy.conversions import converted, msgpack_decoder
from bus.verdicts import Verdict
from bus.wire.deep_json import flat_json, flat_value
from bus.wire.long_json import has_long_text, write_long

_T = TypeVar("_T")

SCHEMA: Final = 1
"""Number of the wire's schema. Readers skip unknown fields, so old shims go on working."""

MAX_BODY: Final = 16 * 1024 * 1024
"""Largest body of a request or event, in bytes. The failure policy answers a larger one, which becomes a dead letter."""

MAX_DEPTH: Final = 32
_FIELD_DEPTH: Final = MAX_DEPTH - 1
"""How deep a field of an event or verdict may be nested."""
_MAX_ARRAY, _MAX_MAP = 65_536, 16_384
_MAX_CONTAINERS, _COUNTED = 262_144, 65_536
"""The most lists and maps in one message, and the size in bytes above which they are counted. An empty list has one byte on
the wire and 64 in memory, so 13 MB became 950 MB in 4 s (measured)."""


_SMALL: Final = 16 * 1024
"""Messages up to this many bytes cannot exceed the limits on lists and maps. msgspec reads them, five times as fast as
msgpack (measured); if it fails, msgpack reads the message or reports what is wrong."""

_WRITE: Final = msgspec.msgpack.Encoder().encode
_READ_EVENT: Final = msgpack_decoder(Event).decode
_READ_VERDICT: Final = msgpack_decoder(Verdict).decode
_STAMP: Final = b"\xa1v" + bytes([SCHEMA])
"""The schema number at the beginning of the maps that we write, after the first byte."""


class _TooDeep(DecodeError):
    """What was read is nested deeper than readers accept."""


_FULL_MAP: Final = 0x8F
"""First byte of a map of 15 fields. For a smaller map, adding the schema number increases the first byte by one."""


def pack(value: Any) -> bytes:
    """`value` as msgpack. Lone surrogates are kept, since four of five agents pass them on (observed 2026-11)."""
    try:
        return _WRITE(value)
    except (
        UnicodeEncodeError,
        OverflowError,
    ):  # msgpack has an option for surrogates; large integers are handled below
        pass
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True, unicode_errors="surrogatepass")
    except OverflowError:  # JSON has larger integers than msgpack; they survive as text
        packed = msgpack.packb(_fitting(value), use_bin_type=True, unicode_errors="surrogatepass")
    return packed


def _fitting(value: object) -> object:
    if isinstance(value, dict):
        return {key: _fitting(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fitting(item) for item in value]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


def unpack(raw: bytes, *, limit: int = MAX_BODY) -> Any:
    """The value in `raw`, checked for size, element counts, depth, extension types and NaN; raises DecodeError."""
    if len(raw) > limit:
        raise DecodeError(f"message of {len(raw)} bytes; at most {limit} are accepted")
    count = _counter() if len(raw) > _COUNTED else None
    try:
        value = msgpack.unpackb(
            raw,
            raw=False,
            strict_map_key=True,
            unicode_errors="surrogatepass",
            list_hook=count,
            object_hook=count,
            max_array_len=_MAX_ARRAY,
            max_map_len=_MAX_MAP,
            max_ext_len=0,
        )
        _check(value, MAX_DEPTH)
    except DecodeError:
        raise
    except (ValueError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        # Measured on msgpack 1.2: StackError, ExtraData, FormatError and UnicodeDecodeError are ValueErrors.
        raise DecodeError(f"not a valid msgpack message ({type(error).__name__})") from error
    return value


def read_payload(raw: bytes) -> Any:
    """The JSON value in an agent's payload, as `read_json` reads it, but what is nested too deep in it is a text of JSON."""
    try:
        return read_json(raw, depth=_FIELD_DEPTH)
    except _TooDeep:
        return read_json(flat_json(raw, _FIELD_DEPTH))


def read_json(raw: bytes, *, limit: int = MAX_BODY, depth: int = MAX_DEPTH) -> Any:
    """The JSON value in a text; accepts lone surrogates and a missing newline, raises DecodeError."""
    if len(raw) > limit:
        raise DecodeError(f"payload of {len(raw)} bytes; at most {limit} are accepted")
    try:
        value = json.loads(raw.decode("utf-8", "replace").removeprefix("\ufeff"), parse_constant=_no_constant)
        _check(value, depth)
    except DecodeError:
        raise
    except json.JSONDecodeError as error:
        raise DecodeError(f"payload is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from error
    except RecursionError as error:  # the depth at which Python raises it differs by version
        raise _TooDeep(f"nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise DecodeError(f"payload is not usable JSON ({type(error).__name__})") from error
    return value


def write_json(value: Any) -> bytes:
    """One line of pure-ASCII JSON: safe for any agent's parser, lone surrogates included; ValueError for NaN."""
    if has_long_text(value):
        return write_long(value, _JSON)
    return _JSON.encode(value).encode("ascii")


def within_depth(event: Event) -> Event:
    """The event, in which what is nested deeper than readers accept is a text of JSON."""
    if not unreadable(event.input, event.output, event.data, event.raw):
        return event
    fields = ("input", "output", "data", "raw")
    try:
        flat = {name: flat_value(getattr(event, name), _FIELD_DEPTH) for name in fields}
    except RecursionError:  # Python writes no JSON that is so deep, so readers refuse the event
        return event
    return msgspec.structs.replace(event, **flat)


def encode_event(event: Event) -> bytes:
    """The body of an event or request that is already canonical: a map with its schema number `v`."""
    return pack({"v": SCHEMA, **msgspec.to_builtins(event, builtin_types=(bytes,))})


def encode_payload(raw: bytes) -> bytes:
    """The body of a request that carries an agent's own payload: one msgpack `bin`."""
    return pack(raw)


def decode_body(raw: bytes) -> bytes | Event:
    """The content of a body: an agent's own payload (bytes) or a canonical event; raises DecodeError."""
    event = _read_small(raw, _READ_EVENT)
    if event is not None and _checked(event.input, event.output, event.data, event.raw):
        return event
    value = unpack(raw)
    if isinstance(value, bytes):
        return value
    return _convert(value, Event)


def encode_verdict(verdict: Verdict) -> bytes:
    """A verdict as the reply to a canonical request, and as the field of an event."""
    # A changed input or output may have values that only `pack` can write.
    if verdict.updated_input is None and verdict.updated_output is None:
        try:
            raw = _WRITE(verdict)
        except (UnicodeEncodeError, OverflowError):
            pass
        else:
            if raw[0] < _FULL_MAP:
                return bytes((raw[0] + 1,)) + _STAMP + raw[1:]
    return pack({"v": SCHEMA, **msgspec.to_builtins(verdict, builtin_types=(bytes,))})


def decode_verdict(raw: bytes) -> Verdict:
    """The verdict in a reply; raises DecodeError."""
    verdict = _read_small(raw, _READ_VERDICT)
    if verdict is not None and _checked(
        verdict.updated_input, verdict.updated_output, verdict.permissions, verdict.ms, *[p.ms for p in verdict.parts]
    ):
        return verdict
    return _convert(unpack(raw), Verdict)


def _read_small(raw: bytes, read: Callable[[bytes], _T]) -> _T | None:
    """A small message that has the form which we write; None if `unpack` has to read it. The values are not checked."""
    if len(raw) > _SMALL or raw[1:4] != _STAMP:
        return None
    try:
        return read(raw)
    except (ValueError, RecursionError):  # all of msgspec's errors are ValueErrors
        return None


def _checked(*values: object) -> bool:
    return not unreadable(*values)


def unreadable(*values: object) -> str:
    """Why a reader would refuse a verdict with these values of a hook; empty if it would not."""
    try:
        for value in values:
            if value:
                _check(value, _FIELD_DEPTH)
    except DecodeError as error:
        return str(error)
    except RecursionError:
        return f"nested deeper than {MAX_DEPTH} levels"
    return ""


def _convert(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, dict):
        raise DecodeError(f"expected a map, got {type(value).__name__}")
    version = value.get("v", SCHEMA)
    if not isinstance(version, int) or version < 1:
        raise DecodeError("schema number `v` is not a positive integer")
    try:
        return converted(value, kind)
    except msgspec.ValidationError as error:
        raise DecodeError(f"not a valid {kind.__name__.lower()}: {error}") from error


def _counter() -> Callable[[object], object]:
    """A hook for the unpacker that raises DecodeError when there are too many containers."""
    left = _MAX_CONTAINERS

    def count(container: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise DecodeError(f"more than {_MAX_CONTAINERS} lists and maps")
        return container

    return count


_PLAIN: Final = frozenset({str, int, bool, bytes, type(None)})
"""Types that need no check: checking every value took a tenth of the time to read a request (measured)."""


def _check(value: object, depth: int) -> None:
    """Refuse values of msgpack and JSON that hooks cannot take; containers may be nested `depth` levels deep."""
    if isinstance(value, dict):
        if depth == 0:
            raise _TooDeep(f"nested deeper than {MAX_DEPTH} levels")
        for key, item in value.items():
            if key.__class__ is not str:
                raise DecodeError("a map has a key that is not text")
            if item.__class__ not in _PLAIN:
                _check(item, depth - 1)
    elif isinstance(value, list):
        if depth == 0:
            raise _TooDeep(f"nested deeper than {MAX_DEPTH} levels")
        for item in value:
            if item.__class__ not in _PLAIN:
                _check(item, depth - 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise DecodeError("NaN or infinity")
    elif value.__class__ not in _PLAIN:
        raise DecodeError("extension type")


def _no_constant(name: str) -> float:
    raise DecodeError(f"payload is not JSON: {name} is not a number")


def _as_json(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return msgspec.to_builtins(value)


_JSON: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=_as_json)
"""Created once: with options, `json.dumps` creates an encoder at each call."""

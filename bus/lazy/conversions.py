"""Values of declared types from plain values and bytes, in any thread. Nothing else calls msgspec for this.

msgspec 0.22 reads a type, and those inside it, when something is converted to it for the first time, and makes what it knows
visible before that is complete: two threads that do so at once end the process by a segmentation fault (4 of 40 tries with
eight threads). So each type is read here by one thread, before its first use; after that msgspec needs no lock.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar, overload

import msgspec

T = TypeVar("T")

_reading: Final = threading.RLock()
_read: Final[set[Any]] = set()


def read_type(kind: Any) -> None:
    """Have msgspec read a type and those inside it, if it has not."""
    if kind not in _read:
        with _reading:
            msgspec.json.Decoder(kind)
            _read.add(kind)


def converted(value: Any, kind: type[T], *, strict: bool = True) -> T:
    """A plain value as a `kind`, as `msgspec.convert` does it; raises msgspec.ValidationError."""
    read_type(kind)
    return msgspec.convert(value, kind, strict=strict)


def from_json(raw: bytes | str, kind: type[T]) -> T:
    """JSON as a `kind`; raises msgspec.DecodeError, and its ValidationError for values of other types."""
    read_type(kind)
    return msgspec.json.decode(raw, type=kind)


def from_msgpack(raw: bytes, kind: type[T]) -> T:
    """Msgpack as a `kind`; raises msgspec.DecodeError, and its ValidationError for values of other types."""
    read_type(kind)
    return msgspec.msgpack.decode(raw, type=kind)


@overload
def msgpack_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]: ...


@overload
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]: ...


def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """A decoder of msgpack for a type, or for one of several."""
    with _reading:
        return msgspec.msgpack.Decoder(kind)

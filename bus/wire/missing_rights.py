"""Says which right a Redis user lacks where the server only says that it lacks one.

The server's words are "No permissions to access a key". The keys are tried one by one, with commands that change nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from bus.wire.keys import DECLARED, READ_ONLY, declared

_REFUSED: Final = "permission"
_KEY: Final = "a key"
_KEYS_KEY: Final = "one of the keys"
_NO_FIELD: Final = "fleethook"

Exchange = Callable[[Sequence[tuple[Any, ...]]], Awaitable[list[Any]]]


def is_refused(reply: object) -> bool:
    """Whether a reply says that the user lacks a right."""
    return isinstance(reply, Exception) and _REFUSED in f"{type(reply).__name__} {reply}".lower()


async def explained(exchange: Exchange, user: str, command: Sequence[Any], refusal: Exception) -> Exception:
    """The refusal of a command, with the right that the user lacks; the same class, and the server's words first."""
    text = str(refusal)
    if _KEY in text or _KEYS_KEY in text:
        keys = _keys_of(command)
        missing = await _missing(exchange, keys)
        if not missing and keys:  # a script has others, which it makes by itself
            missing = await _missing(exchange, _every_key(keys[0]))
        what = f"access to {', '.join(missing)}" if missing else f"a right that {command[0]} needs"
    else:
        what = f"+{str(command[0]).lower()}"
    hint = "`fleethook acl` prints the rights of each role"
    return type(refusal)(f"{text} (the user {user or 'default'} lacks {what}; {hint})")


async def _missing(exchange: Exchange, keys: Iterable[str]) -> list[str]:
    """The patterns of those keys that the user may not read or write, each once."""
    names = list(dict.fromkeys(keys))
    asked = [command for name in names for command in (("EXISTS", name), ("HDEL", name, _NO_FIELD))]
    replies = await exchange(asked) if asked else []
    found: dict[str, None] = {}
    to_write: dict[str, None] = {}
    for name, reads, writes in zip(names, replies[::2], replies[1::2], strict=True):
        pattern = _pattern(name)
        read_only = any(fnmatchcase(name.partition("}:")[2], own) for own in READ_ONLY)
        if _is_refused_key(reads):
            found[("%R~" if read_only else "~") + pattern] = None
        elif _is_refused_key(writes):
            (to_write if read_only else found)["~" + pattern] = None
    return list(
        found or to_write
    )  # a user who may only read hook sets lacks their rights only if nothing else is missing


def _is_refused_key(reply: object) -> bool:
    return is_refused(reply) and (_KEY in str(reply) or _KEYS_KEY in str(reply))


def _keys_of(command: Sequence[Any]) -> list[str]:
    """The keys that a command names. For a command that is not known here, its first argument."""
    words = [str(word, "utf-8", "replace") if isinstance(word, bytes) else str(word) for word in command]
    name = words[0].upper()
    if name in {"EVAL", "EVALSHA"}:
        return [word for word in words[3 : 3 + int(words[2])] if word]
    if "STREAMS" in words:
        names = words[words.index("STREAMS") + 1 :]
        return names[: len(names) // 2]
    if name in {"MGET", "EXISTS", "DEL"}:
        return words[1:]
    return words[2:3] if name in {"XGROUP", "XINFO", "OBJECT"} else words[1:2]


def _pattern(key: str) -> str:
    """The key in the form of an ACL rule: its declared pattern in every shard of its namespace."""
    start, _, rest = key.partition("{")
    shard, closed, name = rest.partition("}:")
    known = declared(name)
    return f"{start}{{*}}:{known.pattern if known is not None else name}" if closed and shard else key


def _every_key(one: str) -> list[str]:
    """A name for each declared key, in the namespace of `one`."""
    prefix = one[: one.find("}:") + 2]
    return [prefix + key.pattern.replace("*", "fleethook") for key in DECLARED if key.pattern not in READ_ONLY]

"""The names of keys: declared, in one slot, and nobody's namespace reaches another's."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from bus.errors import ConfigError
from bus.wire.keys import DECLARED, Keys, declared


def test_a_name_begins_with_its_namespace_and_its_hash_tag() -> None:
    keys = Keys("fleet")
    assert keys("reply", "ab") == "fh:fleet:{0}:reply:ab"
    assert keys("requests") == "fh:fleet:{0}:requests"
    assert Keys(shard="7")("due") == "fh:default:{7}:due"


@pytest.mark.parametrize("namespace", ["", "a:b", "x:{1}", "a*", "A", "a b", "a\n", "x" * 41, "{0}"])
def test_a_namespace_cannot_name_anothers_keys(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        Keys(namespace)


def test_every_key_is_declared_once_with_its_end() -> None:
    assert [name for name, count in Counter(key.pattern for key in DECLARED).items() if count > 1] == []
    for key in DECLARED:
        assert key.kind in {"stream", "list", "string", "zset", "hash"}
        assert key.ttl
        assert key.writer
        assert key.reader
        assert re.fullmatch(r"[a-z]+(:[a-z]+)?(:\*)?", key.pattern), key.pattern


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("requests", "requests"),
        ("hookset:current", "hookset:current"),
        ("hookset:17", "hookset:*"),
        ("deliveries:host", "deliveries:*"),
        ("delivery:e1.h", "delivery:*"),
        ("reply:", "reply:*"),
        ("request", None),
        ("hosts:1", None),
        ("", None),
        ("hookset", None),
    ],
)
def test_a_name_finds_its_declaration(name: str, pattern: str | None) -> None:
    found = declared(name)
    assert (found.pattern if found else None) == pattern

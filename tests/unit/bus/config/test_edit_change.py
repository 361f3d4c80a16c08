"""A changed or removed entry of somebody's file: everything else stays as it was written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.config.documents import loads
from bus.config.edit_change import with_values, without_entry
from bus.errors import ConfigError
from tests.support.rows import rows

FILE = """\
# mine
endpoints:
  # the chat
  - id: chat      # by name
    url: "https://a.example/x"   # where
    events: [a, b]
    headers:
      X-One: "1"

  # the log
  - {id: log, url: 'https://b.example/', enabled: false}  # last
hooks: []
"""


def changed(text: str, number: int, **change: Any) -> str:
    """The text with some values of an endpoint changed; None takes one out."""
    before = loads(text, file="fleethook.yaml").value["endpoints"][number]
    wanted = {key: value for key, value in {**before, **change}.items() if value is not None or key not in change}
    return with_values(text, "fleethook.yaml", ("endpoints", number), wanted)


@rows(
    ("number", "change", "old", "new"),
    [
        (0, {"url": "https://c.example/ü"}, '"https://a.example/x"   #', '"https://c.example/ü"   #'),
        (0, {"id": "talk"}, "- id: chat      #", "- id: talk      #"),
        (0, {"events": ["a"]}, "[a, b]", "[a]"),
        (0, {"headers": {"X-Two": "2"}}, 'headers:\n      X-One: "1"\n', 'headers: {X-Two: "2"}\n'),
        (0, {"enabled": False}, 'X-One: "1"\n', 'X-One: "1"\n    enabled: false\n'),
        (0, {"events": None}, "    events: [a, b]\n", ""),
        (0, {"headers": None}, '    headers:\n      X-One: "1"\n', ""),
        (0, {"id": None}, "id: chat      # by name\n    url", "url"),
        (1, {"enabled": None}, ", enabled: false}", "}"),
        (1, {"id": None}, "{id: log, url", "{url"),
        (1, {"enabled": True}, "enabled: false", "enabled: true"),
        (1, {"timeout": 5}, "false}", "false, timeout: 5}"),
    ],
)
def test_one_value_changes(number: int, change: dict[str, Any], old: str, new: str) -> None:
    for newline in ("\n", "\r\n"):
        text = FILE.replace("\n", newline)
        wanted = FILE.replace(old, new).replace("\n", newline)
        assert changed(text, number, **change) == wanted


def test_texts_in_several_lines_and_empty_values() -> None:
    text = "endpoints:\n- id: a\n  description: |\n    one\n    two\n\n  when:\n  url: x\n"
    assert changed(text, 0, description="short") == text.replace("|\n    one\n    two\n", "short\n")
    assert changed(text, 0, when="true && x") == text.replace("when:", 'when: "true && x"')
    assert changed("network: {}\nendpoints: [{}]\n", 0, id="a") == "network: {}\nendpoints: [{id: a}]\n"
    allowed = with_values("network:\n  allow: [a]\n", "f.yaml", ("network",), {"allow": ["a", "localhost:9000"]})
    assert allowed == 'network:\n  allow: [a, "localhost:9000"]\n'


def test_an_entry_goes() -> None:
    first = without_entry(FILE, "fleethook.yaml", "endpoints", 0)
    assert first == FILE[: FILE.index("  - id: chat")] + FILE[FILE.index("\n  # the log") :]
    second = without_entry(FILE, "fleethook.yaml", "endpoints", 1)
    assert second == FILE.replace("  - {id: log, url: 'https://b.example/', enabled: false}  # last\n", "")
    none = without_entry(second, "fleethook.yaml", "endpoints", 0)
    assert loads(none).value == {"endpoints": [], "hooks": []}
    assert without_entry("endpoints: [{id: a}, {id: b}] # so\n", "f", "endpoints", 0) == "endpoints: [{id: b}] # so\n"
    assert without_entry("endpoints: [{id: a}, {id: b}] # so\n", "f", "endpoints", 1) == "endpoints: [{id: a}] # so\n"


def test_json_stays_json() -> None:
    text = '{\n  "endpoints": [\n    {"id": "a", "url": "x"}\n  ],\n  "hooks": []\n}\n'
    after = with_values(text, "fleethook.json", ("endpoints", 0), {"id": "a", "url": "y", "enabled": False})
    assert json.loads(after)["endpoints"] == [{"id": "a", "url": "y", "enabled": False}]
    assert after.endswith('"hooks": []\n}\n')
    assert json.loads(without_entry(text, "fleethook.json", "endpoints", 0)) == {"endpoints": [], "hooks": []}


@pytest.mark.parametrize("text", ["endpoints: [&a {id: b}, *a]\n", "endpoints:\n  - &x {id: b}\nother: *x\n"])
def test_what_takes_a_person_is_said_and_left_alone(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be edited here"):
        changed(text, 0, id="c")


_words = st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from("äß😀\n"), max_size=8)
_plain = st.one_of(
    _words,
    st.integers(-9, 9),
    st.booleans(),
    st.lists(_words, max_size=2),
    st.dictionaries(_words.filter(bool), _words, max_size=2),
)
_names = st.sampled_from(["id", "url", "events", "headers", "when"])
_entries = st.dictionaries(_names, _plain, min_size=1, max_size=5)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _block(entries: list[dict[str, Any]]) -> str:
    """The list as people write it: one key a line, values in YAML's other forms."""
    lines = ["endpoints:"]
    for entry in entries:
        for number, (key, value) in enumerate(entry.items()):
            lead = "  - " if number == 0 else "    "
            if isinstance(value, list) and value:
                lines += [f"{lead}{key}:  # list", *(f"      - {_text(one)}" for one in value)]
            elif isinstance(value, dict) and value:
                lines += [f"{lead}{key}:", *(f"      {_text(k)}: {_text(v)}" for k, v in value.items()), ""]
            else:
                lines.append(f"{lead}{key}: {_text(value)}  # {number}")
    return "\n".join([*lines, "", "# tail", "hooks: []", ""])


@given(st.lists(_entries, min_size=1, max_size=3), st.data())
def test_whatever_is_changed_the_rest_says_the_same(entries: list[dict[str, Any]], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(entries) - 1))
    wanted = data.draw(_entries)
    for text in (_block(entries), f"endpoints: {_text(entries)}\nhooks: []\n"):
        after = with_values(text, "fleethook.yaml", ("endpoints", number), wanted)
        assert loads(after).value == {"endpoints": [*entries[:number], wanted, *entries[number + 1 :]], "hooks": []}
        less = without_entry(text, "fleethook.yaml", "endpoints", number)
        assert loads(less).value == {"endpoints": [*entries[:number], *entries[number + 1 :]], "hooks": []}

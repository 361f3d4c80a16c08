"""Edits of somebody's JSON: the value changes, and no character that has nothing to do with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.config.edit_json import read_text, rewrite
from bus.errors import ConfigError

COMMENTED = """{
  // how it looks
  "ui": {"theme": "x // no comment"}, // the theme
  "hooks": {
    "BeforeTool": [
      {"hooks": [{"command": "mine"}]} // mine
    ]
  } /* the end
  of it */
}
"""
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
OBJECTS: Any = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
DUMPS: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, indent=2) + "\n",
    lambda value: json.dumps(value, indent="\t", ensure_ascii=False).replace("\n", "\r\n"),
    lambda value: " " + json.dumps(value, separators=(",", ":")) + "\n\n",
]


def _said(value: object) -> str:
    return json.dumps(value, sort_keys=True)  # to Python, 1 and true are equal


@pytest.mark.req("B-08")
@given(OBJECTS, OBJECTS, st.sampled_from(DUMPS))
def test_rewriting_a_text_gives_the_new_value_and_keeps_the_same_one(
    old: dict[str, Any], new: dict[str, Any], dump: Callable[[Any], str]
) -> None:
    text = dump(old)
    assert rewrite(text, old) == text
    assert _said(json.loads(rewrite(text, old | new))) == _said(old | new)
    assert _said(json.loads(rewrite(text, new))) == _said(new)


@pytest.mark.req("B-08")
@given(OBJECTS, OBJECTS)
def test_comments_stand_between_any_two_characters(old: dict[str, Any], new: dict[str, Any]) -> None:
    """A value may have comments anywhere between its parts, and edits still give exactly the new value."""
    text = json.dumps(old, indent=1, separators=(" /* , */ , // ]\n", ": // {\n"))
    text, value = read_text(text.encode(), file="f", comments=True)
    assert _said(value) == _said(old)
    for wanted in (old | new, new):
        assert _said(read_text(rewrite(text, wanted).encode(), file="f", comments=True)[1]) == _said(wanted)


def test_comments_stay_where_they_were() -> None:
    text, value = read_text(COMMENTED.encode(), file="f", comments=True)
    more = copy.deepcopy(value)
    more["hooks"]["BeforeTool"].append({"hooks": [{"command": "ours"}]})
    more["hooks"]["AfterTool"] = [1]
    longer = rewrite(text, more)
    assert read_text(longer.encode(), file="f", comments=True)[1] == more
    for comment in ("// how it looks\n", "}, // the theme\n", ", // mine\n", "/* the end\n  of it */\n}"):
        assert comment in longer
    assert rewrite(longer, value) == text
    with pytest.raises(ConfigError, match="f:2:3: not valid JSON"):
        read_text(COMMENTED.encode(), file="f")


def test_only_the_part_that_changed_is_written_anew() -> None:
    text = '{ "a" : [1,  2, {"x":1e0, "y" : "é"}], "b":{ } }'
    wanted = json.loads(text)
    wanted["a"][2]["y"] = True
    wanted["b"]["c"] = [None]
    assert rewrite(text, wanted) == '{ "a" : [1,  2, {"x":1e0, "y" : true}], "b":{"c": [null]} }'
    del wanted["a"][0]
    wanted["a"].append(3)
    assert rewrite(text, wanted) == '{ "a" : [2, {"x":1e0, "y" : true}, 3], "b":{"c": [null]} }'

"""YAML and JSON with places: what is read, what is refused, and where the error points."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.config.documents import DEPTH_LIMIT, NODE_LIMIT, TEXT_LIMIT, load, loads
from bus.errors import ConfigError
from tests.support.rows import rows


@rows(
    ("text", "value"),
    [
        ("on: yes", {"on": "yes"}),  # YAML 1.1 would make True of both
        ("off: no\nyes: on", {"off": "no", "yes": "on"}),
        ("a: true\nb: False", {"a": True, "b": False}),
        ("a: 12:30\nb: 127.0.0.1:9000\nc: 2026-01-01", {"a": "12:30", "b": "127.0.0.1:9000", "c": "2026-01-01"}),
        ("a: 010\nb: 0x1f\nc: 0o17\nd: 1_000", {"a": 10, "b": 31, "c": 15, "d": "1_000"}),
        ("a: 1e3\nb: .5\nc: -2.", {"a": 1000.0, "b": 0.5, "c": -2.0}),
        ("a:\nb: ~\nc: null\nd: 'null'", {"a": None, "b": None, "c": None, "d": "null"}),
        ("a: &x [1, {b: 2}]\nc: *x", {"a": [1, {"b": 2}], "c": [1, {"b": 2}]}),
        ("\ufeffa: 1", {"a": 1}),
        ('{"a":1,"b":[true,null]}', {"a": 1, "b": [True, None]}),
        ("", None),
        ("# nothing\n", None),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    assert loads(text).value == value


@rows(
    ("text", "line", "column", "says"),
    [
        ("a: 1\nb: 2\na: 3", 3, 1, "second time; the first is in line 1"),
        ("1: x", 1, 1, "the key 1 is not text"),
        ("true: x", 1, 1, "not text"),
        ("? [a]\n: b", 1, 3, "a key has to be plain text"),
        ("a: &x x\n*x : b", 2, 1, "a key has to be plain text"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, 3, "merge keys"),
        ("a: !!python/object/apply:os.system [x]", 1, 4, "tags"),
        ("a: !x 1", 1, 4, "tags"),
        ("a:\n  - *gone", 2, 5, "anchored as &gone"),
        ("- &a [*a]", 1, 7, "anchored as &a"),
        ("a: .nan", 1, 4, "not a number that can be used"),
        ("a: 1e999", 1, 4, "not a number that can be used"),
        ("a: " + "9" * 5000, 1, 4, "too large"),
        ("a: 9223372036854775808", 1, 4, "too large"),
        (r'a: "git add .*\.env"', 1, 15, "put a regular expression in single quotes"),
        ("a: b: c", 1, 5, "put a text with `: ` in quotes"),
        ("a:\n\t- b", 2, 1, "indent with spaces"),
        ("a: 1\n---\nb: 2", 2, 1, "more than one document"),
        ("a: 'open\n", 2, 1, "unexpected end"),
        ("a: 1\nb: x\x00y", 2, 5, "U+0000"),
        ("a: \ud800", 1, 4, "U+D800"),
        ("[" * 100_000, 1, DEPTH_LIMIT + 1, "nested deeper"),  # the C composer dies of this one
        ("- " * 1000 + "x", 1, 2 * DEPTH_LIMIT + 1, "nested deeper"),
        ("[" + "x," * (NODE_LIMIT + 1) + "]", 1, 2 * NODE_LIMIT, "values (aliases written out)"),
    ],
)
def test_what_is_refused_has_its_place(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text, file="fleethook.yaml")
    error = caught.value
    assert (error.file, error.line, error.column) == ("fleethook.yaml", line, column)
    assert says in str(error)
    assert str(error).startswith(f"fleethook.yaml:{line}:{column}: ")
    assert len(str(error)) < 300


def test_an_alias_bomb_is_counted_and_not_expanded() -> None:
    rows = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    rows += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(ConfigError, match="aliases written out"):
        loads("\n".join(rows))


def test_aliases_do_not_get_deeper_than_the_limit() -> None:
    rows = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, DEPTH_LIMIT + 5)]
    with pytest.raises(ConfigError, match="nested deeper"):
        loads("\n".join(rows))


def test_places_of_values_and_keys() -> None:
    document = loads("hooks:\n  - on: x\n    timeout: 3\n  - {on: y, env: {A: b}}\n")
    assert document.place(("hooks", 0, "timeout")) == (3, 14)
    assert document.place(("hooks", 0, "timeout"), key=True) == (3, 5)
    assert document.place(("hooks", 1)) == (4, 5)
    assert document.place(("hooks", 1, "env", "A"), key=True) == (4, 19)
    assert document.place(("hooks", 1, "gone", "deeper")) == (4, 5)
    assert document.place() == (1, 1)


def test_a_file_has_to_be_a_regular_small_utf8_one(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text("a: ä")
    assert load(good).value == {"a": "ä"}
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("a: 1\nbü: ä".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.yaml:2:2: this is not UTF-8"):
        load(latin)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (TEXT_LIMIT + 1))
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        load(large)
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="not a regular file"):
        load(pipe)
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match=r"not a regular file|Is a directory"):
        load(tmp_path)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_json, st.sampled_from([None, 1, "\t"]))
def test_whatever_json_writes_is_read_back(value: Any, indent: int | str | None) -> None:
    assert loads(json.dumps(value, indent=indent), file="x.json").value == value


_yamlish = st.lists(
    st.sampled_from(
        [
            "\n",
            "\n  ",
            "\n    ",
            "- ",
            ": ",
            "a",
            "on",
            "hooks",
            "guards",
            "settings",
            "endpoints",
            "{",
            "}",
            "[",
            "]",
            ",",
            "&x ",
            "*x",
            "'",
            '"',
            "|",
            ">",
            "?",
            "!",
            "!!int ",
            "%",
            "---",
            "...",
            "#",
            "\t",
            "\\u12",
            "1",
            "-1",
            "1e5",
            "~",
            "true",
            "<<",
            "\x85",
            "\u2028",
            "é",
        ]
    )
    | st.text(max_size=3),
    max_size=40,
).map("".join)


@given(_yamlish)
def test_random_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    with suppress(ConfigError):
        assert min(loads(text, file="x.yaml").place()) >= 1

"""One more entry in somebody's file: everything else stays as it was written, and what cannot be edited is said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus.config.documents import loads
from bus.config.edit_add import flow, replace_file, with_entry
from bus.errors import ConfigError
from tests.support.rows import rows

NEW = "~/.pigo/config.json"


@rows(
    ("before", "after"),
    [
        ("", "import:\n  - NEW\n"),
        ("# mine\n", "# mine\n\nimport:\n  - NEW\n"),
        ("hooks: []", "hooks: []\n\nimport:\n  - NEW\n"),
        ("import:\n", "import:\n  - NEW\n"),
        ("import: []\n", "import: [NEW]\n"),
        ('import: [a, \'b]\', "c\\"]"]  # so\n', 'import: [a, \'b]\', "c\\"]", NEW]  # so\n'),
        ("import: [\n  a,  # the ] first\n  {path: b},\n]\n", "import: [\n  a,  # the ] first\n  {path: b}, NEW\n]\n"),
        ("import:\n- a\n", "import:\n- a\n- NEW\n"),
        (
            "import:\n    - a\n    - path: b\n      enabled: false\n",
            "import:\n    - a\n    - path: b\n      enabled: false\n    - NEW\n",
        ),
        (
            "import:\n  - a  # first\n\n# What runs\nhooks:\n  - {on: x, command: y}\n",
            "import:\n  - a  # first\n  - NEW\n\n# What runs\nhooks:\n  - {on: x, command: y}\n",
        ),
        ("import:\r\n  - a\r\nversion: 1\r\n", "import:\r\n  - a\r\n  - NEW\r\nversion: 1\r\n"),
        ("version: 1\nimport:\n  - a", "version: 1\nimport:\n  - a\n  - NEW\n"),
    ],
)
def test_the_rest_stays_as_it_was_written(before: str, after: str) -> None:
    assert with_entry(before, "fleethook.yaml", "import", NEW) == after.replace("NEW", NEW)


def test_json_stays_json() -> None:
    assert json.loads(with_entry("", "fleethook.json", "import", NEW)) == {"import": [NEW]}
    edited = with_entry('{\n  "version": 1,\n  "import": ["a"]\n}\n', "fleethook.json", "import", NEW)
    assert edited.startswith('{\n  "version": 1,\n')
    assert json.loads(edited)["import"] == ["a", NEW]


@pytest.mark.parametrize(
    "text", ["import: a\n", "- a\n", "import: {a: b}\n", '{"import": 3}', "import: [\n", "import: [\n  a  # here\n]"]
)
def test_what_cannot_be_edited_is_said_and_left_alone(text: str) -> None:
    with pytest.raises(ConfigError, match=r"fleethook\.yaml"):
        with_entry(text, "fleethook.yaml", "import", NEW)


_texts = st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from("äß€😀"), max_size=12)
_values = st.recursive(
    st.one_of(_texts, st.integers(-9, 9), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=6,
)


@given(_values)
@example({"0E0": ".inf"})
@example(["1_0", "-.5", "..", "0x1F"])
def test_what_is_written_in_one_line_is_read_back(value: Any) -> None:
    assert loads(f"- {flow(value)}\n").value == [value]


def test_a_file_is_replaced_in_one_step_behind_its_link(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "real.yaml", tmp_path / "fleethook.yaml"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    seen: list[tuple[str, str, int]] = []
    replace_file(
        link, "new", before=lambda part: seen.append((part.read_text(), real.read_text(), part.stat().st_mtime_ns))
    )
    assert seen == [("new", "old", real.stat().st_mtime_ns)], "called with the whole content, before it is in place"
    assert (real.read_text(), link.is_symlink(), real.stat().st_mode & 0o777) == ("new", True, 0o640)
    replace_file(tmp_path / "made" / "new.yaml", "x")
    assert (tmp_path / "made" / "new.yaml").stat().st_mode & 0o777 == 0o600
    assert os.listdir(real.parent) == ["real.yaml"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        replace_file(tmp_path / "file" / "below.yaml", "x")

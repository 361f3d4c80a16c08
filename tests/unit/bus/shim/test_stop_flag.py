"""A stop's flag on the host: what is damaged, or cannot be written, costs neither the call's record nor files."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from bus.shim.stop_flag import HEADER, answer_of, keep

pytestmark = pytest.mark.req("X-12")

CALL = SimpleNamespace(fields=[b"id", b"e1", b"source", b"claude", b"event", b"PreToolUse"])
GOOD = HEADER + b"\nevent\tPreToolUse\t2\t\t6e6f\n"


@pytest.mark.parametrize("row", [b"x\t\t6e6f", b"2\tzz\t", b"2\t\t\xff", b"2"])
def test_a_damaged_flag_is_no_answer_and_no_error(tmp_path: Path, row: bytes) -> None:
    flag = tmp_path / "claude.stop"
    flag.write_bytes(GOOD)
    assert answer_of(str(flag), CALL) == (2, b"", b"no")
    flag.write_bytes(HEADER + b"\nevent\tPreToolUse\t" + row + b"\n")
    assert answer_of(str(flag), CALL) is None


def test_a_flag_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    flag = tmp_path / "claude.stop"
    flag.mkdir()
    with pytest.raises(OSError, match="directory"):
        keep(str(flag), GOOD, 0)
    assert os.listdir(tmp_path) == ["claude.stop"]

"""SQL files that a database client reads: their text decides where they are at hand, else their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bus.matching.facts.sql_files import destroyed_by_files
from bus.matching.paths import Place
from bus.shell import commands
from bus.shell.words import shown

pytestmark = pytest.mark.req("X-07", "X-09")


def _destroyed(line: str, folder: Path, *, here: bool = True) -> set[str]:
    place = Place(str(folder), str(folder), "/home/dev", False, here)
    found: set[str] = set()
    for command in commands(line).items:
        texts = [shown(text) for text in (*command.words, command.stdin or "")]
        found |= destroyed_by_files(command, texts, place)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "psql -f a.sql app",
        "cat a.sql | psql app",
        "psql app < a.sql",
        "mysql app -e 'source a.sql'",
        "sqlite3 app.db '.read a.sql'",
        "docker exec -i db psql -U app < a.sql",
    ],
)
def test_the_text_of_a_file_decides_on_the_events_own_host(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\nDROP TABLE users;\n")
    assert _destroyed(line, tmp_path) == {"table"}
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    assert _destroyed(line, tmp_path) == set()


def test_a_name_decides_where_the_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "drop_all.sql").write_text("SELECT 1;\n")
    assert _destroyed("psql -f drop_all.sql app", tmp_path) == set()
    assert _destroyed("psql -f drop_all.sql app", tmp_path, here=False) == {"table"}
    assert _destroyed("psql -f missing/teardown.sql app", tmp_path) == {"table"}
    assert _destroyed("psql -f missing/schema.sql app", tmp_path) == set()


def test_a_pipe_or_a_large_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.sql")
    assert _destroyed("psql -f a.sql app", tmp_path) == set()
    (tmp_path / "b.sql").write_text("DROP TABLE users;" + " " * 100_000)
    assert _destroyed("psql -f b.sql app", tmp_path) == set()

"""What programs print that hand on the output of others, or print the same everywhere."""

from __future__ import annotations

import pytest

from bus.shell import commands

pytestmark = pytest.mark.req("X-09")


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('rm -rf "$(brew --prefix)/Cellar"', "/opt/homebrew/Cellar"),
        ('rm -rf "$(go env GOPATH)"', "~/go"),
        ("find /srv -name x | xargs -n1 dirname | sort -u | xargs rm -rf", "/srv"),
        ("sudo find /srv -name x | xargs rm -rf", "/srv/x"),
        ("ls | sed 's|^|/srv/|' | xargs rm -rf", "/srv/*"),
        ("ls build | sed 's|^|build/|' | xargs rm -rf", "build/$…"),
        ("awk '{print \"/home/\"$1}' users | xargs rm -rf", "/home/$…"),
    ],
)
def test_a_path_that_a_pipeline_puts_together_is_read(line: str, path: str) -> None:
    assert [one.line for one in commands(line).items if one.program == "rm"] == [f"rm -rf {path}"]


def test_sql_that_a_framework_prints_is_the_input_of_what_follows() -> None:
    last = commands("python manage.py sqlflush | psql app").items[-1]
    assert last.program == "psql"
    assert "TRUNCATE" in (last.stdin or "")

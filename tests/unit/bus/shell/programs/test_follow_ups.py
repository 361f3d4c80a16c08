"""What several commands of a line do together: what is moved and then deleted, and what is searched and then killed."""

from __future__ import annotations

import pytest

from bus.shell import commands

pytestmark = pytest.mark.req("X-09")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mv ~/work /tmp/trash && rm -rf /tmp/trash", "rm -r ~/work"),
        ("mv /srv/a /srv/b /tmp/old/; rm -rf /tmp/old/*", "rm -r /srv/a /srv/b"),
        ("mkdir -p /tmp/x\nmv -f /etc/nginx /tmp/x/n\nrm -rf /tmp/x", "rm -r /etc/nginx"),
    ],
)
def test_a_deleted_move_deletes_what_was_moved(line: str, expected: str) -> None:
    assert expected in [one.line for one in commands(line).items]


@pytest.mark.parametrize("line", ["rm -rf /tmp/x; mv ~/a /tmp/x", "mv ~/a /tmp/ab && rm -rf /tmp/a", "mv a b"])
def test_another_delete_does_not(line: str) -> None:
    assert "rm -r ~/a" not in [one.line for one in commands(line).items]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kill -9 $(pgrep -f postgres)", "pkill -9 -f postgres"),
        ("pgrep -x mysqld | xargs kill", "pkill mysqld"),
        ("ps aux | grep '[m]ysqld' | awk '{print $2}' | xargs kill -9", "pkill -9 mysqld"),
    ],
)
def test_a_kill_of_what_was_searched_is_one_by_name(line: str, expected: str) -> None:
    assert expected in [one.line for one in commands(line).items]

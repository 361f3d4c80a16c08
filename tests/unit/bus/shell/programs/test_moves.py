"""What is moved away and then deleted where it is counts as deleted where it was."""

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

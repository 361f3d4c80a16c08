"""The variables in the configuration of Gobby's plugins."""

from __future__ import annotations

import pytest

from bus.hookfiles.gobby_variables import expanded, variables_in

ENVIRONMENT = {"NAME": "ops", "EMPTY": "", "COUNT": "3"}


@pytest.mark.req("G-11", "G-13")
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("#${NAME}", "#ops"),
        ("${MISSING}", "${MISSING}"),
        ("${MISSING:-x}-${NAME:-y}", "x-ops"),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY}", ""),
        ("${COUNT}", 3),
        ("${MISSING:-true}", True),
        ("n${COUNT}", "n3"),
        ([{"a": "${NAME}"}, 5], [{"a": "ops"}, 5]),
    ],
)
def test_variables_are_replaced_as_gobby_does(written: object, read: object) -> None:
    assert expanded(written, ENVIRONMENT) == read


def test_the_names_are_known_before() -> None:
    assert list(variables_in({"a": ["${B:-c}", {"d": "${E} ${F}"}], "g": 1})) == ["B", "E", "F"]

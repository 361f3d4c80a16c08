"""The table of needles that is shipped with the guard packs."""

from __future__ import annotations

import pytest

from bus.hooksets.guards import load_pack, packs
from bus.hooksets.guards.needle_table import table
from bus.hooksets.sieve.sieve import asked_patterns
from bus.matching.needles import computed_needles, needles_of, table_key, tabled

FRESH = 0.95
"""The least share of the packs' expressions that the table has. Those of a changed rule are worked out at each start."""


@pytest.mark.req("X-14")
def test_the_table_has_nearly_all_expressions_of_the_packs() -> None:
    asked = table()
    assert len(asked.keys() & tabled().keys()) >= FRESH * len(asked), "the guard packs have changed: run `make docs`"


@pytest.mark.req("X-07")
def test_what_is_read_from_the_table_is_what_the_expressions_say() -> None:
    asked = asked_patterns([hook.rule for name in packs() for hook in load_pack(name).rules if hook.rule is not None])
    read = {one for one in asked if table_key(*one) in tabled()}
    assert read
    assert [one for one in read if needles_of([one[0]], one[1]) != computed_needles(*one)] == []

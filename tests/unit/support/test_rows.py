"""A table of cases as one test: none is left out, and each that fails is named."""

from __future__ import annotations

import inspect

import pytest

from tests.support.rows import rows


def test_every_case_is_tried_and_each_that_fails_is_named() -> None:
    tried = []

    @rows(("number", "square"), [(1, 1), (2, 5), (3, 9), pytest.param(4, 15, id="four")])
    def squares(number: int, square: int) -> None:
        tried.append(number)
        assert number * number == square, f"{number} squared"

    with pytest.raises(AssertionError) as failed:
        squares()  # type: ignore[call-arg]  # the table has the cases
    assert tried == [1, 2, 3, 4]
    text = str(failed.value)
    assert text.startswith("2 of 4 cases failed:")
    assert "squares[2-5]" in text
    assert "2 squared" in text
    assert "squares[four]" in text
    assert "squares[1-1]" not in text


def test_tables_in_tables_are_all_pairs_and_fixtures_stay() -> None:
    tried = []

    @rows("one", "ab", ids=str.upper)
    @rows("other", ["x", "y"], ids=["first", "second"])
    def pairs(one: str, other: str, tmp_path: str) -> None:
        tried.append((one, other, tmp_path))
        assert (one, other) != ("b", "y")

    assert list(inspect.signature(pairs).parameters) == ["tmp_path"]
    with pytest.raises(AssertionError, match=r"(?s)pairs\[B\].*pairs\[second\].*'y'"):
        pairs(tmp_path="p")  # type: ignore[call-arg]  # as above
    assert tried == [("a", "x", "p"), ("a", "y", "p"), ("b", "x", "p"), ("b", "y", "p")]


def test_a_case_that_is_a_tuple_is_one_value_where_there_is_one_name() -> None:
    tried = []

    @rows("pair", [(1, 2), (3, 4)])
    def whole(pair: tuple[int, int]) -> None:
        tried.append(pair)

    whole()  # type: ignore[call-arg]  # as above
    assert tried == [(1, 2), (3, 4)]


def test_a_table_without_cases_or_with_a_wrong_name_is_refused() -> None:
    with pytest.raises(AssertionError, match="proves nothing"):
        rows("one", [])
    with pytest.raises(AssertionError, match="takes"):

        @rows("other", [1])
        def test(one: int) -> None:
            raise AssertionError(one)

"""Several patterns in one expression: what is found, and which of them is named as wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.errors import PatternError
from bus.matching.regexes import LiteralSearch, compile_alternatives, compile_regex, is_found, whole_characters
from tests.support.examples import examples

TEXTS = ("", "a", "ab", "a)b", "[x]", "A+B", "x\ny", "\\", "(")


@pytest.mark.req("X-14")
@pytest.mark.parametrize(
    "wrong",
    ["a)(b", "a)b(", "(a", "a)", "[a", "[]", "*a", "a\\", "(?i", "(?=a)", "a{2000}", "\\Qa", "x" * 2001, "\\p{No"],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_wrong_pattern_among_others_is_as_wrong_as_alone(wrong: str, place: int) -> None:
    patterns = ["one", "(two|[)]|\\))"]
    patterns.insert(place, wrong)
    try:
        compile_regex(wrong)
    except PatternError as alone:
        with pytest.raises(PatternError, match=re.escape(str(alone))):
            compile_alternatives(patterns)
    else:
        assert is_found(compile_alternatives(patterns), "one")


@pytest.mark.req("X-14")
@pytest.mark.parametrize(
    "pattern", ["[])]", "[^]a]", "[[:alpha:]]b", "\\Qa)b\\E", "(?i)a\\+b", "[\\])]", "\\(", "(?s)x.y", "\\\\"]
)
def test_a_pattern_finds_among_others_what_it_finds_alone(pattern: str) -> None:
    alone, among = compile_regex(pattern), compile_alternatives(["none", pattern, "(?:never)"])
    assert [is_found(among, text) for text in TEXTS] == [alone.search(text) is not None for text in TEXTS]


@given(text=st.text(st.sampled_from("abc-漢\ud83dé"), max_size=30) | st.text(max_size=10))
def test_a_search_for_literals_finds_what_a_search_for_each_finds(text: str) -> None:
    literals = ("a", "ab", "abc", "bc", "c-", "-", "aa", "b" * 20, ".", "[a]")
    assert LiteralSearch(literals).find(text) == {one for one in literals if one in text}
    assert LiteralSearch(()).find(text) == frozenset()


@pytest.mark.req("X-09")
@settings(max_examples=examples(200), deadline=None)
@given(st.text(st.sampled_from("a漢\ufeff\ufffd\ud83d\ud83e\ude00\udfff\U0001f600\U0010ffff"), max_size=12))
def test_characters_are_made_whole_as_the_codec_does_it(text: str) -> None:
    assert whole_characters(text) == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

"""Lines of plain words, read without a syntax tree, give what the tree gives: on every line of the corpora and on made ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus import shell
from bus.hooksets.guards.corpus import read_corpus
from bus.shell import Commands, _read, reader
from bus.shell.budget import FULL
from bus.shell.inner import names
from bus.shell.plain_lines import plain_statements
from tests.support.examples import examples, sample
from tests.support.rows import rows

CORPORA = [path for part in ("development", "fleethook-itself") for path in Path("tests/corpora", part).glob("*.jsonl")]
WORDS = [
    *sorted(
        names(
            "a b rm -rf / ~ ~/x . ./x cd .. - -- x=1 --y=z =a == =~ 1 2 10 -5 '' \"\" 'a'b b\"c\" *.py a? ^ a^b % @ +x : :x a,b"
            " if in time fi done for sudo xargs sh bash -c curl -o i.sh https://x.y/z tee cat cp mv python3 -m x.py eval"
            " alias ll='rm ll git rev-parse --show-toplevel find -name printf -v env set shift read X ssh host docker run exec"
            " pushd popd mktemp > >> 2> 2>&1 &> >&2 >x 2>/dev/null < && || | ; & ;; |& 'a~' '~a'"
            " x'~' function export unset source"
            " $X \\ # {a,b} ( ) ! é ' \""
            " {} {}/x x{} @{1} stash@{2} {12} {a} \\; \\( \\) a\\; 'a'\\; X=1 X=a/b Y=b:c-d GIT_DIR=.git"
            " x=~/y z=-1 X=a=b X= GIT_EDITOR=rm"
        )
    ),
    "'q r'",
    "'rm x'",
    '"rm x"',
    "'cd /; rm x'",
    '"$X y"',
    "> f",
]


@pytest.fixture(scope="module")
def corpus_lines() -> list[str]:
    """The shell lines of both corpora whose lines may be read."""
    events = [one.event for path in CORPORA for one in read_corpus(path.read_bytes(), path.name)[0]]
    return sorted({event.input["command"] for event in events if isinstance(event.input.get("command"), str)})


def by_tree(text: str) -> Commands:
    """What a line gives where no text is read without a tree."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (shell, reader):
            patch.setattr(module, "plain_statements", lambda _text: None)
        return _read(text, FULL)


@pytest.mark.req("X-09")
def test_a_corpus_line_gives_what_its_tree_gives(corpus_lines: list[str]) -> None:
    plain = [line for line in corpus_lines if plain_statements(line) is not None]
    assert len(plain) > len(corpus_lines) // 2
    for line in sample(plain):
        assert _read(line, FULL) == by_tree(line), line


@pytest.mark.req("X-09")
@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(WORDS),
    st.lists(
        st.tuples(st.sampled_from(["", " ", " ", " ", "  ", "\n", " && ", " | "]), st.sampled_from(WORDS)), max_size=9
    ),
)
def test_a_made_line_gives_what_its_tree_gives(first: str, parts: list[tuple[str, str]]) -> None:
    line = first + "".join(blank + word for blank, word in parts)
    assert _read(line, FULL) == by_tree(line)


@rows(
    ("text", "count"),
    [
        ("git status", 1),
        ("cd src && pytest -q 2>&1 | tail -5", 2),  # to the grammar both are piped into tail
        ("pytest -q 2>&1 | tail -5", 2),
        ("git commit -m 'a (b) $c' && git push", 2),
        ("a > x.log; b || c", 3),
        ("a\n\nb 2>/dev/null", 2),
        ("a | b | c && d", None),  # to the grammar a is piped into d
        ("a | b | c\nd", None),
        ("a | b | c; d", 4),
        ("if a", None),
        ("x=1 a", 1),
        ("x=1", None),
        ("find . -name a -exec rm {} \\;", 1),
        ("a $x", None),
        ("a;", None),
        ("a &", None),
        ("a '~/x'", None),
        ("a {b,c}", None),
        ("a > f b", None),
        (" a ", 1),
        ("", None),
    ],
)
def test_what_is_a_line_of_plain_words(text: str, count: int | None) -> None:
    statements = plain_statements(text)
    found = statements and sum(len(pipeline) for statement in statements for pipeline in statement)
    assert found == count


def test_it_takes_linear_time() -> None:
    started = time.process_time()
    for text in ("a" * 2000 + "(", "a'b'" * 500 + "$", "a " * 1000 + "'", '"a" ' * 500 + "(", "a" + " " * 2000 + "("):
        assert plain_statements(text) is None
    assert time.process_time() - started < 0.1

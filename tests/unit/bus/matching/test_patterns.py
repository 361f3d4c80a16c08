"""Which hooks fit an event: the patterns, the tool matchers, and an index that says the same as looking at each hook."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.errors import PatternError
from bus.events import Event
from bus.matching import patterns as matchers
from bus.matching.patterns import Index, Pattern, ToolMatcher, check_tool, parse_pattern, parse_tool
from bus.tools import tool_names
from tests.support.examples import examples
from tests.support.rows import rows


class Entry(NamedTuple):
    """As much of a hook as the index sees."""

    id: str
    tool: str = ""


def found(on: str, event: Event, tool: str = "") -> bool:
    """Whether a hook on `on` fits the event."""
    return bool(Index([(Entry("x", tool), [on])]).find(event))


def call(tool: str = "bash", native_tool: str = "", kind: str = "tool:pre_execute", **more: Any) -> Event:
    """A tool call."""
    return Event(type=kind, tool=tool, native_tool=native_tool, **more)


@pytest.mark.req("F-04")
@rows(
    ("on", "fits", "fits_not"),
    [
        ("tool:pre_execute", [call(), call("write"), call("")], [call(kind="tool:post_execute")]),
        ("tool:*", [call(), call(kind="tool:error")], [call("", kind="session:start")]),
        ("tool:pre_execute:bash", [call(), call("", "Bash"), call("BASH")], [call("write"), call("")]),
        ("tool:pre_execute:*", [call(), call("")], [call(kind="tool:error")]),
        ("tool:*:write", [call("write", kind="tool:error")], [call(), call("write", kind="session:start")]),
        ("tool:*:mcp__*", [call("mcp__git__push")], [call("mcp_"), call("x_mcp__a")]),
        ("tool:*:*_file", [call("read_file"), call("Read_File")], [call("read_files")]),
        ("session:start, tool:*:write", [call("write"), call("", kind="session:start")], [call()]),
        ("*", [call(), call("", kind="acme:x"), call("", kind="notification")], []),
        ("notification", [call("", kind="notification")], [call()]),
        ("claude:Stop", [call("", kind="agent:stop", source="claude", native="Stop")], [call(source="claude")]),
        ("claude-code:Stop", [call("", kind="agent:stop", source="claude", native="Stop")], []),
        ("acme:deploy", [call("", kind="acme:deploy"), call("", kind="x", source="acme", native="deploy")], [call()]),
        ("acme:*", [call("", kind="acme:deploy")], [call()]),
    ],
)
def test_patterns(on: str, fits: list[Event], fits_not: list[Event]) -> None:
    assert [event for event in fits if not found(on, event)] == []
    assert [event for event in fits_not if found(on, event)] == []


@pytest.mark.req("F-18")
@rows(
    ("on", "says"),
    [
        ("", "is not a pattern"),
        ("tool:pre_execute,", "is not a pattern"),
        ("tool pre", "is not a pattern"),
        ("tool:pre_execute\n", None),
        ("tool:(bash)", "is not a pattern"),
        ("tool::bash", "has an empty part"),
        ("tool:pre_exec", "no event type is called 'tool:pre_exec'; did you mean 'tool:pre_execute'?"),
        ("tol:pre_execute", "did you mean 'tool:pre_execute'?"),
        ("tool:nothing_like_it", "no event type is called"),
        ("PreToolUse", "an agent's own event is written <agent>:<its name>"),
        ("sesion:*", "fits no event type"),
        ("nothing*", "fits no event type"),
    ],
)
def test_a_bad_pattern_has_its_own_message(on: str, says: str | None) -> None:
    """A pattern that is wrong never matches everything: it is refused, and the text says what was meant."""
    if says is None:
        assert parse_pattern(on) == (Pattern("tool:pre_execute", ""),), "space around a pattern means nothing"
        return
    with pytest.raises(PatternError) as caught:
        parse_pattern(on)
    assert says in str(caught.value)


@pytest.mark.req("F-18")
@pytest.mark.parametrize("tool", ["(", "a{2000}{2000}", "|", " ", "x" * 3000 + "("])
def test_a_bad_tool_matcher_is_refused(tool: str) -> None:
    with pytest.raises(PatternError):
        check_tool(tool)


@rows(
    ("matcher", "names", "fits"),
    [
        ("", ["anything"], True),
        ("*", [], True),
        ("bash", [], False),
        ("Bash", ["bash"], True),
        ("bash|write", ["write"], True),
        ("bash, write", ["write"], True),
        ("bash|", ["write"], False),
        ("bas", ["bash"], False),
        ("^ba", ["bash"], True),
        ("mcp__.*__push", ["mcp__git__push"], True),
        ("mcp__.*", ["bash"], False),
        ("Edit|Write|.*Notebook.*", ["NotebookEdit"], True),
    ],
)
def test_tool_matchers(matcher: str, names: list[str], fits: bool) -> None:
    assert parse_tool(matcher)(names) is fits


def test_two_matchers_of_one_hook_may_fit_two_names_of_one_tool() -> None:
    """`tool:pre_execute:bash` with `tool: run_shell_command`: Gemini's shell tool goes by both names."""
    event = call("bash", "run_shell_command", source="gemini")
    assert found("tool:pre_execute:bash", event, "run_shell_command|other")
    assert not found("tool:pre_execute:bash", event, "Shell")
    assert found("tool:pre_execute:bash", event, "^run_")


# --- The index says what looking at every hook says.

TYPES = ["tool:pre_execute", "tool:post_execute", "session:start", "acme:deploy"]
TOOLS = ["", "bash", "Bash", "write", "mcp__a__b", "run_shell_command"]
types = st.sampled_from([*TYPES, "tool:*", "*", "t?ol:p*", "claude:PreToolUse", "claude:*", "acme:*"])
parts = st.tuples(types, st.sampled_from(["", "", "bash", "write", "mcp__*", "*", "ba[sr]h"])).map(
    lambda pair: pair[0] if not pair[1] or pair[0] == "*" else ":".join(pair)
)
hooks = st.lists(
    st.tuples(
        st.lists(parts, min_size=1, max_size=2),
        st.sampled_from(["", "bash", "Bash|write", "^mcp__", "run_shell_command", "bash|run_shell_command"]),
    ),
    max_size=12,
)
events = st.builds(
    Event,
    type=st.sampled_from(TYPES),
    tool=st.sampled_from(TOOLS),
    native_tool=st.sampled_from(TOOLS),
    source=st.sampled_from(["claude", "acme"]),
    native=st.sampled_from(["", "PreToolUse", "deploy"]),
)


def fits(on: Sequence[str], tool: str, event: Event) -> bool:
    """Whether a hook fits, said the slow way."""
    names = tool_names(event.tool, event.native_tool)
    for one in on:
        kind, named = ":".join(one.split(":")[:2]), ":".join(one.split(":")[2:])
        kinds = [event.type, f"{event.source}:{event.native}"]
        if not any(kind == "*" or fnmatchcase(each, kind) for each in kinds):
            continue
        if named not in {"", "*"} and not any(fnmatchcase(name.casefold(), named) for name in names):
            continue
        if tool.startswith("^"):
            if any(re.search(tool, name) for name in names):
                return True
        elif not tool or {name.casefold() for name in names} & set(tool.casefold().split("|")):
            return True
    return False


@pytest.mark.req("F-05", "F-04")
@given(hooks, st.lists(events, min_size=1, max_size=4))
@settings(max_examples=examples(200))
def test_the_index_equals_looking_at_every_hook(given_hooks: list[tuple[list[str], str]], asked: list[Event]) -> None:
    """In the order of registration, each once; asked twice, since the second answer comes from memory."""
    entries = [(Entry(str(n), tool), on) for n, (on, tool) in enumerate(given_hooks)]
    index = Index(entries)
    for event in [*asked, *asked]:
        assert index.find(event) == tuple(entry for entry, on in entries if fits(on, entry.tool, event))


@pytest.mark.req("F-05")
def test_look_up_costs_what_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: of ten thousand other hooks none is looked at; of globs each type is worked out once."""
    looked: list[ToolMatcher] = []
    globbed: list[str] = []
    real, real_glob = ToolMatcher.__call__, matchers._glob

    def look(matcher: ToolMatcher, names: Sequence[str]) -> bool:
        looked.append(matcher)
        return real(matcher, names)

    def glob(text: str) -> Callable[[str], object]:
        globbed.append(text)
        return real_glob(text)

    monkeypatch.setattr(ToolMatcher, "__call__", look)
    monkeypatch.setattr(matchers, "_glob", glob)
    entries = [(Entry(f"t{n}"), [f"tool:pre_execute:tool{n}"]) for n in range(10_000)]
    entries += [(Entry(f"k{n}", "^no"), ["tool:post_execute"]) for n in range(1_000)]
    entries += [(Entry("mine"), ["tool:pre_execute:bash"]), (Entry("every"), ["t*:*"])]
    index = Index(entries)
    globbed.clear()  # a pattern is checked when it is parsed
    for n in range(100):
        assert [one.id for one in index.find(call(native_tool=f"Bash{n}"))] == ["mine", "every"]
    assert looked == []
    assert globbed == ["t*:*"] * 2, "once for the type, once for the agent's own name of it"


def test_memory_is_bounded() -> None:
    """Agents choose tool and event names; nobody chooses how much is remembered of them."""
    index = Index([(Entry("a"), ["*"])])
    for n in range(3 * Index._REMEMBER):
        index.find(call(f"tool{n}", kind=f"acme:{n}"))
    assert len(index._found) <= Index._REMEMBER
    assert len(index._resolved) <= Index._REMEMBER

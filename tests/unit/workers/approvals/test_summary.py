"""What a person reads of a call before the answer (X-03): nothing of it is hidden without a word."""

from __future__ import annotations

import json

import pytest

from bus.events import Event
from workers.approvals.questions import Question
from workers.approvals.summary import MOST_INPUT, MOST_TEXT, input_fields, summary, whole_input
from workers.cli.approvals.texts import question_lines
from workers.cli.common import Context
from workers.gateway.approvals.link_pages import _facts

pytestmark = pytest.mark.req("X-03")


@pytest.mark.parametrize("value", [{"command": "deploy" + " " * MOST_TEXT + "; rm -rf /"}, {"other": "x" * MOST_TEXT}])
def test_a_long_call_says_that_it_is_cut(value: dict[str, str]) -> None:
    text = summary(Event(type="tool:pre_execute", input=value))
    assert text.endswith(" more characters, not shown]")
    assert len(text) < MOST_TEXT + 50


def test_a_short_call_is_whole() -> None:
    assert summary(Event(type="tool:pre_execute", input={"command": "x" * MOST_TEXT})) == "x" * MOST_TEXT


def test_the_input_is_whole_and_without_secrets() -> None:
    content = {"path": "/a", "content": "line\n" * 10_000 + "the end", "env": {"TOKEN": "ghp_" + "a1B2" * 9}, "n": 1}
    read = json.loads(whole_input(Event(type="tool:pre_execute", input=content)))
    assert read == {**content, "env": {"TOKEN": "[redacted]"}}
    assert dict(input_fields(read))["n"] == "1"
    assert whole_input(Event(type="tool:pre_execute", input={"command": "x" * MOST_INPUT})) == ""
    assert json.loads(whole_input(Event(type="user:prompt_submit", data={"prompt": "p"}))) == {"prompt": "p"}


def test_the_page_of_a_link_and_the_command_show_the_whole_input() -> None:
    asked = Question(
        id="e1",
        state="waiting",
        asked=1,
        due=2,
        ends=3,
        default="deny",
        summary="/etc/passwd",
        input={"path": "/etc/passwd", "content": "root\n\u202e<b>"},
        input_changed=True,
    )
    page = _facts(asked)
    assert "<h2>content</h2><pre>root\n\ufffd&lt;b&gt;</pre>" in page
    assert "Hooks have changed the input" in page
    lines = list(question_lines(Context(), asked))
    assert lines[1:5] == [
        "  input, as hooks changed it:",
        "    path: /etc/passwd",
        "    content: root",
        "    | \\u202e<b>",
    ]


def test_the_page_of_a_link_shows_characters_that_reverse_a_text() -> None:
    asked = Question(
        id="e1", state="waiting", asked=1, due=2, ends=3, default="deny", summary="deploy \u202ehtap", cwd="/\u2066x"
    )
    page = _facts(asked)
    assert "deploy \ufffdhtap" in page
    assert "/\ufffdx" in page

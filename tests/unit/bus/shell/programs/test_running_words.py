"""A call without a program's running words runs nothing by its full reading either, so that reading can be left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.shell import wrappers
from bus.shell.inner import args_of, names
from bus.shell.line_state import NOTHING
from bus.shell.programs.running_words import BY_UNKNOWN, NEVER, RUNNING_WORDS, hands_over
from bus.shell.words import Output
from bus.shell.wrappers import inner_calls, running_words
from tests.support.examples import examples
from tests.support.rows import rows

VERBS = sorted(name for name, wrapper in wrappers._WRAPPERS.items() if wrapper.verbs)
WORDS = [
    *sorted(
        names(
            "- -- -c -C -o -O -u -x -n -p -t -it x=1 --x=y --output=f --output --exec=rm -crm --command=rm --command ssh=x"
            " run exec x dlx tool pkg set scripts.x=rm status push -u origin submodule foreach bisect rebase config"
            " alias.x=!rm archive ext::rm --upload-pack --upload-pack=rm -Orm grep ps cp a:/b ./b compose container debug"
            " create unshare rm -rf / sh bash -rf s3 ls ssm send-command start-session execute-command alias codespace"
            " ssh compute instances --ssh-command --ssh-command=rm machine app https://x.y/z test build"
        )
    ),
    "rm x",
    "-Orm x",
    "core.pager=rm x",
]


@pytest.mark.req("X-09")
@settings(max_examples=examples(500), deadline=None)
@given(
    st.sampled_from(sorted(RUNNING_WORDS) * 3 + VERBS),
    st.lists(st.sampled_from(WORDS), max_size=6),
    st.sampled_from([NOTHING, Output("rm x", ("curl",))]),
)
def test_without_a_running_word_nothing_is_run(program: str, words: list[str], stdin: Output) -> None:
    running = running_words(program)
    assert running is not None
    found = [one for one in inner_calls(program, args_of(words), stdin) if one.argv or one.script is not None]
    assert hands_over(words, running) or not found


@rows(
    ("program", "words", "runs"),
    [
        ("git", ["status", "-s"], False),
        ("git", ["commit", "-m", "a b"], False),
        ("git", ["-c", "core.pager=rm"], True),
        ("git", ["clone", "ext::rm"], True),
        ("docker", ["ps", "-a"], False),
        ("docker", ["exec", "db", "rm"], True),
        ("npm", ["test"], False),
        ("npm", ["--prefix", "a", "exec", "rm"], True),
        ("uv", ["tool", "run", "x"], True),
        ("gcloud", ["x", "--command=rm"], True),
        ("newtool", ["a", "b"], False),
        ("newtool", ["rm", "-rf"], True),
        ("newtool", ["a b"], True),
        ("grep", ["rm", "a b"], False),
    ],
)
def test_the_running_words_of_a_call(program: str, words: list[str], runs: bool) -> None:
    running = running_words(program)
    assert running is not None
    assert hands_over(words, running) is runs


def test_a_program_whose_arguments_must_be_read_has_none() -> None:
    assert running_words("sudo") is running_words("python3") is running_words("bash") is None
    assert running_words("ls") == NEVER
    assert running_words("newtool") == BY_UNKNOWN

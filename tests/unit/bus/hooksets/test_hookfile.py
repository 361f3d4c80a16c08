"""fleethook.yaml: what it may hold, and what is said at which place when it holds something else."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.config.endpoint_entry import EndpointEntry
from bus.config.file_types import HookEntry
from bus.config.model_entry import ModelEntry
from bus.errors import ConfigError, PatternError
from bus.hooks import Endpoint, Hook, HttpCall, Layer, ModelPrompt
from bus.hooksets import hookfile
from bus.hooksets.hookfile import HookFile, from_document, load_hook_file, parse_hook_file, to_document
from tests.support.rows import rows

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

GOOD = f"""
version: 1
$schema: ./schema.json
x-team: platform
on_failure: ask
hooks:
  - on: tool:pre_execute:bash, session:start
    description: No force pushes!
    command: ./check.sh
    on_failure: deny
  - id: asks
    on: [tool:pre_execute, "user:*"]
    tool: bash|write
    when: event.tool == 'bash'
    http: https://policy.example/ask
    timeout: 2.5
    x-note: ours
  - id: asks-too
    on: "*"
    http: {{url: "https://policy.example/ask", headers: {{Authorization: "Bearer ${{TOKEN}}"}}, secret: env:HOOK_SECRET}}
    blocking: false
    env_pass: [TOKEN]
endpoints:
  - url: https://chat.example/hook
    events: tool:*, session:end
    secret: {SECRET}
    retry: [1, 2.5]
network:
  allow: ["127.0.0.1:9000"]
"""


def read(text: str) -> HookFile:
    return parse_hook_file(dedent(text), "fleet", file="fleethook.yaml")


def problem(text: str) -> str:
    """The one problem of a text."""
    problems = read(text).problems
    assert len(problems) == 1, [str(error) for error in problems]
    return str(problems[0])


def test_a_hook_file() -> None:
    file = parse_hook_file(GOOD, "user", file="/home/a/fleethook.yaml")
    assert file.problems == ()
    check, asks, asks_too = file.hooks
    assert check == Hook(
        id="user-no-force-pushes-1",
        on=("tool:pre_execute:bash", "session:start"),
        command="./check.sh",
        description="No force pushes!",
        on_failure="deny",
        layer="user",
        position=0,
        origin="/home/a/fleethook.yaml:7",
    )
    assert asks.http == HttpCall(url="https://policy.example/ask")
    assert (asks.kind, asks.timeout, asks.position, asks.on_failure) == ("http", 2.5, 1, "ask")
    assert asks_too.http is not None
    assert asks_too.http.secret == "env:HOOK_SECRET"
    assert asks_too.env_pass == ("TOKEN",)
    (endpoint,) = file.endpoints
    assert endpoint.id == "user-fleethook-endpoint-1"
    assert endpoint.events == ("tool:*", "session:end")
    assert endpoint.retry == (1.0, 2.5)
    assert file.network_allow == ("127.0.0.1:9000",)
    (warning,) = file.warnings
    assert warning.startswith("/home/a/fleethook.yaml:26:13: the secret is written in the file")
    assert SECRET not in warning


@pytest.mark.req("F-11", "F-18")
@rows(
    ("entry", "message"),
    [
        ('{on: "*", §comand: x}', 'unknown key "comand"; did you mean "command"?'),
        ('{on: "*", command: x, §matcher: bash}', 'unknown key "matcher"; did you mean "tool"?'),
        ("§{command: x}", '"on" is missing'),
        ('§{on: "*"}', "a hook has exactly one of command, http, rule, prompt and agent; it has none"),
        (
            '§{on: "*", command: x, rule: {}}',
            "a hook has exactly one of command, http, rule, prompt and agent; it has command and rule",
        ),
        ('{on: "*", command: §""}', "command must not be empty"),
        ('§{on: "*", command: }', "a hook has exactly one of command, http, rule, prompt and agent; it has none"),
        ('{on: "*", command: §[x]}', "command has to be text, not a list"),
        ('{on: "*", command: x, timeout: §"3"}', "timeout has to be a number, not text; remove the quotes"),
        (
            '{on: "*", command: x, timeout: §3s}',
            "timeout has to be a number, not text; write it in seconds, without a unit",
        ),
        ('{on: "*", command: x, timeout: §0}', "timeout has to be more than 0"),
        ('{on: "*", command: x, timeout: §-1}', "timeout has to be more than 0"),
        ('{on: "*", command: x, timeout: §true}', "timeout has to be a number, not true or false"),
        ('{on: "*", command: x, timeout: §}', "timeout is empty; it has to be a number"),
        ('{on: "*", command: x, enabled: §yes}', "enabled has to be true or false, not text; write true"),
        (
            '{on: "*", command: x, on_failure: §alow}',
            "on_failure has to be allow, ask or deny, not 'alow'; did you mean \"allow\"?",
        ),
        ('{on: "*", command: x, priority: §1.5}', "priority has to be a whole number, not a number"),
        (
            '{on: "*", command: x, env: {A: b, PORT: §9000}}',
            "env.PORT has to be text, not a whole number; put it in quotes",
        ),
        ('{on: "*", command: x, env: {A-B: §c}}', "'A-B' is no name of an environment variable"),
        ('{on: "*", command: x, env: {A: §"b\\0c"}}', "the variable A holds a NUL"),
        ('{on: "*", command: x, env_pass: [§"A=b"]}', "env_pass[0] has to match [A-Za-z_][A-Za-z0-9_]{0,127}"),
        ('{on: "*", command: x, id: §a b}', "id has to match [A-Za-z0-9_-]{1,64}"),
        ('{on: "*", command: x, id: §"a\\n"}', "id has to match [A-Za-z0-9_-]{1,64}"),
        (
            '{on: "*", http: §"https://u:p@h/"}',
            "the URL holds a user name or password; use headers with secrets instead",
        ),
        ('{on: "*", http: {§uri: "https://h/"}}', 'unknown key "uri"; did you mean "url"?'),
        ('{on: "*", http: {url: §"ftp://h/"}}', "the URL has to begin with https:// or http://"),
        (
            '{on: "*", http: {url: "https://h/", headers: {"a b": §c}}}',
            "the header 'a b' has characters that HTTP does not allow",
        ),
        (
            '{on: "*", http: {url: "https://h/", secret: §hunter2}}',
            "a secret is written env:NAME, file:PATH or whsec_…",
        ),
        (
            '{on: "*", http: {url: "https://h/", secret: §whsec_AAAA}}',
            "the secret is not whsec_ and 24 to 64 bytes in base64",
        ),
        ('{on: "*", rule: {§decison: deny}}', 'unknown key "decison"; did you mean "decision"?'),
        ("§17", "this has to be a mapping (`key: value`), not a whole number"),
    ],
)
def test_a_bad_entry_is_rejected_with_its_place_and_the_others_load(entry: str, message: str) -> None:
    """The mark § in an entry is the place of the error."""
    before, after = entry.split("§")
    line = f"  - {before}{after}"
    file = read(f"hooks:\n  - {{id: first, on: '*', command: x}}\n{line}\n  - {{id: last, on: '*', command: x}}\n")
    assert [hook.id for hook in file.hooks] == ["first", "last"]
    texts = [str(error) for error in file.problems]
    # An unknown key may leave the entry without something that it needs; both are said.
    assert f"fleethook.yaml:3:{len('  - ' + before) + 1}: {message}" in texts


@pytest.mark.req("F-18")
@pytest.mark.parametrize(
    ("entry", "place", "says"),
    [
        ("{on: tool:pre_exec, command: x}", (2, 10), "did you mean 'tool:pre_execute'?"),
        ("{on: [tool:*, '::'], command: x}", (2, 10), "'::'"),
        ("{on: '*', tool: 'ba(', command: x}", (2, 21), "ba("),
        ("{on: '*', when: 'event.tool ===', command: x}", (2, 21), "event.tool ==="),
        ("{on: '*', rule: {reason: no, command: ['ba(']}}", (2, 43), "ba("),
        ("{on: '*', rule: {commands: [{line: ['ba(']}]}}", (2, 32), "ba("),
    ],
)
def test_a_bad_pattern_rejects_its_hook_and_never_matches_everything(
    entry: str, place: tuple[int, int], says: str
) -> None:
    file = read(f"hooks:\n  - {entry}\n")
    assert file.hooks == ()
    (error,) = file.problems
    assert isinstance(error, PatternError)
    assert (error.line, error.column) == place
    assert says in str(error)


def test_every_unknown_key_of_an_entry_is_named() -> None:
    file = read('hooks:\n  - {on: "*", command: x, timeot: 3, enabeld: true, x-mine: 1}\n')
    assert [str(error) for error in file.problems] == [
        'fleethook.yaml:2:27: unknown key "timeot"; did you mean "timeout"?',
        'fleethook.yaml:2:38: unknown key "enabeld"; did you mean "enabled"?',
    ]


def test_ids_are_unique_over_hooks_and_endpoints() -> None:
    file = read(
        """\
        hooks:
          - {id: a, on: "*", command: x}
          - {id: a, on: "*", command: y}
        endpoints:
          - {id: a, url: "https://h.example/"}
        """
    )
    assert [hook.command for hook in file.hooks] == ["x"]
    assert file.endpoints == ()
    assert [(error.line, error.column) for error in file.problems] == [(3, 10), (5, 10)]
    assert all('the id "a" is taken (line 2)' in str(error) for error in file.problems)


def test_a_derived_id_steps_aside_for_a_written_one() -> None:
    file = read('hooks:\n  - {on: "*", command: x}\n  - {id: fleethook-1, on: "*", command: y}\n')
    assert file.problems == ()
    assert [hook.id for hook in file.hooks] == ["fleethook-1x", "fleethook-1"]


def test_a_wrong_part_leaves_the_other_parts_in_force() -> None:
    file = read(
        """\
        hoks: []
        on_failure: maybe
        hooks:
          - {id: a, on: "*", command: x}
        endpoints: none
        network: {allow: ["127.0.0.1:9000", "10.0.0.1/99"]}
        settings: {budget: soon, log_lvl: debug}
        """
    )
    assert [hook.id for hook in file.hooks] == ["a"]
    assert file.network_allow == ("127.0.0.1:9000",)
    texts = [str(error).removeprefix("fleethook.yaml:") for error in file.problems]
    assert texts[0] == '1:1: unknown key "hoks"; did you mean "hooks"?'
    assert texts[1].startswith("2:13: on_failure has to be allow, ask or deny")
    assert texts[2].startswith("5:12: endpoints has to be a list, not text")
    assert texts[3].startswith("6:37: allow list entry '10.0.0.1/99'")
    assert texts[4] == "7:20: budget has to be seconds, or a time such as 90s, 12h or 14d"
    assert texts[5] == '7:26: unknown setting "log_lvl"; did you mean "log_level"?'


def test_guards() -> None:
    file = read("guards:\n  destructive-commands: {decision: ask, disable: [fork-bomb], observe: true}\n")
    assert file.problems == ()
    settings = file.guards["destructive-commands"]
    assert (settings.enabled, settings.decision, settings.disable, settings.observe) == (
        True,
        "ask",
        ("fork-bomb",),
        True,
    )
    assert not read("guards: {destructive-commands: false}").guards["destructive-commands"].enabled
    assert "decision has to be ask or deny" in problem("guards: {destructive-commands: {decision: allow}}")
    assert 'did you mean "disable"?' in problem("guards: {destructive-commands: {disabel: [a]}}")
    assert "has to be true, false or a mapping" in problem("guards: {destructive-commands: 3}")


def test_a_guard_pack_that_does_not_exist_is_an_error_and_not_a_silent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hookfile, "guard_packs", lambda: ("destructive-commands", "secrets"))
    assert problem("guards: {destructive-comands: true}") == (
        'fleethook.yaml:1:10: no guard pack is called "destructive-comands"; did you mean "destructive-commands"?'
    )


def test_a_rule_that_nobody_waits_for_is_worth_a_warning() -> None:
    file = read('hooks:\n  - {on: "*", rule: {decision: deny}, blocking: false}\n')
    assert file.problems == ()
    assert file.warnings == ("fleethook.yaml:2:49: a rule that is not blocking decides nothing",)


@pytest.mark.parametrize(
    "text", ["- a", "hello", "version: 2\nhooks: []", "version: '1'", "a: [", "hooks: 1\nhooks: 2"]
)
def test_what_cannot_be_read_at_all_raises(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^fleethook\.yaml:\d+:\d+: "):
        read(text)


def test_ten_thousand_hooks_are_not_too_many() -> None:
    entry = (
        "{{id: h{0}, on: 'tool:pre_execute', tool: t{0}, rule: {{reason: no, instead: x}}, timeout: 1, priority: 9}}"
    )
    file = parse_hook_file("hooks:\n" + "".join(f"  - {entry.format(n)}\n" for n in range(10_000)), "fleet")
    assert file.problems == ()
    assert len(file.hooks) == 10_000


def test_an_empty_file_is_a_valid_one(tmp_path: Path) -> None:
    path = tmp_path / "fleethook.yaml"
    path.write_text("# to come\n")
    file = load_hook_file(path, "fleet")
    assert (file.hooks, file.problems) == ((), ())


@pytest.mark.req("B-04")
def test_a_set_survives_publishing() -> None:
    file = parse_hook_file(GOOD, "fleet")
    back = from_document(json.loads(json.dumps(to_document(file))))
    assert (back.hooks, back.endpoints, back.guards) == (file.hooks, file.endpoints, file.guards)
    assert (back.on_failure, back.network_allow, back.digest) == (file.on_failure, file.network_allow, file.digest)


def test_the_digest_is_of_the_content_and_not_of_its_place() -> None:
    one = read('hooks:\n  - {id: a, on: "*", command: x}\n')
    moved = read('# a comment\n\nhooks:\n- id: a\n  command: x\n  on: "*"\n')
    other = read('hooks:\n  - {id: a, on: "*", command: y}\n')
    assert one.digest == moved.digest
    assert one.digest != other.digest


@pytest.mark.req("B-04")
@pytest.mark.parametrize(
    "plain",
    [
        {"hooks": 3},
        {"hooks": [{"id": "a", "on": ["*"]}]},
        {"hooks": [{"id": "a", "on": ["*"], "command": "x"}] * 2},
        {"hooks": [{"id": "a b", "on": ["*"], "command": "x"}]},
        {"hooks": [{"id": "a", "on": ["tool:pre_exec"], "command": "x"}]},
        {"hooks": [{"id": "a", "on": ["*"], "command": "x", "tool": "ba("}]},
        {"hooks": [{"id": "a", "on": ["*"], "rule": {"command": ["ba("]}}]},
        {"endpoints": [{"id": "a", "url": "ftp://h/"}]},
        {"guards": {"destructive-commands": {"decision": "allow"}}},
        {"network_allow": ["10.0.0.1/99"]},
    ],
)
def test_a_published_set_that_does_not_validate_is_refused_as_a_whole(plain: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        from_document(plain)


def test_a_file_can_say_all_that_a_hook_and_an_endpoint_hold() -> None:
    loaders = {"layer", "position", "origin", "version", "dialect", "own", "pins"}
    others = {"plugin", "args", "shell", "stop_on_failure", "handler", "workflow"}
    assert set(HookEntry.__struct_fields__) == set(Hook.__struct_fields__) - loaders - others
    assert set(EndpointEntry.__struct_fields__) == set(Endpoint.__struct_fields__) - loaders


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "*", "x", "https://h.example/", "deny", "whsec_x", "a\nb", "(", "tool:pre_execute"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *HookEntry.__struct_fields__,
                    *EndpointEntry.__struct_fields__,
                    "decision",
                    "headers",
                    "x-a",
                    "",
                    "ä",
                    "a.b",
                    "c[0]",
                    "`",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)
_keys = st.sampled_from(["version", "on_failure", "hooks", "endpoints", "guards", "network", "settings", "zzz"])


@given(st.dictionaries(_keys, _values | st.lists(_values, max_size=3), max_size=5))
@pytest.mark.req("F-11")
def test_random_content_gives_problems_and_no_other_error(value: dict[str, object]) -> None:
    text = json.dumps(value)
    try:
        file = parse_hook_file(text, "project", file="fleethook.json")
    except ConfigError:
        return
    assert all(str(error).startswith("fleethook.json:1:") for error in file.problems)
    assert from_document(to_document(file), layer="project").hooks == file.hooks


@given(st.text(st.sampled_from("hoks: -{}[]\n\"'*on&!ruledcmx#"), max_size=60))
def test_random_text_gives_a_config_error_at_most(text: str) -> None:
    with suppress(ConfigError):
        parse_hook_file(f"hooks:\n  - {text}", "user")


MODEL = """
model: {url: "https://api.example/v1", name: small, key: env:MODEL_KEY}
hooks:
  - {on: tool:pre_execute, prompt: "safe? $ARGUMENTS"}
  - {on: tool:pre_execute, agent: {text: "tested?", rounds: 3, decision: ask}, timeout: 5}
"""


@pytest.mark.req("I-12")
def test_questions_to_a_model() -> None:
    file = parse_hook_file(MODEL, "fleet")
    assert (file.problems, file.warnings) == ((), ())
    prompt, agent = file.hooks
    assert (prompt.kind, prompt.prompt, prompt.timeout) == ("prompt", ModelPrompt(text="safe? $ARGUMENTS"), 30)
    assert agent.agent == ModelPrompt(text="tested?", rounds=3, decision="ask")
    assert (agent.kind, agent.timeout, agent.on_host, prompt.on_host) == ("agent", 5, True, False)
    assert file.model == ModelEntry(url="https://api.example/v1", name="small", key="env:MODEL_KEY")
    published = from_document(json.loads(json.dumps(to_document(file))))
    assert (published.model, published.hooks) == (file.model, file.hooks)
    with pytest.raises(ConfigError, match="a variable of Fleethook itself"):
        from_document({"model": {"url": "https://api.example", "name": "m", "key": "env:FLEETHOOK_TOKEN"}})


@pytest.mark.req("I-12")
@pytest.mark.parametrize(
    ("text", "layer", "why"),
    [
        ("model: {url: 'https://h/v1', name: m, key: hunter2}", "user", "the key is not a reference; write env:NAME"),
        ("model: {url: 'https://h/v1', name: m, key: 'env:FLEETHOOK_TOKEN'}", "user", "a variable of Fleethook itself"),
        ("model: {url: 'ftp://h/v1', name: m}", "user", "has to begin with https:// or http://"),
        ("model: {url: 'https://h/v1', name: m, headers: {'a b': c}}", "user", "that HTTP does not allow"),
        ("model: {url: 'https://h/v1'}", "user", "name"),
        ("model: {url: 'https://h/v1', name: m}", "project", "a project's file may not name the model"),
        ("hooks: [{on: '*', prompt: ' '}]", "user", "prompt must not be empty"),
        ("hooks: [{on: '*', agent: {text: x}, blocking: false}]", "user", "cannot run in the background"),
        ("hooks: [{on: '*', prompt: x, command: y}]", "user", "it has command and prompt"),
    ],
)
def test_a_wrong_model_or_question_is_reported(text: str, layer: Layer, why: str) -> None:
    file = parse_hook_file(text, layer)
    assert (file.hooks, file.model) == ((), None)
    assert why in str(file.problems[0])
    assert "hunter2" not in str(file.problems)


def test_a_model_on_this_machine_needs_a_permission() -> None:
    text = 'model: {url: "http://127.0.0.1:11434/v1", name: m}'
    assert "is not reached: 127.0.0.1 (loopback)" in parse_hook_file(text, "user").warnings[0]
    assert parse_hook_file(f'{text}\nnetwork: {{allow: ["127.0.0.1:11434"]}}', "user").warnings == ()

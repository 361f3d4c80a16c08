"""Secrets in texts: known formats and random values are found, placeholders and everyday values are not."""

from __future__ import annotations

import random
import string
import time

import pytest

from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.guards import load_pack
from bus.matching.checker_messages import answer_rule
from bus.matching.disk import full_disk
from bus.matching.facts.random_values import looks_random
from bus.matching.facts.secrets import secrets_in
from bus.matching.facts.token_formats import TOKEN_FORMATS
from bus.matching.rules import Rule, judge
from bus.runners.rule import rule_outcome
from bus.secrets.redaction import redact_text
from bus.tool_arguments import added_texts_of

LETTERS = string.ascii_letters + string.digits


def drawn(length: int, seed: int, letters: str = LETTERS) -> str:
    return "".join(random.Random(seed).choices(letters, k=length))


@pytest.mark.req("X-07")
def test_random_values_are_told_from_words() -> None:
    missed = [value for seed in range(500) if not looks_random(value := drawn(24, seed))]
    assert len(missed) <= 10, missed  # a few have no digit
    words = [
        "user_account_identifier",
        "createAccessTokenForUser",
        "correct-horse-battery-staple",
        "com.example.app.v2",
    ]
    words += ["abcdefghijklmnopqrstuvwxyz0123456789", "550e8400-e29b-41d4-a716-446655440000", "xxxxxxxxxxxxxxxxxxxx"]
    words += [
        "1234567890123456789012",
        "/usr/local/lib/python3.11",
        "sk-your-key-goes-here-1",
        "Bearer-token-2-required",
    ]
    assert [word for word in words if looks_random(word)] == []


@pytest.mark.req("X-07")
@pytest.mark.parametrize(
    ("prefix", "length"),
    [("ghp_", 36), ("sk-ant-api03-", 60), ("glpat-", 20), ("AIza", 35), ("hf_", 34), ("npm_", 36), ("xoxb-1-", 24)],
)
def test_tokens_of_known_formats_are_found_and_never_shown(prefix: str, length: int) -> None:
    value = drawn(length, length)
    for text in (f"x = '{prefix}{value}'", f"https://{prefix}{value}@example.com/a", f'{{"a": ["{prefix}{value}"]}}'):
        found = [secret for secret in secrets_in(text) if secret.of == "known"]
        assert found, text
        assert all(value not in secret.what for secret in found)
    assert secrets_in(f"{prefix}{'x' * length}") == ()


@pytest.mark.req("X-07")
def test_every_format_has_a_needle_that_its_pattern_needs() -> None:
    for one in TOKEN_FORMATS:
        assert one.needles
        assert all(needle == needle.lower() for needle in one.needles)


@pytest.mark.req("X-07")
def test_a_secret_that_an_edit_takes_away_is_none_that_it_adds() -> None:
    token = f"ghp_{drawn(36, 1)}"
    patch = f"*** Begin Patch\n*** Update File: a.py\n@@\n-K = '{token}'\n+K = os.environ['K']\n*** End Patch"
    block = f"<<<<<<< SEARCH\nK = '{token}'\n=======\nK = os.environ['K']\n>>>>>>> REPLACE"
    gone: list[dict[str, object]] = [
        {"old_string": token, "new_string": "x"},
        {"edits": [{"oldText": token, "newText": "x"}]},
        {"patch": patch},
        {"diff": block},
    ]
    for given in gone:
        event = Event(type="tool:pre_execute", tool="edit", input=given)
        assert not any(token in text for text in added_texts_of(event)), given
    come: list[dict[str, object]] = [
        {"old_string": "x", "new_string": token},
        {"edits": [{"oldText": "x", "newText": token}]},
        {"patch": patch.replace("-K", "+K")},
    ]
    for given in come:
        event = Event(type="tool:pre_execute", tool="edit", input=given)
        assert any(token in text for text in added_texts_of(event)), given


@pytest.mark.req("X-07")
def test_no_reason_has_the_secret_in_it() -> None:
    token = f"ghp_{drawn(36, 2)}"
    events = [
        Event(type="tool:pre_execute", tool="write", input={"path": "a.py", "content": f"K = '{token}'"}),
        Event(type="tool:pre_execute", tool="bash", input={"command": f"git push -f https://{token}@example.com/a"}),
        Event(
            type="tool:pre_execute", tool="bash", input={"command": f"git push -f {'x' * 85} https://{token}@a.example"}
        ),
        Event(type="user:prompt_submit", data={"prompt": f"use {token}"}),
    ]
    rules = [*load_pack("secrets").rules, *load_pack("destructive-commands").rules]
    reasons = [reason for event in events for hook in rules if (reason := said(hook, event))]
    assert len(reasons) >= len(events)
    assert [reason for reason in reasons if token[:8] in reason] == []


def said(hook: Hook, event: Event) -> str:
    if hook.rule is None or (event.type not in hook.on) or (hook.rule.commands and event.tool != "bash"):
        return ""
    return rule_outcome(hook, event, answer_rule(hook.id, hook.rule, event, full_disk())).reason


@pytest.mark.req("X-07")
def test_paths_that_a_rule_leaves_out_are_judged_one_by_one() -> None:
    rule = Rule(content=("x",), path_except=("*.lock",))
    assert judge(rule, Event(type="tool:pre_execute", tool="write", input={"path": "a.lock", "content": "x"})) is None
    for given in ({"path": "a.py"}, {"paths": ["a.lock", "a.py"]}, {}):
        event = Event(type="tool:pre_execute", tool="write", input={**given, "content": "x"})
        assert judge(rule, event) is not None, given


@pytest.mark.req("X-07", "X-09")
def test_no_text_takes_long() -> None:
    evil = ["password=" * 8000, "mysql " * 10000, "token " * 12000, "://" * 20000, "curl " * 12000, "sk-" * 20000]
    evil += ["-" * 60000 + "token", "-----BEGIN PRIVATE KEY-----\n" * 2000, "password=aB3" * 5000, "a.token='" * 7000]
    begin = time.process_time()
    for text in evil:
        secrets_in(text)
    assert time.process_time() - begin < 3, "all together take a quarter of a second on an idle core"


@pytest.mark.req("X-07")
@pytest.mark.parametrize(
    "text",
    [
        "<password><16></password>",
        '<add key="ApiKey" value="<32>" />',
        "- name: DB_PASSWORD\n  value: <16>",
        "define('DB_PASSWORD', '<16>');",
        "auth: { user: 'app', pass: '<16>' }",
        "Server=db;User Id=sa;Pwd=<14>;",
        "CREATE USER app IDENTIFIED BY '<16>'",
        "machine api.example.com login bob password <16>",
        "gh secret set API_KEY --body <32>",
        "curl -H 'Authorization: Bearer <40>' https://api.example.com",
        "echo <12> | sudo -S apt-get update",
        "sshpass -p <10> ssh root@example.com",
        "https://bob:<10>@example.com/a",
        "requests.get(url, auth=('admin', '<16>'))",
        "smtp.login('me@example.com', '<16>')",
        "jwt.sign(payload, '<32>')",
        'dsn := "user:<16>@tcp(db.example.com:3306)/app"',
        "vercel env add SECRET <<< <32>",
        "http -a bob:<14> https://example.com",
        "zip -P <14> a.zip a",
        '{"auths": {"index.docker.io": {"auth": "<32>"}}}',
    ],
)
def test_values_are_found_in_every_notation(text: str) -> None:
    value = "".join(part for pair in zip("kQzRvTxWmYpLdBnG", "7294816350728194", strict=True) for part in pair) * 2
    assert secrets_in(_filled(text, value))
    assert secrets_in(_filled(text, "changeme-" + "x" * 60)) == ()


def _filled(text: str, value: str) -> str:
    for length in (10, 12, 14, 16, 32, 40):
        text = text.replace(f"<{length}>", value[:length])
    return text


@pytest.mark.req("X-07")
def test_a_key_of_openssh_is_one_although_its_beginning_is_always_the_same() -> None:
    body = f"b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW{drawn(60, 7)}"
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----"
    assert secrets_in(key.format(body)) != ()
    assert secrets_in(key.format("A" * 70)) == secrets_in(key.format("...")) == ()


@pytest.mark.req("X-07")
def test_a_key_in_capitals_counts_and_the_key_of_a_cache_does_not() -> None:
    assert secrets_in(f"COSMOS_KEY={drawn(40, 8)}") != ()
    assert secrets_in(f"cache_key = '{drawn(40, 8)}'") == ()


@pytest.mark.req("X-07")
def test_letters_alone_are_told_from_words() -> None:
    letters = string.ascii_letters
    assert len([1 for seed in range(500) if not looks_random(drawn(16, seed, letters))]) <= 15
    assert len([1 for seed in range(500) if not looks_random(drawn(12, seed, letters), 12)]) <= 60
    names = (
        "DatabaseHostName getUserAccessToken XMLHttpRequest customerOrderItem onClickOutsideHandler useSecretManager"
    )
    names += (
        " settingsSecurityTwoFactor MySecretPassword PasswordResetTokenGenerator oauthClientSecretKey resetPasswordLink"
    )
    assert [name for name in names.split() if looks_random(name, 8)] == []


@pytest.mark.req("X-07", "F-15")
def test_keys_of_services_are_found_by_their_prefix_and_hidden() -> None:
    hexadecimal, small, capitals = (
        "0123456789abcdef",
        string.ascii_lowercase + string.digits,
        string.ascii_uppercase + string.digits,
    )
    keys = {
        "GR1348941": drawn(20, 1),
        "CCIPAT_": f"{drawn(22, 2)}_{drawn(40, 3, hexadecimal)}",
        "sqp_": drawn(40, 4, hexadecimal),
        "rpa_": drawn(42, 5, capitals),
        "oy2": drawn(43, 6, small),
        "LTAI": drawn(20, 7),
        "rnd_": drawn(28, 8),
        "dt0c01.": f"{drawn(24, 9, capitals)}.{drawn(64, 10, capitals)}",
        "access_token$production$": f"{drawn(16, 11, small)}${drawn(32, 12, hexadecimal)}",
        "NRJS-": drawn(19, 13, hexadecimal),
        "SK": drawn(32, 14, hexadecimal),
        "pat": f"{drawn(14, 15)}.{drawn(64, 16, hexadecimal)}",
        "sk_": drawn(48, 17, hexadecimal),
        "https://hooks.zapier.com/hooks/catch/1234567/": drawn(7, 21, small),
        "https://maker.ifttt.com/trigger/x/with/key/": drawn(43, 19),
    }
    for prefix, value in keys.items():
        text = f"const k = '{prefix}{value}'"
        assert [secret.of for secret in secrets_in(text)] == ["known"], prefix
        assert value not in redact_text(text), prefix


@pytest.mark.req("F-15")
@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd: Permission denied",
        "task SK and disk sk_test: done, live_reload is on, secret_name is unset, re_run the job",
        "docker.io/library/alpine@sha256:" + 8 * "9f8b2c7d",
        "api-gateway/src/index.ts, pa-siberia, t1.micro, v1.0-beta, fc-list, fw_update, EAA, 1//0",
        "uses: actions/checkout@" + 5 * "9f8b2c7d",
        "import { hook_skeleton } from './rnd_values_and_more_names_in_a_row'",
        "git config core.editor vim && curl -fsSL https://example.com/docs/api-keys/create-a-new-key",
    ],
)
def test_what_only_resembles_a_key_is_not_hidden(text: str) -> None:
    assert redact_text(text) == text
    assert secrets_in(text) == ()

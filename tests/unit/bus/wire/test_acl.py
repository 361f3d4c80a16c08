"""The rules of the roles as text; what they let through on a real server is tests/live/bus/wire/test_acl.py."""

from __future__ import annotations

import hashlib

import pytest

from bus.wire.acl import EVERY_NAMESPACE, ROLES, Role, acl_file, acl_lines, roles, user_name
from bus.wire.keys import DECLARED

PASSWORDS: dict[Role, str] = {role: f"password-of-{role}" for role in ROLES}


def test_lines_carry_hashes_and_never_a_password() -> None:
    text = acl_file("fleet", PASSWORDS)
    for role, password in PASSWORDS.items():
        assert password not in text
        assert f"user {user_name(role, 'fleet')} reset on #{hashlib.sha256(password.encode()).hexdigest()} " in text


def test_only_the_roles_can_log_in() -> None:
    lines = acl_file(EVERY_NAMESPACE, PASSWORDS).splitlines()
    assert lines[0] == "user default reset off ~* &* +@all"
    assert [line.split()[1] for line in lines[1:]] == [f"fleethook-{role}" for role in ROLES]
    assert not any("nopass" in line or "allkeys" in line or "allchannels" in line for line in lines)


def test_a_role_without_a_password_here_gets_no_line() -> None:
    assert [line.split()[1] for line in acl_lines("fleet", {"shim": "x"})] == ["fleethook-fleet-shim"]


@pytest.mark.parametrize("selectors", [True, False])
def test_a_namespaces_roles_name_no_other_namespace(selectors: bool) -> None:
    for rules in roles("fleet", selectors=selectors).values():
        patterns = [word.strip("()") for rule in rules for word in rule.split() if "~" in word and word != "~"]
        assert patterns
        assert all(pattern.partition("~")[2].startswith(("fh:fleet:", "rq:")) for pattern in patterns)


def test_a_worker_reaches_every_declared_key_and_only_reads_the_hook_set() -> None:
    rules = roles("fleet")["worker"]
    for key in DECLARED:
        pattern = f"~fh:fleet:{{*}}:{key.pattern}"
        assert (pattern in rules) is not key.pattern.startswith(("hookset:", "tokens"))
    reads = [rule for rule in rules if "hookset" in rule or "tokens" in rule]
    assert reads == ["%R~fh:fleet:{*}:hookset:*", "%R~fh:fleet:{*}:tokens"]


@pytest.mark.parametrize("role", ["shim", "agent"])
def test_senders_get_no_category_and_no_channel(role: Role) -> None:
    rules = roles()[role]
    assert "resetchannels" in rules
    assert not any("@" in rule or rule.startswith("&") for rule in rules)


def test_the_agent_may_do_one_thing_more_than_the_shim() -> None:
    assert set(roles("f")["agent"]) - set(roles("f")["shim"]) == {"(+lindex %R~fh:f:{*}:reply:*)"}


def test_without_selectors_nothing_is_said_that_redis_6_2_does_not_know() -> None:
    for rules in roles("fleet", selectors=False).values():
        assert not any(rule.startswith(("(", "%")) for rule in rules)
        assert "+quit" not in rules, "no command there"

"""`network.proxy`: its values, who may set it, and the proxy that it means for a target (G-20)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.config.hook_file_value import from_document, to_document
from bus.errors import ConfigError, ProxyFailed
from bus.hooks import Layer
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.http.address_policy import parse_target, policy
from bus.http.proxies import authorization, check_proxy, is_named, proxy_for
from tests.support.rows import rows

GOOD = (
    "none",
    "environment",
    "http://proxy.corp:3128",
    "http://[::1]:3128/",
    "HTTP://10.0.0.1",
    "http://me@p:1",
    "http://me:${PW}@p:3128",
    "http://me:${file:~/a:b@c/pw}@p:3128",
    "http://${ME}:${env:PW}@p:3128",
)
BAD = (
    "always",
    "https://proxy.corp:3128",
    "socks5://p:1080",
    "proxy.corp:3128",
    "http://",
    "http://p:0",
    "http://p:70000",
    "http://p:3128/path",
    "http://p:3128?x",
    "http://p:3128#x",
    "http://:${PW}@p:1",
    "http://@p:1",
    "http://p q:1",
    "http://me:${PW}\r\nX@p:1",
    "http://0x7f.1:3128",
)
LITERAL = ("http://me:hunter2@p:3128", "http://me:${PW}hunter2@p:3128", "http://me:hunter2@${PW}@p:3128")


@pytest.mark.parametrize("setting", GOOD)
def test_what_may_be_said(setting: str) -> None:
    check_proxy(setting)
    file = parse_hook_file(json.dumps({"network": {"proxy": setting}}), "user")
    assert (file.problems, file.network_proxy) == ((), setting)


@rows("setting", [*BAD, *LITERAL])
def test_what_may_not_and_a_password_in_the_file_is_not_quoted(setting: str) -> None:
    (problem,) = parse_hook_file(f"network:\n  proxy: {json.dumps(setting)}\n", "fleet", file="f.yaml").problems
    assert (problem.file, problem.line, problem.path) == ("f.yaml", 2, "network.proxy")
    assert "hunter2" not in str(problem)
    if setting in LITERAL:
        assert "password is written in the file" in str(problem)
    with pytest.raises(ConfigError):
        from_document({"network_proxy": setting})


@pytest.mark.req("X-05")
@pytest.mark.parametrize("layer", ["project", "session"])
def test_a_project_never_names_the_proxy(layer: Layer) -> None:
    text = "network:\n  allow: []\n  proxy: http://evil.example:3128\n"
    file = parse_hook_file(text, layer, file="fleethook.yaml")
    assert file.network_proxy == ""
    (problem,) = file.problems
    assert str(problem).startswith("fleethook.yaml:3:")
    assert f"a {layer}'s file may not name the proxy" in str(problem)
    smuggled = from_document({"network_proxy": "http://evil.example:3128"})
    assert HookSet([Layered(layer, "1", smuggled)]).proxy == ""


def test_the_highest_layer_that_says_anything_counts() -> None:
    def layered(layer: Layer, setting: str) -> Layered:
        return Layered(layer, "1", parse_hook_file(json.dumps({"network": {"proxy": setting or None}}), layer))

    for fleet, user, expected in (
        ("", "", ""),
        ("", "environment", "environment"),
        ("none", "environment", "none"),
        ("http://p:3128", "none", "http://p:3128"),
    ):
        assert HookSet([layered("fleet", fleet), layered("user", user)]).proxy == expected


def test_it_is_published_with_the_set_and_an_unset_one_changes_no_digest() -> None:
    file = parse_hook_file("network: {proxy: environment}", "fleet")
    back = from_document(json.loads(json.dumps(to_document(file))))
    assert (back.network_proxy, back.digest) == ("environment", file.digest)
    assert file.digest != parse_hook_file("{}", "fleet").digest
    assert "network_proxy" not in to_document(parse_hook_file("network: {proxy: }", "fleet"))


@pytest.mark.req("X-05")
def test_an_imported_file_names_none(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("hooks: []\nnetwork: {proxy: environment}\n")
    text = json.dumps({"import": [str(other)]})
    file = parse_hook_file(text, "user", file=str(tmp_path / "fleethook.yaml"))
    assert file.network_proxy == ""
    (problem,) = file.problems
    assert (problem.file, problem.path) == (str(other), "network.proxy")


def test_this_machine_is_always_reached_directly() -> None:
    for url in ("http://127.0.0.1:9000/", "http://[::1]/", "https://localhost/", "http://a.localhost/"):
        assert proxy_for("http://p:3128", parse_target(url)) is None
    assert proxy_for("http://p:3128", parse_target("http://10.0.0.1/")) is not None
    assert proxy_for("none", parse_target("http://10.0.0.1/"), {"HTTP_PROXY": "http://p"}) is None


ENVIRON = {"HTTP_PROXY": "http://plain:1", "HTTPS_PROXY": "secure:2"}


@rows(
    ("url", "more", "expected"),
    [
        ("http://a.example/", {}, "plain:1"),
        ("https://a.example/", {}, "secure:2"),
        ("http://a.example/", {"http_proxy": "http://lower:3"}, "lower:3"),
        ("http://a.example/", {"http_proxy": ""}, ""),
        ("http://a.example/", {"NO_PROXY": "*"}, ""),
        ("http://a.example/", {"NO_PROXY": "b.example, example"}, ""),
        ("http://a.example/", {"NO_PROXY": ".example"}, ""),
        ("http://a.example/", {"NO_PROXY": "*.example"}, ""),
        ("http://A.EXAMPLE/", {"NO_PROXY": "a.EXAMPLE:80"}, ""),
        ("http://a.example/", {"NO_PROXY": "a.example:81"}, "plain:1"),
        ("http://aexample/", {"NO_PROXY": "example,,"}, "plain:1"),
        ("http://a.example/", {"NO_PROXY": "b.a.example"}, "plain:1"),
        ("http://10.1.2.3/", {"no_proxy": "10.0.0.0/8"}, ""),
        ("http://10.1.2.3:81/", {"no_proxy": "10.1.2.3:81"}, ""),
        ("http://10.1.2.3/", {"no_proxy": "11.0.0.0/8 fd00::/8"}, "plain:1"),
        ("https://[fd00::1]/", {"NO_PROXY": "[fd00::1]"}, ""),
        ("https://[fd00::1]:81/", {"NO_PROXY": "[fd00::1]:81"}, ""),
    ],
)
def test_the_environment_as_other_programs_read_it(url: str, more: dict[str, str], expected: str) -> None:
    found = proxy_for("environment", parse_target(url), {**ENVIRON, **more})
    assert (found.name if found else "") == expected


def test_a_login_by_reference_or_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "a:b%41@c")
    target = parse_target("http://a.example/")
    configured = proxy_for("http://m%65:${PW}@p:3128", target)
    theirs = proxy_for("environment", target, {"HTTP_PROXY": "http://me:a%3Ab%2541%40c@p:3128"})
    assert configured is not None
    assert theirs is not None
    assert authorization(configured) == authorization(theirs) == "Basic bWU6YTpiJTQxQGM="
    assert "b%" not in repr(configured) + repr(theirs)
    monkeypatch.delenv("PW")
    with pytest.raises(ProxyFailed, match="p:3128: the variable PW is not set"):
        authorization(configured)
    literal = proxy_for("environment", target, {"HTTP_PROXY": "http://me:${PW}@p:3128"})
    assert literal is not None
    assert authorization(literal) == "Basic bWU6JHtQV30=", "what the environment says is no reference"
    with pytest.raises(ProxyFailed, match="HTTP_PROXY of the environment: a proxy's URL has to begin with http://"):
        proxy_for("environment", target, {"HTTP_PROXY": "socks5://p:1"})


def test_a_name_is_listed_by_itself_and_by_no_network() -> None:
    target = parse_target("https://hooks.corp/")
    assert is_named(target, policy(["hooks.corp"]))
    assert is_named(target, policy(["hooks.corp:443"]))
    assert not is_named(target, policy(["hooks.corp:444", "corp", "a.hooks.corp", "10.0.0.0/8"]))
